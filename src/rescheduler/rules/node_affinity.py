"""Node selector and required node affinity: every label of the first, any term of the second."""

from collections.abc import Iterable
from typing import Final

import numpy as np
from msgspec.structs import asdict

from kubevalues import SelectorError, node_requirements_from_object
from rescheduler.cluster.pod_constraints import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from rescheduler.cluster.snapshot import Flags
from rescheduler.rules.node_labels import NodeLabels
from rescheduler.rules.rule_check import NodeRefusal, SchedulerRule, StaticCheck, fits_nowhere

__all__ = ["Labels", "node_affinity", "reached_nodes", "shown_terms"]

Labels = tuple[tuple[str, str], ...]

_NO_MATCH: Final = "node(s) didn't match Pod's node affinity/selector"
_NOT_NAMED: Final = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
_CONTRADICTION: Final = "pod affinity terms conflict"


def node_affinity(
    labels: Labels, required: NodeSelector | None, node_labels: NodeLabels
) -> StaticCheck | None:
    if not labels and required is None:
        return None
    terms = required.node_selector_terms if required is not None else ()
    named = _named_nodes(terms) if terms else None
    if named is not None and not named:
        detail = "every term names nodes that exclude each other"
        return fits_nowhere(
            len(node_labels), NodeRefusal(SchedulerRule.NODE_AFFINITY, (_CONTRADICTION,), detail)
        )

    def explain(node: int) -> NodeRefusal:
        record = node_labels.records[node]
        if named is not None and record.name not in named:
            wanted = ", ".join(sorted(named))
            return NodeRefusal(
                SchedulerRule.NODE_AFFINITY, (_NOT_NAMED,), f"the affinity allows only {wanted}"
            )
        for key, value in labels:
            if record.labels.get(key) != value:
                return NodeRefusal(
                    SchedulerRule.NODE_AFFINITY,
                    (_NO_MATCH,),
                    _other_label(key, value, record.labels.get(key)),
                )
        return NodeRefusal(
            SchedulerRule.NODE_AFFINITY, (_NO_MATCH,), f"the affinity requires {shown_terms(required)}"
        )

    return StaticCheck(_wanted_nodes(labels, required, node_labels), explain)


def _wanted_nodes(labels: Labels, required: NodeSelector | None, node_labels: NodeLabels) -> Flags:
    """[node]: those that a pod asks for by node selector and affinity."""
    found = np.ones(len(node_labels), np.bool_)
    for key, value in labels:
        domains = node_labels.domains(key)
        found &= domains.spread([domains.number[value]] if value in domains.number else [])
    if required is not None:
        found &= _any_term(required.node_selector_terms, node_labels, by_name=True)
    return found


def reached_nodes(required: NodeSelector | None, node_labels: NodeLabels) -> Flags:
    """[node]: from which a volume can be reached. Volumes don't know names: such conditions count as met."""
    if required is None:
        return np.ones(len(node_labels), np.bool_)
    return _any_term(required.node_selector_terms, node_labels, by_name=False)


def shown_terms(required: NodeSelector | None) -> str:
    terms = required.node_selector_terms if required is not None else ()
    return " or ".join(map(_shown, terms)) or "nothing"


def _any_term(terms: Iterable[NodeSelectorTerm], node_labels: NodeLabels, *, by_name: bool) -> Flags:
    found = np.zeros(len(node_labels), np.bool_)
    for term in terms:
        found |= _one_term(term, node_labels, by_name=by_name)
    return found


def _one_term(term: NodeSelectorTerm, node_labels: NodeLabels, *, by_name: bool) -> Flags:
    """A term without conditions, or with one that can't be read, matches no node."""
    none = np.zeros(len(node_labels), np.bool_)
    if not term.match_expressions and not term.match_fields:
        return none
    found = ~none
    if term.match_expressions:
        try:
            selector = node_requirements_from_object([asdict(wanted) for wanted in term.match_expressions])
        except SelectorError:
            return none
        found = node_labels.selected(selector)
    for field in term.match_fields:
        if len(field.values) != 1 or field.operator not in {"In", "NotIn"}:
            return none
        if by_name:
            # There is one field to ask for; whatever else is asked for is empty on every node.
            named = node_labels.named(field.values[0]) if field.key == "metadata.name" else none
            found &= named if field.operator == "In" else ~named
    return found


def _named_nodes(terms: Iterable[NodeSelectorTerm]) -> frozenset[str] | None:
    """The only nodes that the terms allow by name, or None if some term names none."""
    allowed: frozenset[str] = frozenset()
    for term in terms:
        named = [
            frozenset(field.values)
            for field in term.match_fields
            if field.key == "metadata.name" and field.operator == "In"
        ]
        if not named:
            return None
        allowed |= frozenset.intersection(*named)
    return allowed


def _other_label(key: str, wanted: str, found: str | None) -> str:
    return f"the pod selects {key}={wanted}, the node has " + (
        f"{key}={found}" if found is not None else "none"
    )


def _shown(term: NodeSelectorTerm) -> str:
    return " and ".join(map(_requirement, (*term.match_expressions, *term.match_fields))) or "nothing"


def _requirement(wanted: NodeSelectorRequirement) -> str:
    values = ", ".join(wanted.values)
    return f"{wanted.key} {wanted.operator}" + (f" ({values})" if values else "")
