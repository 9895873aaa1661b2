"""Search for a set of moves: steepest descent, then improvement without more moves.

If the limit of moves is reached, the least useful moves are undone, and others are made where they gain more.
With few pods and few moves, a beam search compares many sets of moves. A set grows by one move at a time, and
the gain of a move depends on what the set changes:

    gain(move | set) = gain(move) - 2 · Σ_nodes,resources  change(set) · change(move)

so one product gives the gains of all moves for all sets. The rules are asked about single moves before the
search, and about whole sets when they are applied.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np

from rescheduler.cluster.snapshot import Flags, Floats, Indices
from rescheduler.strategies.load_balancing.assignment import NEGLIGIBLE, Assignment
from rescheduler.strategies.load_balancing.local_search import (
    SMALL,
    improve_moves,
    reselect_by_source,
    swap_pods,
    undo_moves,
)
from rescheduler.strategies.load_balancing.steepest_descent import descend

__all__ = ["Moves", "best_sets", "search_moves"]

SPARE = 3
"""How many candidates are considered per set to keep, because equal sets are found in several orders."""

Moves = list[tuple[int, int]]
"""Pods and targets."""


class _Beam(NamedTuple):
    """Sets of equal size, best first."""

    gains: Floats
    """[set]"""
    change: Floats
    """[set, node, resource]: the change of the node's load."""
    moves: Indices
    """[set, move, pod or target]: an index of the pods that may move, and a node."""
    ids: Indices
    """[set]: a number that is equal for equal sets."""


def best_sets(assignment: Assignment, moves: int, width: int) -> list[Moves]:
    """Return the best sets of this number of moves of pods that have not moved, the best first."""
    pods = np.flatnonzero((assignment.load_model.at == assignment.home) & ~assignment.immovable)
    pods = pods[[assignment.may_move(pod) for pod in pods.tolist()]] if len(pods) else pods
    if not len(pods):
        return []
    assignment.load_model.recompute_mean()
    choice = _Choice(assignment, pods)
    nodes, resources = assignment.load_model.deviation.shape
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

    def __init__(self, assignment: Assignment, pods: Indices) -> None:
        load_model = assignment.load_model
        self.at = load_model.at[pods]
        self.amount, self.weight = load_model.amount[pods], load_model.weight
        nodes = np.arange(len(load_model.deviation))
        allowed: Flags = np.stack([assignment.places(pod) for pod in pods.tolist()])
        self.gains: Floats = np.where(allowed, load_model.gains(pods, nodes), -np.inf)
        """[pod, node]: the gain of a single move."""
        self.gains[np.arange(len(pods)), self.at] = -np.inf
        # The sum of random numbers, one per move, identifies a set.
        self.ids: Indices = np.random.default_rng(0).integers(1, 2**48, self.gains.shape)

    def longer(self, beam: _Beam, width: int) -> _Beam:
        """Return the best sets with one more move."""
        gains = self._gains(beam)
        some = min(SPARE * width, gains.size)
        best = np.argpartition(-gains, some - 1, axis=None)[:some]
        best = best[np.argsort(-gains.ravel()[best], kind="stable")]
        found = gains.ravel()[best]
        sets, pods, targets = np.unravel_index(best[np.isfinite(found)], gains.shape)
        ids = beam.ids[sets] + self.ids[pods, targets]
        kept = np.sort(np.unique(ids, return_index=True)[1])[:width]
        sets, pods, targets = sets[kept], pods[kept], targets[kept]
        each = np.arange(len(kept))
        change = beam.change[sets]
        change[each, targets] += self.amount[pods] * self.weight[targets]
        change[each, self.at[pods]] -= self.amount[pods] * self.weight[self.at[pods]]
        moves = np.concatenate([beam.moves[sets], np.stack([pods, targets], axis=1)[:, None]], axis=1)
        return _Beam(found[kept], change, moves, ids[kept])

    def _gains(self, beam: _Beam) -> Floats:
        """Return [set, pod, node]: the gain of a set with one more move; no pod moves twice."""
        meeting = np.zeros((len(beam.gains), *self.gains.shape))
        for amount, change in zip(self.amount.T, np.moveaxis(beam.change * self.weight, 2, 0), strict=True):
            meeting += amount[:, None] * change[:, None]
        meeting -= np.take_along_axis(meeting, self.at[None, :, None], axis=2)
        gains: Floats = beam.gains[:, None, None] + self.gains - 2 * meeting
        for pods in beam.moves[..., 0].T:
            gains[np.arange(len(pods)), pods] = -np.inf
        return gains


