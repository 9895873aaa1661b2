"""From a set of moves to proposals in order: the steepest first, and each of them a gain by itself.

Some moves pay only together, such as two pods that change places. Those are bundled: taken all or none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rescheduler.strategies.balance import Balance, Floats, Rows
from rescheduler.strategies.product import product
from rescheduler.strategies.sketch import NEGLIGIBLE

__all__ = ["Bundle", "bundles"]

LONGEST = 6
"""Moves in a bundle: the more there are, the likelier it is that one is refused, and all with it."""
STARTS = 64
"""Moves that company of more than one is sought for."""


@dataclass(frozen=True, slots=True)
class Bundle:
    moves: tuple[tuple[int, int, int], ...]
    """Pod, source, target."""
    loads: Floats
    """[move, source or target, resource]: before any of them, in percent."""
    gain: float
    """How much less far from the mean the nodes of these moves are after them, relative to before.

    Relative to these nodes and not to the whole cluster, of which one move is the smaller a part the larger
    it is.
    """


def bundles(balance: Balance, pods: Rows, targets: Rows, *, min_gain: float) -> Iterator[Bundle]:
    """Whoever takes one makes it on `balance` before asking for the next, or leaves things as they are.

    What gains too little in any company is left out.
    """
    left = _Left(balance, pods, targets, min_gain)
    while len(left.pods):
        balance.recentre()
        taken = left.singles() or left.pairs() or left.chain()
        if not taken:
            return
        yield from (bundle for _, bundle in taken)
        left.drop([index for indices, _ in taken for index in indices])


Indices = tuple[int, ...]
"""Of the moves that are left."""


class _Left:
    """The moves that have not been proposed yet."""

    def __init__(self, balance: Balance, pods: Rows, targets: Rows, min_gain: float) -> None:
        self.balance, self.pods, self.targets = balance, pods, targets
        self.min_gain = min_gain

    def drop(self, indices: list[int]) -> None:
        self.pods, self.targets = np.delete(self.pods, indices), np.delete(self.targets, indices)

    def singles(self) -> list[tuple[Indices, Bundle]]:
        """The best, and others about as good that concern other nodes."""
        gains = self.balance.gains_each(self.pods, self.targets)
        return self._apart(gains, [(index,) for index in range(len(gains))])

    def pairs(self) -> list[tuple[Indices, Bundle]]:
        gains = self._gains_of_pairs()
        first, second = np.nonzero(np.triu(gains > NEGLIGIBLE, 1))
        return self._apart(gains[first, second], list(zip(first.tolist(), second.tolist(), strict=True)))

    def chain(self) -> list[tuple[Indices, Bundle]]:
        """A few moves, each the best of those that the ones before it help, that gain together."""
        alone = self.balance.gains_each(self.pods, self.targets)
        for first in np.argsort(-alone, kind="stable")[:STARTS].tolist():
            chain, sources = [first], [self._make(first)]
            total = float(alone[first])
            while total <= NEGLIGIBLE and len(chain) < min(LONGEST, len(self.pods)):
                gains = self.balance.gains_each(self.pods, self.targets)
                helped = gains - alone
                helped[chain] = -np.inf
                following = int(np.where(helped > NEGLIGIBLE, gains, -np.inf).argmax())
                if helped[following] <= NEGLIGIBLE:
                    break
                total += float(gains[following])
                chain.append(following)
                sources.append(self._make(following))
            for index, source in zip(reversed(chain), reversed(sources), strict=True):
                self.balance.put(int(self.pods[index]), source)
            if found := self._worthwhile([(tuple(chain), total)]):
                return found
        return []

    def _apart(self, gains: Floats, candidates: Sequence[Indices]) -> list[tuple[Indices, Bundle]]:
        """The best ones, each node in one at most: so making one does not change what another gains."""
        found: list[tuple[Indices, float]] = []
        touched: set[int] = set()
        order = np.argsort(-gains, kind="stable").tolist()
        floor = max(NEGLIGIBLE, gains[order[0]] / 2) if order else 0.0
        for rank in order:
            if gains[rank] < floor:
                break
            indices = candidates[rank]
            nodes = {int(self.balance.at[self.pods[index]]) for index in indices}
            nodes |= {int(self.targets[index]) for index in indices}
            if touched.isdisjoint(nodes):
                touched |= nodes
                found.append((indices, float(gains[rank])))
        return self._worthwhile(found)

    def _worthwhile(self, found: Sequence[tuple[Indices, float]]) -> list[tuple[Indices, Bundle]]:
        worthwhile = []
        for indices, gain in found:
            moves = [
                (int(self.pods[i]), int(self.balance.at[self.pods[i]]), int(self.targets[i])) for i in indices
            ]
            ends = [node for _, *both in moves for node in both]
            before = float(np.square(self.balance.off[ends if len(moves) == 1 else sorted(set(ends))]).sum())
            if gain > max(NEGLIGIBLE, self.min_gain * before):
                loads = self.balance.load[ends].reshape(len(moves), 2, -1)
                worthwhile.append((indices, Bundle(tuple(moves), loads, gain / before)))
        return worthwhile

    def _make(self, index: int) -> int:
        """Makes that move; from where."""
        pod = int(self.pods[index])
        source = int(self.balance.at[pod])
        self.balance.put(pod, int(self.targets[index]))
        return source

    def _gains_of_pairs(self) -> Floats:
        """[move, move]: what two moves gain together: each alone, and where they meet on a node, less what
        they both change there."""
        balance, sources = self.balance, self.balance.at[self.pods]
        alone = balance.gains_each(self.pods, self.targets)
        less = balance.amount[self.pods] * balance.weight[sources]
        more = balance.amount[self.pods] * balance.weight[self.targets]
        crossing = np.where(sources[:, None] == self.targets, product(less, more), 0.0)
        meeting = np.where(self.targets[:, None] == self.targets, product(more, more), 0.0)
        meeting += np.where(sources[:, None] == sources, product(less, less), 0.0) - crossing - crossing.T
        gains: Floats = alone[:, None] + alone - 2 * meeting
        return gains
