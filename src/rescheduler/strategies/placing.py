"""Places for many pods at once, so that as many as possible find one.

The pods that are hardest to place choose first: those with the fewest nodes to go to, then the largest. Who
finds no place because an earlier one took it makes that one look for another.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from rescheduler.snapshot.snapshot import CPU, MEMORY, NodeTable
from rescheduler.strategies.strategy import View

__all__ = [
    "Choice",
    "Places",
    "Unit",
    "complete_units",
    "find_places",
    "load_with",
    "roomiest",
    "share_of_node",
    "tightest",
]

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

Unit = tuple[int, ...]
"""Pods that move together or not at all: usually one."""

Choice = Callable[[View, int, Rows], int]
"""Which of the nodes where a pod may go is the best for it."""

_PASSES = 3
"""A pod may have to wait for others to move: where spread counts, each of them changes what is allowed."""
_RELOCATIONS = 2_000
"""How many times to try whether somebody else could give way, in all: it bounds the time, not the result
of clusters that are not crammed full."""


@dataclass(frozen=True, slots=True)
class Places:
    targets: dict[int, int]
    """By pod, in the order in which they were found."""
    homeless: list[Unit]


def complete_units(view: View, pods: Iterable[int]) -> list[Unit]:
    """Everybody with those that must come along. Where one of a group can't, the others stay too."""
    complete: list[Unit] = []
    for unit in sorted({view.together(pod) for pod in pods}):
        kept = [pod for pod in unit if not view.may_move(pod)]
        if not kept:
            complete.append(unit)
            continue
        name = view.snapshot.pods.records[kept[0]].key
        for pod in set(unit) - set(kept):
            view.stay(pod, "GroupIncomplete", f"{name} would have to move too")
    return complete


@lru_cache(maxsize=2)
def average_node(nodes: NodeTable) -> Floats:
    """[resource]: what a node has on average; never 0."""
    average: Floats = np.maximum(nodes.allocatable.sum(axis=0) / max(len(nodes), 1), 1)
    return average


def share_of_node(view: View, pod: int) -> float:
    """How much of an average node it takes, of the resource that it takes most of."""
    return float((view.snapshot.pods.requests[pod] / average_node(view.snapshot.nodes)).max())


def load_with(view: View, pod: int, nodes: Rows) -> Floats:
    """Load of each of these nodes with that pod on it, in percent: cpu or memory, whichever is higher."""
    snapshot = view.snapshot
    loads = np.stack(
        [
            (view.board.load[nodes, column] + snapshot.pods.load[pod, column])
            / np.maximum(snapshot.nodes.allocatable[nodes, column], 1)
            for column in (CPU, MEMORY)
        ]
    )
    highest: Floats = 100 * loads.max(axis=0)
    return highest


def roomiest(view: View, pod: int, nodes: Rows) -> int:
    """The node that is least loaded with it: the cluster stays even."""
    return int(nodes[load_with(view, pod, nodes).argmin()])


def room_left(view: View, pod: int, nodes: Rows) -> Floats:
    """What each of these nodes has left with that pod on it, in average nodes, all resources together."""
    snapshot = view.snapshot
    left = snapshot.nodes.allocatable[nodes] - view.board.requested[nodes] - snapshot.pods.requests[pod]
    total: Floats = left @ (1 / average_node(snapshot.nodes))
    return total


def tightest(view: View, pod: int, nodes: Rows) -> int:
    """The node that has least left with it: large gaps are kept for large pods."""
    return int(nodes[room_left(view, pod, nodes).argmin()])


def find_places(
    view: View, units: Sequence[Unit], choose: Choice, allowed: Callable[[int], Flags] | None = None
) -> Places:
    """The board is left as it was: the places are a proposal.

    `allowed` says where a pod may go as things stand: as the view has it, unless a strategy is choosier.
    """
    allowed = allowed or view.targets
    options = {pod: np.flatnonzero(allowed(pod)) for unit in units for pod in unit}
    home = {pod: int(view.board.position[pod]) for pod in options}

    def hardness(unit: Unit) -> tuple[int, float, Unit]:
        return (
            min(options[pod].size for pod in unit),
            -max(share_of_node(view, pod) for pod in unit),
            unit,
        )

    waiting = sorted(units, key=hardness)
    with view.board.trial():
        search = _Search(view, choose, allowed, options, home)
        for _ in range(_PASSES):
            before = len(waiting)
            waiting = [unit for unit in waiting if not search.settle(unit)]
            if len(waiting) in (0, before):
                break
        homeless = [unit for unit in waiting if not search.settle(unit, others_give_way=True)]
    return Places(search.targets, homeless)


@dataclass(slots=True)
class _Search:
    view: View
    choose: Choice
    allowed: Callable[[int], Flags]
    options: dict[int, Rows]
    """Where each pod could go if nobody else moved."""
    home: dict[int, int]
    """Where each of them is."""
    targets: dict[int, int] = field(default_factory=dict)
    relocations: int = 0

    def settle(self, unit: Unit, *, others_give_way: bool = False) -> bool:
        for pod in unit:
            if self._place(pod) or (others_give_way and self._squeeze_in(pod, unit)):
                continue
            for placed in unit:
                if self.targets.pop(placed, None) is not None:
                    self.view.board.move(placed, self.home[placed])
            return False
        return True

    def _place(self, pod: int) -> bool:
        node = self._best(pod)
        if node is None:
            return False
        self._put(pod, node)
        return True

    def _best(self, pod: int) -> int | None:
        """Rather where what it leaves behind stays evenly spread."""
        allowed = self.allowed(pod)
        even = np.flatnonzero(allowed & self.view.board.keeps_even(pod))
        nodes = even if even.size else np.flatnonzero(allowed)
        return self.choose(self.view, pod, nodes) if nodes.size else None

    def _put(self, pod: int, node: int) -> None:
        self.view.board.move(pod, node)
        self.targets[pod] = node

    def _squeeze_in(self, pod: int, unit: Unit) -> bool:
        """Somebody who stands where this pod could have gone takes another place."""
        for other in self._in_the_way(pod):
            if other in unit or self.relocations >= _RELOCATIONS:
                continue
            self.relocations += 1
            exchange = self._exchange(pod, other)
            if exchange is not None:
                for mover, node in exchange:
                    self._put(mover, node)
                return True
        return False

    def _in_the_way(self, pod: int) -> list[int]:
        """Its own workload first: spread and anti-affinity are mostly among siblings."""
        wanted = set(self.options[pod].tolist())
        workload = self.view.snapshot.pods.workload
        others = [other for other, node in self.targets.items() if node in wanted]
        return sorted(others, key=lambda other: (workload[other] != workload[pod], other))

    def _exchange(self, pod: int, other: int) -> list[tuple[int, int]] | None:
        board, place = self.view.board, self.targets[other]
        with board.trial():
            board.move(other, self.home[other])
            if not self.allowed(pod)[place]:
                return None
            board.move(pod, place)
            refuge = self._best(other)
            return None if refuge is None else [(pod, place), (other, refuge)]
