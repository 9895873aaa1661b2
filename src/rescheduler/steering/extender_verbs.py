"""The two verbs of the scheduler extender, and its wire format. Pure.

    filter      removes the nodes to avoid; nodes on which the pod failed only while another one is left
    prioritize  gives the preferred node the highest score, and the others none

The advice is the same as at admission (`advice_for`). The webhook writes it into the pod, where it stays; the
extender applies an intent only as long as it exists.

If only the source node of a migration is left, the pod stays pending, as with the webhook: after
`steerTimeout` the migration withdraws its intent.

A scheduler with `nodeCacheCapable` sends and expects names. Otherwise it sends whole nodes and continues with
those that it gets back, so they are returned byte by byte.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from rescheduler.steering.intents import (
    NOTHING_USED,
    Intent,
    IntentIndex,
    PartialPodMetadata,
    PlacementAdvice,
    advice_for,
)

__all__ = [
    "MAX_EXTENDER_PRIORITY",
    "ExtenderArgs",
    "ExtenderFilterResult",
    "ExtenderPriorities",
    "UnreadableExtenderArgs",
    "encode_filter_error",
    "encode_filter_result",
    "encode_priorities",
    "filter_nodes",
    "prioritize_nodes",
    "read_extender_args",
]

MAX_EXTENDER_PRIORITY: Final = 10
"""The highest score that an extender may give."""


class UnreadableExtenderArgs(ValueError):  # noqa: N818 - says what they are
    """The body is not an extender request, or has no nodes."""


class _Nodes(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class _Named(msgspec.Struct):
    """A pod, or a node."""

    metadata: PartialPodMetadata


class _ExtenderRequest(msgspec.Struct, rename="pascal"):
    pod: _Named
    nodes: _Nodes | None = None
    node_names: list[str] | None = None


class ExtenderArgs(msgspec.Struct, frozen=True):
    pod: PartialPodMetadata
    names: list[str]
    """The nodes that have passed all filters so far, in the order of the scheduler."""
    nodes: list[msgspec.Raw] | None
    """The same nodes, if the scheduler sent whole objects."""


_READER: Final = msgspec.json.Decoder(_ExtenderRequest)
_NODE_READER: Final = msgspec.json.Decoder(_Named)
_FAULTS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read_extender_args(body: bytes) -> ExtenderArgs:
    """Decode a request. Raises `UnreadableExtenderArgs`."""
    try:
        request = _READER.decode(body)
        if request.node_names is not None:
            return ExtenderArgs(request.pod.metadata, request.node_names, None)
        if request.nodes is None:
            raise UnreadableExtenderArgs("the request has neither Nodes nor NodeNames")
        body.decode()  # Nodes are returned undecoded, so they must be valid UTF-8 at least.
        nodes = request.nodes.items or []
        names = [_NODE_READER.decode(node).metadata.name or "" for node in nodes]
    except _FAULTS as error:
        raise UnreadableExtenderArgs(str(error)) from error
    return ExtenderArgs(request.pod.metadata, names, nodes)


def encode_filter_result(asked: ExtenderArgs, refusals: Mapping[str, str]) -> bytes:
    """Encode the answer to `filter`. Refused nodes are unresolvable: preemption would not help."""
    if asked.nodes is None:
        names = [name for name in asked.names if name not in refusals]
        return msgspec.json.encode(_result(names=names, refusals=refusals))
    pairs = zip(asked.nodes, asked.names, strict=True)
    nodes = [node for node, name in pairs if name not in refusals]
    return msgspec.json.encode(_result(nodes=nodes, refusals=refusals))


def encode_filter_error(why: str) -> bytes:
    """Encode an error of `filter`. With `ignorable: true` the scheduler continues with all nodes."""
    return msgspec.json.encode(_result(error=why))


def encode_priorities(scores: Mapping[str, int]) -> bytes:
    """Encode the answer to `prioritize`. Other nodes get no score."""
    return msgspec.json.encode([{"Host": name, "Score": score} for name, score in scores.items()])


def _result(
    nodes: list[msgspec.Raw] | None = None,
    names: list[str] | None = None,
    refusals: Mapping[str, str] | None = None,
    error: str = "",
) -> dict[str, Any]:
    return {
        "Nodes": None if nodes is None else {"metadata": {}, "items": nodes},
        "NodeNames": names,
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": refusals or {},
        "Error": error,
    }


_MOVED_AWAY_MESSAGE: Final = "node(s) that rescheduler is moving pods of this workload away from"
_KEPT_FAILING_MESSAGE: Final = "node(s) on which the pod failed before"

AdvisedMigrations = Mapping[str, str]
"""The key of the migration whose target a pod got before, by the uid of the pod."""


@dataclass(frozen=True, slots=True)
class ExtenderFilterResult:
    body: bytes
    pod: str = ""
    refusals: Mapping[str, str] = field(default_factory=dict)
    """The reason, by the name of the node."""
    dropped: tuple[str, ...] = ()
    """Nodes on which the pod failed, and which are allowed because there are no others."""


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
    before = (given or {}).get(asked.pod.uid or "", "").rpartition("/")[2]
    return advice_for(asked.pod, asked.pod.namespace or "", intents, used, given=before)


def _refusals(intent: Intent, names: list[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the refused nodes with their reason, and the nodes that are allowed because there are no
    others."""
    there = set(names)
    avoided = there.intersection(intent.avoid)
    tried = there.intersection(intent.tried)
    refusals = dict.fromkeys(sorted(avoided), _MOVED_AWAY_MESSAGE)
    # A node on which the pod failed is better than none.
    if tried and there == avoided | tried:
        return refusals, tuple(sorted(tried))
    return refusals | dict.fromkeys(sorted(tried), _KEPT_FAILING_MESSAGE), ()


def _key(asked: ExtenderArgs) -> str:
    return f"{asked.pod.namespace or ''}/{asked.pod.name or ''}"
