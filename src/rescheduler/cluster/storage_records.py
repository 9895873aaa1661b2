"""The records of claims, volumes and related objects: the fields that determine where a pod can run.

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
    """The volume that it is bound to, or reserved for; empty if there is none."""
    is_bound: bool = False
    """Whether the binding of claim and volume is complete."""
    phase: str = ""
    storage_class: str = ""
    """Empty for none; then it can only be bound to a volume without a class."""
    access_modes: tuple[str, ...] = ()
    """ReadWriteOnce, ReadOnlyMany, ReadWriteMany, ReadWriteOncePod."""
    volume_mode: str = "Filesystem"
    attributes_class: str = ""
    size_bytes: int = 0
    selector: LabelSelector | None = None
    """The selector as written; None for any volume."""
    selected_node: str = ""
    """The node for which its volume is being provisioned."""
    deleted_s: int | None = None


class ClaimReference(msgspec.Struct, frozen=True, gc=False):
    """The claim that a volume is bound to, or reserved for; without uid, any claim of that name."""

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
    """The labels, which may have zones and regions."""
    phase: str = ""
    storage_class: str = ""
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    attributes_class: str = ""
    capacity_bytes: int = 0
    claim: ClaimReference | None = None
    node_affinity: NodeSelector | None = None
    """None if it can be reached from every node."""
    source: str = ""
    """The name of its source in the API: `csi`, `local`, `hostPath`, `nfs`, `awsElasticBlockStore`, …"""
    source_name: str = ""
    """Its identifier in the source: the CSI handle, the disk or the path."""
    csi_driver: str = ""
    """Empty for other sources."""
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
    """`WaitForFirstConsumer`: a volume is bound or provisioned when its first pod has a node."""
    allowed_topologies: tuple[tuple[TopologyRequirement, ...], ...] = ()
    """One of these must match completely; if there are none, every node is allowed."""
    is_default: bool = False

    @property
    def key(self) -> str:
        return self.name


class CsiNodeRecord(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A CSINode: the drivers of a node."""

    name: str
    """The name of the node."""
    drivers: Mapping[str, int | None] = {}
    """How many volumes each driver can attach; None for no limit."""

    @property
    def key(self) -> str:
        return self.name


class CsiDriverRecord(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    name: str
    publishes_capacity: bool = False
    """Whether the driver publishes its free capacity, so that volumes are only provisioned if it suffices."""
    must_be_installed: bool = False
    """Whether pods with its volumes can only run on nodes with the driver."""

    @property
    def key(self) -> str:
        return self.name


class CapacityRecord(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A CSIStorageCapacity: the free capacity of a driver for a class, on some nodes."""

    key: str
    """`namespace/name`."""
    storage_class: str = ""
    nodes: LabelSelector | None = None
    """The labels of these nodes; None if no node can use the capacity."""
    largest_volume_bytes: int | None = None
    """The largest size of a volume; None if unknown, which counts as 0."""


class AttachmentRecord(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A VolumeAttachment."""

    name: str
    node: str = ""
    driver: str = ""
    volume: str = ""
    """Empty for an inline volume."""

    @property
    def key(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Storage:
    """All storage objects by key. Read-only."""

    claims: Mapping[str, ClaimRecord] = field(default_factory=dict)
    volumes: Mapping[str, VolumeRecord] = field(default_factory=dict)
    classes: Mapping[str, StorageClassRecord] = field(default_factory=dict)
    csi_nodes: Mapping[str, CsiNodeRecord] = field(default_factory=dict)
    csi_drivers: Mapping[str, CsiDriverRecord] = field(default_factory=dict)
    capacities: Mapping[str, CapacityRecord] = field(default_factory=dict)
    attachments: Mapping[str, AttachmentRecord] = field(default_factory=dict)
