"""Pods that can't be on one node together, whatever the reason."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from rescheduler.rules.positions import Positions
from rescheduler.rules.refusal import Refusal
from rescheduler.rules.tallies import Tallies, Tally
from rescheduler.rules.terrain import Terrain
from rescheduler.snapshot.snapshot import Flags, PodTable

__all__ = ["Neighbours"]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Who is on a node with whom."""

    pods: PodTable
    positions: Positions
    terrain: Terrain
    tallies: Tallies

    def without(self, classes: Iterable[int], refusal: Refusal) -> "_Without":
        """A check that passes nodes on which there is no pod of these classes."""
        return _Without(self, self.tallies.of(classes, self.terrain.each_node.of), refusal)

    def first_of(self, classes: Iterable[int], node: int) -> str:
        """The key of a pod of these classes on that node."""
        wanted = set(classes)
        found = (pod for pod in self.positions.pods_on(node) if self.pods.pod_class[pod] in wanted)
        return next((self.pods.records[pod].key for pod in found), "")


@dataclass(frozen=True, slots=True)
class _Without:
    neighbours: Neighbours
    tally: Tally
    refused: Refusal

    def fits(self) -> Flags:
        found = np.ones(len(self.neighbours.terrain), np.bool_)
        found[[*self.tally.counts]] = False
        return found

    def refusal(self, node: int) -> Refusal | None:
        if not self.tally.at(node):
            return None
        name = self.neighbours.first_of(self.tally.classes, node)
        return replace(self.refused, detail=f"{self.refused.detail}, taken by {name}")
