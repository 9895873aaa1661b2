"""NodeAffinity: the node selector (every label) and required node affinity (any term)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from msgspec.structs import asdict

from kubevalues import Requirement, Selector, SelectorError, SelectorOperator, node_requirements_from_object
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.pod_constraints import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
)
from rescheduler.cluster.snapshot import NO_ROW, Flags, Ints, NodeTable, Rows
from rescheduler.rules.rule_check import NodeRefusal, SchedulerRule, StaticCheck, fits_nowhere

__all__ = [
    "Labels",
    "NodeLabels",
    "TopologyDomains",
    "node_affinity",
    "preferred_weights",
    "reached_nodes",
    "shown_terms",
]


@dataclass(frozen=True, slots=True, eq=False)
class TopologyDomains:
    """The topology domains of one label: nodes with the same value are in the same domain."""

    of: Rows
    """[node]: the index of its domain; `NO_ROW` without the label."""
    names: tuple[str, ...]
    """[domain]: the value of the label."""
    number: dict[str, int]
    """The index of each domain, by the value of the label."""

    def nodes_in(self, chosen: Sequence[int]) -> Flags:
        """Return [node]: it is in one of the chosen domains; False for nodes without the label."""
        # The extra last entry, which is False, has index -1 (NO_ROW): nodes without a domain.
        flags = np.zeros(len(self.names) + 1, np.bool_)
        flags[chosen] = True
        return flags[self.of]

    def with_values(self, values: Iterable[str]) -> Flags:
        """Return [node]: its label has one of these values."""
        return self.nodes_in([self.number[value] for value in values if value in self.number])


class NodeLabels:
    """The labels of all nodes; they never change while a plan is made, so results are cached."""

    def __init__(self, nodes: NodeTable) -> None:
        self.nodes = nodes
        self._domains: dict[str, TopologyDomains] = {}

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def records(self) -> tuple[NodeRecord, ...]:
        return self.nodes.records

    @cached_property
    def each_node(self) -> TopologyDomains:
        """Return domains in which every node is its own domain, regardless of labels."""
        count = len(self)
        names = tuple(record.name for record in self.records)
        return TopologyDomains(
            np.arange(count, dtype=np.int32), names, dict(zip(names, range(count), strict=True))
        )

    @cached_property
    def whole_cluster(self) -> TopologyDomains:
        return TopologyDomains(np.zeros(len(self), np.int32), ("",), {"": 0})

    def domains(self, label: str) -> TopologyDomains:
        found = self._domains.get(label)
        if found is None:
            found = self._domains[label] = _domains(self.records, label)
        return found

    def selected(self, selector: Selector) -> Flags:
        """Return [node]: its labels match."""
        found = np.full(len(self), not selector.selects_nothing)
        for requirement in selector.requirements:
            found &= self._meeting(requirement)
        return found

    def named(self, name: str) -> Flags:
        found = np.zeros(len(self), np.bool_)
        if (row := self.nodes.row.get(name)) is not None:
            found[row] = True
        return found

    def _meeting(self, requirement: Requirement) -> Flags:
        domains = self.domains(requirement.key)
        if requirement.operator is SelectorOperator.IN:
            # This is the usual operator, and hostnames have thousands of values.
            return domains.with_values(requirement.values)
        meets = [requirement.matches({requirement.key: value}) for value in domains.names]
        return np.array([*meets, requirement.matches({})], np.bool_)[domains.of]


def _domains(records: Sequence[NodeRecord], label: str) -> TopologyDomains:
    number: dict[str, int] = {}
    of = [
        NO_ROW if (value := record.labels.get(label)) is None else number.setdefault(value, len(number))
        for record in records
    ]
    return TopologyDomains(np.array(of, np.int32), tuple(number), number)


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


def preferred_weights(terms: Iterable[PreferredSchedulingTerm], node_labels: NodeLabels) -> Ints:
    """Return [node]: the sum of the weights of the preferred terms that match it."""
    found = np.zeros(len(node_labels), np.int64)
    for term in terms:
        found += term.weight * _one_term(term.preference, node_labels, by_name=True)
    return found


def _wanted_nodes(labels: Labels, required: NodeSelector | None, node_labels: NodeLabels) -> Flags:
    """Return [node]: node selector and affinity of the pod allow it."""
    found = np.ones(len(node_labels), np.bool_)
    for key, value in labels:
        found &= node_labels.domains(key).with_values([value])
    if required is not None:
        found &= _any_term(required.node_selector_terms, node_labels, by_name=True)
    return found


def reached_nodes(required: NodeSelector | None, node_labels: NodeLabels) -> Flags:
    """Return [node]: the volume can be reached from it. Conditions on node names count as met."""
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
    """Evaluate one term. A term without conditions, or with an invalid one, matches no node."""
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
            # Only the field metadata.name exists; any other field is empty on every node.
            named = node_labels.named(field.values[0]) if field.key == "metadata.name" else none
            found &= named if field.operator == "In" else ~named
    return found


def _named_nodes(terms: Iterable[NodeSelectorTerm]) -> frozenset[str] | None:
    """Return the only nodes that the terms allow by name, or None if a term names none."""
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
