"""Decide whether another client may evict a pod now, or whether the pod is moved first. Pure.

    pass   the API server goes on with its own budget check, as without rescheduler
    hold   the client gets 429 and retries; a PodMigration moves the pod in the meantime

In case of doubt an eviction passes. No eviction is held longer than the deadline, whatever workloads, budgets
and annotations say.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from kubevalues.duration import parse_duration
from rescheduler.api.podmigration import (
    EVICTION,
    Handover,
    Migration,
    MigrationPhase,
    MigrationSpec,
    PodReference,
)
from rescheduler.api.well_known_names import (
    HANDOVER_ANNOTATION,
    RESCHEDULING_LABEL,
    SAFE_EVICTIONS_ANNOTATION,
    SAFE_EVICTIONS_DEADLINE_ANNOTATION,
)
from rescheduler.cluster.budget_record import BudgetRecord
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.pod_record import PodRecord, belongs_to_node, is_rescheduler_pod
from rescheduler.cluster.workload_record import WorkloadRecord, tolerates_surge
from rescheduler.config.policy import Policy, SafeEvictionMode
from rescheduler.migrations.transition_table import MigrationStep

__all__ = [
    "EvictionFacts",
    "HoldEviction",
    "PassEviction",
    "PassReason",
    "decide_eviction",
    "eviction_deadline",
    "eviction_migration_name",
    "safe_eviction_mode",
]


class PassReason(StrEnum):
    """Why rescheduler leaves an eviction to the API server; a label of the metrics."""

    UNREADABLE = "Unreadable"
    DRY_RUN = "DryRun"
    NOT_READY = "CachesNotReady"
    OFF = "Off"
    UNKNOWN_POD = "UnknownPod"
    NOT_SERVING = "NotServing"
    PROTECTED = "Protected"
    HANDED_OVER = "HandedOver"
    MOVE_FAILED = "MoveFailed"
    DEADLINE = "DeadlineExceeded"
    UNAVAILABLE = "Unavailable"
    ONLY_EVICTABLE = "OnlyEvictable"
    NOT_NEEDED = "NotNeeded"

    @property
    def is_warned_of(self) -> bool:
        """Return whether the client gets a warning, because the pod was meant to be moved first."""
        return self in {PassReason.MOVE_FAILED, PassReason.DEADLINE, PassReason.UNAVAILABLE}


@dataclass(frozen=True, slots=True)
class HoldEviction:
    message: str
    """The text that the client prints: what happens, and what to do."""
    request: MigrationSpec | None = None
    """The move to record first; None if it is recorded already, or if the pod only has to wait."""


@dataclass(frozen=True, slots=True)
class PassEviction:
    reason: PassReason
    message: str
    without_turn: HoldEviction | None = None
    """The answer if another pod of its controller has just been let go; None if that doesn't matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionFacts:
    now: datetime
    policy: Policy
    pod: PodRecord
    node: NodeRecord | None
    """The node of the pod; None if it does not exist."""
    owner: WorkloadRecord | None = None
    """The controller of the pod, as far as it is known."""
    top: WorkloadRecord | None = None
    """The Deployment above a ReplicaSet, else the owner."""
    namespace_annotations: Mapping[str, str]
    namespace_labels: Mapping[str, str] | None = None
    """None if they are not known."""
    budgets: tuple[BudgetRecord, ...] = ()
    """The budgets that cover the pod."""
    migrations: tuple[Migration, ...] = ()
    """All migrations of this pod, by its uid."""
    first_held: datetime | None = None
    """When this process first held an eviction of the pod. A PodMigration that is deleted and recorded again
    does not restart the time."""
    drained_since: datetime | None = None
    """When this process first held an eviction by the same client on the node, if that is being emptied."""
    siblings_evicted: int = 0
    """How many other pods of the same controller this process has just let be evicted."""
    pods_ready: int | None = None
    """How many pods of the same controller are ready and not terminating; None if that is not known. The
    status of the controller may still count pods that are gone."""
    pods_terminating: int = 0
    """How many pods of the same controller are terminating."""
    unavailable: str = ""
    """Why no move would start now (halt, pause, no leader), in words; empty if one would."""
    requested_by: str = ""


