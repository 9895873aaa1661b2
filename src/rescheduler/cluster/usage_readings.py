"""Readings of usage with their source and time, or why there are none."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from rescheduler.config.policy import Policy, UsageSource

__all__ = [
    "MAX_READING",
    "UsageByName",
    "UsageOutcome",
    "UsageReading",
    "UsageReadings",
    "UsageUnavailable",
    "effective_usage_source",
]

MAX_READING = 2**50
"""Of cores or bytes: beyond it a reading is a mistake."""


class UsageReading(msgspec.Struct, frozen=True, gc=False):
    """By one pod, or by one node. There is one for every pod of the cluster, so it is kept small."""

    cpu_millis: int
    memory_bytes: int
    at_s: float
    """When it was measured, in seconds since 1970."""


UsageByName = Mapping[str, UsageReading]
"""Pods by `namespace/name`, nodes by name."""


@dataclass(frozen=True, slots=True)
class UsageReadings:
    """Everything that one question brought. Whoever is not in here was not measured."""

    source: UsageSource
    pods: UsageByName = field(default_factory=dict)
    nodes: UsageByName = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What was left out because it made no sense, and what the source itself warned of."""


@dataclass(frozen=True, slots=True)
class UsageUnavailable:
    """The source could not tell anything this time."""

    source: UsageSource
    why: str
    """In whole sentences: what failed, why, and what to do."""


UsageOutcome = UsageReadings | UsageUnavailable


def effective_usage_source(policy: Policy) -> UsageSource:
    """`auto` is Prometheus if one is configured, else the metrics API; never `auto` itself.

    Whether the metrics API is served is seen when it is asked: if it is not, requests count. A Prometheus
    that is down is not replaced by the metrics API: its queries may well measure something else, and load
    would jump to and fro.
    """
    if policy.usage_source is not UsageSource.AUTO:
        return policy.usage_source
    return UsageSource.PROMETHEUS if policy.prometheus.url else UsageSource.METRICS
