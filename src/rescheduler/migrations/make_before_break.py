"""Make before break: the steps from labelling the source to a settled copy, shared by Adopt and Copy.

Each decision first determines how far the migration has come, and only then what prevents the next step: a
process that continues a migration passes through these steps again and must reach the last one first.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from rescheduler.api.podmigration import (
    COPY_FAILING,
    ConditionType,
    Handover,
    Migration,
    MigrationPhase,
    PodReference,
    traits_of,
)
from rescheduler.api.well_known_names import (
    KARPENTER_DO_NOT_DISRUPT_ANNOTATION,
    KARPENTER_NODE_POOL_LABEL,
    SCHEDULING_GATE,
)
from rescheduler.cluster.pod_record import (
    CRASH_LOOP,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    PodRecord,
    cant_run_reason,
)
from rescheduler.migrations.effects import (
    CreateCopy,
    LabelSource,
    NominateNode,
    ProtectSource,
    RemoveSchedulingGate,
)
from rescheduler.migrations.interruptions import (
    group_member_failed,
    interrupted,
    is_group_settled,
    target_lost,
    time_left,
    why_target_lost,
    workload_changed,
)
from rescheduler.migrations.labels_and_names import copy_name
from rescheduler.migrations.observation import (
    ConditionUpdate,
    Decision,
    Observation,
    Perform,
    Transition,
    Wait,
)
from rescheduler.migrations.transition_table import MigrationStep, Trigger

__all__ = [
    "FAILS_LIKE_SOURCE",
    "before_deadline",
    "copy_gone",
    "creating",
    "marking",
    "placing",
    "settled_at",
    "settling",
    "source_lost",
    "starting",
    "why_not_adoptable",
    "with_live_step",
]


FAILS_LIKE_SOURCE: Final = "FailsLikeSource"
"""The reason of the condition CopyReady if the source fails, too, so that the move is not the cause."""

_MAX_UNSCHEDULABLE: Final = timedelta(seconds=30)
"""How long the scheduler may take to place a copy; its target had room a moment ago."""

_ROOM_CHECK_INTERVAL: Final = timedelta(seconds=10)

_TIMESTAMP_RESOLUTION: Final = timedelta(seconds=1)
"""Times of conditions are whole seconds, rounded down, so the real time may be almost a second later."""


def marking(observation: Observation) -> Decision:
    if observation.source_is_ours or (observation.target is not None and not observation.source_is_active):
        return Transition(Trigger.MARKED)
    ended = interrupted(observation)
    if ended is not None:
        return ended
    source = observation.source
    assert source is not None
    if observation.locked_by:
        return Transition(
            Trigger.LOCKED, f"migration {observation.locked_by} is moving the pod", "Locked", final=True
        )
    return Perform(LabelSource(PodReference(source.name, source.uid), source.resource_version))


def creating(observation: Observation) -> Decision:
    name = copy_name(observation.migration)
    # A copy of an earlier attempt may still be terminating on a lost node.
    if observation.target is not None and (observation.target_remains or observation.target.name == name):
        return Transition(Trigger.COPY_CREATED, f"copy {observation.target.name} created")
    return _interrupted_or_group_failed(observation) or Perform(CreateCopy(name))


def placing(observation: Observation) -> Decision:
    copy, target = observation.target, observation.migration.target_node
    source_node = observation.migration.spec.source_node
    if copy is not None and copy.node and (copy.node == target or (not target and copy.node != source_node)):
        return Transition(Trigger.COPY_BOUND, f"copy {copy.name} bound to {copy.node}")
    ended = _interrupted_or_group_failed(observation) or copy_gone(observation)
    if ended is not None:
        return ended
    assert copy is not None
    if copy.node:
        return Transition(
            Trigger.COPY_MISPLACED,
            f"the scheduler placed the copy on {copy.node}, because it did not fit on "
            f"{target or 'other nodes'}",
            "TargetDidNotFit",
        )
    if (lost := target_lost(observation)) is not None:
        return lost
    if not target:
        return _placing_anywhere(observation, copy)
    if SCHEDULING_GATE in copy.shape.scheduling_gates:
        if copy.nominated_node != target:
            return Perform(NominateNode(observation.target_reference, target))
        if observation.may_preempt:
            # The nomination reserves the room against all but higher priorities, so this is rare.
            why = f"{target} no longer has room, and the copy could preempt {observation.may_preempt}"
            return Transition(Trigger.COPY_MISPLACED, why, "TargetDidNotFit")
        return Perform(RemoveSchedulingGate(observation.target_reference))
    return _wait_for_scheduler(observation, copy)


def _placing_anywhere(observation: Observation, copy: PodRecord) -> Decision:
    """Leave the copy Pending, because no node had room, so that an autoscaler provides a node for it.

    It gets no nomination: Karpenter and the cluster autoscaler ignore pods that have one.
    """
    over_at = observation.now + time_left(observation)
    if SCHEDULING_GATE in copy.shape.scheduling_gates:
        if observation.may_preempt:
            again_at = min(observation.now + _ROOM_CHECK_INTERVAL, over_at)
            words = f"waiting for room: the copy could preempt {observation.may_preempt}"
            return Wait(again_at, words)
        return Perform(RemoveSchedulingGate(observation.target_reference))
    waiting = Wait(over_at, f"copy {copy.name} is Pending until a node has room for it")
    return _protect_from_karpenter(observation) or waiting


def _protect_from_karpenter(observation: Observation) -> Perform | None:
    """Annotate the source for Karpenter, once the scheduler may place the copy.

    Karpenter provides room for the pods of a node that it removes, and for their copies, too: it would
    launch one node too many. The annotation has the form of a duration, so it loses its effect at the end of
    the move, even if it is not removed. Karpenter before 1.12 does not know this form, and ignores it.
    """
    migration, source = observation.migration, observation.source
    node = observation.nodes.get(migration.spec.source_node)
    if (
        source is None
        or node is None
        or not traits_of(migration.spec.strategy).on_eviction
        or KARPENTER_NODE_POOL_LABEL not in node.labels
        or KARPENTER_DO_NOT_DISRUPT_ANNOTATION in source.annotations
    ):
        return None
    end_s = (observation.now + time_left(observation)).timestamp()
    started_s = source.created_s if source.started_s is None else source.started_s
    seconds = max(1, int(end_s) - started_s)
    return Perform(ProtectSource(PodReference(source.name, source.uid), source.resource_version, seconds))


def _wait_for_scheduler(observation: Observation, copy: PodRecord) -> Decision:
    scheduled = copy.condition("PodScheduled")
    if scheduled is None or scheduled.reason != "Unschedulable":
        return Wait(observation.now + time_left(observation), "waiting for the scheduler")
    since = datetime.fromtimestamp(scheduled.since_s, UTC)
    if observation.now - since >= _MAX_UNSCHEDULABLE:
        return Transition(
            Trigger.COPY_MISPLACED, f"the copy is unschedulable: {scheduled.message}", "TargetDidNotFit"
        )
    over_at = before_deadline(observation, since + _MAX_UNSCHEDULABLE)
    return Wait(over_at, f"the copy is unschedulable: {scheduled.message}")


def starting(observation: Observation) -> Decision:
    copy = observation.target
    if copy is not None and _is_copy_serving(observation):
        return Transition(Trigger.COPY_READY, f"copy {copy.name} is ready")
    ended = _interrupted_or_group_failed(observation) or copy_gone(observation) or target_lost(observation)
    if ended is not None:
        is_late = ended.trigger is Trigger.TIMED_OUT
        return replace(ended, reports=(_copy_not_ready(observation, "NotReady"),)) if is_late else ended
    assert copy is not None
    failure = _copy_failure(observation, copy)
    if failure:
        return Transition(
            Trigger.COPY_FAILING,
            f"copy {copy.name} can't run: {failure}",
            COPY_FAILING,
            reports=(_copy_not_ready(observation, COPY_FAILING),),
        )
    waiting = Wait(observation.now + time_left(observation), f"waiting for copy {copy.name} to become ready")
    return _protect_from_karpenter(observation) or waiting


def settling(observation: Observation) -> Decision:
    if _copy_replaces_lost_source(observation):
        return source_lost(observation)
    ended = _interrupted_or_group_failed(observation) or copy_gone(observation) or target_lost(observation)
    if ended is not None:
        return ended
    assert observation.target is not None
    if not observation.target.is_ready:
        return Transition(Trigger.COPY_UNREADY, f"copy {observation.target.name} is no longer ready")
    settled_by = settled_at(observation)
    if observation.now < settled_by:
        return Wait(
            before_deadline(observation, settled_by),
            f"copy {observation.target.name} settles until {settled_by:%H:%M:%S}",
        )
    if not is_group_settled(observation):
        return Wait(
            observation.now + time_left(observation),
            f"waiting for the other members of group {observation.migration.spec.group}",
        )
    return Transition(
        Trigger.SETTLED, f"copy {observation.target.name} has been ready since {settled_by:%H:%M:%S}"
    )


_BEFORE_EVICTION: Final = frozenset(
    {
        MigrationStep.MARKING,
        MigrationStep.CREATING,
        MigrationStep.PLACING,
        MigrationStep.STARTING,
        MigrationStep.SETTLING,
    }
)


def with_live_step(
    migration: Migration, copy: PodRecord | None, settle_time: timedelta, now: datetime
) -> Migration:
    """Return the migration with the step that its copy is in, for people to read.

    The status has only the steps that the next process must know; `copy` shows the ones between them.
    """
    status = migration.status
    if status.phase is not MigrationPhase.IN_PROGRESS or status.step not in _BEFORE_EVICTION or copy is None:
        return migration
    scheduled, since_s = copy.condition("PodScheduled"), 0.0
    if not copy.node:
        step, message = MigrationStep.PLACING, "waiting for the scheduler"
        if scheduled is not None and scheduled.reason == "Unschedulable":
            message = f"the copy is unschedulable: {scheduled.message}"
    elif not copy.is_ready:
        step, message = MigrationStep.STARTING, f"waiting for copy {copy.name} to become ready"
        since_s = scheduled.since_s if scheduled is not None else 0.0
    elif status.step == MigrationStep.SETTLING and status.message:
        return migration  # it waits for its group
    else:
        ready, rest_s = copy.condition("Ready"), settle_time.total_seconds()
        since_s = ready.since_s if ready is not None else now.timestamp()
        passed_s = min(max(now.timestamp() - since_s, 0.0), rest_s)
        step, message = MigrationStep.SETTLING, f"copy ready, settling {passed_s:.0f}/{rest_s:.0f} s"
    since = datetime.fromtimestamp(since_s, UTC) if since_s else status.step_since
    changed = msgspec.structs.replace(status, step=step, message=message, step_since=since)
    return msgspec.structs.replace(migration, status=changed)


def _is_copy_serving(observation: Observation) -> bool:
    """Return whether the copy is ready, on a node that can keep it."""
    copy = observation.target
    return copy is not None and copy.is_ready and not copy.is_terminating and not why_target_lost(observation)


def _copy_replaces_lost_source(observation: Observation) -> bool:
    """Return whether the source is lost and its serving copy should take its place.

    The budget may have allowed the loss only because of the copy, and the controller wants a pod in its
    place. If the pod has no controller, only a plain delete means that it is no longer wanted.
    """
    if observation.source_is_active or not _is_copy_serving(observation):
        return False
    if observation.migration.status.owner is None:
        return observation.copy_is_all_that_is_left
    return workload_changed(observation) is None


def source_lost(observation: Observation) -> Transition:
    assert observation.target is not None
    end = f"pod {observation.migration.spec.pod.name} is {observation.source_end}"
    return Transition(Trigger.SOURCE_LOST, f"{end}: copy {observation.target.name} takes its place")


def settled_at(observation: Observation) -> datetime:
    """Return when the copy is available by minReadySeconds and load balancers have noticed it."""
    assert observation.target is not None
    ready = observation.target.condition("Ready")
    assert ready is not None
    min_ready_s = observation.owner.min_ready_s if observation.owner is not None else 0
    since = datetime.fromtimestamp(ready.since_s, UTC)
    rest = max(timedelta(seconds=min_ready_s), observation.policy.settle_time)
    return since + rest + _TIMESTAMP_RESOLUTION if rest else since


def before_deadline(observation: Observation, moment: datetime) -> datetime:
    """Return the moment, but not after the end of the attempt: another clock measured the moment."""
    return min(moment, observation.now + time_left(observation))


def _interrupted_or_group_failed(observation: Observation) -> Transition | None:
    return interrupted(observation) or group_member_failed(observation)


def copy_gone(observation: Observation) -> Transition | None:
    if not observation.target_remains:
        return Transition(Trigger.COPY_GONE, "the copy was removed by another client", "CopyGone")
    if why := why_not_adoptable(observation):
        return Transition(Trigger.COPY_GONE, why, "CopyRelabelled")
    return None


def why_not_adoptable(observation: Observation) -> str:
    """Say why its ReplicaSet would not adopt the copy; empty if it would. It adopts only what it selects."""
    copy, owner = observation.target, observation.owner
    if copy is None or owner is None or owner.selector is None:
        return ""
    if observation.migration.status.handover is not Handover.ADOPT or owner.pods().matches(copy.labels):
        return ""
    return f"the labels of copy {copy.name} were changed: {owner.kind} {owner.name} no longer selects it"


def _copy_failure(observation: Observation, copy: PodRecord) -> str:
    """Return why the copy can't become ready on its node; empty if it may, even slowly."""
    if copy.is_finished:
        return f"{copy.phase} ({copy.reason or 'its containers ended'})"
    for status in (*copy.init_container_statuses, *copy.container_statuses):
        reason = cant_run_reason(status)
        if reason and not _may_still_start(observation, status, reason):
            assert isinstance(status.state, ContainerStateWaiting)
            return f"{status.name}: {reason} {status.state.message}".strip()
    return ""


def _copy_not_ready(observation: Observation, reason: str) -> ConditionUpdate:
    return ConditionUpdate(
        ConditionType.COPY_READY,
        holds=False,
        reason=FAILS_LIKE_SOURCE if _is_source_failing(observation) else reason,
    )


def _is_source_failing(observation: Observation) -> bool:
    """Return whether the source fails: it is not ready, or only between two crashes."""
    if observation.source is None or not observation.source.is_ready:
        return True
    terms = observation.policy.failed_pods
    recently_s = (observation.now - terms.recovery_window).timestamp()
    return any(
        status.restart_count >= terms.restart_threshold
        and isinstance(status.last_state, ContainerStateTerminated)
        and status.last_state.finished_s > recently_s
        for status in observation.source.container_statuses
    )


def _may_still_start(observation: Observation, status: ContainerStatus, reason: str) -> bool:
    """Return whether the copy may still start. The copy of a pod that failed elsewhere may crash a few times,
    as the pod did."""
    return (
        traits_of(observation.migration.spec.strategy).recovers
        and reason == CRASH_LOOP
        and status.restart_count < observation.policy.failed_pods.restart_threshold
    )
