"""ResourceOptimization: keep every node below its thresholds, with as few moves as possible."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from rescheduler.cluster.snapshot import CPU, MEMORY, Flags, Floats, Indices, Rows
from rescheduler.strategies.strategy import Proposal, ProposedMove, View

__all__ = ["ResourceOptimization", "fewest_pods_covering"]

_MOST_PAIRED = 200
"""Pairs are tried among this many of the largest pods."""


def fewest_pods_covering(shares: Floats, excess: Floats, priorities: Rows) -> int | None:
    """Return the pod to move first, so that few pods cover the excess [resource] with their shares [pod,
    resource].

    If one pod is enough, it is the one with the lowest priority, then the smallest. Otherwise it is a pod of
    a pair that is enough; otherwise the pod that covers most. None if no pod uses an exceeded resource.
    """
    exceeded = excess > 0
    shares, excess = shares[:, exceeded], excess[exceeded]
    # A share above the excess does not count.
    covered = (np.minimum(shares, excess) / excess).sum(axis=1)
    if not len(covered) or covered.max() <= 0:
        return None
    enough: Flags = np.all(shares >= excess, axis=1)
    if enough.any():
        size = (shares / excess).sum(axis=1)
        return _first(np.lexsort((size, priorities)), enough)
    largest = np.argsort(-covered, kind="stable")
    some = largest[:_MOST_PAIRED]
    pairs: Flags = np.all(shares[some][:, None] + shares[some] >= excess, axis=2)
    np.fill_diagonal(pairs, val=False)
    if pairs.any():
        in_pair = np.zeros(len(shares), np.bool_)
        in_pair[some[pairs.any(axis=1)]] = True
        return _first(np.lexsort((-covered, priorities)), in_pair)
    return int(largest[0])


def _first(order: Indices, among: Flags) -> int:
    return int(order[among[order]][0])


_WATCHED = (CPU, MEMORY)
_NAMES = ("cpu", "memory")


class ResourceOptimization:
    """Moves pods off nodes above `cpuThreshold` or `memoryThreshold`, with as few moves as possible, to nodes
    that stay below both. The node that is furthest above a threshold comes first."""

    name: ClassVar[str] = "ResourceOptimization"

    def too_hot(self, view: View) -> Flags:
        return _NodeLoads(view).overloaded()

    def propose(self, view: View) -> Iterator[Proposal]:
        loads = _NodeLoads(view)
        nodes = np.flatnonzero(loads.overloaded() & view.hot)
        excess = loads.excess()[nodes].sum(axis=1)
        for node in nodes[np.argsort(-excess, kind="stable")].tolist():
            if view.room <= 0:  # asking which pods may move is what takes long in a large cluster
                return
            yield from self._relieve(loads, node)

    def _relieve(self, loads: "_NodeLoads", node: int) -> Iterator[Proposal]:
        candidates = loads.movable(node)
        while loads.view.room > 0 and candidates and loads.overloaded()[node]:
            shares = loads.shares(candidates, node)
            priorities = loads.view.snapshot.pods.priority[candidates]
            chosen = fewest_pods_covering(shares, loads.excess()[node], priorities)
            if chosen is None:
                return
            pod = candidates.pop(chosen)
            target = loads.target(pod)
            if target is not None and (gain := loads.gain(node, shares[chosen])) > 0:
                yield Proposal((ProposedMove(pod, target, loads.reason(node, target), gain),))


class _NodeLoads:
    """Loads of the placement in percent, compared with the thresholds."""

    def __init__(self, view: View) -> None:
        self.view = view
        allocatable = view.snapshot.nodes.allocatable[:, _WATCHED].astype(np.float64)
        self._weight: Floats = np.divide(
            100.0, allocatable, out=np.zeros_like(allocatable), where=allocatable > 0
        )
        self._threshold: Floats = np.array([view.policy.cpu_threshold, view.policy.memory_threshold])
        self._eligible: Flags = view.nodes & view.snapshot.nodes.ready

    def load(self) -> Floats:
        """Return [node, resource]: percent."""
        load: Floats = self.view.placement.load[:, _WATCHED] * self._weight
        return load

    def excess(self) -> Floats:
        """Return [node, resource]: percentage points above the threshold."""
        return np.maximum(self.load() - self._threshold, 0.0)

    def overloaded(self) -> Flags:
        overloaded: Flags = self._eligible & (self.excess() > 0).any(axis=1)
        return overloaded

    def movable(self, node: int) -> list[int]:
        return [
            pod
            for pod in self.view.placement.pods_on(node)
            if self.view.may_move(pod) and len(self.view.moves_with(pod)) == 1
        ]

    def shares(self, pods: list[int], node: int) -> Floats:
        """Return [pod, resource]: percent of that node."""
        shares: Floats = self.view.snapshot.pods.load[np.ix_(pods, _WATCHED)] * self._weight[node]
        return shares

    def target(self, pod: int) -> int | None:
        """Return the node that stays furthest below the thresholds; if there is none, report why."""
        allowed = self.view.targets(pod) & self.view.nodes
        if not allowed.any():
            self.view.report_no_target(pod)
            return None
        after = self.load() + self.view.snapshot.pods.load[pod, _WATCHED] * self._weight
        room = (self._threshold - after).min(axis=1)
        room[~allowed] = -np.inf
        best = int(room.argmax())
        if room[best] < 0:
            self.view.report_staying(pod, "NoTarget", "it would put every possible target above a threshold")
            return None
        return best

    def gain(self, node: int, share: Floats) -> float:
        """Return the share of its excess that the node loses with the pod; 0 if below `minGain`."""
        excess = self.excess()[node]
        gain = float(np.minimum(share, excess).sum() / excess.sum())
        return gain if gain >= self.view.policy.min_gain else 0.0

    def reason(self, node: int, target: int) -> str:
        """Return the reason with the resource that is furthest above its threshold, with loads before the
        plan."""
        before = self.view.snapshot.nodes.load[:, _WATCHED] * self._weight
        worst = int(self.excess()[node].argmax())
        source, limit = before[node, worst], self._threshold[worst]
        words = f"{_NAMES[worst]}: source {source:.1f}%, target {before[target, worst]:.1f}%"
        return f"{words}, threshold {limit:.1f}%"
