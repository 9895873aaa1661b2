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

from rescheduler.steering.extender.extender_wire import (
    MAX_EXTENDER_PRIORITY,
    ExtenderArgs,
    UnreadableExtenderArgs,
    encode_filter_error,
    encode_filter_result,
    encode_priorities,
    read_extender_args,
)
from rescheduler.steering.intents import NOTHING_USED, Intent, IntentIndex
from rescheduler.steering.placement_advice import PlacementAdvice, advice_for

__all__ = ["ExtenderFilterResult", "ExtenderPriorities", "filter_nodes", "prioritize_nodes"]

_MOVED_AWAY_MESSAGE: Final = "node(s) that rescheduler is moving pods of this workload away from"
_KEPT_FAILING_MESSAGE: Final = "node(s) on which the pod failed before"

AdvisedMigrations = Mapping[str, str]
"""Which migration a pod was told of before, by its uid."""


@dataclass(frozen=True, slots=True)
class ExtenderFilterResult:
    body: bytes
    pod: str = ""
    refusals: Mapping[str, str] = field(default_factory=dict)
    """Why, by the node's name."""
    dropped: tuple[str, ...] = ()
    """Nodes where it kept failing and may come to all the same: there is no other."""


@dataclass(frozen=True, slots=True)
class ExtenderPriorities:
    body: bytes
    pod: str = ""
    pod_uid: str = ""
    intent: Intent | None = None
    """Whose target is among the nodes."""
    is_again: bool = False
    """Its target was given out when it was created."""


def filter_nodes(body: bytes, book: IntentIndex) -> ExtenderFilterResult:
    """Never raises, whatever `body` is."""
    try:
        asked = read_extender_args(body)
    except UnreadableExtenderArgs as error:
        return ExtenderFilterResult(encode_filter_error(f"rescheduler can't decode the request: {error}"))
    found = _advice(asked, book)
    if found is None:
        return ExtenderFilterResult(encode_filter_result(asked, {}))
    refusals, dropped = _refusals(found.intent, asked.names)
    return ExtenderFilterResult(encode_filter_result(asked, refusals), _key(asked), refusals, dropped)


def prioritize_nodes(
    body: bytes,
    book: IntentIndex,
    used: Mapping[str, int] = NOTHING_USED,
    given: AdvisedMigrations | None = None,
) -> ExtenderPriorities:
    """`used` is that of `IntentBook.intent_for`. Never raises, whatever `body` is."""
    try:
        asked = read_extender_args(body)
    except UnreadableExtenderArgs:
        return ExtenderPriorities(encode_priorities({}))
    found = _advice(asked, book, used, given or {})
    if found is None or not found.intent.prefer or found.intent.prefer not in asked.names:
        return ExtenderPriorities(encode_priorities({}))
    body = encode_priorities({found.intent.prefer: MAX_EXTENDER_PRIORITY})
    return ExtenderPriorities(body, _key(asked), asked.pod.uid or "", found.intent, found.is_again)


def _advice(
    asked: ExtenderArgs,
    book: IntentIndex,
    used: Mapping[str, int] = NOTHING_USED,
    given: AdvisedMigrations | None = None,
) -> PlacementAdvice | None:
    before = (given or {}).get(asked.pod.uid or "", "")
    return advice_for(asked.pod, asked.pod.namespace or "", book, used, given=before)


def _refusals(intent: Intent, names: list[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Of the nodes that are there; and those of them that are not refused for want of others."""
    there = set(names)
    avoided = there.intersection(intent.avoid)
    tried = there.intersection(intent.tried)
    refusals = dict.fromkeys(sorted(avoided), _MOVED_AWAY_MESSAGE)
    # Better where it failed before than nowhere.
    if tried and there == avoided | tried:
        return refusals, tuple(sorted(tried))
    return refusals | dict.fromkeys(sorted(tried), _KEPT_FAILING_MESSAGE), ()


def _key(asked: ExtenderArgs) -> str:
    return f"{asked.pod.namespace or ''}/{asked.pod.name or ''}"