ROUNDS = 6
WORTH_DESCENDING = 0.1
"""The share of the imbalance that a round of the first descent must remove for another round to follow."""
WORTH_RELAXING = 0.1
"""The share of the imbalance that a relaxation must remove for another one to follow."""
RELAXATIONS = (0.05, 0.03, 0.01)
"""The shares of the moves that are undone in each relaxation."""
DEPTH = 12
"""The most moves that are undone together in small clusters; smaller numbers are tried, too."""
MOST_MOVES = 12
MOST_CHOICES = 8_000
"""The largest number of pods times nodes for which all moves are considered together."""
WIDE, NARROW = 500_000, 100_000
"""How many candidates are kept over all sets in a search of many moves, and of two."""
SETS_TRIED = 8
"""How many of the best sets are tried, because rules may forbid a set as a whole."""
TRIALS = 80
"""How often pairs of moves are searched again."""


def search_moves(assignment: Assignment) -> None:
    """Search for moves until the load is inside the threshold, or as even as the limit allows."""
    is_small = len(assignment.bounds.receives) <= SMALL
    # In a large cluster, exchanges gain more than a long descent, in fewer rounds.
    descend(assignment, worth_a_round=0.0 if is_small else WORTH_DESCENDING)
    if assignment.balanced:
        return
    improve_moves(assignment)
    descend(assignment)  # improving may have saved moves
    if assignment.moves < assignment.bounds.limit:
        assignment.forget_targets()
        swap_pods(assignment)
        if is_small:
            _improve_until_stable(assignment)
        if not is_small or assignment.moves < assignment.bounds.limit:
            return
    _relax_and_improve(assignment)
    if is_small:
        _search_widely(assignment)


def _improve_until_stable(assignment: Assignment) -> None:
    """Improve until no change gains, so that the next check finds nothing more to do."""
    for _ in range(ROUNDS):
        before = assignment.arrangement()
        assignment.forget_targets()
        improve_moves(assignment)
        descend(assignment)
        swap_pods(assignment)
        if np.array_equal(before, assignment.load_model.at):
            return


def _relax_and_improve(assignment: Assignment) -> None:
    best, least = assignment.arrangement(), assignment.load_model.squared_deviation
    is_small = len(assignment.bounds.receives) <= SMALL
    for fewer in _relaxations(assignment.bounds.limit, is_small=is_small):
        if assignment.balanced:
            break
        undo_moves(assignment, fewer)
        improve_moves(assignment)
        descend(assignment)
        swap_pods(assignment)
        reselect_by_source(assignment)
        improve_moves(assignment)
        gained = least - assignment.load_model.squared_deviation
        if gained > NEGLIGIBLE:
            best, least = assignment.arrangement(), assignment.load_model.squared_deviation
        if not is_small and gained < WORTH_RELAXING * least:
            break
    assignment.restore(best)


def _relaxations(limit: int, *, is_small: bool) -> list[int]:
    """Return how many moves to undo in each round."""
    if is_small:
        return list(range(1, min(limit, DEPTH) + 1))
    return sorted({round(limit * share) for share in RELAXATIONS} - {0}, reverse=True)


def _search_widely(assignment: Assignment) -> None:
    """Search all sets of moves together, then search each pair of moves again."""
    size = len(assignment.home) * len(assignment.bounds.receives)
    if assignment.bounds.limit > MOST_MOVES or size > MOST_CHOICES:
        return
    best = _Best(assignment)
    assignment.restore(assignment.home)
    assignment.forget_targets()
    best.improve_by(best_sets(assignment, assignment.bounds.limit, WIDE // size))
    trials = TRIALS
    while trials > 0 and not assignment.balanced:
        for few in combinations(assignment.moved_pods().tolist(), 2):
            trials -= 1
            for pod in few:
                assignment.put(pod, int(assignment.home[pod]))
            if best.improve_by(best_sets(assignment, len(few), NARROW // size)) or trials <= 0:
                break
        else:
            return


class _Best:
    """The best arrangement so far, which the search restores."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._keep()

    def _keep(self) -> None:
        self._arrangement, self._least = (
            self._assignment.arrangement(),
            self._assignment.load_model.squared_deviation,
        )

    def improve_by(self, sets: list[Moves]) -> bool:
        """Apply the first of these sets that is better than the best so far; return whether there is one."""
        start = self._assignment.arrangement()
        for moves in sets[:SETS_TRIED]:
            if (
                _make(self._assignment, moves)
                and self._least - self._assignment.load_model.squared_deviation > NEGLIGIBLE
            ):
                self._keep()
                return True
            self._assignment.restore(start)
        self._assignment.restore(self._arrangement)
        return False


def _make(assignment: Assignment, moves: Moves) -> bool:
    """Make all moves if there is an order in which they can be made; return whether there is."""
    left = moves
    while left:
        waiting = []
        for pod, target in left:
            if assignment.may_go(pod, target):
                assignment.put(pod, target)
            else:
                waiting.append((pod, target))
        if len(waiting) == len(left):
            return False
        left = waiting
    return True
