"""Keep the nodes of pods while a plan moves them, and count pods by topology domain.

A pod is on its home node (where the snapshot has it) until it is removed from there, and on every node
that a copy of it was placed on. Every rule that depends on other pods asks for counts of pods of some
classes by domain: a zone, a node or the whole cluster. The counts are sparse, because a workload is on few
of many nodes.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from rescheduler.cluster.snapshot import NO_ROW, Flags, Ints, PodTable, Rows, Snapshot
from rescheduler.rules.node_affinity import NodeLabels
from rescheduler.rules.rule_check import NodeRefusal

__all__ = [
    "ITSELF",
    "DomainCountRegistry",
    "DomainCounts",
    "NodeConflicts",
    "PodNotOnNodeError",
    "PodPositions",
]

ITSELF: Final = -1
"""The number that means the pod of the snapshot itself, and not one of its copies."""
_FEW_CLASSES: Final = 32


class PodNotOnNodeError(LookupError):
    """A pod can't be removed from a node that it is not on."""


class PodPositions:
    def __init__(self, snapshot: Snapshot) -> None:
        self._pods = snapshot.pods
        self._nodes = snapshot.nodes
        self.home: Rows = snapshot.pods.node.copy()
        """[pod]: the node of the pod itself; `NO_ROW` after it was removed from there."""
        self.latest: Rows = snapshot.pods.node.copy()
        """[pod]: the node on which it was placed last."""
        self._copies: dict[int, list[int]] = {}
        self._copies_on: defaultdict[int, list[int]] = defaultdict(list)
        self._copies_of_class: defaultdict[int, list[int]] = defaultdict(list)
        self._left: set[int] = set()
        """Nodes from which pods of the snapshot may have been removed."""

    def nodes_with(self, pod: int) -> list[int]:
        """Return the nodes that the pod is on: its home, then those of its copies."""
        home = int(self.home[pod])
        copies = self._copies.get(pod, ())
        return [*copies] if home == NO_ROW else [home, *copies]

    def pods_on(self, node: int) -> list[int]:
        """Return the pods on that node, in order of their keys."""
        found: list[int] = self._pods.on(node).tolist()
        if node in self._left:
            found = [pod for pod in found if self.home[pod] == node]
        if copies := self._copies_on.get(node):
            found = sorted((*found, *copies))
        return found

    def nodes_of(self, classes: Collection[int], *, ending: bool) -> Rows:
        """Return one node for every pod and copy of these classes.

        Pods that are being deleted are included only if `ending`. Their copies are new pods and are always
        included.
        """
        rows = self._rows_of(classes)
        nodes = self.home[rows]
        there = nodes != NO_ROW
        if not ending:
            records = self._pods.records
            there &= np.array([records[row].deleted_s is None for row in rows.tolist()], np.bool_)
        copies = [node for pod_class in classes for node in self._copies_of_class.get(pod_class, ())]
        return np.concatenate((nodes[there], np.array(copies, np.int32)))

    def each_of(self, classes: Collection[int]) -> Iterator[tuple[int, int]]:
        """Yield the class and the node of every pod of these classes."""
        rows = self._rows_of(classes)
        pairs = zip(self._pods.pod_class[rows].tolist(), self.home[rows].tolist(), strict=True)
        yield from ((pod_class, node) for pod_class, node in pairs if node != NO_ROW)
        for pod_class in classes:
            yield from ((pod_class, node) for node in self._copies_of_class.get(pod_class, ()))

    def next_number(self, pod: int) -> int:
        """Return the number of the next copy of that pod."""
        return len(self._copies.get(pod, ()))

    def find(self, pod: int, node: int) -> int:
        """Return the number of its copy on that node, or `ITSELF`; raise `PodNotOnNodeError`."""
        if self.home[pod] == node:
            return ITSELF
        copies = self._copies.get(pod, [])
        if node not in copies:
            raise PodNotOnNodeError(
                f"{self._pods.records[pod].key} is not on {self._nodes.records[node].name}"
            )
        return copies.index(node)

    def put(self, pod: int, node: int, number: int) -> None:
        """Put the copy of that number, or the pod `ITSELF`, on that node."""
        if number == ITSELF:
            self.home[pod] = node
        else:
            self._copies.setdefault(pod, []).insert(number, node)
            self._copies_on[node].append(pod)
            self._copies_of_class[int(self._pods.pod_class[pod])].append(node)
        copies = self._copies.get(pod)
        self.latest[pod] = copies[-1] if copies else node

    def take(self, pod: int, node: int, number: int) -> None:
        """Undo `put`, with the same arguments."""
        if number == ITSELF:
            self.home[pod] = NO_ROW
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
        """Return the rows of all pods, sorted by class."""
        return np.argsort(self._pods.pod_class, kind="stable").astype(np.int32)

    @cached_property
    def _class_starts(self) -> Ints:
        """Return [class + 1]: the index in `_by_class` at which the pods of a class start."""
        sizes = np.bincount(self._pods.pod_class)
        return np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))


