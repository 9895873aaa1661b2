"""Make before break: from the mark to a settled copy beside the source. Shared by Adopt and Copy.

A look begins with how far things have come and only then asks what stands in the way: whoever takes over a
migration passes through these steps again, and must arrive at the last one before it judges.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from rescheduler.migrations.effects import CreateCopy, MarkSource, Nominate, OpenGate
from rescheduler.migrations.groups import all_settled, partner_failed
from rescheduler.migrations.interference import deadline, interrupted, workload_changed
from rescheduler.migrations.naming import copy_name
from rescheduler.migrations.scene import Do, Happened, Report, Scene, Sight, Wait
from rescheduler.migrations.steps import Event
from rescheduler.migrations.target_node import target_loss, target_lost
from rescheduler.model.migrations import COPY_FAILING, FAILED_PODS, ConditionType, PodReference
from rescheduler.model.plan import Handover
from rescheduler.model.pods import ContainerStatus, PodRecord, Terminated, Waiting

__all__ = [
    "FAILS_LIKE_SOURCE",
    "GATE",
    "copy_gone",
    "creating",
    "marking",
    "not_adoptable",
    "placing",
    "settling",
    "source_lost",
    "starting",
]

GATE: Final = "rescheduler.dev/nominate"
"""The scheduling gate that holds a copy until its target is nominated."""

FAILS_LIKE_SOURCE: Final = "FailsLikeSource"
"""Why a copy is not ready, in its condition: nor is the pod itself, so it is no fault of the move."""

_UNSCHEDULABLE_FOR: Final = timedelta(seconds=30)
"""A copy that the scheduler finds no place for is given up after this: its target had room a moment ago."""

_WHOLE_SECOND: Final = timedelta(seconds=1)
"""Conditions tell their times in whole seconds, rounded down: it may have been almost one later."""

_CANT_RUN: Final = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)
"""Reasons of a waiting container that don't pass by themselves soon enough to wait for."""


def marking(scene: Scene) -> Sight:
    if scene.source_is_ours or (scene.target is not None and not scene.source_stands):
        return Happened(Event.MARKED)
    ended = interrupted(scene)
    if ended is not None:
        return ended
    source = scene.source
    assert source is not None
    if scene.locked_by:
        return Happened(Event.LOCKED, f"migration {scene.locked_by} is moving the pod", "Locked", final=True)
    return Do(MarkSource(PodReference(source.name, source.uid), source.resource_version))


def creating(scene: Scene) -> Sight:
    name = copy_name(scene.migration)
    # One of an earlier attempt may still be on its way out, on a node that is lost.
    if scene.target is not None and (scene.target_stands or scene.target.name == name):
        return Happened(Event.COPY_CREATED, f"copy {scene.target.name} created")
    return _ended(scene) or Do(CreateCopy(name))


def placing(scene: Scene) -> Sight:
    copy, target = scene.target, scene.migration.target_node
    if copy is not None and copy.node == target:
        return Happened(Event.COPY_BOUND, f"copy {copy.name} bound to {target}")
    ended = _ended(scene) or copy_gone(scene)
    if ended is not None:
        return ended
    assert copy is not None
    if copy.node:
        return Happened(
            Event.COPY_MISPLACED,
            f"the scheduler put the copy on {copy.node}: {target} did not fit after all",
            "TargetDidNotFit",
        )
    if (lost := target_lost(scene)) is not None:
        return lost
    if GATE in copy.shape.scheduling_gates:
        if copy.nominated_node != target:
            return Do(Nominate(scene.target_reference, target))
        if scene.may_preempt:
            # The nomination reserves the room against all but higher priorities, so this is rare.
            why = f"{target} has no room any more, and the copy could preempt {scene.may_preempt}"
            return Happened(Event.COPY_MISPLACED, why, "TargetDidNotFit")
        return Do(OpenGate(scene.target_reference))
    return _until_bound(scene, copy)


def _until_bound(scene: Scene, copy: PodRecord) -> Sight:
    scheduled = copy.condition("PodScheduled")
    if scheduled is None or scheduled.reason != "Unschedulable":
        return Wait(scene.now + deadline(scene), "waits for the scheduler")
    since = datetime.fromtimestamp(scheduled.since_s, UTC)
    if scene.now - since >= _UNSCHEDULABLE_FOR:
        return Happened(
            Event.COPY_MISPLACED, f"the copy is unschedulable: {scheduled.message}", "TargetDidNotFit"
        )
    over_at = _at_most(scene, since + _UNSCHEDULABLE_FOR)
    return Wait(over_at, f"the copy is unschedulable: {scheduled.message}")


def starting(scene: Scene) -> Sight:
    copy = scene.target
    if copy is not None and _serves(scene):
        return Happened(Event.COPY_READY, f"copy {copy.name} is ready")
    ended = _ended(scene) or copy_gone(scene) or target_lost(scene)
    if ended is not None:
        is_late = ended.event is Event.TIMED_OUT
        return replace(ended, reports=(_unready(scene, "NotReady"),)) if is_late else ended
    assert copy is not None
    trouble = _trouble(scene, copy)
    if trouble:
        return Happened(
            Event.COPY_FAILING,
            f"copy {copy.name} can't run: {trouble}",
            COPY_FAILING,
            reports=(_unready(scene, COPY_FAILING),),
        )
    return Wait(scene.now + deadline(scene), f"waits for copy {copy.name} to become ready")


