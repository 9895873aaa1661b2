"""ResourceOptimization: no node above its thresholds."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from rescheduler.snapshot.snapshot import CPU, MEMORY
from rescheduler.strategies.balance import Flags, Floats
from rescheduler.strategies.covering import fewest
from rescheduler.strategies.strategy import Proposal, Step, View

__all__ = ["ResourceOptimization"]

_WATCHED = (CPU, MEMORY)
_NAMES = ("cpu", "memory")


class ResourceOptimization:
    """Nodes above `cpuThreshold` or `memoryThreshold` shed pods until they are below, with the fewest moves,
    onto nodes that stay below in both. The node that is furthest above goes first.
    """

    name: ClassVar[str] = "ResourceOptimization"
    urgent: ClassVar[bool] = False

    def too_hot(self, view: View) -> Flags:
        return _Scene(view).overloaded()

    def propose(self, view: View) -> Iterator[Proposal]:
        scene = _Scene(view)
        nodes = np.flatnonzero(scene.overloaded() & view.hot)
        excess = scene.excess()[nodes].sum(axis=1)
        for node in nodes[np.argsort(-excess, kind="stable")].tolist():
            yield from self._relieve(scene, node)

    def _relieve(self, scene: "_Scene", node: int) -> Iterator[Proposal]:
        candidates = scene.movable(node)
        while scene.view.room > 0 and candidates and scene.overloaded()[node]:
            shares = scene.shares(candidates, node)
            priorities = scene.view.snapshot.pods.priority[candidates]
            chosen = fewest(shares, scene.excess()[node], priorities)
            if chosen is None:
                return
            pod = candidates.pop(chosen)
            target = scene.target(pod)
            if target is not None and (gain := scene.gain(node, shares[chosen])) > 0:
                yield Proposal((Step(pod, target, scene.reason(node, target), gain),))


class _Scene:
    """Loads in percent as the board has them, against the thresholds."""

    def __init__(self, view: View) -> None:
        self.view = view
        allocatable = view.snapshot.nodes.allocatable[:, _WATCHED].astype(np.float64)
        self._weight: Floats = np.divide(
            100.0, allocatable, out=np.zeros_like(allocatable), where=allocatable > 0
        )
        self._threshold: Floats = np.array([view.policy.cpu_threshold, view.policy.memory_threshold])
        self._eligible: Flags = view.nodes & view.snapshot.nodes.ready

    def load(self) -> Floats:
        """[node, resource]: percent."""
        load: Floats = self.view.board.load[:, _WATCHED] * self._weight
        return load

    def excess(self) -> Floats:
        """[node, resource]: percentage points above the threshold."""
        return np.maximum(self.load() - self._threshold, 0.0)

    def overloaded(self) -> Flags:
        overloaded: Flags = self._eligible & (self.excess() > 0).any(axis=1)
        return overloaded

    def movable(self, node: int) -> list[int]:
        return [
            pod
            for pod in self.view.board.pods_on(node)
            if self.view.may_move(pod) and len(self.view.together(pod)) == 1
        ]

    def shares(self, pods: list[int], node: int) -> Floats:
        """[pod, resource]: percent of that node."""
        shares: Floats = self.view.snapshot.pods.load[np.ix_(pods, _WATCHED)] * self._weight[node]
        return shares

    def target(self, pod: int) -> int | None:
        """The node, of those that stay below with it, that is left with most room. None is noted."""
        allowed = self.view.targets(pod) & self.view.nodes
        if not allowed.any():
            self.view.stuck(pod)
            return None
        after = self.load() + self.view.snapshot.pods.load[pod, _WATCHED] * self._weight
        room = (self._threshold - after).min(axis=1)
        room[~allowed] = -np.inf
        best = int(room.argmax())
        if room[best] < 0:
            self.view.stay(pod, "NoTarget", "every node that could take it would be above a threshold then")
            return None
        return best

    def gain(self, node: int, share: Floats) -> float:
        """How much of its excess the node loses with that pod; 0 if less than `minGain`."""
        excess = self.excess()[node]
        gain = float(np.minimum(share, excess).sum() / excess.sum())
        return gain if gain >= self.view.policy.min_gain else 0.0

    def reason(self, node: int, target: int) -> str:
        """In the resource in which the node is furthest above its threshold."""
        load, worst = self.load(), int(self.excess()[node].argmax())
        source, limit = load[node, worst], self._threshold[worst]
        words = f"{_NAMES[worst]}: source {source:.1f}%, target {load[target, worst]:.1f}%"
        return f"{words}, threshold {limit:.1f}%"