_MAX_REASON: Final = 500
_NO_WAIT: Final = timedelta()
_HANDING_OVER: Final = frozenset(
    {MigrationStep.EVICTING, MigrationStep.ADOPTING, MigrationStep.REPLACING, MigrationStep.RELEASING}
)
_PROGRESS: Final = {
    MigrationStep.QUEUED: "waiting for its turn",
    MigrationStep.CHECKING: "starting",
    MigrationStep.SETTLING: "copy ready, settling",
    MigrationStep.ROLLING_BACK: "rolling back",
}


def eviction_migration_name(uid: str) -> str:
    """Return the name of the PodMigration for evictions of the pod with this uid: there is one per pod."""
    return f"eviction-{uid}"


def safe_eviction_mode(facts: EvictionFacts) -> SafeEvictionMode:
    """Return the mode for this pod: the workload's annotation, the namespace's, or the configured one."""
    configured = facts.policy.safe_evictions.mode
    if configured is SafeEvictionMode.OFF:
        return configured
    for annotations in _annotations(facts):
        if (wanted := annotations.get(SAFE_EVICTIONS_ANNOTATION)) is not None:
            return _ANNOTATED.get(wanted, SafeEvictionMode.OFF)
    return SafeEvictionMode.OFF if configured is SafeEvictionMode.ANNOTATED else configured


_ANNOTATED: Final = {each.value: each for each in (SafeEvictionMode.AUTO, SafeEvictionMode.ALL)}
"""Every other value is `off`: a typing error must not hold up a drain."""


def _annotations(facts: EvictionFacts) -> tuple[Mapping[str, str], ...]:
    own = facts.pod.annotations if facts.owner is None else {}
    return (
        facts.top.annotations if facts.top is not None else own,
        facts.owner.annotations if facts.owner is not None else {},
        facts.namespace_annotations,
    )


def eviction_deadline(facts: EvictionFacts, since: datetime) -> datetime:
    """Return until when evictions may be held. Tenants can shorten the time, not extend it."""
    longest = facts.policy.safe_evictions.deadline
    for annotations in _annotations(facts):
        if (wanted := annotations.get(SAFE_EVICTIONS_DEADLINE_ANNOTATION)) is not None:
            try:
                longest = min(longest, max(parse_duration(wanted), _NO_WAIT))
            except ValueError:
                continue
            break
    return since + longest


def decide_eviction(facts: EvictionFacts) -> PassEviction | HoldEviction:
    mode = safe_eviction_mode(facts)
    if mode is SafeEvictionMode.OFF:
        return PassEviction(PassReason.OFF, "safe evictions are off for this pod")
    if (unprotected := _not_serving(facts) or _protected(facts)) is not None:
        return unprotected
    if any(_is_handing_over(each) for each in facts.migrations):
        return PassEviction(PassReason.HANDED_OVER, "its copy is ready, and takes its place")
    if facts.unavailable:
        return _not_needed(facts, mode) or PassEviction(
            PassReason.UNAVAILABLE, f"no move starts now: {facts.unavailable}"
        )
    requested = next((each for each in facts.migrations if _is_for_eviction(each)), None)
    known = (facts.first_held, None if requested is None else requested.created)
    since = min([facts.now, *(each for each in known if each is not None)])
    deadline = eviction_deadline(facts, since)
    if facts.drained_since is not None:
        # A client that waits for each pod before it evicts the next has one deadline for all of them.
        deadline = min(deadline, facts.drained_since + facts.policy.safe_evictions.deadline)
    if facts.now >= deadline:
        # The same words at each try: Events say them once.
        when = "of 0 s" if deadline == since else f"at {deadline:%H:%M:%S} UTC"
        return PassEviction(PassReason.DEADLINE, f"not moved before the deadline {when}")
    running = next((each for each in facts.migrations if _is_running(each)), None)
    if running is not None:
        return HoldEviction(_moving_message(facts, running, deadline))
    if requested is not None and requested.is_finished:
        why = requested.status.message or requested.status.failure or "unknown reason"
        return PassEviction(PassReason.MOVE_FAILED, f"PodMigration {requested.name} failed: {why}")
    if requested is not None:
        return HoldEviction(_moving_message(facts, requested, deadline))
    return _begin(facts, mode, deadline)


