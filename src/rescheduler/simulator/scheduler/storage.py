"""Claims, volumes and what belongs to them, as far as they decide where a pod can go."""

from collections.abc import Iterator

from rescheduler.simulator.exchange import Object
from rescheduler.simulator.scheduler.pods import PodView

__all__ = ["StorageView", "claim_class", "claims_of", "is_bound", "volume_class"]

_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"


class StorageView:
    """Plain objects by name; claims by `namespace/name`."""

    def __init__(self) -> None:
        self.claims: dict[str, Object] = {}
        self.volumes: dict[str, Object] = {}
        self.classes: dict[str, Object] = {}
        self.csi_nodes: dict[str, Object] = {}
        self.csi_drivers: dict[str, Object] = {}
        self.capacities: dict[str, Object] = {}
        self.attachments: dict[str, Object] = {}

    def by_kind(self, kind: str) -> dict[str, Object] | None:
        return {
            "PersistentVolumeClaim": self.claims,
            "PersistentVolume": self.volumes,
            "StorageClass": self.classes,
            "CSINode": self.csi_nodes,
            "CSIDriver": self.csi_drivers,
            "CSIStorageCapacity": self.capacities,
            "VolumeAttachment": self.attachments,
        }.get(kind)

    def claim(self, namespace: str, name: str) -> Object | None:
        return self.claims.get(f"{namespace}/{name}")


def claims_of(pod: PodView) -> Iterator[tuple[str, bool]]:
    """The claim's name, and whether it is made for an ephemeral volume of the pod."""
    for volume in pod.volumes:
        if volume.get("persistentVolumeClaim"):
            yield volume["persistentVolumeClaim"]["claimName"], False
        elif volume.get("ephemeral"):
            yield f"{pod.name}-{volume['name']}", True


def claim_class(claim: Object) -> str:
    return _class(claim)


def volume_class(volume: Object) -> str:
    return _class(volume)


def is_bound(claim: Object) -> bool:
    """By both sides: the claim names its volume, and the binding was completed."""
    annotations = claim["metadata"].get("annotations") or {}
    return bool(claim["spec"].get("volumeName")) and _BIND_COMPLETED in annotations


def _class(item: Object) -> str:
    annotations = item["metadata"].get("annotations") or {}
    found: str = annotations.get(_BETA_CLASS, item["spec"].get("storageClassName") or "")
    return found
