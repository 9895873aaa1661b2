"""NodeResourcesFit and NodePorts: requests must fit into the free resources, and host ports must be free."""

from dataclasses import dataclass

import numpy as np

from rescheduler.cluster.snapshot import CPU, EPHEMERAL, MEMORY, PODS, Flags, Ints, PodClass
from rescheduler.rules.pod_class_index import PodClassIndex
from rescheduler.rules.pod_positions import NodeConflicts
from rescheduler.rules.rule_check import NodeRefusal, RuleCheck, SchedulerRule

__all__ = ["ResourcesFit", "node_ports", "node_resources_fit"]


_ALWAYS_FIRST = (PODS, CPU, MEMORY, EPHEMERAL)
_MEBIBYTE = 2**20


def node_resources_fit(
    pod_class: PodClass, free: Ints, allocatable: Ints, names: tuple[str, ...]
) -> "ResourcesFit":
    """Return the check for these requests; `free` is [resource, node], `allocatable` [node, resource]."""
    columns = [*_ALWAYS_FIRST, *range(len(_ALWAYS_FIRST), len(names))]
    asked = tuple((column, int(pod_class.asks[column])) for column in columns if pod_class.asks[column] > 0)
    return ResourcesFit(asked, free, allocatable, names)


@dataclass(frozen=True, slots=True)
class ResourcesFit:
    asked: tuple[tuple[int, int], ...]
    """The requested columns and amounts, in the scheduler's order. Other resources don't matter."""
    free: Ints
    allocatable: Ints
    names: tuple[str, ...]

    def fits(self) -> Flags:
        found = np.ones(self.free.shape[1], np.bool_)
        for column, amount in self.asked:
            found &= self.free[column] >= amount
        return found

    def refusal(self, node: int) -> NodeRefusal | None:
        lacking = [(column, amount) for column, amount in self.asked if self.free[column, node] < amount]
        if not lacking:
            return None
        reasons = tuple(
            "Too many pods" if column == PODS else f"Insufficient {self.names[column]}"
            for column, _ in lacking
        )
        return NodeRefusal(
            SchedulerRule.NODE_RESOURCES, reasons, ", ".join(self._shown(*lack, node) for lack in lacking)
        )

    def _shown(self, column: int, amount: int, node: int) -> str:
        free, whole = int(self.free[column, node]), int(self.allocatable[node, column])
        if column == PODS:
            return f"runs {whole - free} of {whole} pods"
        asked, left, all_of_it = (self._amount(column, number) for number in (amount, free, whole))
        return f"requests {asked} {self.names[column]}, {left} of {all_of_it} free"

    def _amount(self, column: int, number: int) -> str:
        if column == CPU:
            return f"{number}m"
        if column in {MEMORY, EPHEMERAL} or self.names[column].startswith("hugepages-"):
            return f"{number / _MEBIBYTE:.5g}Mi"
        return str(number)


def node_ports(number: int, index: PodClassIndex, node_conflicts: NodeConflicts) -> RuleCheck | None:
    """Build the check for the pods of the class with that number."""
    ports = index.classes[number].constraints.host_ports
    clashing = {other for port in ports for other in index.with_port(port)}
    if not clashing:
        return None
    named = ", ".join(f"{port.port}/{port.protocol}" for port in ports)
    refusal = NodeRefusal(
        SchedulerRule.NODE_PORTS,
        ("node(s) didn't have free ports for the requested pod ports",),
        f"requests host port {named}",
    )
    return node_conflicts.without(clashing, refusal)