def _not_serving(facts: EvictionFacts) -> PassEviction | None:
    pod, node = facts.pod, facts.node
    if not (pod.is_active and pod.node and pod.is_ready):
        return PassEviction(PassReason.NOT_SERVING, "the pod is not ready, or is terminating")
    if node is None or not node.is_ready:
        return PassEviction(PassReason.NOT_SERVING, f"its node {pod.node} is not Ready")
    if any(each is not None and each.deleted_s is not None for each in (facts.owner, facts.top)):
        return PassEviction(PassReason.NOT_SERVING, "its workload is being deleted")
    return None


def _protected(facts: EvictionFacts) -> PassEviction | None:
    pod, policy, profile = facts.pod, facts.policy, _profile(facts)
    if (
        belongs_to_node(pod)
        or is_rescheduler_pod(pod)
        or pod.namespace in policy.excluded_namespaces
        or profile is None
        or pod.labels.get(RESCHEDULING_LABEL) == "disabled"
        or profile.excluded_pod_selector.matches(pod.labels)
        or pod.shape.priority_class.startswith("system-")
        or pod.shape.resource_claims
        or (pod.shape.scheduler_name or "default-scheduler") not in policy.known_schedulers
    ):
        return PassEviction(PassReason.PROTECTED, "rescheduler does not move this pod")
    return None


def _profile(facts: EvictionFacts) -> Policy | None:
    """Return the policy of the profile that selects the pod; None if none does."""
    labels, node = facts.namespace_labels, facts.node
    for each in facts.policy.every_profile:
        selects, nodes = each.namespace_selector, each.node_selector
        in_namespace = selects.selects_everything or (labels is not None and selects.matches(labels))
        if in_namespace and (node is None or nodes.matches(node.labels)):
            return each
    return None


def _begin(facts: EvictionFacts, mode: SafeEvictionMode, deadline: datetime) -> PassEviction | HoldEviction:
    if (passed := _not_needed(facts, mode)) is not None:
        return _one_of_its_set(facts, passed, deadline)
    pod = facts.pod
    handover = _make_before_break(facts, mode)
    assert handover is not None
    reason = f"evicted by {facts.requested_by or 'an unknown client'}"[:_MAX_REASON]
    request = MigrationSpec(
        pod=PodReference(pod.name, pod.uid),
        source_node=pod.node,
        strategy=EVICTION,
        reason=reason,
        handover=handover,
        deadline=deadline,
    )
    name = eviction_migration_name(pod.uid)
    return HoldEviction(
        f"pod {pod.key} is being moved to another node first: PodMigration {name}, waiting for its turn. "
        f"Retry until the pod is gone. {_until(deadline)}",
        request,
    )


def _not_needed(facts: EvictionFacts, mode: SafeEvictionMode) -> PassEviction | None:
    """Return why the pod is evicted without a move in any case; None if it is to be moved first."""
    if _make_before_break(facts, mode) is None:
        return PassEviction(PassReason.ONLY_EVICTABLE, "the pod can't be moved make-before-break")
    if mode is SafeEvictionMode.AUTO and not _disrupts(facts):
        return PassEviction(PassReason.NOT_NEEDED, "enough other pods of its workload are ready")
    return None


