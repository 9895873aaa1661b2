"""Nodes as columns, made anew when some node has changed: there are few of them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rescheduler.model.nodes import NodeRecord
from rescheduler.snapshot.amounts import AmountTable
from rescheduler.snapshot.shelf import Shelf
from rescheduler.snapshot.snapshot import Flags, Ints

__all__ = ["NodeColumns", "NodeRows"]


@dataclass(frozen=True, slots=True, eq=False)
class NodeColumns:
    """What follows from the nodes alone."""

    records: tuple[NodeRecord, ...]
    row: Mapping[str, int]
    allocatable: Ints
    ready: Flags
    schedulable: Flags


class NodeRows:
    def __init__(self) -> None:
        self.nodes: Shelf[NodeRecord] = Shelf()
        self._known: tuple[int, tuple[str, ...]] | None = None
        self._columns: NodeColumns | None = None

    def columns(self, amounts: AmountTable) -> NodeColumns:
        known = (self.nodes.version, amounts.resources)
        if self._columns is None or self._known != known:
            self._columns, self._known = _columns(self.nodes.frozen(), amounts), known
        return self._columns


def _columns(nodes: Mapping[str, NodeRecord], amounts: AmountTable) -> NodeColumns:
    records = tuple(nodes.values())
    return NodeColumns(
        records,
        row={name: row for row, name in enumerate(nodes)},
        allocatable=amounts.of_nodes([node.allocatable for node in records]),
        ready=np.array([node.is_ready for node in records], dtype=np.bool_),
        schedulable=np.array([not node.unschedulable for node in records], dtype=np.bool_),
    )
