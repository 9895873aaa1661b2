"""What the scheduler is told: which nodes a pod must not come to, and to which it should rather go. Pure.

    filter      takes out the nodes to be avoided; those where the pod kept failing only while another is left
    prioritize  the greatest score for the node where it should go, nothing for the others

The same intents as at admission (`telling`), in the form of another question. What the webhook writes into a
pod stands there for good; here it counts as long as the intent does.

If only the node is left that a migration moves the pod away from, the pod waits, as it does when the webhook
has excluded that node: after `steerTimeout` the migration withdraws its intent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rescheduler.intents.book import NOTHING_USED, IntentBook
from rescheduler.intents.intent import Intent
from rescheduler.serving.extender_arguments import (
    GREATEST_SCORE,
    Arguments,
    UnreadableArguments,
    filtered,
    read_arguments,
    refused,
    scored,
)
from rescheduler.serving.telling import Told, told

__all__ = ["Filtered", "Prioritized", "filter_nodes", "prioritize_nodes"]

_MOVED_AWAY: Final = "node(s) that rescheduler moves pods of this workload away from"
_KEPT_FAILING: Final = "node(s) where rescheduler saw the pod fail"

Given = Mapping[str, str]
"""Which migration a pod was told of before, by its uid."""


@dataclass(frozen=True, slots=True)
class Filtered:
    body: bytes
    pod: str = ""
    refusals: Mapping[str, str] = field(default_factory=dict)
    """Why, by the node's name."""
    dropped: tuple[str, ...] = ()
    """Nodes where it kept failing and may come to all the same: there is no other."""


@dataclass(frozen=True, slots=True)
class Prioritized:
    body: bytes
    pod: str = ""
    pod_uid: str = ""
    intent: Intent | None = None
    """Whose target is among the nodes."""
    is_again: bool = False
    """Its target was given out when it was created."""


def filter_nodes(body: bytes, book: IntentBook) -> Filtered:
    """Never raises, whatever `body` is."""
    try:
        asked = read_arguments(body)
    except UnreadableArguments as error:
        return Filtered(refused(f"rescheduler can't read what it is asked: {error}"))
    found = _told(asked, book)
    if found is None:
        return Filtered(filtered(asked, {}))
    refusals, dropped = _refusals(found.intent, asked.names)
    return Filtered(filtered(asked, refusals), _key(asked), refusals, dropped)


def prioritize_nodes(
    body: bytes, book: IntentBook, used: Mapping[str, int] = NOTHING_USED, given: Given | None = None
) -> Prioritized:
    """`used` is that of `IntentBook.intent_for`. Never raises, whatever `body` is."""
    try:
        asked = read_arguments(body)
    except UnreadableArguments:
        return Prioritized(scored({}))
    found = _told(asked, book, used, given or {})
    if found is None or not found.intent.prefer or found.intent.prefer not in asked.names:
        return Prioritized(scored({}))
    body = scored({found.intent.prefer: GREATEST_SCORE})
    return Prioritized(body, _key(asked), asked.pod.uid or "", found.intent, found.is_again)


def _told(
    asked: Arguments, book: IntentBook, used: Mapping[str, int] = NOTHING_USED, given: Given | None = None
) -> Told | None:
    before = (given or {}).get(asked.pod.uid or "", "")
    return told(asked.pod, asked.pod.namespace or "", book, used, given=before)


def _refusals(intent: Intent, names: list[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Of the nodes that are there; and those of them that are not refused for want of others."""
    there = set(names)
    avoided = there.intersection(intent.avoid)
    tried = there.intersection(intent.tried)
    refusals = dict.fromkeys(sorted(avoided), _MOVED_AWAY)
    # Better where it failed before than nowhere.
    if tried and there == avoided | tried:
        return refusals, tuple(sorted(tried))
    return refusals | dict.fromkeys(sorted(tried), _KEPT_FAILING), ()


def _key(asked: Arguments) -> str:
    return f"{asked.pod.namespace or ''}/{asked.pod.name or ''}"
