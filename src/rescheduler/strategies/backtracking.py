"""Places for a few pods by trying all ways in turn: where room is so scarce that every place counts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rescheduler.rules.board import Board

__all__ = ["try_all_ways"]

Flags = npt.NDArray[np.bool_]

_MOST_PODS = 24
_TRIES = 4_000
"""How many times a pod is put somewhere. Both bound the time: what takes more has rarely a solution."""


def try_all_ways(board: Board, pods: Sequence[int], allowed: Callable[[int], Flags]) -> dict[int, int] | None:
    """A place for each of them, or None if it can't be, or takes too long. The board is left as it was."""
    if len(pods) > _MOST_PODS:
        return None
    search = _Search(board, allowed)
    return search.found if search.place(frozenset(pods)) else None


@dataclass(slots=True)
class _Search:
    board: Board
    allowed: Callable[[int], Flags]
    found: dict[int, int] = field(default_factory=dict)
    tries: int = 0

    def place(self, pods: frozenset[int]) -> bool:
        if not pods:
            return True
        # Who has the fewest places left goes first: if that is none, all that follows would be in vain.
        places = {pod: np.flatnonzero(self.allowed(pod)).tolist() for pod in sorted(pods)}
        pod = min(places, key=lambda each: (len(places[each]), each))
        for node in self._fullest_first(places[pod]):
            self.tries += 1
            if self.tries > _TRIES:
                return False
            with self.board.trial():
                self.board.move(pod, node)
                if self.place(pods - {pod}):
                    self.found[pod] = node
                    return True
        return False

    def _fullest_first(self, nodes: Sequence[int]) -> list[int]:
        snapshot, requested = self.board.snapshot, self.board.requested
        free = {node: int((snapshot.nodes.allocatable[node] - requested[node])[0]) for node in nodes}
        return sorted(nodes, key=lambda node: (free[node], node))
