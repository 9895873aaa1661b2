"""Store the rows of pods, which change one at a time, and make the frozen tables from them.

A row depends only on its pod. Values that depend on other objects (the row of its node, its workload) are
computed when a snapshot is frozen, so the order of changes makes no difference.
All other kinds are few enough to be copied when one object changes.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.pod_classes import InternedValues, PodTemplates
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.snapshot import (
    CPU,
    MAX_AMOUNT,
    MEMORY,
    NO_ROW,
    AmountTable,
    Flags,
    Ints,
    NodeTable,
    PodTable,
    Rows,
    map_in_slices,
    slices,
)
from rescheduler.cluster.usage_readings import UsageByName, UsageReading

__all__ = [
    "UNMEASURED",
    "NodeColumns",
    "NodeRows",
    "PodRows",
    "RecordStore",
    "RowOrder",
    "SortedKeyIndex",
    "counts_on_node",
    "group_by_node",
    "node_table",
    "pod_table",
    "sum_by_node",
]


T = TypeVar("T")


class RecordStore(Generic[T]):
    def __init__(self) -> None:
        self._records: dict[str, T] = {}
        self._frozen: Mapping[str, T] | None = {}
        self.version = 0
        """Increases with every change."""

    def put(self, key: str, record: T) -> None:
        self._records[key] = record
        self._changed()

    def remove(self, key: str) -> None:
        """Remove the object; do nothing if it isn't there."""
        if self._records.pop(key, None) is not None:
            self._changed()

    def get(self, key: str) -> T | None:
        return self._records.get(key)

    def frozen(self) -> Mapping[str, T]:
        """Return all records, sorted by key; later changes don't affect the result."""
        if self._frozen is None:
            self._frozen = dict(sorted(self._records.items()))
        return self._frozen

    def _changed(self) -> None:
        self._frozen = None
        self.version += 1


@dataclass(frozen=True, slots=True, eq=False)
class NodeColumns:
    """The columns that depend only on nodes."""

    records: tuple[NodeRecord, ...]
    row: Mapping[str, int]
    allocatable: Ints
    ready: Flags
    schedulable: Flags


class NodeRows:
    def __init__(self) -> None:
        self.nodes: RecordStore[NodeRecord] = RecordStore()
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


_ROW: Final = np.dtype(
    [
        ("node_name", np.int32),  # of the node that it counts on, or NO_ROW
        ("template", np.int32),
        ("ready", np.bool_),
        ("created_s", np.int64),
        ("cpu_used", np.int64),  # or UNMEASURED
        ("memory_used", np.int64),
    ]
)
UNMEASURED: Final = -1
_FIRST_SLOTS: Final = 64


class RowOrder(NamedTuple):
    """The rows of a snapshot: pods sorted by key."""

    keys: list[str]
    slots: Rows
    """The slot in which each row's pod is stored."""


