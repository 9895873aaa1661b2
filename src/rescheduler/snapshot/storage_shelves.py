"""Objects about storage, by kind and key."""

from typing import Any

from rescheduler.model.storage import (
    AttachmentRecord,
    CapacityRecord,
    ClaimRecord,
    CsiDriverRecord,
    CsiNodeRecord,
    Storage,
    StorageClassRecord,
    VolumeRecord,
)
from rescheduler.model.storage_objects import StorageRecord
from rescheduler.snapshot.shelf import Shelf

__all__ = ["StorageShelves"]

_FIELDS: dict[type[StorageRecord], str] = {
    ClaimRecord: "claims",
    VolumeRecord: "volumes",
    StorageClassRecord: "classes",
    CsiNodeRecord: "csi_nodes",
    CsiDriverRecord: "csi_drivers",
    CapacityRecord: "capacities",
    AttachmentRecord: "attachments",
}


class StorageShelves:
    def __init__(self) -> None:
        self._shelves: dict[type[StorageRecord], Shelf[Any]] = {kind: Shelf() for kind in _FIELDS}

    def put(self, record: StorageRecord) -> None:
        self._shelves[type(record)].put(record.key, record)

    def remove(self, kind: type[StorageRecord], key: str) -> None:
        self._shelves[kind].remove(key)

    def frozen(self) -> Storage:
        return Storage(**{name: self._shelves[kind].frozen() for kind, name in _FIELDS.items()})
