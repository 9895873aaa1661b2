"""What is kept of claims, volumes and related objects: what determines where a pod can run.

Selectors and topologies are kept as written; the rules evaluate them. Sizes are in bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from rescheduler.cluster.object_meta import OwnerReference
from rescheduler.cluster.pod_constraints import LabelSelector, NodeSelector

__all__ = [
    "AttachmentRecord",
    "CapacityRecord",
    "ClaimRecord",
    "ClaimReference",
    "CsiDriverRecord",
    "CsiNodeRecord",
    "Storage",
    "StorageClassRecord",
    "TopologyRequirement",
    "VolumeRecord",
]


class ClaimRecord(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A PersistentVolumeClaim."""

    key: str
    """`namespace/name`."""
    namespace: str
    uid: str = ""
    owners: tuple[OwnerReference, ...] = ()
    """The claim of an ephemeral volume is controlled by its pod."""
    volume: str = ""
    """The volume it is bound to, or is to be; empty as long as there is none."""
    is_bound: bool = False
    """Whether claim and volume are bound to each other, and completely."""
    phase: str = ""
    storage_class: str = ""
    """Empty: none, so it can only be bound to a volume without one."""
    access_modes: tuple[str, ...] = ()
    """ReadWriteOnce, ReadOnlyMany, ReadWriteMany, ReadWriteOncePod."""
    volume_mode: str = "Filesystem"
    attributes_class: str = ""
    size_bytes: int = 0
    selector: LabelSelector | None = None
    """None: any volume; as written."""
    selected_node: str = ""
    """The node that its volume is being made for."""
    deleted_s: int | None = None


class ClaimReference(msgspec.Struct, frozen=True, gc=False):
    """Which claim a volume is bound to, or kept for; without uid, any claim of that name."""

    namespace: str = ""
    name: str = ""
    uid: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class VolumeRecord(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A PersistentVolume."""

    name: str
    uid: str = ""
    labels: Mapping[str, str] = {}
    """Zones and regions among them."""
    phase: str = ""
    storage_class: str = ""
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    attributes_class: str = ""
    capacity_bytes: int = 0
    claim: ClaimReference | None = None
    node_affinity: NodeSelector | None = None
    """None: reachable from every node, as far as it says."""
    source: str = ""
    """The name of its source in the API: `csi`, `local`, `hostPath`, `nfs`, `awsElasticBlockStore`, …"""
    source_name: str = ""
    """What identifies it there: the CSI handle, the disk, the path."""
    csi_driver: str = ""
    """Empty if its source is another."""
    deleted_s: int | None = None

    @property
    def key(self) -> str:
        return self.name

    @property
    def is_local(self) -> bool:
        """Return whether the data is on one node and stays there."""
        return self.source in {"local", "hostPath"}


class TopologyRequirement(msgspec.Struct, frozen=True, gc=False):
    key: str = ""
    values: tuple[str, ...] = ()


class StorageClassRecord(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    name: str
    provisioner: str = ""
    waits_for_pod: bool = False
    """`WaitForFirstConsumer`: a volume is bound or made when its first pod has a node."""
    allowed_topologies: tuple[tuple[TopologyRequirement, ...], ...] = ()
    """One of them must hold, whole; none at all allows every node."""
    is_default: bool = False

    @property
    def key(self) -> str:
        return self.name


class CsiNodeRecord(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A CSINode: which drivers run on a node."""

    name: str
    """The node's."""
    drivers: Mapping[str, int | None] = {}
    """How many volumes each can have attached there; None if there is no limit."""

    @property
    def key(self) -> str:
        return self.name


class CsiDriverRecord(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    name: str
    publishes_capacity: bool = False
    """Whether the driver publishes its free capacity, so that volumes are only made where there is enough."""
    must_be_installed: bool = False
    """Pods with its volumes only go where it runs."""

    @property
    def key(self) -> str:
        return self.name


class CapacityRecord(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A CSIStorageCapacity: how much a driver has left for a class, as seen from some nodes."""

    key: str
    """`namespace/name`."""
    storage_class: str = ""
    nodes: LabelSelector | None = None
    """Which nodes it is about, by their labels; None: not within reach of any."""
    largest_volume_bytes: int | None = None
    """What a volume can have at most; None: it is not known, which counts as nothing."""


class AttachmentRecord(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A VolumeAttachment."""

    name: str
    node: str = ""
    driver: str = ""
    volume: str = ""
    """Empty if it is an inline volume's."""

    @property
    def key(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Storage:
    """All storage objects by key. Don't write to them."""

    claims: Mapping[str, ClaimRecord] = field(default_factory=dict)
    volumes: Mapping[str, VolumeRecord] = field(default_factory=dict)
    classes: Mapping[str, StorageClassRecord] = field(default_factory=dict)
    csi_nodes: Mapping[str, CsiNodeRecord] = field(default_factory=dict)
    csi_drivers: Mapping[str, CsiDriverRecord] = field(default_factory=dict)
    capacities: Mapping[str, CapacityRecord] = field(default_factory=dict)
    attachments: Mapping[str, AttachmentRecord] = field(default_factory=dict)
