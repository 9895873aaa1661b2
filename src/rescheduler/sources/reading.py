"""What a source brings, whichever it is, and the snapshot that it makes."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from rescheduler.config.policy import Policy, UsageSource
from rescheduler.model.pods import PodRecord
from rescheduler.model.webhook_registration import WebhookAnswers
from rescheduler.snapshot.snapshot import Snapshot
from rescheduler.snapshot.state import ClusterState
from rescheduler.usage.one_check import Tenants, usage_of_check
from rescheduler.usage.readings import Outcome, Readings

__all__ = ["Reading", "snapshot_of"]


# No repr: asyncio writes the result of a task into an error message of its own, which nobody sees; with tens
# of thousands of pods in it, that takes longer than planning.
@dataclass(slots=True, repr=False)
class Reading:
    now_s: float
    """When the cluster looked like this."""
    state: ClusterState = field(default_factory=ClusterState)
    pods: list[PodRecord] = field(default_factory=list)
    node_uids: dict[str, str] = field(default_factory=dict)
    """By name."""
    webhook: WebhookAnswers = field(default_factory=WebhookAnswers)
    """What our webhook was seen to do."""
    assumptions: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What the user may want to know, and no decision depends on."""
    usage: Outcome = field(default_factory=lambda: Readings(UsageSource.REQUESTS))


def snapshot_of(reading: Reading, policy: Policy) -> Snapshot:
    """A single look: nothing is smoothed, because nothing is known from before."""
    notes: Iterable[str] = ()
    if reading.usage.source is not UsageSource.REQUESTS:
        trusted, _ = usage_of_check(
            reading.usage,
            _tenants(reading),
            now_s=reading.now_s,
            half_life_s=policy.usage_half_life.total_seconds(),
            smoothing=None,
        )
        reading.state.apply_usage(trusted.pods)
        notes = trusted.notes
    return reading.state.freeze(reading.now_s, assumptions=(*reading.assumptions, *notes))


def _tenants(reading: Reading) -> Tenants:
    running = [pod for pod in reading.pods if pod.node and not pod.is_finished]
    return Tenants(
        node_of={pod.key: pod.node for pod in running},
        pod_uids={pod.key: pod.uid for pod in running},
        node_uids=reading.node_uids,
    )