class PodRows:
    def __init__(self) -> None:
        self.node_names: InternedValues[str] = InternedValues()
        self.templates = PodTemplates()
        self._usage: UsageByName = {}

        self._slots: dict[str, int] = {}
        """The slot of each pod that exists, by key."""
        self._free: list[int] = []
        # An array, because it takes many rows at once in half of the time that a list needs.
        self._records = np.zeros(0, dtype=np.object_)
        self._rows = np.zeros(0, dtype=_ROW)

        self._order: RowOrder | None = None
        self._sorted: list[str] = []
        """The keys when they were last sorted."""
        self._added: dict[str, None] = {}
        self._removed: dict[str, None] = {}
        """The changes since then; dicts, not sets, to keep the order, because most keys arrive sorted."""

    def put(self, pod: PodRecord) -> None:
        slot = self._slots.get(pod.key)
        if slot is None:
            slot = self._slots[pod.key] = self._new_slot()
            self._write(slot, pod)
            self._note_membership(pod.key, self._removed, self._added)
        else:
            before = self._rows[slot].item()[:2]
            self._write(slot, pod)
            self._release(*before)

    def put_all(self, pods: Sequence[PodRecord]) -> None:
        """Add many pods; this is much faster for the first pods of a cluster."""
        keys = [pod.key for pod in pods]
        slots = dict(zip(keys, range(len(keys)), strict=True))
        if len(self._records) or self._usage or len(slots) < len(keys):
            for pod in pods:
                self.put(pod)
            return
        self._slots, self._added, self._order = slots, dict.fromkeys(keys), None
        self._records = np.fromiter(pods, np.object_, len(keys))
        self._rows = np.zeros(len(keys), dtype=_ROW)
        on_node = self.node_names.take
        self._rows["node_name"] = [on_node(pod.node) if counts_on_node(pod) else NO_ROW for pod in pods]
        self._rows["template"] = [self.templates.take(pod) for pod in pods]
        self._rows["ready"] = [pod.is_ready for pod in pods]
        self._rows["created_s"] = [pod.created_s for pod in pods]
        self._rows["cpu_used"] = self._rows["memory_used"] = UNMEASURED

    def remove(self, key: str) -> None:
        """Remove the pod; do nothing if it isn't there."""
        slot = self._slots.pop(key, None)
        if slot is not None:
            self._release(*self._rows[slot].item()[:2])
            self._records[slot] = None
            self._free.append(slot)
            self._note_membership(key, self._added, self._removed)

    def measure(self, usage: UsageByName) -> None:
        """Replace all earlier usage readings by these."""
        self._usage = usage
        found = [None if pod is None else usage.get(pod.key) for pod in self._records.tolist()]
        at_s = np.array([-np.inf if each is None else each.at_s for each in found], np.float64)
        counts = at_s >= self._rows["created_s"]
        for column, field in (("cpu_used", "cpu_millis"), ("memory_used", "memory_bytes")):
            used = np.array([0 if each is None else getattr(each, field) for each in found], np.float64)
            self._rows[column] = np.where(counts, np.clip(used, 0, MAX_AMOUNT), UNMEASURED)

    def order(self) -> RowOrder:
        if self._order is None:
            # The keys are mostly sorted, so sorting is fast.
            keys = [key for key in self._sorted if key not in self._removed]
            keys += sorted(self._added)
            keys.sort()
            slots = np.array(map_in_slices(self._slots.__getitem__, keys), np.int32)
            self._order, self._sorted = RowOrder(keys, slots), keys
            self._added, self._removed = {}, {}
        return self._order

    def gathered(self) -> npt.NDArray[np.void]:
        """Return all rows, in order; the fields are those of `_ROW`."""
        return self._rows.take(self.order().slots)

    def records(self) -> tuple[PodRecord, ...]:
        """Return all records, in order."""
        slots = self.order().slots
        return tuple(
            chain.from_iterable(self._records.take(slots[some]).tolist() for some in slices(len(slots)))
        )

    def _new_slot(self) -> int:
        if not self._free:
            held = len(self._records)
            more = max(_FIRST_SLOTS, held // 4)
            self._records = np.concatenate((self._records, np.full(more, None)))
            self._rows = np.concatenate((self._rows, np.zeros(more, dtype=_ROW)))
            self._free.extend(range(held + more - 1, held - 1, -1))
        return self._free.pop()

    def _write(self, slot: int, pod: PodRecord) -> None:
        self._records[slot] = pod
        self._rows[slot] = (
            self.node_names.take(pod.node) if counts_on_node(pod) else NO_ROW,
            self.templates.take(pod),
            pod.is_ready,
            pod.created_s,
            *_used(self._usage.get(pod.key), pod.created_s),
        )

    def _release(self, node_name: int, template: int) -> None:
        if node_name != NO_ROW:
            self.node_names.drop(node_name)
        self.templates.drop(template)

    def _note_membership(self, key: str, opposite: dict[str, None], changed: dict[str, None]) -> None:
        """Record that a key was added or removed; one that was both may have another slot."""
        self._order = None
        if key in opposite:
            del opposite[key]
        else:
            changed[key] = None


def counts_on_node(pod: PodRecord) -> bool:
    """Return whether the pod counts on its node: until it has finished, even while it is being deleted."""
    return bool(pod.node) and not pod.is_finished


def _used(used: UsageReading | None, created_s: int) -> tuple[int, int]:
    # A reading from before its creation belongs to another pod of the same name.
    if used is None or used.at_s < created_s:
        return UNMEASURED, UNMEASURED
    return min(max(0, used.cpu_millis), MAX_AMOUNT), min(max(0, used.memory_bytes), MAX_AMOUNT)


class SortedKeyIndex(Mapping[str, int]):
    """A mapping over the sorted keys, without a dict: snapshots are made often, with few lookups."""

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
    """Make the table from the rows of the pods (`numbers`) and of their templates (`shared`), in order."""
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


def node_table(nodes: NodeColumns, pods: PodTable, metrics: int = 0) -> NodeTable:
    return _read_only(
        NodeTable(
            records=nodes.records,
            row=nodes.row,
            allocatable=nodes.allocatable,
            requested=sum_by_node(pods.requests, pods),
            load=sum_by_node(pods.load, pods),
            ready=nodes.ready,
            schedulable=nodes.schedulable,
            metrics=metrics,
        )
    )


def _rows_of_nodes(rows: PodRows, node_row: Mapping[str, int]) -> Rows:
    """Return rows by the number of a node's name; the last entry is for pods that count on no node."""
    found = [NO_ROW if name is None else node_row.get(name, NO_ROW) for name in rows.node_names.values()]
    return np.array([*found, NO_ROW], dtype=np.int32)


def group_by_node(node: Rows, nodes: int) -> tuple[Rows, Rows]:
    """Return the rows of pods by node, and the index at which the rows of each node start."""
    placed = np.flatnonzero(node != NO_ROW)
    on = node.take(placed)
    # Sorting small numbers takes a tenth of the time.
    sortable = on.astype(np.uint16) if nodes <= np.iinfo(np.uint16).max else on
    by_node = placed.take(np.argsort(sortable, kind="stable")).astype(np.int32)
    first_on = np.zeros(nodes + 1, dtype=np.int32)
    np.cumsum(np.bincount(on, minlength=nodes), out=first_on[1:])
    return by_node, first_on


def sum_by_node(of_pods: Ints, pods: PodTable) -> Ints:
    """Return [node, resource]: the sum over the pods that count on the node."""
    sums = np.zeros((len(pods.first_on) - 1, of_pods.shape[1]), dtype=np.int64)
    occupied = np.flatnonzero(np.diff(pods.first_on))
    if len(occupied):
        first = pods.first_on.take(occupied)
        for resource, amounts in enumerate(of_pods.T):  # one at a time is faster than all at once
            sums[occupied, resource] = np.add.reduceat(amounts.take(pods.by_node), first)
    return sums


_Table = TypeVar("_Table", NodeTable, PodTable)


def _read_only(table: _Table) -> _Table:
    for each in fields(table):
        column = getattr(table, each.name)
        if isinstance(column, np.ndarray):
            column.setflags(write=False)
    return table
