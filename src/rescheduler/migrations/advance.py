"""One look: where is the migration, what does it see there, and what follows?

sight = look(scene)
Happened → `advanced(migration, sight, now)`: the next step, by the table, with its status
Do       → an effect to perform; then look again
Wait     → until something changes, or until a time
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from rescheduler.migrations import adopt, copy, evict
from rescheduler.migrations.releasing import rolling_back
from rescheduler.migrations.scene import Answer, Happened, Scene, Sight, Wait
from rescheduler.migrations.steps import Event, Step, next_step, phase_of
from rescheduler.model.migrations import Condition, ConditionType, Migration, MigrationStatus
from rescheduler.model.plan import Handover

__all__ = ["advanced", "handover_of", "look", "step_of", "with_condition"]


def step_of(migration: Migration) -> Step:
    return Step(migration.status.step or Step.QUEUED)


def handover_of(migration: Migration) -> Handover:
    """As chosen; `Auto` while it is not."""
    return migration.status.handover or Handover.AUTO


def look(scene: Scene) -> Sight:
    return _LOOKS[handover_of(scene.migration)][step_of(scene.migration)](scene)


def _queued(scene: Scene) -> Sight:
    if scene.migration.is_cancelled:
        return Happened(Event.CANCELLED, "cancelled before it began", "Cancelled", final=True)
    if not scene.source_stands:
        return Happened(Event.SOURCE_GONE, "the pod is gone", "SourceGone", final=True)
    retry_at = scene.migration.status.retry_at
    if retry_at is not None and scene.now < retry_at:
        return Wait(retry_at, f"tried again at {retry_at:%H:%M:%S}")
    if not scene.has_turn:
        return Wait(message="waits for its turn")
    return Happened(Event.TURN_CAME)


def _checking(scene: Scene) -> Sight:
    if scene.migration.is_cancelled:
        return Happened(Event.CANCELLED, "cancelled before it began", "Cancelled", final=True)
    if not scene.source_stands:
        return Happened(Event.SOURCE_GONE, "the pod is gone", "SourceGone", final=True)
    verdict = scene.verdict
    assert verdict is not None, "the check is made with a verdict of the planner"
    match verdict.answer:
        case Answer.APPROVED:
            return Happened(Event.APPROVED, verdict.message)
        case Answer.POSTPONED:
            return Happened(Event.POSTPONED, verdict.message, verdict.reason)
        case Answer.REFUSED:
            return Happened(Event.REFUSED, verdict.message, verdict.reason, final=True)


def _nothing_more(_: Scene) -> Sight:
    return Wait()


_EVERY: Final = {
    Step.QUEUED: _queued,
    Step.CHECKING: _checking,
    Step.ROLLING_BACK: rolling_back,
    Step.COMPLETED: _nothing_more,
    Step.FAILED: _nothing_more,
}

_LOOKS: Final[Mapping[Handover, Mapping[Step, Callable[[Scene], Sight]]]] = {
    Handover.AUTO: _EVERY,
    Handover.ADOPT: _EVERY | adopt.LOOKS,
    Handover.COPY: _EVERY | copy.LOOKS,
    Handover.EVICT: _EVERY | evict.LOOKS,
}


# -- the status that follows


@dataclass(frozen=True, slots=True)
class _Told:
    """What an event means for a condition."""

    kind: ConditionType
    status: str
    reason: str


_TELLS: Final[Mapping[Event, _Told]] = {
    Event.COPY_READY: _Told(ConditionType.COPY_READY, "True", "Ready"),
    Event.COPY_UNREADY: _Told(ConditionType.COPY_READY, "False", "NotReady"),
    Event.COPY_FAILING: _Told(ConditionType.COPY_READY, "False", "CopyFailing"),
    Event.SOURCE_LEFT: _Told(ConditionType.HANDED_OVER, "True", "SourceEvicted"),
    Event.RETRY: _Told(ConditionType.ROLLED_BACK, "True", "Undone"),
    Event.GIVE_UP: _Told(ConditionType.ROLLED_BACK, "True", "Undone"),
}


def advanced(scene: Scene, happened: Happened) -> Migration:
    """The migration one step further; raises `IllegalEvent` where the table has none."""
    migration, now = scene.migration, scene.now
    before = migration.status
    step = next_step(handover_of(migration), step_of(migration), happened.event)
    changes: dict[str, object] = {
        "observed_generation": migration.generation,
        "phase": phase_of(step),
        "step": step,
        "step_since": now,
        "message": happened.message or before.message,
    }
    if happened.failure:
        changes |= {"failure": happened.failure, "failure_is_final": happened.final}
    changes |= _of_the_event(scene, happened, step)
    if phase_of(step).is_final:
        changes["finished_at"] = now
    status = msgspec.structs.replace(before, **changes)
    told = _TELLS.get(happened.event)
    if told is not None:
        status = with_condition(status, told.kind, told.status, told.reason, happened.message, now)
    return msgspec.structs.replace(migration, status=status)


def _of_the_event(scene: Scene, happened: Happened, step: Step) -> dict[str, object]:
    """What particular events leave behind in the status."""
    before = scene.migration.status
    match happened.event:
        case Event.APPROVED:
            assert scene.verdict is not None
            return {
                "attempts": before.attempts + 1,
                "started_at": scene.now,
                "retry_at": None,
                "handover": scene.verdict.handover,
                "target_node": scene.verdict.target,
                "target_pod": None,
                "owner": scene.verdict.owner,
                "failure": "",
                "failure_is_final": False,
            }
        case Event.COPY_CREATED | Event.REPLACED:
            return {"target_pod": scene.target_reference}
        case Event.SOURCE_LEFT:
            return {"handed_over_at": scene.now}
        case Event.POSTPONED | Event.RETRY if step is Step.QUEUED:
            return {"retry_at": scene.now + _until_next_try(scene)}
        case _:
            return {}


_FIRST_PAUSE: Final = timedelta(seconds=10)
_LONGEST_PAUSE: Final = timedelta(minutes=5)


def _until_next_try(scene: Scene) -> timedelta:
    """Twice as long with every attempt, and a little different for each migration, so that they spread."""
    doublings = max(scene.migration.status.attempts - 1, 0)
    pause = min(_FIRST_PAUSE * (1 << min(doublings, 10)), _LONGEST_PAUSE)
    spread = int.from_bytes(hashlib.sha256(scene.migration.uid.encode()).digest()[:2]) / 0xFFFF
    return pause * (1 + spread / 2)


def with_condition(
    status: MigrationStatus, kind: ConditionType, value: str, reason: str, message: str, now: datetime
) -> MigrationStatus:
    """The time of a condition is that of its last change from true to false or back."""
    before = status.condition(kind)
    since = before.last_transition_time if before is not None and before.status == value else now
    told = Condition(kind, value, since, reason, message, status.observed_generation)
    others = [each for each in status.conditions if each.type != kind]
    conditions = tuple(sorted((*others, told), key=lambda each: each.type))
    return msgspec.structs.replace(status, conditions=conditions)
