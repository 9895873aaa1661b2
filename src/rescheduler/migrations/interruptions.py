"""The events that end an attempt: changes of the workload, a lost target node, a failed member of its group,
cancellation and timeouts.

Members of a group are handed over together or not at all. A group is identified by namespace, `spec.group`,
`spec.groupSize` and `spec.strategy`. Its members are the first `groupSize` migrations with that identity:
first those that have started, then the oldest. All others are refused.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from rescheduler.api.podmigration import CANCELLED, Handover, Migration, MigrationPhase, traits_of
from rescheduler.cluster.node_record import NodeRecord, Taint
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.workload_record import WorkloadRecord, is_rolling_out
from rescheduler.config.policy import Policy
from rescheduler.migrations.observation import Observation, Transition, Wait
from rescheduler.migrations.transition_table import MigrationStep, Trigger
from rescheduler.rules.taint_toleration import tolerates

__all__ = [
    "DEADLINE_EXCEEDED",
    "EVICTION_RETRY_AFTER",
    "SOURCE_GONE",
    "TARGET_LOST",
    "GroupId",
    "MigrationGroup",
    "deadline_exceeded",
    "deadline_of",
    "group_member_failed",
    "group_of",
    "interrupted",
    "is_group_settled",
    "is_superseded",
    "longest_deadline_of",
    "target_lost",
    "time_kept",
    "time_left",
    "waiting_for_group",
    "wants_no_pods",
    "why_target_lost",
    "workload_changed",
]


SOURCE_GONE = "SourceGone"
DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
"""The failure of a move that has a deadline and took too long."""
EVICTION_RETRY_AFTER: Final = timedelta(hours=1)
"""The time after a failed move on eviction until the pod may be moved on eviction again. Until then the
record of the failure lets evictions pass; the next drain may find room."""

_TEMPLATE_HASH_LABEL = "pod-template-hash"


def interrupted(observation: Observation) -> Transition | None:
    """Return why the attempt must end, at any step between the mark and the eviction; None if it may go
    on."""
    if observation.migration.is_cancelled:
        return Transition(Trigger.CANCELLED, "cancelled: the PodMigration was deleted", CANCELLED, final=True)
    if observation.copy_is_all_that_is_left:
        return _timed_out(observation)
    if not observation.source_is_active:
        why = f"pod {observation.migration.spec.pod.name} is {observation.source_end}"
        return Transition(Trigger.SOURCE_GONE, why, SOURCE_GONE, final=True)
    assert observation.source is not None
    if observation.source.node != observation.migration.spec.source_node:
        node, expected = observation.source.node or "no node", observation.migration.spec.source_node
        where = f"the pod is on {node}, not on {expected}"
        return _workload_transition(where, "SourceElsewhere", final=True)
    return workload_changed(observation) or _timed_out(observation)


def workload_changed(observation: Observation) -> Transition | None:
    """Return the transition if the workload changed, so that the copy no longer fits its template.

    A change of its size is no reason: the workload counts its own pods, before and after the move.
    """
    owner = observation.migration.status.owner
    if owner is None:
        return None
    name = f"{owner.kind} {owner.name}"
    controller = observation.source.owner if observation.source is not None else None
    if observation.source_is_active and (controller is None or controller.uid != owner.uid):
        return _workload_transition(f"{name} no longer controls the pod", "WorkloadGone", final=True)
    if observation.owner_is_gone:
        return _workload_transition(f"{name} no longer exists", "WorkloadGone", final=True)
    if observation.owner is None:
        return None
    if observation.owner.replicas == 0:
        return _workload_transition(f"{name} was scaled to zero", "ScaledDown", final=True)
    if _is_replacing_pods(observation.owner) and not _is_recovered_by_eviction(observation):
        return _workload_transition(f"{name} is rolling out", "RollingOut")
    return _deployment_changed(observation)


def wants_no_pods(observation: Observation) -> bool:
    """Return whether the workload wants no pods any more, so that budgets don't matter."""
    if observation.owner_is_gone:
        return not observation.pods_are_orphaned
    return observation.owner is not None and observation.owner.replicas == 0


def _deployment_changed(observation: Observation) -> Transition | None:
    deployment = observation.deployment
    if observation.workload_is_gone:
        return _workload_transition("its Deployment no longer exists", "WorkloadGone", final=True)
    if deployment is None:
        return None
    # A paused Deployment does not roll out: until it is resumed, it wants its pods as they are.
    if observation.is_superseded and not deployment.paused:
        return _workload_transition(f"Deployment {deployment.name} is rolling out", "RollingOut")
    return None


def _is_replacing_pods(owner: WorkloadRecord) -> bool:
    """Return whether the controller replaces its pods itself, as StatefulSets and DaemonSets do."""
    return owner.kind != "ReplicaSet" and is_rolling_out(owner)


