"""The wire format of the scheduler extender.

A scheduler with `nodeCacheCapable` sends and expects names. Otherwise it sends whole nodes and continues with
those that it gets back, so they are returned byte by byte.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from rescheduler.steering.placement_advice import PartialPodMetadata

__all__ = [
    "MAX_EXTENDER_PRIORITY",
    "ExtenderArgs",
    "UnreadableExtenderArgs",
    "encode_filter_error",
    "encode_filter_result",
    "encode_priorities",
    "read_extender_args",
]

MAX_EXTENDER_PRIORITY: Final = 10
"""The highest score that an extender may give."""


class UnreadableExtenderArgs(ValueError):  # noqa: N818 - says what they are
    """The body is no extender request, or has no nodes."""


class _Nodes(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class _Named(msgspec.Struct):
    """A pod, or a node."""

    metadata: PartialPodMetadata


class _Question(msgspec.Struct, rename="pascal"):
    pod: _Named
    nodes: _Nodes | None = None
    node_names: list[str] | None = None


class ExtenderArgs(msgspec.Struct, frozen=True):
    pod: PartialPodMetadata
    names: list[str]
    """The nodes that have passed all filters so far, in the order of the scheduler."""
    nodes: list[msgspec.Raw] | None
    """The same nodes, if the scheduler sent whole objects."""


_READER: Final = msgspec.json.Decoder(_Question)
_NODE_READER: Final = msgspec.json.Decoder(_Named)
_FAULTS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read_extender_args(body: bytes) -> ExtenderArgs:
    """Decode a request. Raises `UnreadableExtenderArgs`."""
    try:
        question = _READER.decode(body)
        if question.node_names is not None:
            return ExtenderArgs(question.pod.metadata, question.node_names, None)
        if question.nodes is None:
            raise UnreadableExtenderArgs("the request has neither Nodes nor NodeNames")
        body.decode()  # Nodes are returned undecoded, so they must be valid UTF-8 at least.
        nodes = question.nodes.items or []
        names = [_NODE_READER.decode(node).metadata.name or "" for node in nodes]
    except _FAULTS as error:
        raise UnreadableExtenderArgs(str(error)) from error
    return ExtenderArgs(question.pod.metadata, names, nodes)


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
