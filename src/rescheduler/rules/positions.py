"""Which pods stand on which nodes, while they are being moved about.

A pod stands where the snapshot has it (its home) until it is lifted from there, and on every node that a
copy of it was placed on.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Final

import numpy as np

from rescheduler.snapshot.snapshot import NOWHERE, Ints, Rows, Snapshot

__all__ = ["ITSELF", "NotThereError", "Positions"]

ITSELF: Final = -1
"""Instead of the number of a copy: the pod as the snapshot has it."""
_FEW_CLASSES: Final = 32


class NotThereError(LookupError):
    """A pod was to be lifted from a node that it is not on."""


class Positions:
    def __init__(self, snapshot: Snapshot) -> None:
        self._pods = snapshot.pods
        self._nodes = snapshot.nodes
        self.home: Rows = snapshot.pods.node.copy()
        """[pod]: the node of the pod itself, `NOWHERE` once it was lifted from there."""
        self.latest: Rows = snapshot.pods.node.copy()
        """[pod]: the last of the nodes it is standing on."""
        self._copies: dict[int, list[int]] = {}
        self._copies_on: defaultdict[int, list[int]] = defaultdict(list)
        self._copies_of_class: defaultdict[int, list[int]] = defaultdict(list)
        self._left: set[int] = set()
        """Nodes that may no longer be home to all their pods."""

    def standing(self, pod: int) -> list[int]:
        """The nodes it is on: its home, then those of its copies."""
        home = int(self.home[pod])
        copies = self._copies.get(pod, ())
        return [*copies] if home == NOWHERE else [home, *copies]

    def pods_on(self, node: int) -> list[int]:
        """In order of their keys."""
        found: list[int] = self._pods.on(node).tolist()
        if node in self._left:
            found = [pod for pod in found if self.home[pod] == node]
        if copies := self._copies_on.get(node):
            found = sorted((*found, *copies))
        return found

    def nodes_of(self, classes: Collection[int], *, ending: bool) -> Rows:
        """The node of every pod of these classes, as often as there are pods.

        Pods that are being deleted only if `ending`. A copy of one is a new pod: it counts either way.
        """
        rows = self._rows_of(classes)
        nodes = self.home[rows]
        there = nodes != NOWHERE
        if not ending:
            records = self._pods.records
            there &= np.array([records[row].deleted_s is None for row in rows.tolist()], np.bool_)
        copies = [node for pod_class in classes for node in self._copies_of_class.get(pod_class, ())]
        return np.concatenate((nodes[there], np.array(copies, np.int32)))

    def each_of(self, classes: Collection[int]) -> Iterator[tuple[int, int]]:
        """Class and node of every pod of these classes."""
        rows = self._rows_of(classes)
        pairs = zip(self._pods.pod_class[rows].tolist(), self.home[rows].tolist(), strict=True)
        yield from ((pod_class, node) for pod_class, node in pairs if node != NOWHERE)
        for pod_class in classes:
            yield from ((pod_class, node) for node in self._copies_of_class.get(pod_class, ()))

    def next_number(self, pod: int) -> int:
        """Of a copy that is to be put somewhere."""
        return len(self._copies.get(pod, ()))

    def find(self, pod: int, node: int) -> int:
        """The number of its copy on that node, or `ITSELF`. Raises `NotThereError`."""
        if self.home[pod] == node:
            return ITSELF
        copies = self._copies.get(pod, [])
        if node not in copies:
            raise NotThereError(f"{self._pods.records[pod].key} is not on {self._nodes.records[node].name}")
        return copies.index(node)

    def put(self, pod: int, node: int, number: int) -> None:
        """The copy of that number, or the pod `ITSELF`."""
        if number == ITSELF:
            self.home[pod] = node
        else:
            self._copies.setdefault(pod, []).insert(number, node)
            self._copies_on[node].append(pod)
            self._copies_of_class[int(self._pods.pod_class[pod])].append(node)
        copies = self._copies.get(pod)
        self.latest[pod] = copies[-1] if copies else node

    def take(self, pod: int, node: int, number: int) -> None:
        """Undoes `put`, with the same arguments."""
        if number == ITSELF:
            self.home[pod] = NOWHERE
            self._left.add(node)
        else:
            del self._copies[pod][number]
            self._copies_on[node].remove(pod)
            self._copies_of_class[int(self._pods.pod_class[pod])].remove(node)
        copies = self._copies.get(pod)
        self.latest[pod] = copies[-1] if copies else self.home[pod]

    def _rows_of(self, classes: Collection[int]) -> Rows:
        if len(classes) > _FEW_CLASSES:
            wanted = np.zeros(self._class_starts.size, np.bool_)
            wanted[list(classes)] = True
            return np.flatnonzero(wanted[self._pods.pod_class]).astype(np.int32)
        starts, order = self._class_starts, self._by_class
        parts = [order[starts[number] : starts[number + 1]] for number in classes]
        return np.concatenate(parts) if parts else np.zeros(0, np.int32)

    @cached_property
    def _by_class(self) -> Rows:
        """Rows of all pods, sorted by class."""
        return np.argsort(self._pods.pod_class, kind="stable").astype(np.int32)

    @cached_property
    def _class_starts(self) -> Ints:
        """[class + 1]: where the pods of a class begin in `_by_class`."""
        sizes = np.bincount(self._pods.pod_class)
        return np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