def _is_recovered_by_eviction(observation: Observation) -> bool:
    """Return whether eviction recovers the pod: a rollout that is stuck because of this very pod would never
    end otherwise."""
    migration = observation.migration
    return traits_of(migration.spec.strategy).recovers and migration.status.handover is Handover.EVICT


def is_superseded(deployment: Mapping[str, Any], replica_set: Mapping[str, Any]) -> bool:
    """Return whether the Deployment wants other pods than this ReplicaSet creates.

    Compare the templates, as its controller does: scaling raises the generation, too, but is no rollout.
    """
    wanted, made = deployment["spec"]["template"], replica_set["spec"]["template"]
    return bool(wanted["spec"] != made["spec"] or _metadata(wanted) != _metadata(made))


def _metadata(template: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    metadata = template.get("metadata") or {}
    labels = {
        key: value for key, value in (metadata.get("labels") or {}).items() if key != _TEMPLATE_HASH_LABEL
    }
    return labels, metadata.get("annotations") or {}


def _workload_transition(message: str, failure: str, *, final: bool = False) -> Transition:
    return Transition(Trigger.WORKLOAD_CHANGED, message, failure, final)


def time_left(observation: Observation) -> timedelta:
    """Return how much time is left until the attempt is rolled back; negative when it is over."""
    began = observation.migration.status.started_at
    limit = observation.policy.migration_timeout
    left = limit if began is None else began + limit - observation.now
    deadline = deadline_of(observation.migration, observation.policy)
    return left if deadline is None else min(left, deadline - observation.now)


def deadline_of(migration: Migration, policy: Policy) -> datetime | None:
    """Return when a move on eviction, or off an evacuated node, is given up for good; None for other moves.

    The requester of a move on eviction can shorten the configured time, not extend it.
    """
    latest = longest_deadline_of(migration, policy)
    if latest is None:
        return None
    asked = migration.spec.deadline
    return latest if asked is None else min(latest, asked)


def longest_deadline_of(migration: Migration, policy: Policy) -> datetime | None:
    """Return the deadline without the shorter one that the requester of a move on eviction may ask for: that
    is no reason to move more pods off a node at once than the operator allows."""
    traits = traits_of(migration.spec.strategy)
    if traits.on_eviction:
        return migration.created + policy.safe_evictions.deadline
    return migration.spec.deadline if traits.evacuates else None


def time_kept(observation: Observation) -> timedelta:
    """Return how long a finished migration is kept."""
    migration, policy = observation.migration, observation.policy
    is_failed = migration.status.phase is MigrationPhase.FAILED
    if is_failed and observation.source_is_active and traits_of(migration.spec.strategy).on_eviction:
        # There is one such migration per pod: while it exists, no further eviction of the pod becomes a move.
        return min(policy.migration_ttl, max(EVICTION_RETRY_AFTER, policy.pod_cooldown))
    return policy.migration_ttl


def deadline_exceeded(observation: Observation) -> Transition | None:
    """Return the transition that ends a move after its deadline: the API server then decides on the
    eviction."""
    deadline = deadline_of(observation.migration, observation.policy)
    if deadline is None or observation.now < deadline:
        return None
    step = observation.migration.status.step or "Queued"
    if traits_of(observation.migration.spec.strategy).evacuates:
        whose, then = "its node", "The pod is evicted without a move"
    else:
        whose, then = (
            "safe evictions",
            "The next eviction of the pod is left to the API server and its budget",
        )
    late = f"not moved before the deadline of {whose} ({deadline:%H:%M:%S} UTC)"
    words = f"{late}; the last step was {step}. {then}"
    return Transition(Trigger.TIMED_OUT, words, DEADLINE_EXCEEDED, final=True)


def _timed_out(observation: Observation) -> Transition | None:
    if (ended := deadline_exceeded(observation)) is not None:
        return ended
    if time_left(observation) > timedelta():
        return None
    step, limit = observation.migration.status.step, observation.policy.migration_timeout
    return Transition(
        Trigger.TIMED_OUT,
        f"not handed over within {limit} (migrationTimeout); the last step was {step}",
        "TimedOut",
    )


TARGET_LOST: Final = "TargetLost"

_READINESS_TAINTS: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Taints that follow the condition Ready with some delay. The condition itself is newer."""


def target_lost(observation: Observation) -> Transition | None:
    """Return the transition that ends an attempt whose target node can't keep the pod; None if it can."""
    if loss := why_target_lost(observation):
        return Transition(Trigger.TARGET_LOST, loss, TARGET_LOST)
    return None


def why_target_lost(observation: Observation) -> str:
    """Say why the target node can't keep the pod; empty if it can, or if none was chosen (Evict)."""
    copy = observation.target
    name = copy.node if copy is not None and copy.node else observation.migration.target_node
    if not name:
        return ""
    node = observation.nodes.get(name)
    if node is None:
        return f"target node {name} no longer exists"
    if not node.is_ready:
        return f"target node {name} is not ready"
    if node.deleted_s is not None:
        return f"target node {name} is being deleted"
    if copy is not None and _is_newer(node, copy):
        return f"target node {name} was replaced by another one of the same name"
    pod = copy or observation.source
    evicting = [taint for taint in node.taints if pod is not None and _evicts(taint, pod)]
    if evicting:
        return f"target node {name} has the taint {evicting[0].key}:NoExecute, which evicts the pod"
    return ""


def _is_newer(node: NodeRecord, copy: PodRecord) -> bool:
    """Return whether the node was created after the copy became ready: that was on another node, and the
    kubelet of the new one has not reported yet. A copy may be older than its node, if it waited for it."""
    ready = copy.condition("Ready")
    return copy.is_ready and ready is not None and max(copy.created_s, ready.since_s) < node.created_s


def _evicts(taint: Taint, pod: PodRecord) -> bool:
    """Return whether the taint evicts the pod; a limited toleration only delays that."""
    if taint.effect != "NoExecute" or taint.key in _READINESS_TAINTS:
        return False
    return not any(
        tolerates(toleration, taint) and toleration.toleration_seconds is None
        for toleration in pod.constraints.tolerations
    )


_SETTLED = frozenset(
    {
        MigrationStep.SETTLING,
        MigrationStep.EVICTING,
        MigrationStep.ADOPTING,
        MigrationStep.RELEASING,
        MigrationStep.COMPLETED,
    }
)
_HANDED_OVER = frozenset(
    {MigrationStep.ADOPTING, MigrationStep.REPLACING, MigrationStep.RELEASING, MigrationStep.COMPLETED}
)


class GroupId(NamedTuple):
    namespace: str
    name: str
    size: int
    strategy: str


def group_of(migration: Migration) -> GroupId | None:
    spec = migration.spec
    if not spec.group:
        return None
    return GroupId(migration.namespace, spec.group, max(1, spec.group_size), spec.strategy)


class MigrationGroup:
    """The keys of all migrations with one identity, in the order that decides which of them are members."""

    def __init__(self, group: GroupId) -> None:
        self.id = group
        self._queue: list[tuple[bool, float, str]] = []
        self._places: dict[str, tuple[bool, float, str]] = {}

    def __bool__(self) -> bool:
        return bool(self._queue)

    def put(self, migration: Migration) -> None:
        self.remove(migration.key)
        status = migration.status
        has_begun = status.attempts > 0 or status.phase is MigrationPhase.IN_PROGRESS
        place = self._places[migration.key] = (not has_begun, migration.created.timestamp(), migration.key)
        insort(self._queue, place)

    def remove(self, key: str) -> None:
        place = self._places.pop(key, None)
        if place is not None:
            del self._queue[bisect_left(self._queue, place)]

    def members(self) -> Iterator[str]:
        return (key for _, _, key in self._queue[: self.id.size])


def waiting_for_group(observation: Observation) -> Transition | Wait | None:
    """Return why its group keeps a migration from starting; None if it does not."""
    migration, group = observation.migration, group_of(observation.migration)
    if group is None:
        return None
    if migration.key not in {each.key for each in observation.group}:
        words = f"group {group.name} already has its {group.size} members; use another group name"
        return _group_refused(words, "GroupFull")
    for each in _other_members(observation):
        if each.status.phase is MigrationPhase.FAILED:
            return _group_refused(
                f"{each.name} of the same group failed: {each.status.message}", "PartnerFailed"
            )
    if missing := group.size - len(observation.group):
        deadline = migration.created + observation.policy.migration_timeout
        words = f"group {group.name} has {group.size - missing} of {group.size} members"
        if observation.now >= deadline:
            return _group_refused(f"{words}; create all of them within migrationTimeout", "GroupIncomplete")
        return Wait(deadline, f"waiting for the rest of its group: {words}")
    if observation.obstacle:
        return _group_refused(
            f"group {group.name} can't start together: {observation.obstacle}", "GroupTooLarge"
        )
    return None


def _group_refused(words: str, failure: str) -> Transition:
    return Transition(Trigger.REFUSED, words, failure, final=True)


def is_group_settled(observation: Observation) -> bool:
    """Return whether all members have recorded that they are settled."""
    group = group_of(observation.migration)
    if group is None:
        return True
    arrived = sum(each.status.step in _SETTLED for each in _other_members(observation))
    return 1 + arrived >= group.size


def group_member_failed(observation: Observation) -> Transition | None:
    """Return a transition if another member failed before any was handed over: all are cancelled."""
    others = _other_members(observation)
    if any(each.status.step in _HANDED_OVER for each in others):
        return None
    for each in others:
        if each.status.phase is MigrationPhase.FAILED or each.status.step == MigrationStep.ROLLING_BACK:
            why = f"{each.name} of the same group failed: {each.status.message}"
            return Transition(Trigger.PARTNER_FAILED, why, "PartnerFailed", each.status.failure_is_final)
    return None


def _other_members(observation: Observation) -> list[Migration]:
    return [each for each in observation.group if each.key != observation.migration.key]
