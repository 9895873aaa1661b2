"""When no single move gains any more: pairs of pods change places."""

from collections.abc import Iterator

import numpy as np

from rescheduler.strategies.balance import Flags, Floats, Rows, over_resources
from rescheduler.strategies.sketch import NEGLIGIBLE, Sketch

__all__ = ["trade"]

TRADERS = 48
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


def trade(sketch: Sketch) -> None:
    """Pairs of pods change places, until the limit, the threshold, or no pair that gains.

    A node that found nothing to trade is not asked again before others have been, and then once more in the
    end: others have traded since.
    """
    lodgers, tired = _Lodgers(sketch), np.zeros(len(sketch.bounds.takes), np.bool_)
    while sketch.moves < sketch.bounds.limit and not sketch.balanced:
        sketch.balance.recentre()
        is_last_word = not tired.any()
        if not _trade_round(sketch, lodgers, tired):
            if is_last_word:
                return
            tired[:] = False


def _trade_round(sketch: Sketch, lodgers: "_Lodgers", tired: Flags) -> bool:
    """Whether any trade was made. Nodes that sought one in vain are `tired` then."""
    balance = sketch.balance
    traders, (pods, others, gains) = _promising(sketch, lodgers, ~tired)
    tired[traders] = True
    touched: set[int] = set()
    floor = NEGLIGIBLE
    for index in np.argsort(-gains, kind="stable").tolist():
        gain = float(gains[index])
        if gain <= floor:
            break
        pod, other = int(pods[index]), int(others[index])
        here, there = int(balance.at[pod]), int(balance.at[other])
        if here in touched or there in touched or not sketch.is_worth_it(gain, (here, there)):
            continue
        if sketch.moves + _more_moves(sketch, pod, other) > sketch.bounds.limit or not sketch.may_exchange(
            pod, other
        ):
            continue
        sketch.exchange(pod, other)
        lodgers.exchange(pod, other)
        touched |= {here, there}
        floor = max(floor, SLACK * gain)
        if sketch.bounds.threshold and sketch.is_inside:
            break
    tired[[*touched]] = False
    return bool(touched)


def _promising(sketch: Sketch, lodgers: "_Lodgers", seeking: Flags) -> tuple[Rows, Pairs]:
    """Of the nodes that seek to trade, those furthest from the mean; and the most promising exchanges of
    their pods with pods of nodes unlike them."""
    order = np.argsort(-sketch.balance.distances(), kind="stable")
    traders: Rows = order[(lodgers.usable & seeking)[order]][:TRADERS]
    found = [*_best_of(sketch, lodgers, traders)] if len(traders) else []
    if not found:
        nothing = np.zeros(0, np.intp)
        return traders, (nothing, nothing, np.zeros(0))
    pods, others, gains = (np.concatenate(column) for column in zip(*found, strict=True))
    return traders, (pods, others, gains)


def _best_of(sketch: Sketch, lodgers: "_Lodgers", traders: Rows) -> Iterator[Pairs]:
    """For each pod of a trader's partners, the pod of the trader that it had best change places with."""
    partners, apart = _partners(sketch, lodgers.usable, traders)
    own, is_own = lodgers.of(traders[:, None])
    others, is_other = lodgers.of(np.where(apart > 0, partners, -1))
    most = max(1, PAIRS // max(1, own.shape[1]))
    others, is_other = others[:, :most], is_other[:, :most]
    at_once = max(1, AT_ONCE // max(1, own.shape[1] * others.shape[1]))
    for start in range(0, len(traders), at_once):
        some = slice(start, start + at_once)
        gains = sketch.balance.exchange_gains(own[some], others[some])
        gains[~is_own[some]] = 0.0
        best = gains.argmax(axis=1)
        promise = np.take_along_axis(gains, best[:, None], axis=1)[:, 0]
        worth = is_other[some] & (promise > NEGLIGIBLE)
        yield np.take_along_axis(own[some], best, axis=1)[worth], others[some][worth], promise[worth]


def _partners(sketch: Sketch, usable: Flags, traders: Rows) -> tuple[Rows, Floats]:
    """[trader, partner]: the nodes furthest from each in load, and how far they are: 0 if they are none."""
    off, sheds = sketch.balance.off, sketch.bounds.sheds
    apart = over_resources(np.square(off[traders][:, None] - off))
    apart[:, ~usable] = 0.0
    apart[np.ix_(~sheds[traders], ~sheds)] = 0.0
    few = min(PARTNERS, len(off))
    partners = np.argpartition(-apart, few - 1, axis=1)[:, :few]
    return partners, np.take_along_axis(apart, partners, axis=1)


class _Lodgers:
    """Which pods are on which node, while they change places."""

    def __init__(self, sketch: Sketch) -> None:
        at, nodes = sketch.balance.at, len(sketch.bounds.takes)
        self._stays = sketch.stays
        self._by_node = np.argsort(at, kind="stable")
        self._first = np.searchsorted(at[self._by_node], np.arange(nodes))
        self._count = np.bincount(at, minlength=nodes)
        self._place = np.empty_like(self._by_node)
        """[pod]: where it is in `_by_node`."""
        self._place[self._by_node] = np.arange(len(at))
        self.usable: Flags = sketch.bounds.takes & (self._count > 0)

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
        return pods, is_there & ~self._stays[pods]


def _more_moves(sketch: Sketch, pod: int, other: int) -> int:
    here, there = sketch.balance.at[pod], sketch.balance.at[other]
    before = sketch.is_away(pod) + sketch.is_away(other)
    return int(there != sketch.home[pod]) + int(here != sketch.home[other]) - before
