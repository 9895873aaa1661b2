"""Whether one more pod like a given one would make the scheduler preempt others.

Between the eviction of a pod and the adoption of its copy, its ReplicaSet creates one more. If that finds no
room, has a higher priority than others and may preempt, the scheduler removes those, budgets or not. The same
holds for a copy whose room was taken before it got there.

Where it is not clear whether a node could be used after a preemption, it counts as if it could.
"""

from functools import cached_property

import numpy as np

from rescheduler.cluster.snapshot import NO_ROW, Flags, Ints, Snapshot
from rescheduler.rules.placement import Placement

__all__ = ["Preemption"]


class Preemption:
    def __init__(self, snapshot: Snapshot, *, unreserved: int = NO_ROW) -> None:
        """`unreserved` as for a `Board`."""
        self._snapshot = snapshot
        self._unreserved = unreserved
        self._outranked: dict[int, tuple[Flags, Ints]] = {}

    def by_surplus(self, row: int) -> str:
        """Whom the pod beside a copy could preempt, in words; empty if nobody. For pods that are to be moved:
        their copy takes room, too."""
        if not self._could_preempt(row):
            return ""
        placement = self._placement
        fits = np.flatnonzero(placement.fits_another(row))
        if len(fits) > 1:
            return ""
        if len(fits) == 1:
            with placement.trial():
                placement.place(row, int(fits[0]))
                if placement.fits_another(row).any():
                    return ""
        return self._victims(row)

    def by_another(self, row: int) -> str:
        """Whom one more pod like it could preempt as things stand, with the copy where it is."""
        if not self._could_preempt(row) or self._placement.fits_another(row).any():
            return ""
        return self._victims(row)

    @cached_property
    def _placement(self) -> Placement:
        return Placement(self._snapshot, unreserved=self._unreserved)

    @cached_property
    def _least(self) -> int:
        """The lowest priority of all pods on nodes."""
        pods = self._snapshot.pods
        placed = pods.priority[pods.node != NO_ROW]
        return int(placed.min()) if len(placed) else 0

    def _could_preempt(self, row: int) -> bool:
        """Most clusters have no priorities among their workloads: then there is nothing to look at."""
        pods = self._snapshot.pods
        return int(pods.priority[row]) > self._least and not pods.records[row].shape.never_preempts

    def _victims(self, row: int) -> str:
        """The first node by name on which pods of lower priority could be removed for it."""
        snapshot = self._snapshot
        asks = snapshot.classes[snapshot.pods.pod_class[row]].asks
        has_lesser, free = self._without_lesser(int(snapshot.pods.priority[row]))
        enough = (free >= asks)[:, asks > 0].all(axis=1)
        found = np.flatnonzero(has_lesser & enough & self._placement.static_fits(row))
        if not len(found):
            return ""
        node = int(found[0])
        lesser = [
            pod
            for pod in snapshot.pods.on(node).tolist()
            if snapshot.pods.priority[pod] < snapshot.pods.priority[row]
        ]
        names = ", ".join(snapshot.pods.records[pod].key for pod in lesser[:3])
        more = f" and {len(lesser) - 3} more" if len(lesser) > 3 else ""
        return f"{names}{more} on {snapshot.nodes.records[node].name}"

    def _without_lesser(self, priority: int) -> tuple[Flags, Ints]:
        """[node]: whether there are pods of lower priority; [node, resource]: what is free without them."""
        found = self._outranked.get(priority)
        if found is None:
            pods, nodes = self._snapshot.pods, self._snapshot.nodes
            placed = pods.node != NO_ROW
            stays = placed & (pods.priority >= priority)
            taken = np.zeros_like(nodes.requested)
            np.add.at(taken, pods.node[stays], pods.requests[stays])
            has_lesser = np.zeros(len(nodes), np.bool_)
            has_lesser[pods.node[placed & (pods.priority < priority)]] = True
            found = self._outranked[priority] = (has_lesser, nodes.allocatable - taken)
        return found
