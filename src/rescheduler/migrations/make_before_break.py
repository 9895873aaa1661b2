"""Make before break: from the mark to a settled copy beside the source. Shared by Adopt and Copy.

A look begins with how far things have come and only then asks what stands in the way: whoever takes over a
migration passes through these steps again, and must arrive at the last one before it judges.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from rescheduler.api.podmigration import COPY_FAILING, ConditionType, Handover, PodReference
from rescheduler.api.strategy_traits import traits_of
from rescheduler.api.well_known_names import SCHEDULING_GATE
from rescheduler.cluster.container_states import CRASH_LOOP, cant_run_reason
from rescheduler.cluster.pod_record import (
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    PodRecord,
)
from rescheduler.migrations.effects import CreateCopy, LabelSource, NominateNode, RemoveSchedulingGate
from rescheduler.migrations.interruptions import (
    interrupted,
    target_lost,
    time_left,
    why_target_lost,
    workload_changed,
)
from rescheduler.migrations.labels_and_names import copy_name
from rescheduler.migrations.migration_groups import group_member_failed, is_group_settled
from rescheduler.migrations.observation import (
    ConditionUpdate,
    Decision,
    Observation,
    Perform,
    Transition,
    Wait,
)
from rescheduler.migrations.transition_table import Trigger

__all__ = [
    "FAILS_LIKE_SOURCE",
    "copy_gone",
    "creating",
    "marking",
    "placing",
    "settling",
    "source_lost",
    "starting",
    "why_not_adoptable",
]


FAILS_LIKE_SOURCE: Final = "FailsLikeSource"
"""Why a copy is not ready, in its condition: nor is the pod itself, so it is no fault of the move."""

_MAX_UNSCHEDULABLE: Final = timedelta(seconds=30)
"""A copy that the scheduler finds no place for is given up after this: its target had room a moment ago."""

_TIMESTAMP_RESOLUTION: Final = timedelta(seconds=1)
"""Conditions tell their times in whole seconds, rounded down: it may have been almost one later."""


def marking(scene: Observation) -> Decision:
    if scene.source_is_ours or (scene.target is not None and not scene.source_stands):
        return Transition(Trigger.MARKED)
    ended = interrupted(scene)
    if ended is not None:
        return ended
    source = scene.source
    assert source is not None
    if scene.locked_by:
        return Transition(
            Trigger.LOCKED, f"migration {scene.locked_by} is moving the pod", "Locked", final=True
        )
    return Perform(LabelSource(PodReference(source.name, source.uid), source.resource_version))


def creating(scene: Observation) -> Decision:
    name = copy_name(scene.migration)
    # One of an earlier attempt may still be on its way out, on a node that is lost.
    if scene.target is not None and (scene.target_stands or scene.target.name == name):
        return Transition(Trigger.COPY_CREATED, f"copy {scene.target.name} created")
    return _interrupted_or_group_failed(scene) or Perform(CreateCopy(name))


def placing(scene: Observation) -> Decision:
    copy, target = scene.target, scene.migration.target_node
    if copy is not None and copy.node == target:
        return Transition(Trigger.COPY_BOUND, f"copy {copy.name} bound to {target}")
    ended = _interrupted_or_group_failed(scene) or copy_gone(scene)
    if ended is not None:
        return ended
    assert copy is not None
    if copy.node:
        return Transition(
            Trigger.COPY_MISPLACED,
            f"the scheduler put the copy on {copy.node}: {target} did not fit after all",
            "TargetDidNotFit",
        )
    if (lost := target_lost(scene)) is not None:
        return lost
    if SCHEDULING_GATE in copy.shape.scheduling_gates:
        if copy.nominated_node != target:
            return Perform(NominateNode(scene.target_reference, target))
        if scene.may_preempt:
            # The nomination reserves the room against all but higher priorities, so this is rare.
            why = f"{target} has no room any more, and the copy could preempt {scene.may_preempt}"
            return Transition(Trigger.COPY_MISPLACED, why, "TargetDidNotFit")
        return Perform(RemoveSchedulingGate(scene.target_reference))
    return _wait_for_scheduler(scene, copy)


def _wait_for_scheduler(scene: Observation, copy: PodRecord) -> Decision:
    scheduled = copy.condition("PodScheduled")
    if scheduled is None or scheduled.reason != "Unschedulable":
        return Wait(scene.now + time_left(scene), "waits for the scheduler")
    since = datetime.fromtimestamp(scheduled.since_s, UTC)
    if scene.now - since >= _MAX_UNSCHEDULABLE:
        return Transition(
            Trigger.COPY_MISPLACED, f"the copy is unschedulable: {scheduled.message}", "TargetDidNotFit"
        )
    over_at = _before_deadline(scene, since + _MAX_UNSCHEDULABLE)
    return Wait(over_at, f"the copy is unschedulable: {scheduled.message}")


def starting(scene: Observation) -> Decision:
    copy = scene.target
    if copy is not None and _is_copy_serving(scene):
        return Transition(Trigger.COPY_READY, f"copy {copy.name} is ready")
    ended = _interrupted_or_group_failed(scene) or copy_gone(scene) or target_lost(scene)
    if ended is not None:
        is_late = ended.event is Trigger.TIMED_OUT
        return replace(ended, reports=(_copy_not_ready(scene, "NotReady"),)) if is_late else ended
    assert copy is not None
    trouble = _copy_failure(scene, copy)
    if trouble:
        return Transition(
            Trigger.COPY_FAILING,
            f"copy {copy.name} can't run: {trouble}",
            COPY_FAILING,
            reports=(_copy_not_ready(scene, COPY_FAILING),),
        )
    return Wait(scene.now + time_left(scene), f"waits for copy {copy.name} to become ready")


def settling(scene: Observation) -> Decision:
    if _copy_replaces_lost_source(scene):
        return source_lost(scene)
    ended = _interrupted_or_group_failed(scene) or copy_gone(scene) or target_lost(scene)
    if ended is not None:
        return ended
    assert scene.target is not None
    if not scene.target.is_ready:
        return Transition(Trigger.COPY_UNREADY, f"copy {scene.target.name} is not ready any more")
    settled_at = _settled_at(scene)
    if scene.now < settled_at:
        return Wait(
            _before_deadline(scene, settled_at),
            f"copy {scene.target.name} settles until {settled_at:%H:%M:%S}",
        )
    if not is_group_settled(scene):
        return Wait(
            scene.now + time_left(scene), f"waits for the others of group {scene.migration.spec.group}"
        )
    return Transition(Trigger.SETTLED, f"copy {scene.target.name} is ready since {settled_at:%H:%M:%S}")


def _is_copy_serving(scene: Observation) -> bool:
    """Whether the copy is ready, on a node that can keep it."""
    copy = scene.target
    return copy is not None and copy.is_ready and not copy.is_terminating and not why_target_lost(scene)


def _copy_replaces_lost_source(scene: Observation) -> bool:
    """The source is lost while its copy serves already: perhaps the budget allowed that only because of the
    copy. Its controller wants a pod in its place. Of a pod without a controller, only a plain delete means
    that it is not wanted any more."""
    if scene.source_stands or not _is_copy_serving(scene):
        return False
    if scene.migration.status.owner is None:
        return scene.copy_is_all_that_is_left
    return workload_changed(scene) is None


def source_lost(scene: Observation) -> Transition:
    assert scene.target is not None
    end = f"pod {scene.migration.spec.pod.name} is {scene.source_end}"
    return Transition(Trigger.SOURCE_LOST, f"{end}: copy {scene.target.name} takes its place")


def _settled_at(scene: Observation) -> datetime:
    """Available by the workload's own measure, and then a while for load balancers to notice."""
    assert scene.target is not None
    ready = scene.target.condition("Ready")
    assert ready is not None
    min_ready_s = scene.owner.min_ready_s if scene.owner is not None else 0
    since = datetime.fromtimestamp(ready.since_s, UTC)
    rest = max(timedelta(seconds=min_ready_s), scene.policy.settle_time)
    return since + rest + _TIMESTAMP_RESOLUTION if rest else since


