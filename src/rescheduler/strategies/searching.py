"""The search for a set of moves: down as steeply as possible, then better without being longer.

A sketch that has used up its limit is loosened: the least useful moves are taken back, what remains makes up
for them with larger pods, and the moves thus saved go where they help more.
"""

from itertools import combinations

import numpy as np

from rescheduler.strategies.beam import Moves, best_sets
from rescheduler.strategies.descent import descend
from rescheduler.strategies.settling import SMALL, sends_others, settle, take_back
from rescheduler.strategies.sketch import NEGLIGIBLE, Sketch
from rescheduler.strategies.trading import trade

__all__ = ["search"]

ROUNDS = 6
WORTH_LOOSENING = 0.1
"""What a loosening must take off the unevenness for another one to follow."""
LOOSENING = (0.05, 0.03, 0.01)
"""Shares of the moves that are taken back, one after the other."""
DEPTH = 12
"""In small clusters, each number of moves up to this one is taken back."""
MOST_MOVES = 12
MOST_CHOICES = 8_000
"""Pods times nodes: up to so many, and so few moves, all of them are looked at together."""
WIDE, NARROW = 500_000, 100_000
"""Choices over all sets that are kept while many moves are looked for, or two."""
SETS_TRIED = 8
"""Of the sets that are found best, how many are tried: rules may forbid one as a whole."""
TRIALS = 80
"""How often two moves are made anew."""


def search(sketch: Sketch) -> None:
    """As even as the limit allows, or inside the threshold."""
    is_small = len(sketch.bounds.takes) <= SMALL
    descend(sketch)
    if sketch.balanced:
        return
    settle(sketch)
    descend(sketch)  # with what settling saved
    if sketch.moves < sketch.bounds.limit:
        sketch.look_again()
        trade(sketch)
        if is_small:
            _go_on_until_nothing_changes(sketch)
        if not is_small or sketch.moves < sketch.bounds.limit:
            return
    _loosen_and_tighten(sketch)
    if is_small:
        _look_wide(sketch)


def _go_on_until_nothing_changes(sketch: Sketch) -> None:
    """So that the next check, which knows nothing of this one, finds nothing more to do."""
    for _ in range(ROUNDS):
        before = sketch.arrangement()
        sketch.look_again()
        settle(sketch)
        descend(sketch)
        trade(sketch)
        if np.array_equal(before, sketch.balance.at):
            return


def _loosen_and_tighten(sketch: Sketch) -> None:
    best, least = sketch.arrangement(), sketch.balance.unevenness
    is_small = len(sketch.bounds.takes) <= SMALL
    for fewer in _loosening(sketch.bounds.limit, is_small=is_small):
        if sketch.balanced:
            break
        take_back(sketch, fewer)
        settle(sketch)
        descend(sketch)
        trade(sketch)
        sends_others(sketch)
        settle(sketch)
        gained = least - sketch.balance.unevenness
        if gained > NEGLIGIBLE:
            best, least = sketch.arrangement(), sketch.balance.unevenness
        if not is_small and gained < WORTH_LOOSENING * least:
            break
    sketch.restore(best)


def _loosening(limit: int, *, is_small: bool) -> list[int]:
    """How many moves are taken back, one time after the other."""
    if is_small:
        return list(range(1, min(limit, DEPTH) + 1))
    return sorted({round(limit * share) for share in LOOSENING} - {0}, reverse=True)


def _look_wide(sketch: Sketch) -> None:
    """All sets of moves at once as far as can be, from the beginning; then each two moves anew."""
    size = len(sketch.home) * len(sketch.bounds.takes)
    if sketch.bounds.limit > MOST_MOVES or size > MOST_CHOICES:
        return
    best = _Best(sketch)
    sketch.restore(sketch.home)
    sketch.look_again()
    best.improve_by(best_sets(sketch, sketch.bounds.limit, WIDE // size))
    trials = TRIALS
    while trials > 0 and not sketch.balanced:
        for few in combinations(sketch.away().tolist(), 2):
            trials -= 1
            for pod in few:
                sketch.put(pod, int(sketch.home[pod]))
            if best.improve_by(best_sets(sketch, len(few), NARROW // size)) or trials <= 0:
                break
        else:
            return


class _Best:
    """The best arrangement so far, which the sketch is brought back to."""

    def __init__(self, sketch: Sketch) -> None:
        self._sketch = sketch
        self._keep()

    def _keep(self) -> None:
        self._arrangement, self._least = self._sketch.arrangement(), self._sketch.balance.unevenness

    def improve_by(self, sets: list[Moves]) -> bool:
        """Whether one of the first of these sets, made from where the sketch is, is better than the best."""
        start = self._sketch.arrangement()
        for moves in sets[:SETS_TRIED]:
            if _make(self._sketch, moves) and self._least - self._sketch.balance.unevenness > NEGLIGIBLE:
                self._keep()
                return True
            self._sketch.restore(start)
        self._sketch.restore(self._arrangement)
        return False


def _make(sketch: Sketch, moves: Moves) -> bool:
    """Whether there was an order in which all could be made."""
    left = moves
    while left:
        waiting = []
        for pod, target in left:
            if sketch.may_go(pod, target):
                sketch.put(pod, target)
            else:
                waiting.append((pod, target))
        if len(waiting) == len(left):
            return False
        left = waiting
    return True
