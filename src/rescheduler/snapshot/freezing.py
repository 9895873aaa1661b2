"""From rows that change to tables that don't."""

from collections.abc import Mapping
from dataclasses import fields
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from rescheduler.snapshot.amounts import AmountTable
from rescheduler.snapshot.key_rows import KeyRows
from rescheduler.snapshot.node_rows import NodeColumns
from rescheduler.snapshot.pod_rows import UNMEASURED, PodRows
from rescheduler.snapshot.snapshot import CPU, MEMORY, NOWHERE, Ints, NodeTable, PodTable, Rows

__all__ = ["grouped", "node_table", "pod_table", "sums"]


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
    by_node, first_on = grouped(node, len(node_row))
    return _read_only(
        PodTable(
            records=rows.records(),
            row=KeyRows(rows.order().keys),
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
            requested=sums(pods.requests, pods),
            load=sums(pods.load, pods),
            ready=nodes.ready,
            schedulable=nodes.schedulable,
        )
    )


def _rows_of_nodes(rows: PodRows, node_row: Mapping[str, int]) -> Rows:
    """By the number of a node's name; the last is for pods that count on no node."""
    names = rows.node_names.values()
    found = [NOWHERE if name is None else node_row.get(name, NOWHERE) for name in names]
    return np.array([*found, NOWHERE], dtype=np.int32)


def grouped(node: Rows, nodes: int) -> tuple[Rows, Rows]:
    """Rows of pods by node, and where each node's begin."""
    placed = np.flatnonzero(node != NOWHERE)
    on = node.take(placed)
    # Sorting small numbers takes a tenth of the time.
    sortable = on.astype(np.uint16) if nodes <= np.iinfo(np.uint16).max else on
    by_node = placed.take(np.argsort(sortable, kind="stable")).astype(np.int32)
    first_on = np.zeros(nodes + 1, dtype=np.int32)
    np.cumsum(np.bincount(on, minlength=nodes), out=first_on[1:])
    return by_node, first_on


def sums(of_pods: Ints, pods: PodTable) -> Ints:
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
