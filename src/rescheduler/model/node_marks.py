"""What is written on nodes: what their owner asks for, and what we remember by them."""

from collections.abc import Mapping
from typing import Any

from rescheduler.model.nodes import NodeRecord

__all__ = [
    "CORDONED_BY",
    "EMPTY_CONDITION",
    "MAINTENANCE",
    "UNSCHEDULABLE_TAINT",
    "cordoned_by_others",
    "in_maintenance",
    "is_cordoned_by",
]

MAINTENANCE = "scheduler.alpha.kubernetes.io/maintenance"
"""Label; `true` means that the node is to be emptied."""

CORDONED_BY = "rescheduler.dev/cordoned-by"
"""Annotation; the strategy for which we cordoned the node. It holds for that one cordon: a node that is
schedulable, or whose cordon another client has made since, has a mark that means nothing and is removed."""

EMPTY_CONDITION = "rescheduler.dev/Empty"
"""Condition of a node in maintenance: whether every pod that has to go is gone, and if not, why."""

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
"""Taint that the control plane gives to every cordoned node, and takes away again."""


def in_maintenance(node: NodeRecord) -> bool:
    return node.labels.get(MAINTENANCE) == "true"


def is_cordoned_by(node: NodeRecord, strategy: str) -> bool:
    """A node that somebody uncordoned by hand still has our mark, but is no longer cordoned."""
    return node.unschedulable and node.marks.get(CORDONED_BY) == strategy


def cordoned_by_others(node: Mapping[str, Any], manager: str) -> tuple[str, ...]:
    """The clients other than `manager` that the API server records as owners of this node's cordon.

    `node` is the whole object. Ownership of `spec.unschedulable` passes to the client that changes it, and
    nobody owns it after an uncordon: so it says exactly who made the cordon of now, however often the node
    was cordoned and uncordoned before, and whether or not somebody was watching. It is empty where the server
    keeps no such record.
    """
    entries = node["metadata"].get("managedFields") or ()
    owners = {each.get("manager", "") for each in entries if _owns_cordon(each)}
    return tuple(sorted(owners - {manager}))


def _owns_cordon(entry: Mapping[str, Any]) -> bool:
    spec = (entry.get("fieldsV1") or {}).get("f:spec") or {}
    return "f:unschedulable" in spec