def settling(scene: Scene) -> Sight:
    if _takes_its_place(scene):
        return source_lost(scene)
    ended = _ended(scene) or copy_gone(scene) or target_lost(scene)
    if ended is not None:
        return ended
    assert scene.target is not None
    if not scene.target.is_ready:
        return Happened(Event.COPY_UNREADY, f"copy {scene.target.name} is not ready any more")
    settled_at = _settled_at(scene)
    if scene.now < settled_at:
        return Wait(
            _at_most(scene, settled_at), f"copy {scene.target.name} settles until {settled_at:%H:%M:%S}"
        )
    if not all_settled(scene):
        return Wait(
            scene.now + deadline(scene), f"waits for the others of group {scene.migration.spec.group}"
        )
    return Happened(Event.SETTLED, f"copy {scene.target.name} is ready since {settled_at:%H:%M:%S}")


def _serves(scene: Scene) -> bool:
    """Whether the copy is ready, on a node that can keep it."""
    copy = scene.target
    return copy is not None and copy.is_ready and not copy.is_terminating and not target_loss(scene)


def _takes_its_place(scene: Scene) -> bool:
    """The source is lost while its copy serves already: perhaps the budget allowed that only because of the
    copy. Its controller wants a pod in its place. Of a pod without a controller, only a plain delete means
    that it is not wanted any more."""
    if scene.source_stands or not _serves(scene):
        return False
    if scene.migration.status.owner is None:
        return scene.copy_is_all_that_is_left
    return workload_changed(scene) is None


def source_lost(scene: Scene) -> Happened:
    assert scene.target is not None
    end = f"pod {scene.migration.spec.pod.name} is {scene.source_end}"
    return Happened(Event.SOURCE_LOST, f"{end}: copy {scene.target.name} takes its place")


def _settled_at(scene: Scene) -> datetime:
    """Available by the workload's own measure, and then a while for load balancers to notice."""
    assert scene.target is not None
    ready = scene.target.condition("Ready")
    assert ready is not None
    min_ready_s = scene.owner.min_ready_s if scene.owner is not None else 0
    since = datetime.fromtimestamp(ready.since_s, UTC)
    rest = max(timedelta(seconds=min_ready_s), scene.policy.settle_time)
    return since + rest + _WHOLE_SECOND if rest else since


def _at_most(scene: Scene, moment: datetime) -> datetime:
    """That moment, by another clock than ours; but not later than the end of the attempt."""
    return min(moment, scene.now + deadline(scene))


def _ended(scene: Scene) -> Happened | None:
    return interrupted(scene) or partner_failed(scene)


def copy_gone(scene: Scene) -> Happened | None:
    if not scene.target_stands:
        return Happened(Event.COPY_GONE, "the copy was removed by another client", "CopyGone")
    if why := not_adoptable(scene):
        return Happened(Event.COPY_GONE, why, "CopyRelabelled")
    return None


def not_adoptable(scene: Scene) -> str:
    """Say why its ReplicaSet would not adopt the copy; empty if it would. It adopts only what it selects."""
    copy, owner = scene.target, scene.owner
    if copy is None or owner is None or owner.selector is None:
        return ""
    if scene.migration.status.handover is not Handover.ADOPT or owner.pods().matches(copy.labels):
        return ""
    return (
        f"the labels of copy {copy.name} were changed: {owner.kind} {owner.name} does not select it any more"
    )


def _trouble(scene: Scene, copy: PodRecord) -> str:
    """Why it will hardly become ready here; empty while it may. Merely slow is no trouble."""
    if copy.is_finished:
        return f"{copy.phase} ({copy.reason or 'its containers ended'})"
    for status in (*copy.init_container_statuses, *copy.container_statuses):
        if (
            isinstance(status.state, Waiting)
            and status.state.reason in _CANT_RUN
            and not _may_still_come(scene, status)
        ):
            return f"{status.name}: {status.state.reason} {status.state.message}".strip()
    return ""


def _unready(scene: Scene, reason: str) -> Report:
    return Report(
        ConditionType.COPY_READY, holds=False, reason=FAILS_LIKE_SOURCE if _source_fails(scene) else reason
    )


def _source_fails(scene: Scene) -> bool:
    """Not ready where it is; or only for the moment between two crashes."""
    if scene.source is None or not scene.source.is_ready:
        return True
    terms = scene.policy.failed_pods
    recently_s = (scene.now - terms.recovery_window).timestamp()
    return any(
        status.restart_count >= terms.restart_threshold
        and isinstance(status.last_state, Terminated)
        and status.last_state.finished_s > recently_s
        for status in scene.source.container_statuses
    )


def _may_still_come(scene: Scene, status: ContainerStatus) -> bool:
    """The copy of a pod that failed elsewhere is judged as that was: a few crashes are not enough."""
    return (
        scene.migration.spec.strategy == FAILED_PODS
        and isinstance(status.state, Waiting)
        and status.state.reason == "CrashLoopBackOff"
        and status.restart_count < scene.policy.failed_pods.restart_threshold
    )
