"""From rows that change to tables that don't.

Which row a key has, for keys that are sorted.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from rescheduler.cluster.pod_rows import UNMEASURED, PodRows
from rescheduler.cluster.record_store import NodeColumns
from rescheduler.cluster.snapshot import CPU, MEMORY, NO_ROW, Ints, NodeTable, PodTable, Rows
from rescheduler.cluster.snapshot_columns import AmountTable

__all__ = ["SortedKeyIndex", "group_by_node", "node_table", "pod_table", "sum_by_node"]


class SortedKeyIndex(Mapping[str, int]):
    """A mapping that needs no more than the keys: a snapshot is frozen often, and asked for few keys."""

    __slots__ = ("_keys",)

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys

    def __getitem__(self, key: str) -> int:
        row = bisect_left(self._keys, key)
        if row < len(self._keys) and self._keys[row] == key:
            return row
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def pod_table(
    rows: PodRows,
    numbers: npt.NDArray[np.void],
    shared: npt.NDArray[np.void],
    node_row: Mapping[str, int],
    amounts: AmountTable,
    pod_class: Rows,
    workload: Rows,
) -> PodTable:
    """`numbers` are the rows of the pods, `shared` those of their templates, in order."""
    node = _rows_of_nodes(rows, node_row).take(numbers["node_name"])
    requests = amounts.of_pods(rows.templates.amounts.values()).take(shared["amount"], axis=0)
    measured = numbers["cpu_used"] != UNMEASURED
    load = requests.copy()
    np.copyto(load[:, CPU], numbers["cpu_used"], where=measured)
    np.copyto(load[:, MEMORY], numbers["memory_used"], where=measured)
    by_node, first_on = group_by_node(node, len(node_row))
    return _read_only(
        PodTable(
            records=rows.records(),
            row=SortedKeyIndex(rows.order().keys),
            node=node,
            requests=requests,
            load=load,
            measured=measured,
            priority=shared["priority"].copy(),
            workload=workload,
            pod_class=pod_class,
            ready=numbers["ready"].copy(),
            created_s=numbers["created_s"].copy(),
            by_node=by_node,
            first_on=first_on,
        )
    )


def node_table(nodes: NodeColumns, pods: PodTable) -> NodeTable:
    return _read_only(
        NodeTable(
            records=nodes.records,
            row=nodes.row,
            allocatable=nodes.allocatable,
            requested=sum_by_node(pods.requests, pods),
            load=sum_by_node(pods.load, pods),
            ready=nodes.ready,
            schedulable=nodes.schedulable,
        )
    )


def _rows_of_nodes(rows: PodRows, node_row: Mapping[str, int]) -> Rows:
    """By the number of a node's name; the last is for pods that count on no node."""
    names = rows.node_names.values()
    found = [NO_ROW if name is None else node_row.get(name, NO_ROW) for name in names]
    return np.array([*found, NO_ROW], dtype=np.int32)


def group_by_node(node: Rows, nodes: int) -> tuple[Rows, Rows]:
    """Rows of pods by node, and where each node's begin."""
    placed = np.flatnonzero(node != NO_ROW)
    on = node.take(placed)
    # Sorting small numbers takes a tenth of the time.
    sortable = on.astype(np.uint16) if nodes <= np.iinfo(np.uint16).max else on
    by_node = placed.take(np.argsort(sortable, kind="stable")).astype(np.int32)
    first_on = np.zeros(nodes + 1, dtype=np.int32)
    np.cumsum(np.bincount(on, minlength=nodes), out=first_on[1:])
    return by_node, first_on


def sum_by_node(of_pods: Ints, pods: PodTable) -> Ints:
    """[node, resource]: over the pods that count there."""
    sums = np.zeros((len(pods.first_on) - 1, of_pods.shape[1]), dtype=np.int64)
    inhabited = np.flatnonzero(np.diff(pods.first_on))
    if len(inhabited):
        grouped = of_pods.take(pods.by_node, axis=0)
        sums[inhabited] = np.add.reduceat(grouped, pods.first_on.take(inhabited), axis=0)
    return sums


_Table = TypeVar("_Table", NodeTable, PodTable)


def _read_only(table: _Table) -> _Table:
    for each in fields(table):
        column = getattr(table, each.name)
        if isinstance(column, np.ndarray):
            column.setflags(write=False)
    return table
