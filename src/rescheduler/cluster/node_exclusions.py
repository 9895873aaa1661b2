"""Exclude nodes from a pod's node affinity, and remove such exclusions again.

A replacement that must not return to a node gets, in every term of its required node affinity, one
requirement per node: `metadata.name NotIn [node]` (Kubernetes allows only one name in each). The annotation
`rescheduler.dev/avoids` has the same nodes as a JSON list. When the pod is considered for a later move,
these requirements are ignored: they are rescheduler's, not its owner's.

The preferred target is one more preferred term of the highest weight. It does not bind the scheduler, so it
can stay.
"""

from collections.abc import Mapping, Sequence

import msgspec

from rescheduler.api.well_known_names import AVOIDED_NODES_ANNOTATION
from rescheduler.cluster.pod_constraints import (
    Affinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
)

__all__ = [
    "avoided_nodes",
    "encode_avoided_nodes",
    "exclusion_requirements",
    "preferred_node_term",
    "with_exclusions",
    "without_exclusions",
]


_NAME_FIELD = "metadata.name"
_GREATEST_WEIGHT = 100


def avoided_nodes(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """The nodes that the annotation names; none if it can't be read, for then it isn't ours."""
    written = annotations.get(AVOIDED_NODES_ANNOTATION)
    if written is None:
        return ()
    try:
        return msgspec.json.decode(written, type=tuple[str, ...])
    except msgspec.DecodeError:
        return ()


def encode_avoided_nodes(nodes: Sequence[str]) -> str:
    """The value of the annotation for these nodes."""
    return msgspec.json.encode(list(nodes)).decode()


def exclusion_requirements(nodes: Sequence[str]) -> tuple[NodeSelectorRequirement, ...]:
    """What the fields of each term of the required node affinity get."""
    return tuple(NodeSelectorRequirement(_NAME_FIELD, "NotIn", (node,)) for node in nodes)


def preferred_node_term(node: str) -> PreferredSchedulingTerm:
    """What the preferred node affinity gets."""
    wanted = NodeSelectorRequirement(_NAME_FIELD, "In", (node,))
    return PreferredSchedulingTerm(_GREATEST_WEIGHT, NodeSelectorTerm(match_fields=(wanted,)))


def with_exclusions(affinity: Affinity, nodes: Sequence[str]) -> Affinity:
    """The same affinity with the exclusions in it."""
    own = exclusion_requirements(nodes)
    required = affinity.node_affinity.required
    if required is None:
        return _with_terms(affinity, (NodeSelectorTerm(match_fields=own),))
    return _with_terms(affinity, tuple(_with(term, own) for term in required.node_selector_terms))


def without_exclusions(affinity: Affinity, annotations: Mapping[str, str]) -> Affinity:
    """The affinity as its owner wrote it."""
    own = exclusion_requirements(avoided_nodes(annotations))
    required = affinity.node_affinity.required
    if not own or required is None:
        return affinity
    if required.node_selector_terms == (NodeSelectorTerm(match_fields=own),):
        return _with_terms(affinity, None)
    terms = tuple(_without(term, own) for term in required.node_selector_terms)
    return affinity if terms == required.node_selector_terms else _with_terms(affinity, terms)


def _with(term: NodeSelectorTerm, own: tuple[NodeSelectorRequirement, ...]) -> NodeSelectorTerm:
    # An empty term matches no node; with our exclusions in it, it would match nearly all.
    if term == NodeSelectorTerm():
        return term
    return msgspec.structs.replace(term, match_fields=term.match_fields + own)


def _without(term: NodeSelectorTerm, own: tuple[NodeSelectorRequirement, ...]) -> NodeSelectorTerm:
    """Ours stand at the end, and a term never consisted of them alone."""
    is_ours = term.match_fields[-len(own) :] == own and term != NodeSelectorTerm(match_fields=own)
    return msgspec.structs.replace(term, match_fields=term.match_fields[: -len(own)]) if is_ours else term


def _with_terms(affinity: Affinity, terms: tuple[NodeSelectorTerm, ...] | None) -> Affinity:
    required = None if terms is None else NodeSelector(terms)
    node_affinity = msgspec.structs.replace(affinity.node_affinity, required=required)
    return msgspec.structs.replace(affinity, node_affinity=node_affinity)