class DomainCounts:
    __slots__ = ("classes", "counts", "domain_of", "ending")

    def __init__(self, classes: tuple[int, ...], domain_of: Rows, *, ending: bool, nodes: Rows) -> None:
        self.classes = classes
        """The classes that are counted, sorted."""
        self.domain_of = domain_of
        """[node]: its domain; pods on nodes of `NO_ROW` don't count."""
        self.ending = ending
        """Whether pods that are being deleted count."""
        self.counts: dict[int, int] = Counter(domain_of[nodes].tolist())
        """The counts by domain, without zeros."""
        self.counts.pop(NO_ROW, None)

    def at(self, node: int) -> int:
        """Return the count of the node's domain."""
        return self.counts.get(int(self.domain_of[node]), 0)

    def add(self, node: int, by: int) -> None:
        domain = int(self.domain_of[node])
        if domain == NO_ROW:
            return
        count = self.counts.get(domain, 0) + by
        if count:
            self.counts[domain] = count
        else:
            del self.counts[domain]


class DomainCountRegistry:
    """Shares the counts between rules that count the same."""

    def __init__(self, positions: PodPositions) -> None:
        self._positions = positions
        self._by_question: dict[tuple[tuple[int, ...], int, bool], DomainCounts] = {}
        self._with_class: defaultdict[int, list[DomainCounts]] = defaultdict(list)

    def of(self, classes: Iterable[int], domain_of: Rows, *, ending: bool = True) -> DomainCounts:
        listed = tuple(sorted(classes))
        question = (listed, id(domain_of), ending)  # the counts keep the array, so its id stays taken
        found = self._by_question.get(question)
        if found is None:
            nodes = self._positions.nodes_of(listed, ending=ending)
            found = self._by_question[question] = DomainCounts(listed, domain_of, ending=ending, nodes=nodes)
            for pod_class in listed:
                self._with_class[pod_class].append(found)
        return found

    def count(self, pod_class: int, node: int, by: int, *, is_ending: bool) -> None:
        """Add this number of pods of the class to the node."""
        for domain_counts in self._with_class.get(pod_class, ()):
            if domain_counts.ending or not is_ending:
                domain_counts.add(node, by)


@dataclass(frozen=True, slots=True)
class NodeConflicts:
    """Finds pods that keep other pods off their node, such as those with the same host port."""

    pods: PodTable
    positions: PodPositions
    node_labels: NodeLabels
    count_registry: DomainCountRegistry

    def without(self, classes: Iterable[int], refusal: NodeRefusal) -> "_NoConflict":
        """Return a check that passes nodes on which there is no pod of these classes."""
        return _NoConflict(self, self.count_registry.of(classes, self.node_labels.each_node.of), refusal)

    def first_of(self, classes: Iterable[int], node: int) -> str:
        """Return the key of a pod of these classes on that node."""
        wanted = set(classes)
        found = (pod for pod in self.positions.pods_on(node) if self.pods.pod_class[pod] in wanted)
        return next((self.pods.records[pod].key for pod in found), "")


@dataclass(frozen=True, slots=True)
class _NoConflict:
    node_conflicts: NodeConflicts
    domain_counts: DomainCounts
    refused: NodeRefusal

    def fits(self) -> Flags:
        found = np.ones(len(self.node_conflicts.node_labels), np.bool_)
        found[[*self.domain_counts.counts]] = False
        return found

    def refusal(self, node: int) -> NodeRefusal | None:
        if not self.domain_counts.at(node):
            return None
        name = self.node_conflicts.first_of(self.domain_counts.classes, node)
        return replace(self.refused, detail=f"{self.refused.detail}, used by {name}")
