"""Table columns of persistent volumes, claims and storage classes."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from kubesim.apiserver.api_messages import Object
from kubesim.printers.table_columns import (
    AGE,
    NAME,
    UNSET,
    Cell,
    TableColumn,
    TableLayout,
    age,
    each,
    name,
    spec,
    status,
    wide,
)

__all__ = [
    "PERSISTENT_VOLUME",
    "PERSISTENT_VOLUME_CLAIM",
    "STORAGE_CLASS",
]

_ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _access_modes(modes: Iterable[str] | None) -> str:
    given = set(modes or ())
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in given)


def _phase(volume: Object) -> str:
    return "Terminating" if "deletionTimestamp" in volume["metadata"] else status(volume).get("phase", "")


def _class(volume: Object) -> str:
    annotations = volume["metadata"].get("annotations") or {}
    in_spec = spec(volume).get("storageClassName") or ""
    return str(annotations.get("volume.beta.kubernetes.io/storage-class", in_spec))


def _volume_cells(volume: Object, now: datetime) -> list[Cell]:
    wanted = spec(volume)
    claim = wanted.get("claimRef")
    return [
        name(volume),
        (wanted.get("capacity") or {}).get("storage", "0"),
        _access_modes(wanted.get("accessModes")),
        wanted.get("persistentVolumeReclaimPolicy", ""),
        _phase(volume),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        _class(volume),
        wanted.get("volumeAttributesClassName") or UNSET,
        status(volume).get("reason", ""),
        age(volume, now),
        wanted.get("volumeMode") or UNSET,
    ]


_ATTRIBUTES_CLASS = TableColumn("VolumeAttributesClass", description="Its volume attributes class, if any.")
_VOLUME_MODE = wide("VolumeMode", "File system or block device.")

PERSISTENT_VOLUME = TableLayout(
    (
        NAME,
        TableColumn("Capacity", description="Its size."),
        TableColumn("Access Modes", description="How it may be mounted."),
        TableColumn("Reclaim Policy", description="What happens to it when its claim is deleted."),
        TableColumn("Status", description="Whether it is free or bound."),
        TableColumn("Claim", description="Claim that it is bound to."),
        TableColumn("StorageClass", description="Its storage class."),
        _ATTRIBUTES_CLASS,
        TableColumn("Reason", description="Why it is in that state."),
        AGE,
        _VOLUME_MODE,
    ),
    each(_volume_cells),
)


def _claim_cells(claim: Object, now: datetime) -> list[Cell]:
    wanted, current = spec(claim), status(claim)
    volume = wanted.get("volumeName", "")
    return [
        name(claim),
        _phase(claim),
        volume,
        (current.get("capacity") or {}).get("storage", "0") if volume else "",
        _access_modes(current.get("accessModes")) if volume else "",
        _class(claim),
        wanted.get("volumeAttributesClassName") or UNSET,
        age(claim, now),
        wanted.get("volumeMode") or UNSET,
    ]


PERSISTENT_VOLUME_CLAIM = TableLayout(
    (
        NAME,
        TableColumn("Status", description="Whether it is bound."),
        TableColumn("Volume", description="Volume that it is bound to."),
        TableColumn("Capacity", description="Size of that volume."),
        TableColumn("Access Modes", description="How that volume may be mounted."),
        TableColumn("StorageClass", description="Its storage class."),
        _ATTRIBUTES_CLASS,
        AGE,
        _VOLUME_MODE,
    ),
    each(_claim_cells),
)


def _storage_class_rows(classes: Sequence[Object], now: datetime) -> Iterator[list[Cell]]:
    default = _default_class(classes)
    for storage_class in classes:
        shown = name(storage_class)
        yield [
            f"{shown} (default)" if shown == default else shown,
            storage_class.get("provisioner", ""),
            storage_class.get("reclaimPolicy") or "Delete",
            storage_class.get("volumeBindingMode") or "Immediate",
            bool(storage_class.get("allowVolumeExpansion")),
            age(storage_class, now),
        ]


_DEFAULT_MARKS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _default_class(classes: Iterable[Object]) -> str | None:
    """Return the default storage class; the newest of several, as for claims without a class."""
    claiming = [
        storage_class
        for storage_class in classes
        if any(
            (storage_class["metadata"].get("annotations") or {}).get(mark) == "true"
            for mark in _DEFAULT_MARKS
        )
    ]
    claiming.sort(key=name)
    # max() keeps the first of equals, so names decide between classes of the same second.
    youngest = max(claiming, key=lambda found: found["metadata"].get("creationTimestamp", ""), default=None)
    return name(youngest) if youngest else None


STORAGE_CLASS = TableLayout(
    (
        NAME,
        TableColumn("Provisioner", description="Provisioner of its volumes."),
        TableColumn("ReclaimPolicy", description="What happens to a volume when its claim is deleted."),
        TableColumn("VolumeBindingMode", description="When a claim gets its volume."),
        TableColumn("AllowVolumeExpansion", description="Whether volumes can be expanded."),
        AGE,
    ),
    _storage_class_rows,
)
