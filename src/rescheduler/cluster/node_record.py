"""What is kept of a node: capacity, conditions, labels and cordons."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from rescheduler.api.well_known_names import CORDONED_BY_ANNOTATION, MAINTENANCE_LABEL
from rescheduler.cluster.resource_amounts import Resources

__all__ = [
    "UNSCHEDULABLE_TAINT",
    "NodeChange",
    "NodeCondition",
    "NodeRecord",
    "Taint",
    "cordoned_by_others",
    "in_maintenance",
    "is_being_removed",
    "is_cordoned_by",
]


class NodeChange(StrEnum):
    CORDON = "cordon"
    UNCORDON = "uncordon"


class Taint(msgspec.Struct, frozen=True, gc=False):
    key: str
    value: str = ""
    effect: str = ""
    added_s: int | None = None
    """Seconds since 1970, like every time in a record."""


class NodeCondition(msgspec.Struct, frozen=True, gc=False):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    since_s: int = 0
    heartbeat_s: int = 0


class NodeRecord(msgspec.Struct, frozen=True, gc=False):
    name: str
    uid: str = ""
    resource_version: str = ""
    created_s: int = 0
    deleted_s: int | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    """Its annotations, of those that `metadata.is_mark`."""
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    """Cordoned."""
    allocatable: Resources = Resources()
    capacity: Resources = Resources()
    conditions: tuple[NodeCondition, ...] = ()
    provider_id: str = ""
    volumes_in_use: tuple[str, ...] = ()
    volumes_attached: tuple[str, ...] = ()
    declared_features: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Nodes have no namespace: the name alone."""
        return self.name

    @property
    def is_ready(self) -> bool:
        return any(condition.type == "Ready" and condition.status == "True" for condition in self.conditions)

    def condition(self, kind: str) -> NodeCondition | None:
        return next((condition for condition in self.conditions if condition.type == kind), None)


UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
"""Taint that the control plane gives to every cordoned node, and takes away again."""


def in_maintenance(node: NodeRecord) -> bool:
    return node.labels.get(MAINTENANCE_LABEL) == "true"


_REMOVAL_TAINTS = frozenset({"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"})


def is_being_removed(node: NodeRecord) -> bool:
    """Whether the node is deleted, or an autoscaler is about to remove it."""
    return node.deleted_s is not None or any(taint.key in _REMOVAL_TAINTS for taint in node.taints)


def is_cordoned_by(node: NodeRecord, strategy: str) -> bool:
    """Return whether our cordon still holds; a node that a user uncordoned keeps only our annotation."""
    return node.unschedulable and node.annotations.get(CORDONED_BY_ANNOTATION) == strategy


def cordoned_by_others(node: Mapping[str, Any], manager: str) -> tuple[str, ...]:
    """Return the clients other than `manager` that the API server records as owners of this node's cordon.

    `node` is the whole object. Ownership of `spec.unschedulable` passes to the client that changes it, and no
    client owns it after an uncordon. So it names the client of the present cordon, however often the node was
    cordoned and uncordoned before. It is empty if the server keeps no such record.
    """
    entries = node["metadata"].get("managedFields") or ()
    owners = {each.get("manager", "") for each in entries if _owns_cordon(each)}
    return tuple(sorted(owners - {manager}))


def _owns_cordon(entry: Mapping[str, Any]) -> bool:
    spec = (entry.get("fieldsV1") or {}).get("f:spec") or {}
    return "f:unschedulable" in spec
