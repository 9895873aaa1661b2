"""What a pod is to know: one answer for both who ask, the API server when it is created and the scheduler."""

from collections.abc import Mapping
from dataclasses import dataclass

from rescheduler.intents.book import NOTHING_USED, IntentBook
from rescheduler.intents.intent import Intent
from rescheduler.model.steering import AVOIDS, STEERED_BY
from rescheduler.serving.asked_pods import Metadata

__all__ = ["Told", "told"]


@dataclass(frozen=True, slots=True)
class Told:
    intent: Intent
    is_again: bool
    """It was asked about before, and its annotations say what it was told."""


def told(
    metadata: Metadata,
    namespace: str,
    book: IntentBook,
    used: Mapping[str, int] = NOTHING_USED,
    *,
    given: str = "",
) -> Told | None:
    """None if nothing concerns it. `used` is that of `IntentBook.intent_for`; `given`, the migration that it
    was told of without an annotation that says so."""
    controller = metadata.controller
    if controller is None:
        return None
    marks = metadata.annotations or {}
    told_before = marks.get(STEERED_BY, "")
    intent = book.intent_for(
        namespace, controller.uid, metadata.name or "", used=used, told_before=told_before or given
    )
    if intent is None or not (intent.excluded or intent.prefer):
        return None
    # What follows from failed attempts only leaves no other mark than the nodes.
    has_marks = bool(told_before) or AVOIDS in marks
    return Told(intent, is_again=has_marks and intent.cause == told_before)
