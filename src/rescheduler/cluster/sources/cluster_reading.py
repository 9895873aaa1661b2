"""What a source brings, whichever it is, and the snapshot that it makes."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from rescheduler.cluster.cluster_state import ClusterState
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.cluster.trusted_usage import UsageSubjects, usage_for_check
from rescheduler.cluster.usage_readings import UsageOutcome, UsageReadings
from rescheduler.config.policy import Policy, UsageSource

__all__ = [
    "ClusterReading",
    "WebhookProbeResult",
    "snapshot_of",
]


# No repr: asyncio writes the result of a task into an error message of its own, which nobody sees; with tens
# of thousands of pods in it, that takes longer than planning.
class WebhookProbeResult(NamedTuple):
    """What the webhook was seen to do."""

    steers: bool | None = None
    """Whether it tells replacements of evicted pods where to go; None if that can't be found out."""
    guards: bool | None = None
    """Whether it keeps ReplicaSets from creating a pod while they adopt a copy."""
    problem: str = ""
    """Why it does not, or why that is not known, in words."""


@dataclass(slots=True, repr=False)
class ClusterReading:
    now_s: float
    """When the cluster looked like this."""
    state: ClusterState = field(default_factory=ClusterState)
    pods: list[PodRecord] = field(default_factory=list)
    node_uids: dict[str, str] = field(default_factory=dict)
    """By name."""
    webhook: WebhookProbeResult = field(default_factory=WebhookProbeResult)
    """What our webhook was seen to do."""
    assumptions: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What the user may want to know, and no decision depends on."""
    usage: UsageOutcome = field(default_factory=lambda: UsageReadings(UsageSource.REQUESTS))


def snapshot_of(reading: ClusterReading, policy: Policy) -> Snapshot:
    """A single look: nothing is smoothed, because nothing is known from before."""
    notes: Iterable[str] = ()
    if reading.usage.source is not UsageSource.REQUESTS:
        trusted, _ = usage_for_check(
            reading.usage,
            _usage_subjects(reading),
            now_s=reading.now_s,
            half_life_s=policy.usage_half_life.total_seconds(),
            smoothing=None,
        )
        reading.state.apply_usage(trusted.pods)
        notes = trusted.notes
    return reading.state.freeze(reading.now_s, assumptions=(*reading.assumptions, *notes))


def _usage_subjects(reading: ClusterReading) -> UsageSubjects:
    running = [pod for pod in reading.pods if pod.node and not pod.is_finished]
    return UsageSubjects(
        node_of={pod.key: pod.node for pod in running},
        pod_uids={pod.key: pod.uid for pod in running},
        node_uids=reading.node_uids,
    )
