"""From the source of a volume, as plain dicts, to what is recorded of it."""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from rescheduler.model.volumes import CLAIM, Volume

__all__ = ["Sources", "sources_of", "volume_from", "with_claims_of"]

NAMED: Final = {
    CLAIM: "claimName",
    "hostPath": "path",
    "emptyDir": "medium",
    "gcePersistentDisk": "pdName",
    "awsElasticBlockStore": "volumeID",
    "azureDisk": "diskName",
    "cinder": "volumeID",
    "vsphereVolume": "volumePath",
    "portworxVolume": "volumeID",
    "iscsi": "iqn",
    "rbd": "image",
    "csi": "driver",
}
"""Which field of the source says what it refers to."""
KIND_ONLY: Final = frozenset(
    {
        "nfs", "glusterfs", "flexVolume", "cephfs", "flocker", "fc", "azureFile", "quobyte",
        "photonPersistentDisk", "scaleIO", "storageos",
    }
)  # fmt: skip
EPHEMERAL: Final = "ephemeral"
RECORDED: Final = frozenset({*NAMED, EPHEMERAL, *KIND_ONLY})
"""The others bring configuration only."""
DEFAULT_POOL: Final = "rbd"


class Sources(NamedTuple):
    """The volumes of one spec, without their names."""

    aligned: tuple[Volume | None, ...]
    """One for each volume of the spec; None for mere configuration."""
    recorded: tuple[Volume, ...]
    has_ephemeral: bool


def sources_of(volumes: Iterable[Volume | None]) -> Sources:
    aligned = tuple(volumes)
    recorded = tuple(volume for volume in aligned if volume is not None)
    return Sources(aligned, recorded, any(volume.ephemeral for volume in recorded))


def with_claims_of(pod: str, sources: Sources, names: list[str]) -> tuple[Volume, ...]:
    """A generic ephemeral volume's claim is named after the pod and the volume."""
    return tuple(
        Volume(CLAIM, f"{pod}-{name}", ephemeral=True) if volume.ephemeral else volume
        for volume, name in zip(sources.aligned, names, strict=True)
        if volume is not None
    )


def volume_from(source: dict[str, Any]) -> Volume | None:
    """None for what only brings configuration. Raises `msgspec.ValidationError`."""
    kind = next((kind for kind in source if kind in RECORDED), None)
    if kind is None:
        return None
    if kind == EPHEMERAL:
        return Volume(CLAIM, ephemeral=True)
    if kind in KIND_ONLY:
        return Volume(kind)
    detail = msgspec.convert(source[kind], dict[str, Any])
    name = msgspec.convert(detail.get(NAMED[kind], ""), str)
    read_only = msgspec.convert(detail.get("readOnly", False), bool)
    if kind != "rbd":
        return Volume(kind, name, read_only)
    pool = msgspec.convert(detail.get("pool") or DEFAULT_POOL, str)
    return Volume(
        kind, f"{pool}/{name}", read_only, msgspec.convert(detail.get("monitors", ()), tuple[str, ...])
    )
