"""The two verbs of the scheduler extender. Pure.

    filter      removes the nodes to avoid; nodes on which the pod failed only while another one is left
    prioritize  gives the preferred node the highest score, and the others none

The advice is the same as at admission (`placement_advice`). But what the webhook writes into a pod stays; the
extender applies an intent only as long as it exists.

If only the source node of a migration is left, the pod stays pending, as with the webhook: after
`steerTimeout` the migration withdraws its intent.
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
"""The migration whose target a pod got before, by the uid of the pod."""


@dataclass(frozen=True, slots=True)
class ExtenderFilterResult:
    body: bytes
    pod: str = ""
    refusals: Mapping[str, str] = field(default_factory=dict)
    """The reason, by the name of the node."""
    dropped: tuple[str, ...] = ()
    """Nodes on which it failed, and which are allowed because there are no others."""


@dataclass(frozen=True, slots=True)
class ExtenderPriorities:
    body: bytes
    pod: str = ""
    pod_uid: str = ""
    intent: Intent | None = None
    """The intent whose target is among the nodes."""
    is_again: bool = False
    """Whether the webhook used the intent already when the pod was created."""


def filter_nodes(body: bytes, intents: IntentIndex) -> ExtenderFilterResult:
    """Answer a `filter` request. Never raises, whatever `body` is."""
    try:
        asked = read_extender_args(body)
    except UnreadableExtenderArgs as error:
        return ExtenderFilterResult(encode_filter_error(f"rescheduler can't decode the request: {error}"))
    found = _advice(asked, intents)
    if found is None:
        return ExtenderFilterResult(encode_filter_result(asked, {}))
    refusals, dropped = _refusals(found.intent, asked.names)
    return ExtenderFilterResult(encode_filter_result(asked, refusals), _key(asked), refusals, dropped)


def prioritize_nodes(
    body: bytes,
    intents: IntentIndex,
    used: Mapping[str, int] = NOTHING_USED,
    given: AdvisedMigrations | None = None,
) -> ExtenderPriorities:
    """Answer a `prioritize` request; `used` as in `IntentIndex.intent_for`. Never raises, whatever `body`
    is."""
    try:
        asked = read_extender_args(body)
    except UnreadableExtenderArgs:
        return ExtenderPriorities(encode_priorities({}))
    found = _advice(asked, intents, used, given or {})
    if found is None or not found.intent.prefer or found.intent.prefer not in asked.names:
        return ExtenderPriorities(encode_priorities({}))
    body = encode_priorities({found.intent.prefer: MAX_EXTENDER_PRIORITY})
    return ExtenderPriorities(body, _key(asked), asked.pod.uid or "", found.intent, found.is_again)


def _advice(
    asked: ExtenderArgs,
    intents: IntentIndex,
    used: Mapping[str, int] = NOTHING_USED,
    given: AdvisedMigrations | None = None,
) -> PlacementAdvice | None:
    before = (given or {}).get(asked.pod.uid or "", "")
    return advice_for(asked.pod, asked.pod.namespace or "", intents, used, given=before)


def _refusals(intent: Intent, names: list[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the refused nodes with their reason, and the nodes that are allowed because there are no
    others."""
    there = set(names)
    avoided = there.intersection(intent.avoid)
    tried = there.intersection(intent.tried)
    refusals = dict.fromkeys(sorted(avoided), _MOVED_AWAY_MESSAGE)
    # A node on which it failed is better than none.
    if tried and there == avoided | tried:
        return refusals, tuple(sorted(tried))
    return refusals | dict.fromkeys(sorted(tried), _KEPT_FAILING_MESSAGE), ()


def _key(asked: ExtenderArgs) -> str:
    return f"{asked.pod.namespace or ''}/{asked.pod.name or ''}"
