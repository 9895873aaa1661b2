"""Which nodes moved pods may be sent to at all, before any rule is asked."""

import numpy as np
import numpy.typing as npt

from rescheduler.model.node_marks import in_maintenance
from rescheduler.snapshot.snapshot import Snapshot

__all__ = ["closed_because", "nodes_in_maintenance", "open_nodes"]

Flags = npt.NDArray[np.bool_]


def open_nodes(snapshot: Snapshot) -> Flags:
    """[node]: Ready, not cordoned, not in maintenance."""
    return snapshot.nodes.ready & snapshot.nodes.schedulable & ~nodes_in_maintenance(snapshot)


def nodes_in_maintenance(snapshot: Snapshot) -> Flags:
    return np.fromiter(map(in_maintenance, snapshot.nodes.records), np.bool_)


def closed_because(snapshot: Snapshot, node: int) -> str:
    """In words, to go on with "its target" or "the node"; empty if it is open."""
    if not snapshot.nodes.ready[node]:
        return "is not Ready"
    if not snapshot.nodes.schedulable[node]:
        return "is cordoned"
    return "is in maintenance" if in_maintenance(snapshot.nodes.records[node]) else ""
