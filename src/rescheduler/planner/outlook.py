"""What a plan expects: the loads of every node, before and after."""

import numpy as np
import numpy.typing as npt

from rescheduler.model.plan import NodeOutlook
from rescheduler.snapshot.snapshot import Snapshot

__all__ = ["loads_of", "outlooks", "percent"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_DIGITS = 3


def outlooks(snapshot: Snapshot, after: Ints) -> tuple[NodeOutlook, ...]:
    """`after` is [node, resource], like the snapshot's own loads."""
    nodes = snapshot.nodes
    before = percent(nodes.load, nodes.allocatable).tolist()
    has = (nodes.allocatable > 0).tolist()
    found = [_loads(snapshot, *row) for row in zip(before, has, strict=True)]
    then = {
        node: _loads(snapshot, percent(after[node], nodes.allocatable[node]).tolist(), has[node])
        for node in np.flatnonzero((nodes.load != after).any(axis=1)).tolist()
    }
    return tuple(
        NodeOutlook(node.name, loads, then.get(row, loads))
        for row, (node, loads) in enumerate(zip(nodes.records, found, strict=True))
    )


def percent(load: Ints, allocatable: Ints) -> Floats:
    """Of what is not there at all, nothing is used."""
    found: Floats = np.round(100.0 * load / np.maximum(allocatable, 1), _DIGITS)
    return found


def loads_of(snapshot: Snapshot, node: int) -> dict[str, float]:
    """In percent of allocatable, by resource."""
    has = snapshot.nodes.allocatable[node]
    return _loads(snapshot, percent(snapshot.nodes.load[node], has).tolist(), (has > 0).tolist())


def _loads(snapshot: Snapshot, loads: list[float], has: list[bool]) -> dict[str, float]:
    return {name: load for name, load, there in zip(snapshot.resources, loads, has, strict=True) if there}
