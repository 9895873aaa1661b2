"""The nodes as rules see them: labels as columns, and which nodes a selector means."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kubevalues import Requirement, Selector, SelectorOperator
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.snapshot import NO_ROW, Flags, NodeTable, Rows

__all__ = ["NodeLabels", "TopologyDomains"]


@dataclass(frozen=True, slots=True, eq=False)
class TopologyDomains:
    """The values of one label, numbered; nodes of the same value are in the same domain."""

    of: Rows
    """[node]: the number of its domain; `NO_ROW` without the label."""
    names: tuple[str, ...]
    """[domain]: the label's value."""
    number: dict[str, int]
    """By the label's value."""

    def spread(self, chosen: Sequence[int]) -> Flags:
        """[node]: whether its domain is one of those chosen; never for nodes without the label."""
        # One place more than there are domains: index -1, no domain, finds it and it stays False.
        flags = np.zeros(len(self.names) + 1, np.bool_)
        flags[chosen] = True
        return flags[self.of]


class NodeLabels:
    """Never changes while a plan is made, so what was found out once is kept."""

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
        """Every node a domain of its own, whatever its labels say."""
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
        """[node]: whose labels match."""
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
        if (
            requirement.operator is SelectorOperator.IN
        ):  # the usual one, and hostnames have thousands of values
            return domains.spread([domains.number[v] for v in requirement.values if v in domains.number])
        meets = [requirement.matches({requirement.key: value}) for value in domains.names]
        return np.array([*meets, requirement.matches({})], np.bool_)[domains.of]


def _domains(records: Sequence[NodeRecord], label: str) -> TopologyDomains:
    number: dict[str, int] = {}
    of = [
        NO_ROW if (value := record.labels.get(label)) is None else number.setdefault(value, len(number))
        for record in records
    ]
    return TopologyDomains(np.array(of, np.int32), tuple(number), number)
