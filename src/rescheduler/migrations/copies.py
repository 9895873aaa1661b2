"""Make before break: from the mark to a settled copy beside the source. Shared by Adopt and Copy."""

from datetime import UTC, datetime, timedelta
from typing import Final

from rescheduler.migrations.effects import CreateCopy, MarkSource, Nominate, OpenGate
from rescheduler.migrations.interference import deadline, interrupted
from rescheduler.migrations.marks import label_value, lock_of
from rescheduler.migrations.naming import copy_name
from rescheduler.migrations.scene import Do, Happened, Scene, Sight, Wait
from rescheduler.migrations.steps import Event, Step
from rescheduler.model.migrations import Phase, PodReference
from rescheduler.model.pods import PodRecord, Waiting

__all__ = ["GATE", "creating", "is_settled", "marking", "placing", "settling", "starting"]

GATE: Final = "rescheduler.dev/nominate"
"""The scheduling gate that holds a copy until its target is nominated."""

_UNSCHEDULABLE_FOR: Final = timedelta(seconds=30)
"""A copy that the scheduler finds no place for is given up after this: its target had room a moment ago."""

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
    ended = interrupted(scene)
    if ended is not None:
        return ended
    source = scene.source
    assert source is not None
    lock = lock_of(source)
    if lock == label_value(scene.migration.name):
        return Happened(Event.MARKED)
    if lock:
        return Happened(Event.LOCKED, f"migration {lock} is moving the pod", "Locked", final=True)
    return Do(MarkSource(PodReference(source.name, source.uid), source.resource_version))


def creating(scene: Scene) -> Sight:
    ended = interrupted(scene)
    if ended is not None:
        return ended
    if scene.target is not None:
        return Happened(Event.COPY_CREATED, f"copy {scene.target.name} created")
    assert scene.source is not None
    return Do(CreateCopy(copy_name(scene.migration, scene.source)))


def placing(scene: Scene) -> Sight:
    ended = interrupted(scene) or _copy_gone(scene)
    if ended is not None:
        return ended
    copy, target = scene.target, scene.migration.target_node
    assert copy is not None
    if copy.node:
        if copy.node == target:
            return Happened(Event.COPY_BOUND, f"copy {copy.name} bound to {target}")
        return Happened(
            Event.COPY_MISPLACED,
            f"the scheduler put the copy on {copy.node}: {target} did not fit after all",
            "TargetDidNotFit",
        )
    if GATE in copy.shape.scheduling_gates:
        nominated = copy.nominated_node == target
        return Do(OpenGate(scene.target_reference) if nominated else Nominate(scene.target_reference, target))
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
    return Wait(since + _UNSCHEDULABLE_FOR, f"the copy is unschedulable: {scheduled.message}")


def starting(scene: Scene) -> Sight:
    ended = interrupted(scene) or _copy_gone(scene)
    if ended is not None:
        return ended
    copy = scene.target
    assert copy is not None
    if copy.is_ready:
        return Happened(Event.COPY_READY, f"copy {copy.name} is ready")
    trouble = _trouble(copy)
    if trouble:
        return Happened(Event.COPY_FAILING, f"copy {copy.name} can't run: {trouble}", "CopyFailing")
    return Wait(scene.now + deadline(scene), f"waits for copy {copy.name} to become ready")


def settling(scene: Scene) -> Sight:
    ended = interrupted(scene) or _copy_gone(scene)
    if ended is not None:
        return ended
    assert scene.target is not None
    if not scene.target.is_ready:
        return Happened(Event.COPY_UNREADY, f"copy {scene.target.name} is not ready any more")
    settled_at = _settled_at(scene)
    if scene.now < settled_at:
        return Wait(settled_at, f"copy {scene.target.name} settles until {settled_at:%H:%M:%S}")
    if not _group_is_settled(scene):
        return Wait(
            scene.now + deadline(scene), f"waits for the others of group {scene.migration.spec.group}"
        )
    return Happened(Event.SETTLED)


def is_settled(scene: Scene) -> bool:
    """Asked again at the last moment, of what was read live."""
    return scene.target is not None and scene.target.is_ready and scene.now >= _settled_at(scene)


def _settled_at(scene: Scene) -> datetime:
    """Available by the workload's own measure, and then a while for load balancers to notice."""
    assert scene.target is not None
    ready = scene.target.condition("Ready")
    assert ready is not None
    min_ready_s = scene.owner.min_ready_s if scene.owner is not None else 0
    since = datetime.fromtimestamp(ready.since_s, UTC)
    return since + max(timedelta(seconds=min_ready_s), scene.policy.settle_time)


def _group_is_settled(scene: Scene) -> bool:
    if not scene.migration.spec.group:
        return True
    others = [other for other in scene.group if other.key != scene.migration.key]
    arrived = sum(_has_settled(other.status.step, other.status.phase) for other in others)
    return 1 + arrived >= scene.migration.spec.group_size


def _has_settled(step: str, phase: Phase) -> bool:
    settled = {Step.SETTLING, Step.EVICTING, Step.ADOPTING, Step.RELEASING, Step.COMPLETED}
    return phase is not Phase.FAILED and step in settled


def _copy_gone(scene: Scene) -> Happened | None:
    if scene.target is None or scene.target.is_terminating:
        return Happened(Event.COPY_GONE, "somebody removed the copy", "CopyGone")
    return None


def _trouble(copy: PodRecord) -> str:
    """Why it will hardly become ready here; empty while it may. Merely slow is no trouble."""
    if copy.is_finished:
        return f"{copy.phase} ({copy.reason or 'its containers ended'})"
    for status in (*copy.init_container_statuses, *copy.container_statuses):
        if isinstance(status.state, Waiting) and status.state.reason in _CANT_RUN:
            return f"{status.name}: {status.state.reason} {status.state.message}".strip()
    return ""
