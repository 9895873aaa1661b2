"""Many sets of moves at once, where there are few pods and few moves.

A set grows by one move at a time; of all sets of a size, those that are best so far are kept, as many as the
beam is wide. What a move adds to a set follows from where the set leaves the nodes:

    gain(move | set) = gain(move) - 2 · Σ_nodes,resources  change(set) · change(move)

so one product tells it of all moves and all sets. The rules are asked about single moves only, before, and
about whole sets by whoever makes them.
"""

from typing import NamedTuple

import numpy as np

from rescheduler.strategies.balance import Flags, Floats, Rows
from rescheduler.strategies.sketch import Sketch

__all__ = ["Moves", "best_sets"]

SPARE = 3
"""So many times the width is looked at: a set can be put together in any order, but is kept once."""

Moves = list[tuple[int, int]]
"""Pods and targets."""


class _Beam(NamedTuple):
    """Sets of equal size, best first."""

    gains: Floats
    """[set]"""
    change: Floats
    """[set, node, resource]: what it adds to the load of nodes."""
    moves: Rows
    """[set, move, pod or target]: as indices of the pods that may move, and nodes."""
    names: Rows
    """[set]: equal for equal sets."""


def best_sets(sketch: Sketch, moves: int, width: int) -> list[Moves]:
    """Sets of so many moves of pods that are at home, best first."""
    pods = np.flatnonzero((sketch.balance.at == sketch.home) & ~sketch.stays)
    pods = pods[[sketch.may_move(pod) for pod in pods.tolist()]] if len(pods) else pods
    if not len(pods):
        return []
    sketch.balance.recentre()
    choice = _Choice(sketch, pods)
    nodes, resources = sketch.balance.off.shape
    beam = _Beam(
        np.zeros(1), np.zeros((1, nodes, resources)), np.zeros((1, 0, 2), np.intp), np.zeros(1, np.intp)
    )
    for _ in range(moves):
        longer = choice.longer(beam, width)
        if not len(longer.gains):
            break
        beam = longer
    return [[(int(pods[pod]), target) for pod, target in each] for each in beam.moves.tolist()]


class _Choice:
    """All moves of some pods."""

    def __init__(self, sketch: Sketch, pods: Rows) -> None:
        balance = sketch.balance
        self.at = balance.at[pods]
        self.amount, self.weight = balance.amount[pods], balance.weight
        nodes = np.arange(len(balance.off))
        allowed: Flags = np.stack([sketch.places(pod) for pod in pods.tolist()])
        self.gains: Floats = np.where(allowed, balance.gains(pods, nodes), -np.inf)
        """[pod, node]: of a move alone."""
        self.gains[np.arange(len(pods)), self.at] = -np.inf
        # Sets are told apart by the sum of what their moves are named: any large numbers without a pattern.
        self.names: Rows = np.random.default_rng(0).integers(1, 2**48, self.gains.shape)

    def longer(self, beam: _Beam, width: int) -> _Beam:
        """The best sets of one move more."""
        gains = self._gains(beam)
        some = min(SPARE * width, gains.size)
        best = np.argpartition(-gains, some - 1, axis=None)[:some]
        best = best[np.argsort(-gains.ravel()[best], kind="stable")]
        found = gains.ravel()[best]
        sets, pods, targets = np.unravel_index(best[np.isfinite(found)], gains.shape)
        names = beam.names[sets] + self.names[pods, targets]
        kept = np.sort(np.unique(names, return_index=True)[1])[:width]
        sets, pods, targets = sets[kept], pods[kept], targets[kept]
        each = np.arange(len(kept))
        change = beam.change[sets]
        change[each, targets] += self.amount[pods] * self.weight[targets]
        change[each, self.at[pods]] -= self.amount[pods] * self.weight[self.at[pods]]
        moves = np.concatenate([beam.moves[sets], np.stack([pods, targets], axis=1)[:, None]], axis=1)
        return _Beam(found[kept], change, moves, names[kept])

    def _gains(self, beam: _Beam) -> Floats:
        """[set, pod, node]: what a set gains with that move; no pod moves twice."""
        meeting = np.zeros((len(beam.gains), *self.gains.shape))
        for amount, change in zip(self.amount.T, np.moveaxis(beam.change * self.weight, 2, 0), strict=True):
            meeting += amount[:, None] * change[:, None]
        meeting -= np.take_along_axis(meeting, self.at[None, :, None], axis=2)
        gains: Floats = beam.gains[:, None, None] + self.gains - 2 * meeting
        for pods in beam.moves[..., 0].T:
            gains[np.arange(len(pods)), pods] = -np.inf
        return gains