def _make_before_break(facts: EvictionFacts, mode: SafeEvictionMode) -> Handover | None:
    """Return the handover without disruption; None if the pod can only be evicted."""
    owner, top = facts.pod.owner, facts.top
    if owner is None:
        return Handover.COPY if mode is SafeEvictionMode.ALL else None
    if facts.owner is None or top is None or facts.owner.kind != "ReplicaSet" or not facts.owner.replicas:
        return None
    if facts.owner.owner is not None and top.uid == facts.owner.uid:
        return None  # of a Deployment that is not known, or of a controller of another kind
    asked = top.annotations.get(HANDOVER_ANNOTATION) or facts.policy.handovers.get(top.kind, Handover.AUTO)
    if asked == Handover.ADOPT:
        return Handover.ADOPT
    return Handover.ADOPT if asked == Handover.AUTO and tolerates_surge(top) else None


def _disrupts(facts: EvictionFacts) -> bool:
    """Return whether a plain eviction would leave too few ready pods, or be refused."""
    assert facts.owner is not None or facts.pod.owner is None
    # Its status may still count pods that have just been evicted.
    if facts.owner is None or _ready(facts, facts.owner) - facts.siblings_evicted - 1 < facts.owner.replicas:
        return True
    return any(not each.is_current or each.disruptions_allowed < 1 for each in facts.budgets)


def _one_of_its_set(
    facts: EvictionFacts, passed: PassEviction, deadline: datetime
) -> PassEviction | HoldEviction:
    """Let the pods of a set go one after the other, unless a budget covers them: then the API server does."""
    owner = facts.owner
    if owner is None or facts.budgets or not _is_in_a_set(owner):
        return passed
    name = f"{owner.kind} {owner.name}"

    def held(why: str) -> HoldEviction:
        return HoldEviction(
            f"pod {facts.pod.key} waits {why}. Retry until the pod is gone. {_until(deadline)}"
        )

    if passed.reason is PassReason.ONLY_EVICTABLE:
        # Other controllers replace a pod when it terminates.
        if facts.pods_terminating and owner.kind == "StatefulSet":
            return held(f"until terminating pods of {name} are replaced ({facts.pods_terminating})")
        if facts.siblings_evicted or _ready(facts, owner) < owner.replicas:
            ready = f"{_ready(facts, owner)} of {owner.replicas}"
            return held(f"until the other pods of {name} are ready ({ready})")
    # This replica of the webhook may not see yet what another one has just let pass.
    return replace(passed, without_turn=held(f"for its turn: another pod of {name} was just let go"))


def _ready(facts: EvictionFacts, owner: WorkloadRecord) -> int:
    """Return how many of its pods are ready, by its status and by its pods: either may be behind."""
    counted = owner.ready_replicas if facts.pods_ready is None else facts.pods_ready
    return min(owner.ready_replicas, counted)


def _is_in_a_set(owner: WorkloadRecord) -> bool:
    return owner.replicas > 0 and max(owner.replicas, owner.ready_replicas) > 1


def _is_for_eviction(migration: Migration) -> bool:
    return migration.spec.strategy == EVICTION


def _is_running(migration: Migration) -> bool:
    return migration.status.phase is MigrationPhase.IN_PROGRESS


def _is_handing_over(migration: Migration) -> bool:
    return _is_running(migration) and migration.status.step in _HANDING_OVER


def _moving_message(facts: EvictionFacts, migration: Migration, deadline: datetime) -> str:
    where = migration.target_node or "another node"
    step = migration.status.step or MigrationStep.QUEUED
    progress = next((words for each, words in _PROGRESS.items() if each == step), "copy starting")
    return (
        f"pod {facts.pod.key} is being moved to {where} first: PodMigration {migration.name}, {progress}. "
        f"Retry until the pod is gone. {_until(deadline)}"
    )


def _until(deadline: datetime) -> str:
    return f"If that fails, evictions are no longer held after {deadline:%H:%M:%S} UTC."
