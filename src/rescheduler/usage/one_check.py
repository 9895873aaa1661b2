"""The usage of one check: what came back from the source → what counts as load."""

from collections.abc import Mapping
from dataclasses import dataclass

from rescheduler.usage.overhead import beside_pods
from rescheduler.usage.readings import Outcome, Readings, Unavailable
from rescheduler.usage.smoothing import Smoothing, smooth
from rescheduler.usage.trust import TrustedUsage, trusted

__all__ = ["Tenants", "usage_of_check"]


@dataclass(frozen=True, slots=True)
class Tenants:
    """Whose usage is wanted."""

    node_of: Mapping[str, str]
    """The node of every pod that runs, by the pod's `namespace/name`."""
    pod_uids: Mapping[str, str]
    """Of the same pods."""
    node_uids: Mapping[str, str]
    """Of every node, by name."""


def usage_of_check(
    outcome: Outcome,
    tenants: Tenants,
    *,
    now_s: float,
    half_life_s: float,
    smoothing: Smoothing | None,
) -> tuple[TrustedUsage, Smoothing | None]:
    """What counts now, and what the next check needs to know.

    Without `smoothing` (a single plan has no checks before it) the readings count as they are.
    """
    failure = outcome if isinstance(outcome, Unavailable) else None
    readings = Readings(outcome.source) if isinstance(outcome, Unavailable) else outcome
    readings = beside_pods(readings, tenants.node_of)
    if smoothing is not None:
        smoothing, readings = smooth(
            smoothing, readings, half_life_s, pod_uids=tenants.pod_uids, node_uids=tenants.node_uids
        )
    counts = trusted(readings, pods=tenants.node_of, nodes=tenants.node_uids, now_s=now_s, failure=failure)
    return counts, smoothing
