"""Which nodes we ourselves keep a pod away from: how it is written into the pod, and taken out again.

A replacement that must not return to where it came from gets, in every term of its required node affinity,
one more requirement: `metadata.name NotIn [nodes]`; and the annotation `rescheduler.dev/avoids` with the same
nodes as a JSON list. When the pod is judged again later, exactly that is left out: it was ours, not its
owner's, and times have changed.
"""

from collections.abc import Mapping, Sequence

import msgspec

from rescheduler.model.constraints import (
    Affinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)

__all__ = [
    "AVOIDS",
    "STEERED_BY",
    "as_annotation",
    "avoided",
    "avoiding",
    "exclusion",
    "without_own_exclusions",
]

AVOIDS = "rescheduler.dev/avoids"
"""The annotation that records which nodes we have excluded."""

STEERED_BY = "rescheduler.dev/migration"
"""The annotation on a steered replacement: the migration that it follows from."""

_NAME_FIELD = "metadata.name"


def avoided(marks: Mapping[str, str]) -> tuple[str, ...]:
    """The nodes that the annotation names; none if it can't be read, for then it isn't ours."""
    written = marks.get(AVOIDS)
    if written is None:
        return ()
    try:
        return msgspec.json.decode(written, type=tuple[str, ...])
    except msgspec.DecodeError:
        return ()


def as_annotation(nodes: Sequence[str]) -> str:
    """The value of the annotation for these nodes."""
    return msgspec.json.encode(list(nodes)).decode()


def exclusion(nodes: Sequence[str]) -> NodeSelectorRequirement:
    """What each term of the required node affinity gets."""
    return NodeSelectorRequirement(_NAME_FIELD, "NotIn", tuple(nodes))


def avoiding(affinity: Affinity, nodes: Sequence[str]) -> Affinity:
    """The same affinity with the exclusion in it."""
    node_affinity = affinity.node_affinity
    if node_affinity.required is None:
        return _with_terms(affinity, (NodeSelectorTerm(match_fields=(exclusion(nodes),)),))
    terms = node_affinity.required.node_selector_terms
    return _with_terms(affinity, tuple(_with(term, exclusion(nodes)) for term in terms))


def without_own_exclusions(affinity: Affinity, marks: Mapping[str, str]) -> Affinity:
    """The affinity as its owner wrote it."""
    nodes = avoided(marks)
    required = affinity.node_affinity.required
    if not nodes or required is None:
        return affinity
    own = exclusion(nodes)
    if required.node_selector_terms == (NodeSelectorTerm(match_fields=(own,)),):
        return _with_terms(affinity, None)
    terms = tuple(_without(term, own) for term in required.node_selector_terms)
    return affinity if terms == required.node_selector_terms else _with_terms(affinity, terms)


def _with(term: NodeSelectorTerm, own: NodeSelectorRequirement) -> NodeSelectorTerm:
    # An empty term matches no node; with our exclusion in it, it would match nearly all.
    if term == NodeSelectorTerm():
        return term
    return msgspec.structs.replace(term, match_fields=(*term.match_fields, own))


def _without(term: NodeSelectorTerm, own: NodeSelectorRequirement) -> NodeSelectorTerm:
    """Ours stands at the end, and a term never consisted of it alone."""
    is_ours = term.match_fields[-1:] == (own,) and term != NodeSelectorTerm(match_fields=(own,))
    return msgspec.structs.replace(term, match_fields=term.match_fields[:-1]) if is_ours else term


def _with_terms(affinity: Affinity, terms: tuple[NodeSelectorTerm, ...] | None) -> Affinity:
    required = None if terms is None else NodeSelector(terms)
    node_affinity = msgspec.structs.replace(affinity.node_affinity, required=required)
    return msgspec.structs.replace(affinity, node_affinity=node_affinity)
