"""Decode objects about storage from plain dicts into records. Each decoder raises `UnreadableObject`."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from rescheduler.cluster.object_meta import Object, ObjectMeta, PartialObject, decode_bytes, decode_object
from rescheduler.cluster.pod_constraints import LabelSelector, NodeSelector
from rescheduler.cluster.storage_records import (
    AttachmentRecord,
    CapacityRecord,
    ClaimRecord,
    ClaimReference,
    CsiDriverRecord,
    CsiNodeRecord,
    StorageClassRecord,
    TopologyRequirement,
    VolumeRecord,
)

__all__ = [
    "STORAGE_DECODERS",
    "StorageRecord",
    "decode_attachment",
    "decode_capacity",
    "decode_claim",
    "decode_csi_driver",
    "decode_csi_node",
    "decode_storage_class",
    "decode_volume",
]

_OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"

_IDENTIFIED_BY: Final = {
    "csi": "volumeHandle",
    "local": "path",
    "hostPath": "path",
    "gcePersistentDisk": "pdName",
    "awsElasticBlockStore": "volumeID",
    "azureDisk": "diskURI",
    "azureFile": "shareName",
    "cinder": "volumeID",
    "vsphereVolume": "volumePath",
    "portworxVolume": "volumeID",
    "iscsi": "iqn",
    "rbd": "image",
    "nfs": "path",
}
"""The field that identifies the volume, by kind of source."""
_OTHER_SOURCES: Final = frozenset(
    {
        "cephfs",
        "fc",
        "flexVolume",
        "flocker",
        "glusterfs",
        "photonPersistentDisk",
        "quobyte",
        "scaleIO",
        "storageos",
    }
)


class _Part(msgspec.Struct, rename="camel", frozen=True, gc=False):
    pass


class _Requests(_Part, frozen=True, gc=False):
    requests: dict[str, str | int | float] = {}


class _ClaimSpec(_Part, frozen=True, gc=False):
    volume_name: str = ""
    storage_class_name: str = ""
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str = ""
    resources: _Requests = _Requests()
    selector: LabelSelector | None = None


class _Phase(_Part, frozen=True, gc=False):
    phase: str = ""


class _Claim(PartialObject, frozen=True, gc=False):
    spec: _ClaimSpec = _ClaimSpec()
    status: _Phase = _Phase()


class _VolumeAffinity(_Part, frozen=True, gc=False):
    required: NodeSelector | None = None


class _VolumeSpec(_Part, frozen=True, gc=False):
    storage_class_name: str = ""
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str = ""
    capacity: dict[str, str | int | float] = {}
    claim_ref: ClaimReference | None = None
    node_affinity: _VolumeAffinity = _VolumeAffinity()


class _Volume(PartialObject, frozen=True, gc=False):
    spec: _VolumeSpec = _VolumeSpec()
    status: _Phase = _Phase()


class _TopologyTerm(_Part, frozen=True, gc=False):
    match_label_expressions: tuple[TopologyRequirement, ...] = ()


class _StorageClass(PartialObject, frozen=True, gc=False):
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[_TopologyTerm, ...] = ()


class _Allocatable(_Part, frozen=True, gc=False):
    count: int | None = None


class _Driver(_Part, frozen=True, gc=False):
    name: str = ""
    allocatable: _Allocatable = _Allocatable()


class _CsiNodeSpec(_Part, frozen=True, gc=False):
    drivers: tuple[_Driver, ...] = ()


class _CsiNode(PartialObject, frozen=True, gc=False):
    spec: _CsiNodeSpec = _CsiNodeSpec()


class _CsiDriverSpec(_Part, frozen=True, gc=False):
    storage_capacity: bool = False
    prevent_pod_scheduling_if_missing: bool = False


class _CsiDriver(PartialObject, frozen=True, gc=False):
    spec: _CsiDriverSpec = _CsiDriverSpec()


class _Capacity(PartialObject, frozen=True, gc=False):
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None


class _AttachedSource(_Part, frozen=True, gc=False):
    persistent_volume_name: str = ""


class _AttachmentSpec(_Part, frozen=True, gc=False):
    attacher: str = ""
    node_name: str = ""
    source: _AttachedSource = _AttachedSource()


class _Attachment(PartialObject, frozen=True, gc=False):
    spec: _AttachmentSpec = _AttachmentSpec()


def decode_claim(item: Object) -> ClaimRecord:
    kind = "PersistentVolumeClaim"
    claim = decode_object(kind, item, _Claim)
    meta, spec = claim.metadata, claim.spec
    asked = spec.resources.requests.get("storage", 0)
    return ClaimRecord(
        key=meta.key,
        namespace=meta.namespace,
        uid=meta.uid,
        owners=meta.owner_references,
        volume=spec.volume_name,
        is_bound=bool(spec.volume_name) and _BIND_COMPLETED in meta.annotations,
        phase=claim.status.phase,
        storage_class=_class_of(meta, spec.storage_class_name),
        access_modes=spec.access_modes,
        volume_mode=spec.volume_mode,
        attributes_class=spec.volume_attributes_class_name,
        size_bytes=decode_bytes(kind, meta, "spec.resources.requests.storage", asked),
        selector=spec.selector,
        selected_node=meta.annotations.get(_SELECTED_NODE, ""),
        deleted_s=meta.deleted_s,
    )


def decode_volume(item: Object) -> VolumeRecord:
    kind = "PersistentVolume"
    volume = decode_object(kind, item, _Volume)
    meta, spec = volume.metadata, volume.spec
    source, source_name, driver = _source_of(item)
    return VolumeRecord(
        name=meta.name,
        uid=meta.uid,
        labels=meta.labels,
        phase=volume.status.phase,
        storage_class=_class_of(meta, spec.storage_class_name),
        access_modes=spec.access_modes,
        volume_mode=spec.volume_mode,
        attributes_class=spec.volume_attributes_class_name,
        capacity_bytes=decode_bytes(kind, meta, "spec.capacity.storage", spec.capacity.get("storage", 0)),
        claim=spec.claim_ref,
        node_affinity=spec.node_affinity.required,
        source=source,
        source_name=source_name,
        csi_driver=driver,
        deleted_s=meta.deleted_s,
    )


def decode_storage_class(item: Object) -> StorageClassRecord:
    found = decode_object("StorageClass", item, _StorageClass)
    return StorageClassRecord(
        name=found.metadata.name,
        provisioner=found.provisioner,
        waits_for_pod=found.volume_binding_mode == "WaitForFirstConsumer",
        allowed_topologies=tuple(term.match_label_expressions for term in found.allowed_topologies),
        is_default=found.metadata.annotations.get(_DEFAULT_CLASS) == "true",
    )


def decode_csi_node(item: Object) -> CsiNodeRecord:
    found = decode_object("CSINode", item, _CsiNode)
    return CsiNodeRecord(
        name=found.metadata.name,
        drivers={driver.name: driver.allocatable.count for driver in found.spec.drivers},
    )


def decode_csi_driver(item: Object) -> CsiDriverRecord:
    found = decode_object("CSIDriver", item, _CsiDriver)
    return CsiDriverRecord(
        name=found.metadata.name,
        publishes_capacity=found.spec.storage_capacity,
        must_be_installed=found.spec.prevent_pod_scheduling_if_missing,
    )


def decode_capacity(item: Object) -> CapacityRecord:
    kind = "CSIStorageCapacity"
    found = decode_object(kind, item, _Capacity)
    largest, path = found.maximum_volume_size, "maximumVolumeSize"
    if largest is None:
        largest, path = found.capacity, "capacity"
    return CapacityRecord(
        key=found.metadata.key,
        storage_class=found.storage_class_name,
        nodes=found.node_topology,
        largest_volume_bytes=None if largest is None else decode_bytes(kind, found.metadata, path, largest),
    )


def decode_attachment(item: Object) -> AttachmentRecord:
    found = decode_object("VolumeAttachment", item, _Attachment)
    spec = found.spec
    return AttachmentRecord(
        name=found.metadata.name,
        node=spec.node_name,
        driver=spec.attacher,
        volume=spec.source.persistent_volume_name,
    )


StorageRecord = (
    ClaimRecord
    | VolumeRecord
    | StorageClassRecord
    | CsiNodeRecord
    | CsiDriverRecord
    | CapacityRecord
    | AttachmentRecord
)

STORAGE_DECODERS: Mapping[str, Callable[[Object], StorageRecord]] = {
    "PersistentVolumeClaim": decode_claim,
    "PersistentVolume": decode_volume,
    "StorageClass": decode_storage_class,
    "CSINode": decode_csi_node,
    "CSIDriver": decode_csi_driver,
    "CSIStorageCapacity": decode_capacity,
    "VolumeAttachment": decode_attachment,
}
"""The decoders by kind."""


def _class_of(meta: ObjectMeta, written: str) -> str:
    """Return the storage class. The annotation is older than the field and still has precedence."""
    return meta.annotations.get(_OLD_CLASS, written)


def _source_of(item: Object) -> tuple[str, str, str]:
    """Return the kind of source, the name of the volume in it, and the CSI driver if it has one."""
    spec: Mapping[str, Any] = item["spec"] if isinstance(item.get("spec"), Mapping) else {}
    for kind, detail in spec.items():
        if isinstance(detail, Mapping) and (kind in _IDENTIFIED_BY or kind in _OTHER_SOURCES):
            name, driver = detail.get(_IDENTIFIED_BY.get(kind, ""), ""), detail.get("driver", "")
            return kind, str(name), str(driver) if kind == "csi" else ""
    return "", "", ""
