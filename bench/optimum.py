"""The best that any plan of so many moves could do, as a mixed-integer program.

The measure is the planner's own, Σ(load - mean)². The solver takes linear objectives only, so every square is
replaced by the greatest of its tangents, which lie below it, and tangents are added where the solution
touches them until there is no difference left that matters. So what the solver proves is a bound from below
for every plan, whether it finishes or runs out of time; what it finds is a plan. Rules and room on the nodes
are left out, which can only lower the bound.
"""

from dataclasses import dataclass

import highspy
import numpy as np
import numpy.typing as npt

__all__ = ["Optimum", "least_by_counting", "least_by_relaxation", "least_by_unit", "optimum"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

_TANGENTS = 33
_REFINEMENTS = 6
_TIGHT = 1e-3
_GRADIENT_STEPS, _BISECTIONS = 200, 40
_FEASIBLE = 2
"""`primal_solution_status` of a solution that keeps all constraints."""


@dataclass(frozen=True, slots=True)
class Optimum:
    found: float
    """Σ(load - mean)² of the best plan that the solver found."""
    bound: float
    """No plan has less."""
    is_proved: bool
    """Whether the solver finished in its time."""


def optimum(amount: Floats, at: Rows, moves: int, *, nodes: int, time_s: float) -> Optimum:
    """Solve it for nodes of one size, whose loads in percent are the sums of `amount` [pod, resource]."""
    program = _Program(amount, at, moves, nodes)
    best, bound, is_proved = float("inf"), 0.0, False
    for _ in range(_REFINEMENTS):
        time_s -= program.solve(time_s)
        bound = max(bound, program.bound)
        ends = program.ends()
        if ends is None:
            break
        best = min(best, float(np.square(ends).sum()))
        is_proved = program.is_solved
        if not is_proved or best - bound <= 2 * _TIGHT * best or time_s <= 0:
            break
        program.touch(ends)
    return Optimum(best, bound, is_proved)


class _Program:
    """Variables: whether a pod goes to a node; how far off the mean each node ends; the square of that."""

    def __init__(self, amount: Floats, at: Rows, moves: int, nodes: int) -> None:
        self.pods, self.resources = amount.shape
        self.nodes = nodes
        load = np.stack([np.bincount(at, column, nodes) for column in amount.T], axis=1)
        self.off: Floats = load - load.mean(axis=0)
        self.model = highspy.Highs()
        for option, value in (("output_flag", False), ("mip_rel_gap", _TIGHT), ("threads", 1)):
            self.model.setOptionValue(option, value)
        infinity = highspy.kHighsInf
        shape = (nodes, self.resources)
        self.square = np.array([self._variable(0, infinity, cost=1.0) for _ in np.ndindex(shape)]).reshape(
            shape
        )
        self.end = np.array([self._variable(-infinity, infinity) for _ in np.ndindex(shape)]).reshape(shape)
        self.goes = {
            (pod, node): self._variable(0, 1, is_whole=True)
            for pod in range(self.pods)
            for node in range(nodes)
            if node != at[pod]
        }
        self._constrain(amount, at, moves)
        reach = np.maximum(np.abs(self.off), 5.0)
        for share in np.linspace(-1, 1, _TANGENTS):
            self.touch(share * reach)

    def _variable(self, low: float, high: float, *, cost: float = 0.0, is_whole: bool = False) -> int:
        self.model.addCol(cost, low, high, 0, [], [])
        column = int(self.model.getNumCol()) - 1
        if is_whole:
            self.model.changeColIntegrality(column, highspy.HighsVarType.kInteger)
        return column

    def _row(self, low: float, high: float, terms: list[tuple[int, float]]) -> None:
        columns, values = [column for column, _ in terms], [float(value) for _, value in terms]
        self.model.addRow(low, high, len(terms), columns, values)

    def _constrain(self, amount: Floats, at: Rows, moves: int) -> None:
        self._row(0, moves, [(column, 1.0) for column in self.goes.values()])
        for pod in range(self.pods):
            self._row(0, 1, [(column, 1.0) for (each, _), column in self.goes.items() if each == pod])
        for node, resource in np.ndindex(self.off.shape):
            size = amount[:, resource]
            terms = [(column, -size[pod]) for (pod, to), column in self.goes.items() if to == node]
            terms += [(column, size[pod]) for (pod, _), column in self.goes.items() if at[pod] == node]
            start = float(self.off[node, resource])
            self._row(start, start, [*terms, (int(self.end[node, resource]), 1.0)])

    def touch(self, points: Floats) -> None:
        """One more tangent of each square: square >= point² + 2·point·(end - point)."""
        for node, resource in np.ndindex(points.shape):
            point = float(points[node, resource])
            terms = [(int(self.square[node, resource]), 1.0), (int(self.end[node, resource]), -2 * point)]
            self._row(-(point**2), highspy.kHighsInf, terms)

    def solve(self, time_s: float) -> float:
        """Solve the program and return how long it took."""
        began = self.model.getRunTime()
        self.model.setOptionValue("time_limit", began + time_s)
        self.model.run()
        return float(self.model.getRunTime() - began)

    @property
    def bound(self) -> float:
        return float(self.model.getInfo().mip_dual_bound)

    @property
    def is_solved(self) -> bool:
        return bool(self.model.getModelStatus() == highspy.HighsModelStatus.kOptimal)

    def ends(self) -> Floats | None:
        """[node, resource]: how far off the mean the best solution leaves them."""
        if self.model.getInfo().primal_solution_status != _FEASIBLE:
            return None
        ends: Floats = np.array(self.model.getSolution().col_value)[self.end]
        return ends


def least_by_counting(amount: Floats, at: Rows, moves: int, *, nodes: int) -> float:
    """A bound for one resource and any size of cluster: no plan has less Σ(load - mean)² after so many moves.

    A node that sheds c pods sheds at most its c largest; one that takes c takes at most c times the largest
    of all. Each side alone is given all the moves.
    """
    load = np.bincount(at, amount, nodes)
    off = load - load.mean()
    largest_first = [np.sort(amount[at == node])[::-1] for node in range(nodes)]
    steps = int(np.ceil(abs(off.min()) / amount.max())) + 1
    taken = np.full(steps, amount.max())
    least = 0.0
    for side in (1, -1):
        saved: list[float] = []
        for node in np.flatnonzero(side * off > 0).tolist():
            most = np.cumsum(largest_first[node] if side > 0 else taken)
            rest = np.square(np.maximum(abs(off[node]) - np.concatenate([[0.0], most]), 0.0))
            saved += (rest[:-1] - rest[1:]).tolist()
        squares = float(np.square(off[side * off > 0]).sum())
        least += max(0.0, squares - sum(sorted(saved, reverse=True)[:moves]))
    return least


def least_by_unit(amount: npt.NDArray[np.int64], nodes: int) -> float:
    """A bound for any number of moves, per resource: loads are multiples of the amounts' common divisor.

    The mean lies between two multiples; at best, every node is at one of these two.
    """
    least = 0.0
    for column in amount.T:
        unit = float(np.gcd.reduce(column))
        share = column.sum() / nodes / unit % 1
        least += nodes * unit**2 * share * (1 - share)
    return least


def least_by_relaxation(amount: Floats, at: Rows, moves: int, *, nodes: int) -> float:
    """A bound for several resources: a pod may leave in part, which is as much of a move, and what has left
    may be poured onto nodes like water, each resource apart.

    That is a convex problem in `leaves`, the share of each pod that leaves. Gradient steps come close to its
    minimum, and the tangent at any point lies below the whole function: that is the bound.
    """
    load = np.stack([np.bincount(at, column, nodes) for column in amount.T], axis=1)
    off = load - load.mean(axis=0)
    step = 1 / (24 * np.square(amount).sum(axis=1).max())
    leaves, ahead, pace, bound = np.zeros(len(at)), np.zeros(len(at)), 1.0, 0.0
    for _ in range(_GRADIENT_STEPS):
        left = np.stack([np.bincount(at, ahead * column, nodes) for column in amount.T], axis=1)
        rest = off - left
        level = np.array(
            [_water_level(column, total) for column, total in zip(rest.T, left.sum(axis=0), strict=True)]
        )
        after = np.maximum(rest, level)
        gain = 2 * (amount * (after - level)[at]).sum(axis=1)
        most = float(np.sort(gain)[-moves:].sum())
        bound = max(bound, float(np.square(after).sum()) - most + float(gain @ ahead))
        before, leaves = leaves, _within_limit(ahead + step * gain, moves)
        faster = (1 + np.sqrt(1 + 4 * pace**2)) / 2
        ahead, pace = leaves + (pace - 1) / faster * (leaves - before), faster
    return bound


def _water_level(ground: Floats, water: float) -> float:
    """How high so much water stands on a ground of these heights."""
    heights = np.sort(ground)
    levels = (water + np.cumsum(heights)) / np.arange(1, len(heights) + 1)
    return float(levels[np.flatnonzero(np.append(heights[1:], np.inf) >= levels)[0]])


def _within_limit(shares: Floats, limit: int) -> Floats:
    """The nearest shares between 0 and 1 whose sum is at most the limit."""
    low, high = 0.0, float(shares.max())
    if np.clip(shares, 0, 1).sum() <= limit:
        low = high = 0.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if np.clip(shares - middle, 0, 1).sum() > limit else (low, middle)
    nearest: Floats = np.clip(shares - high, 0, 1)
    return nearest
