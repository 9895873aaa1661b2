"""What is written on nodes: what their owner asks for, and what we remember by them."""

from rescheduler.model.nodes import NodeRecord

__all__ = [
    "CORDONED_BY",
    "EMPTY_CONDITION",
    "MAINTENANCE",
    "UNSCHEDULABLE_TAINT",
    "in_maintenance",
    "is_cordoned_by",
]

MAINTENANCE = "scheduler.alpha.kubernetes.io/maintenance"
"""Label; `true` means that the node is to be emptied."""

CORDONED_BY = "rescheduler.dev/cordoned-by"
"""Annotation; the strategy for which we cordoned the node. What others cordoned is theirs to uncordon."""

EMPTY_CONDITION = "rescheduler.dev/Empty"
"""Condition of a node in maintenance: whether every pod that has to go is gone, and if not, why."""

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
"""Taint that the control plane gives to every cordoned node, and takes away again."""


def in_maintenance(node: NodeRecord) -> bool:
    return node.labels.get(MAINTENANCE) == "true"


def is_cordoned_by(node: NodeRecord, strategy: str) -> bool:
    """A node that somebody uncordoned by hand still has our mark, but is no longer cordoned."""
    return node.unschedulable and node.marks.get(CORDONED_BY) == strategy
