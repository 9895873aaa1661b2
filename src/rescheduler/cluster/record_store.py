"""Stores for the objects that are few enough to copy when one changes: all kinds except pods."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.snapshot import Flags, Ints
from rescheduler.cluster.snapshot_columns import AmountTable
from rescheduler.cluster.storage_decoders import StorageRecord
from rescheduler.cluster.storage_records import (
    AttachmentRecord,
    CapacityRecord,
    ClaimRecord,
    CsiDriverRecord,
    CsiNodeRecord,
    Storage,
    StorageClassRecord,
    VolumeRecord,
)

__all__ = ["NodeColumns", "NodeRows", "RecordStore", "StorageStore"]


T = TypeVar("T")


class RecordStore(Generic[T]):
    def __init__(self) -> None:
        self._records: dict[str, T] = {}
        self._frozen: Mapping[str, T] | None = {}
        self.version = 0
        """Grows with every change."""

    def put(self, key: str, record: T) -> None:
        self._records[key] = record
        self._changed()

    def remove(self, key: str) -> None:
        """Nothing happens if it isn't there."""
        if self._records.pop(key, None) is not None:
            self._changed()

    def get(self, key: str) -> T | None:
        return self._records.get(key)

    def frozen(self) -> Mapping[str, T]:
        """All of them, sorted by key; later changes don't show in it."""
        if self._frozen is None:
            self._frozen = dict(sorted(self._records.items()))
        return self._frozen

    def _changed(self) -> None:
        self._frozen = None
        self.version += 1


_STORAGE_FIELDS: dict[type[StorageRecord], str] = {
    ClaimRecord: "claims",
    VolumeRecord: "volumes",
    StorageClassRecord: "classes",
    CsiNodeRecord: "csi_nodes",
    CsiDriverRecord: "csi_drivers",
    CapacityRecord: "capacities",
    AttachmentRecord: "attachments",
}


class StorageStore:
    def __init__(self) -> None:
        self._stores: dict[type[StorageRecord], RecordStore[Any]] = {
            kind: RecordStore() for kind in _STORAGE_FIELDS
        }

    def put(self, record: StorageRecord) -> None:
        self._stores[type(record)].put(record.key, record)

    def remove(self, kind: type[StorageRecord], key: str) -> None:
        self._stores[kind].remove(key)

    def frozen(self) -> Storage:
        return Storage(**{name: self._stores[kind].frozen() for kind, name in _STORAGE_FIELDS.items()})


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
