"""NodeVolumeLimits: how many volumes of a CSI driver a node can attach, and how many are attached."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from rescheduler.cluster.pod_record import CLAIM_VOLUME, PodVolume
from rescheduler.cluster.snapshot import Flags, Ints, PodClass, Snapshot
from rescheduler.cluster.storage_records import ClaimRecord, Storage
from rescheduler.rules.node_affinity import NodeLabels
from rescheduler.rules.pod_positions import PodPositions
from rescheduler.rules.rule_check import AllChecks, NodeRefusal, RuleCheck, SchedulerRule, StaticCheck

__all__ = ["AttachableVolume", "AttachedVolumes", "attachable_volumes", "node_volume_limits"]

_CSI_MIGRATED_SOURCES: Final = {
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "azureDisk": "disk.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "portworxVolume": "pxd.portworx.com",
}
"""Former in-tree volume sources, and the CSI drivers that replace them."""
_CSI_MIGRATED_PROVISIONERS: Final = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/azure-file": "",
    "kubernetes.io/vsphere-volume": "",
}
"""Former in-tree provisioners, and the CSI drivers that replace them; the last two are not counted."""


class AttachableVolume(NamedTuple):
    """A volume that counts against the limit of its driver on a node."""

    driver: str
    handle: str
    is_translated: bool = False
    """Whether it counts only on nodes with a CSINode object."""

    @property
    def name(self) -> str:
        return f"{self.driver}/{self.handle}"


def attachable_volumes(
    pod_class: PodClass, storage: Storage, *, is_placed: bool = False
) -> list[AttachableVolume]:
    """Return each attachable volume of the pod once.

    If the pod `is_placed`, the question is about its successor, which gets new ephemeral volumes.
    """
    found: dict[str, AttachableVolume] = {}
    for volume in pod_class.volumes:
        if volume.kind != CLAIM_VOLUME:
            attachable = _inline(volume)
        elif (claim := storage.claims.get(f"{pod_class.namespace}/{volume.name}")) is not None:
            attachable = _of_claim(claim, storage, is_new=volume.ephemeral and is_placed)
        else:
            continue
        if attachable is not None:
            found[attachable.name] = attachable
    return list(found.values())


def _inline(volume: PodVolume) -> AttachableVolume | None:
    driver = _CSI_MIGRATED_SOURCES.get(volume.kind)
    return AttachableVolume(driver, volume.name, is_translated=True) if driver else None


def _of_claim(claim: ClaimRecord, storage: Storage, *, is_new: bool) -> AttachableVolume | None:
    """Return the volume of a claim. A claim without a known volume counts as one that its class will
    provision."""
    volume = storage.volumes.get(claim.volume)
    if volume is not None and not is_new:
        if volume.csi_driver:
            return AttachableVolume(volume.csi_driver, volume.source_name)
        return _inline(PodVolume(volume.source, volume.source_name))
    made_by = storage.classes.get(claim.storage_class)
    if made_by is None:
        return None
    driver = _CSI_MIGRATED_PROVISIONERS.get(made_by.provisioner, made_by.provisioner)
    is_translated = made_by.provisioner in _CSI_MIGRATED_PROVISIONERS
    return AttachableVolume(driver, f"a new volume for {claim.key}", is_translated) if driver else None


class AttachedVolumes:
    def __init__(self, snapshot: Snapshot, positions: PodPositions) -> None:
        self._nodes = len(snapshot.nodes)
        self._of_class = {
            number: volumes
            for number, pod_class in enumerate(snapshot.classes)
            if pod_class.volumes and (volumes := attachable_volumes(pod_class, snapshot.storage))
        }
        self._users: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._count: dict[str, Ints] = {}
        self._attached = set(_attachments(snapshot))
        """Pairs of volume and node for which a VolumeAttachment exists, with or without a pod."""
        for driver, _, node in self._attached:
            self.count_of(driver)[node] += 1
        for pod_class, node in positions.each_of(self._of_class):
            self.count(pod_class, node, 1)

    def count_of(self, driver: str) -> Ints:
        """Return [node]: how many volumes of the driver are attached, or about to be. Read-only."""
        if driver not in self._count:
            self._count[driver] = np.zeros(self._nodes, np.int64)
        return self._count[driver]

    def users_of(self, volume: AttachableVolume) -> dict[int, int]:
        """Return how many pods use it, by node."""
        return self._users.get(volume.name, {})

    def count(self, pod_class: int, node: int, by: int) -> None:
        """Add this number of pods of the class to the node."""
        for volume in self._of_class.get(pod_class, ()):
            users = self._users[volume.name]
            before, after = users.get(node, 0), users.get(node, 0) + by
            if after:
                users[node] = after
            else:
                del users[node]
            if (before > 0) != (after > 0) and (*volume[:2], node) not in self._attached:
                self.count_of(volume.driver)[node] += by


def _attachments(snapshot: Snapshot) -> Iterator[tuple[str, str, int]]:
    """Yield (driver, volume, node) of attachments, which exist before their pods and outlive them."""
    for attachment in snapshot.storage.attachments.values():
        volume = snapshot.storage.volumes.get(attachment.volume)
        node = snapshot.nodes.row.get(attachment.node)
        if attachment.driver and node is not None and volume is not None and volume.csi_driver:
            yield attachment.driver, volume.source_name, node


_TOO_MANY: Final = "node(s) exceed max volume count"
_NO_LIMIT: Final = np.iinfo(np.int64).max


def node_volume_limits(
    volumes: Sequence[AttachableVolume],
    attached: Callable[[], AttachedVolumes],
    storage: Storage,
    node_labels: NodeLabels,
) -> RuleCheck | None:
    """Return the check of attached volumes; they are only counted if some node has a limit."""
    by_driver: defaultdict[str, list[AttachableVolume]] = defaultdict(list)
    for volume in volumes:
        by_driver[volume.driver].append(volume)
    checks: list[RuleCheck] = []
    for driver, of_driver in by_driver.items():
        known = storage.csi_drivers.get(driver)
        if known is not None and known.must_be_installed:
            checks.append(_installed(driver, of_driver, storage, node_labels))
    for driver, of_driver in by_driver.items():
        limits = _limits(driver, storage, node_labels)
        if (limits != _NO_LIMIT).any():
            checks.append(_AttachLimit(driver, of_driver, limits, attached()))
    return AllChecks(checks) if checks else None


def _installed(
    driver: str, volumes: Sequence[AttachableVolume], storage: Storage, node_labels: NodeLabels
) -> StaticCheck:
    reason = f"{driver} CSI driver is not installed on the node"
    refusal = NodeRefusal(SchedulerRule.VOLUME_LIMITS, (reason,), f"needs {volumes[0].handle}")
    # On a node without CSI drivers, volumes of in-tree plugins don't count as CSI volumes.
    counts_anywhere = not all(volume.is_translated for volume in volumes)
    csi_nodes = (storage.csi_nodes.get(record.name) for record in node_labels.records)
    passes = [not counts_anywhere if node is None else driver in node.drivers for node in csi_nodes]
    return StaticCheck(np.array(passes, np.bool_), lambda _: refusal)


def _limits(driver: str, storage: Storage, node_labels: NodeLabels) -> Ints:
    found = np.full(len(node_labels), _NO_LIMIT, np.int64)
    for name, node in storage.csi_nodes.items():
        row, limit = node_labels.nodes.row.get(name), node.drivers.get(driver)
        if row is not None and limit is not None:
            found[row] = limit
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _AttachLimit:
    driver: str
    volumes: Sequence[AttachableVolume]
    limits: Ints
    attached: AttachedVolumes

    def fits(self) -> Flags:
        room = self.limits - self.attached.count_of(self.driver)
        found: Flags = room >= len(self.volumes)
        for node in {node for volume in self.volumes for node in self.attached.users_of(volume)}:
            found[node] = not (new := self._new_on(node)) or room[node] >= new
        return found

    def refusal(self, node: int) -> NodeRefusal | None:
        new, limit = self._new_on(node), int(self.limits[node])
        there = int(self.attached.count_of(self.driver)[node])
        if not new or limit - there >= new:
            return None
        detail = f"needs {new} more volumes of {self.driver}, {there} of {limit} are attached"
        return NodeRefusal(SchedulerRule.VOLUME_LIMITS, (_TOO_MANY,), detail)

    def _new_on(self, node: int) -> int:
        """Return how many volumes are new on that node, because no other pod uses them there.

        One that is still attached without a pod counts twice, as in the real scheduler: once as attached,
        once as new.
        """
        return sum(node not in self.attached.users_of(volume) for volume in self.volumes)
