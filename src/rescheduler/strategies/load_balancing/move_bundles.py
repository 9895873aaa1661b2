"""Turn a set of moves into bundles to propose, the highest gain first; each bundle gains by itself.

Some moves gain only together, such as a swap of two pods. They are one bundle, which is accepted as a whole.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rescheduler.cluster.snapshot import Floats, Indices
from rescheduler.strategies.load_balancing.assignment import NEGLIGIBLE, LoadModel, over_resources

__all__ = ["MoveBundle", "move_bundles"]

LONGEST = 16
"""The most moves in a bundle: with more moves, a refusal is more likely, and it affects all of them."""
STARTS = 64
"""The number of moves for which a longer bundle is searched for."""


@dataclass(frozen=True, slots=True)
class MoveBundle:
    moves: tuple[tuple[int, int, int], ...]
    """The pod, source and target of each move."""
    loads: Floats
    """[move, source or target, resource]: the load before any of these moves, in percent."""
    gain: float
    """The share of the imbalance of their nodes that the moves remove.

    It is relative to these nodes and not to the whole cluster, because one move is a small part of a large
    cluster.
    """


def move_bundles(
    load_model: LoadModel, pods: Indices, targets: Indices, *, min_gain: float
) -> Iterator[MoveBundle]:
    """Yield bundles; the caller applies an accepted bundle to `load_model` before it asks for the next.

    Moves that gain too little in any bundle are left out.
    """
    left = _RemainingMoves(load_model, pods, targets, min_gain)
    while len(left.pods):
        load_model.recompute_mean()
        taken = left.singles() or left.pairs() or left.chain()
        if not taken:
            return
        yield from (bundle for _, bundle in taken)
        left.drop([index for indices, _ in taken for index in indices])


MoveIndices = tuple[int, ...]
"""Indices of remaining moves."""


class _RemainingMoves:
    """The moves that have not been proposed yet."""

    def __init__(self, load_model: LoadModel, pods: Indices, targets: Indices, min_gain: float) -> None:
        self.load_model, self.pods, self.targets = load_model, pods, targets
        self.min_gain = min_gain

    def drop(self, indices: list[int]) -> None:
        self.pods, self.targets = np.delete(self.pods, indices), np.delete(self.targets, indices)

    def singles(self) -> list[tuple[MoveIndices, MoveBundle]]:
        gains = self.load_model.gains_each(self.pods, self.targets)
        distance = self.load_model.distances()
        before = distance[self.load_model.at[self.pods]] + distance[self.targets]
        worthwhile = np.flatnonzero(gains > np.maximum(NEGLIGIBLE, self.min_gain * before))
        chosen = self._apart(worthwhile[:, None], gains[worthwhile])
        return [((index,), self._bundle((index,), gains[index] / before[index])) for (index,) in chosen]

    def pairs(self) -> list[tuple[MoveIndices, MoveBundle]]:
        couples, gains = self._couples()
        worthwhile = gains > NEGLIGIBLE
        found = []
        for couple in self._apart(couples[worthwhile], gains[worthwhile]):
            found += self._worthwhile(couple, self._gain(couple))
        return found

    def chain(self) -> list[tuple[MoveIndices, MoveBundle]]:
        """Return a few moves that gain together. Each is the best of those that gain from the moves before
        it."""
        alone = self.load_model.gains_each(self.pods, self.targets)
        for first in np.argsort(-alone, kind="stable")[:STARTS].tolist():
            chain, sources = [first], [self._make(first)]
            total = float(alone[first])
            while total <= NEGLIGIBLE and len(chain) < min(LONGEST, len(self.pods)):
                gains = self.load_model.gains_each(self.pods, self.targets)
                helped = gains - alone
                helped[chain] = -np.inf
                following = int(np.where(helped > NEGLIGIBLE, gains, -np.inf).argmax())
                if helped[following] <= NEGLIGIBLE:
                    break
                total += float(gains[following])
                chain.append(following)
                sources.append(self._make(following))
            for index, source in zip(reversed(chain), reversed(sources), strict=True):
                self.load_model.put(int(self.pods[index]), source)
            if found := self._worthwhile(tuple(chain), total):
                return found
        return []

    def _apart(self, candidates: Indices, gains: Floats) -> list[MoveIndices]:
        """Return the best candidate [candidate, move] and others about as good on other nodes.

        They use different nodes, so making one does not change the gain of another.
        """
        best = np.argsort(-gains, kind="stable")
        candidates = candidates[best[gains[best] >= gains[best[:1]] / 2]]
        sources = self.load_model.at[self.pods[candidates]].tolist()
        targets = self.targets[candidates].tolist()
        touched: set[int] = set()
        found = []
        for indices, here, there in zip(candidates.tolist(), sources, targets, strict=True):
            if touched.isdisjoint(here) and touched.isdisjoint(there):
                touched.update(here, there)
                found.append(tuple(indices))
        return found

    def _worthwhile(self, indices: MoveIndices, gain: float) -> list[tuple[MoveIndices, MoveBundle]]:
        """Return the bundle, or nothing if it gains too little."""
        ends = {int(self.load_model.at[self.pods[index]]) for index in indices}
        ends |= {int(self.targets[index]) for index in indices}
        before = float(np.square(self.load_model.deviation[sorted(ends)]).sum())
        if gain <= max(NEGLIGIBLE, self.min_gain * before):
            return []
        return [(indices, self._bundle(indices, gain / before))]

    def _bundle(self, indices: MoveIndices, gain: float) -> MoveBundle:
        at, load = self.load_model.at, self.load_model.load
        moves = [(pod, int(at[pod]), int(self.targets[i])) for i in indices for pod in (int(self.pods[i]),)]
        loads = load[[node for _, *both in moves for node in both]].reshape(len(moves), 2, -1)
        return MoveBundle(tuple(moves), loads, float(gain))

    def _make(self, index: int) -> int:
        """Make the move, and return the node that the pod left."""
        pod = int(self.pods[index])
        source = int(self.load_model.at[pod])
        self.load_model.put(pod, int(self.targets[index]))
        return source

    def _gain(self, indices: MoveIndices) -> float:
        """Return the gain of all moves together."""
        total, sources = 0.0, []
        for index in indices:
            pod, target = self.pods[index : index + 1], self.targets[index : index + 1]
            total += float(self.load_model.gains_each(pod, target)[0])
            sources.append(self._make(index))
        for index, source in zip(reversed(indices), reversed(sources), strict=True):
            self.load_model.put(int(self.pods[index]), source)
        return total

    def _couples(self) -> tuple[Indices, Floats]:
        """Return [couple, 2] and [couple]: pairs of moves that share a node, and their gains.

        The gain is the sum of both gains, corrected for the nodes that both moves change.
        """
        load_model, number, sources = self.load_model, len(self.pods), self.load_model.at[self.pods]
        amount = load_model.amount[self.pods]
        nodes = np.concatenate([sources, self.targets])
        shares = np.concatenate(
            [-amount * load_model.weight[sources], amount * load_model.weight[self.targets]]
        )
        order = np.argsort(nodes, kind="stable")
        ends = np.searchsorted(nodes[order], nodes[order], side="right")
        following = ends - np.arange(len(order)) - 1
        first = np.repeat(np.arange(len(order)), following)
        second = first + 1 + np.arange(len(first)) - np.repeat(np.cumsum(following) - following, following)
        first, second = order[first], order[second]
        meeting = over_resources(shares[first] * shares[second])
        pairs = np.sort(np.stack([first % number, second % number], axis=1), axis=1)
        keys, where = np.unique(pairs[:, 0] * number + pairs[:, 1], return_inverse=True)
        couples: Indices = np.stack([keys // number, keys % number], axis=1)
        alone = load_model.gains_each(self.pods, self.targets)
        return couples, alone[couples].sum(axis=1) - 2 * np.bincount(where, meeting, len(keys))