def _before_deadline(scene: Observation, moment: datetime) -> datetime:
    """That moment, by another clock than ours; but not later than the end of the attempt."""
    return min(moment, scene.now + time_left(scene))


def _interrupted_or_group_failed(scene: Observation) -> Transition | None:
    return interrupted(scene) or group_member_failed(scene)


def copy_gone(scene: Observation) -> Transition | None:
    if not scene.target_stands:
        return Transition(Trigger.COPY_GONE, "the copy was removed by another client", "CopyGone")
    if why := why_not_adoptable(scene):
        return Transition(Trigger.COPY_GONE, why, "CopyRelabelled")
    return None


def why_not_adoptable(scene: Observation) -> str:
    """Say why its ReplicaSet would not adopt the copy; empty if it would. It adopts only what it selects."""
    copy, owner = scene.target, scene.owner
    if copy is None or owner is None or owner.selector is None:
        return ""
    if scene.migration.status.handover is not Handover.ADOPT or owner.pods().matches(copy.labels):
        return ""
    return (
        f"the labels of copy {copy.name} were changed: {owner.kind} {owner.name} does not select it any more"
    )


def _copy_failure(scene: Observation, copy: PodRecord) -> str:
    """Why it will hardly become ready here; empty while it may. Merely slow is no trouble."""
    if copy.is_finished:
        return f"{copy.phase} ({copy.reason or 'its containers ended'})"
    for status in (*copy.init_container_statuses, *copy.container_statuses):
        reason = cant_run_reason(status)
        if reason and not _may_still_start(scene, status, reason):
            assert isinstance(status.state, ContainerStateWaiting)
            return f"{status.name}: {reason} {status.state.message}".strip()
    return ""


def _copy_not_ready(scene: Observation, reason: str) -> ConditionUpdate:
    return ConditionUpdate(
        ConditionType.COPY_READY,
        holds=False,
        reason=FAILS_LIKE_SOURCE if _is_source_failing(scene) else reason,
    )


def _is_source_failing(scene: Observation) -> bool:
    """Not ready where it is; or only for the moment between two crashes."""
    if scene.source is None or not scene.source.is_ready:
        return True
    terms = scene.policy.failed_pods
    recently_s = (scene.now - terms.recovery_window).timestamp()
    return any(
        status.restart_count >= terms.restart_threshold
        and isinstance(status.last_state, ContainerStateTerminated)
        and status.last_state.finished_s > recently_s
        for status in scene.source.container_statuses
    )


def _may_still_start(scene: Observation, status: ContainerStatus, reason: str) -> bool:
    """The copy of a pod that failed elsewhere is judged as that was: a few crashes are not enough."""
    return (
        traits_of(scene.migration.spec.strategy).recovers
        and reason == CRASH_LOOP
        and status.restart_count < scene.policy.failed_pods.restart_threshold
    )
