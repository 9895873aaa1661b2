"""Which volumes of CSI drivers are on which nodes, kept up to date while pods are moved about."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from rescheduler.model.storage import ClaimRecord, Storage
from rescheduler.model.volumes import CLAIM, Volume
from rescheduler.rules.positions import Positions
from rescheduler.snapshot.snapshot import Ints, PodClass, Snapshot

__all__ = ["Attachable", "AttachedVolumes", "attachable_of"]

_TAKEN_OVER: Final = {
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "azureDisk": "disk.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "portworxVolume": "pxd.portworx.com",
}
"""Sources that were part of Kubernetes once, and the CSI drivers that have taken them over."""
_PROVISIONERS: Final = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/azure-file": "",
    "kubernetes.io/vsphere-volume": "",
}
"""Likewise; the last two are not counted."""


class Attachable(NamedTuple):
    """A volume that takes one of the places that a driver has on a node."""

    driver: str
    handle: str
    is_translated: bool = False
    """Counts only on nodes that have told of their drivers."""

    @property
    def name(self) -> str:
        return f"{self.driver}/{self.handle}"


def attachable_of(pod_class: PodClass, storage: Storage, *, is_placed: bool = False) -> list[Attachable]:
    """Each once, however often the pod mentions it.

    Where the pod `is_placed`, another one would come in its stead: with new ephemeral volumes.
    """
    found: dict[str, Attachable] = {}
    for volume in pod_class.volumes:
        if volume.kind != CLAIM:
            attachable = _inline(volume)
        elif (claim := storage.claims.get(f"{pod_class.namespace}/{volume.name}")) is not None:
            attachable = _of_claim(claim, storage, is_new=volume.ephemeral and is_placed)
        else:
            continue
        if attachable is not None:
            found[attachable.name] = attachable
    return list(found.values())


def _inline(volume: Volume) -> Attachable | None:
    driver = _TAKEN_OVER.get(volume.kind)
    return Attachable(driver, volume.name, is_translated=True) if driver else None


def _of_claim(claim: ClaimRecord, storage: Storage, *, is_new: bool) -> Attachable | None:
    """A claim without a volume that is known counts as one that its class will make."""
    volume = storage.volumes.get(claim.volume)
    if volume is not None and not is_new:
        if volume.csi_driver:
            return Attachable(volume.csi_driver, volume.source_name)
        return _inline(Volume(volume.source, volume.source_name))
    made_by = storage.classes.get(claim.storage_class)
    if made_by is None:
        return None
    driver = _PROVISIONERS.get(made_by.provisioner, made_by.provisioner)
    is_translated = made_by.provisioner in _PROVISIONERS
    return Attachable(driver, f"to be made for {claim.key}", is_translated) if driver else None


class AttachedVolumes:
    def __init__(self, snapshot: Snapshot, positions: Positions) -> None:
        self._nodes = len(snapshot.nodes)
        self._of_class = {
            number: volumes
            for number, pod_class in enumerate(snapshot.classes)
            if pod_class.volumes and (volumes := attachable_of(pod_class, snapshot.storage))
        }
        self._users: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._count: dict[str, Ints] = {}
        self._told = set(_attachments(snapshot))
        """Volumes and nodes of which the cluster says that they are attached, with or without a pod."""
        for driver, _, node in self._told:
            self.count_of(driver)[node] += 1
        for pod_class, node in positions.each_of(self._of_class):
            self.count(pod_class, node, 1)

    def count_of(self, driver: str) -> Ints:
        """[node]: how many volumes it has attached there, or is about to. Not to be written to."""
        if driver not in self._count:
            self._count[driver] = np.zeros(self._nodes, np.int64)
        return self._count[driver]

    def users_of(self, volume: Attachable) -> dict[int, int]:
        """By node: how many pods use it there."""
        return self._users.get(volume.name, {})

    def count(self, pod_class: int, node: int, by: int) -> None:
        """So many pods of that class more on that node."""
        for volume in self._of_class.get(pod_class, ()):
            users = self._users[volume.name]
            before, after = users.get(node, 0), users.get(node, 0) + by
            if after:
                users[node] = after
            else:
                del users[node]
            if (before > 0) != (after > 0) and (*volume[:2], node) not in self._told:
                self.count_of(volume.driver)[node] += by


def _attachments(snapshot: Snapshot) -> Iterator[tuple[str, str, int]]:
    """They come before their pods and outlive them."""
    for attachment in snapshot.storage.attachments.values():
        volume = snapshot.storage.volumes.get(attachment.volume)
        node = snapshot.nodes.row.get(attachment.node)
        if attachment.driver and node is not None and volume is not None and volume.csi_driver:
            yield attachment.driver, volume.source_name, node
