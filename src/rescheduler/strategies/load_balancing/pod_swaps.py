"""When no single move gains any more: pairs of pods change places."""

from collections.abc import Iterator

import numpy as np

from rescheduler.strategies.load_balancing.assignment import NEGLIGIBLE, Assignment
from rescheduler.strategies.load_balancing.load_model import Flags, Floats, Rows, over_resources

__all__ = ["swap_pods"]

SWAPPING_NODES = 48
"""Nodes, the furthest from the mean, that seek to trade in one round."""
PARTNERS = 6
"""Nodes, the furthest from it in load, that a node may trade with in one round."""
PAIRS = 40_000
"""Pairs of pods that are looked at for one trader."""
AT_ONCE = 400_000
"""Pairs of pods whose gains are worked out in one go."""
SLACK = 0.05
"""What a trade of a round must gain, relative to the first of it."""

Pairs = tuple[Rows, Rows, Floats]
"""Pods, the others, and what it gains if they change places."""


def swap_pods(assignment: Assignment) -> None:
    """Pairs of pods change places, until the limit, the threshold, or no pair that gains.

    A node that found nothing to trade is not asked again before others have been, and then once more in the
    end: others have traded since.
    """
    pods_by_node, exhausted = _PodsByNode(assignment), np.zeros(len(assignment.bounds.receives), np.bool_)
    while assignment.moves < assignment.bounds.limit and not assignment.balanced:
        assignment.load_model.recompute_mean()
        is_last_word = not exhausted.any()
        if not _swap_round(assignment, pods_by_node, exhausted):
            if is_last_word:
                return
            exhausted[:] = False


def _swap_round(assignment: Assignment, pods_by_node: "_PodsByNode", exhausted: Flags) -> bool:
    """Whether any trade was made. Nodes that sought one in vain are `tired` then."""
    load_model = assignment.load_model
    traders, (pods, others, gains) = _promising(assignment, pods_by_node, ~exhausted)
    exhausted[traders] = True
    touched: set[int] = set()
    floor = NEGLIGIBLE
    for index in np.argsort(-gains, kind="stable").tolist():
        gain = float(gains[index])
        if gain <= floor:
            break
        pod, other = int(pods[index]), int(others[index])
        here, there = int(load_model.at[pod]), int(load_model.at[other])
        if here in touched or there in touched or not assignment.is_worth_it(gain, (here, there)):
            continue
        if assignment.moves + _more_moves(
            assignment, pod, other
        ) > assignment.bounds.limit or not assignment.may_exchange(pod, other):
            continue
        assignment.exchange(pod, other)
        pods_by_node.exchange(pod, other)
        touched |= {here, there}
        floor = max(floor, SLACK * gain)
        if assignment.bounds.threshold and assignment.is_inside:
            break
    exhausted[[*touched]] = False
    return bool(touched)


def _promising(assignment: Assignment, pods_by_node: "_PodsByNode", seeking: Flags) -> tuple[Rows, Pairs]:
    """Of the nodes that seek to trade, those furthest from the mean; and the most promising exchanges of
    their pods with pods of nodes unlike them."""
    order = np.argsort(-assignment.load_model.distances(), kind="stable")
    traders: Rows = order[(pods_by_node.usable & seeking)[order]][:SWAPPING_NODES]
    found = [*_best_of(assignment, pods_by_node, traders)] if len(traders) else []
    if not found:
        nothing = np.zeros(0, np.intp)
        return traders, (nothing, nothing, np.zeros(0))
    pods, others, gains = (np.concatenate(column) for column in zip(*found, strict=True))
    return traders, (pods, others, gains)


def _best_of(assignment: Assignment, pods_by_node: "_PodsByNode", traders: Rows) -> Iterator[Pairs]:
    """For each pod of a trader's partners, the pod of the trader that it had best change places with."""
    partners, apart = _partners(assignment, pods_by_node.usable, traders)
    own, is_own = pods_by_node.of(traders[:, None])
    others, is_other = pods_by_node.of(np.where(apart > 0, partners, -1))
    most = max(1, PAIRS // max(1, own.shape[1]))
    others, is_other = others[:, :most], is_other[:, :most]
    at_once = max(1, AT_ONCE // max(1, own.shape[1] * others.shape[1]))
    for start in range(0, len(traders), at_once):
        some = slice(start, start + at_once)
        gains = assignment.load_model.exchange_gains(own[some], others[some])
        gains[~is_own[some]] = 0.0
        best = gains.argmax(axis=1)
        promise = np.take_along_axis(gains, best[:, None], axis=1)[:, 0]
        worth = is_other[some] & (promise > NEGLIGIBLE)
        yield np.take_along_axis(own[some], best, axis=1)[worth], others[some][worth], promise[worth]


def _partners(assignment: Assignment, usable: Flags, traders: Rows) -> tuple[Rows, Floats]:
    """[trader, partner]: the nodes furthest from each in load, and how far they are: 0 if they are none."""
    deviation, sheds = assignment.load_model.deviation, assignment.bounds.sheds
    apart = over_resources(np.square(deviation[traders][:, None] - deviation))
    apart[:, ~usable] = 0.0
    apart[np.ix_(~sheds[traders], ~sheds)] = 0.0
    few = min(PARTNERS, len(deviation))
    partners = np.argpartition(-apart, few - 1, axis=1)[:, :few]
    return partners, np.take_along_axis(apart, partners, axis=1)


class _PodsByNode:
    """Which pods are on which node, while they change places."""

    def __init__(self, assignment: Assignment) -> None:
        at, nodes = assignment.load_model.at, len(assignment.bounds.receives)
        self._immovable = assignment.immovable
        self._by_node = np.argsort(at, kind="stable")
        self._first = np.searchsorted(at[self._by_node], np.arange(nodes))
        self._count = np.bincount(at, minlength=nodes)
        self._place = np.empty_like(self._by_node)
        """[pod]: where it is in `_by_node`."""
        self._place[self._by_node] = np.arange(len(at))
        self.usable: Flags = assignment.bounds.receives & (self._count > 0)

    def exchange(self, pod: int, other: int) -> None:
        here, there = self._place[pod], self._place[other]
        self._by_node[here], self._by_node[there] = other, pod
        self._place[pod], self._place[other] = there, here

    def of(self, nodes: Rows) -> tuple[Rows, Flags]:
        """[pile, pod]: the pods on the nodes of each pile [pile, node], and which of these are of use.

        All piles are as long as the longest; a node of -1 has none.
        """
        counts = np.where(nodes >= 0, self._count[nodes], 0)
        places = np.arange(int(counts.max(initial=0)))
        is_there: Flags = (places < counts[..., None]).reshape(len(nodes), -1)
        rows = (self._first[nodes][..., None] + places).reshape(len(nodes), -1)
        pods: Rows = self._by_node[np.where(is_there, rows, 0)]
        return pods, is_there & ~self._immovable[pods]


def _more_moves(assignment: Assignment, pod: int, other: int) -> int:
    here, there = assignment.load_model.at[pod], assignment.load_model.at[other]
    before = assignment.is_moved(pod) + assignment.is_moved(other)
    return int(there != assignment.home[pod]) + int(here != assignment.home[other]) - before
