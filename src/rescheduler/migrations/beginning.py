"""Before anything is touched: a migration waits for its turn, and is looked at once more when that comes."""

from rescheduler.migrations.effects import CallOffMigration, HoldMigration, LetGoMigration
from rescheduler.migrations.groups import waiting_for_group
from rescheduler.migrations.scene import Answer, Do, Happened, Scene, Sight, Wait
from rescheduler.migrations.steps import Event
from rescheduler.model.migrations import FINALIZER, MANUAL

__all__ = ["checking", "queued"]


def queued(scene: Scene) -> Sight:
    if scene.migration.is_cancelled:
        return Happened(Event.CANCELLED, "cancelled before it began", "Cancelled", final=True)
    if not scene.source_stands:
        return Happened(Event.SOURCE_GONE, "the pod is gone", "SourceGone", final=True)
    if scene.is_winding_up and (undone := _unasked(scene)) is not None:
        return undone
    retry_at = scene.migration.status.retry_at
    if retry_at is not None and scene.now < retry_at:
        return Wait(retry_at, f"tried again at {retry_at:%H:%M:%S}")
    if (reason := waiting_for_group(scene)) is not None:
        return reason
    if not scene.has_turn:
        return Wait(message="waits for its turn")
    return Happened(Event.TURN_CAME)


def _unasked(scene: Scene) -> Do | None:
    """What the program has asked for is called off; a person's wish waits for another who executes, and
    nothing of ours holds it meanwhile."""
    if scene.migration.spec.strategy != MANUAL:
        return Do(CallOffMigration())
    return Do(LetGoMigration()) if FINALIZER in scene.migration.finalizers else None


def checking(scene: Scene) -> Sight:
    if scene.migration.is_cancelled:
        return Happened(Event.CANCELLED, "cancelled before it began", "Cancelled", final=True)
    if not scene.source_stands:
        return Happened(Event.SOURCE_GONE, "the pod is gone", "SourceGone", final=True)
    verdict = scene.verdict
    assert verdict is not None, "the check is made with a verdict of the planner"
    match verdict.answer:
        case Answer.APPROVED if FINALIZER not in scene.migration.finalizers:
            return Do(HoldMigration())
        case Answer.APPROVED:
            return Happened(Event.APPROVED, verdict.message)
        case Answer.POSTPONED:
            return Happened(Event.POSTPONED, verdict.message, verdict.reason)
        case Answer.REFUSED:
            return Happened(Event.REFUSED, verdict.message, verdict.reason, final=True)
