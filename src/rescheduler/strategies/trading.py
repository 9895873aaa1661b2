"""When no single move gains any more: pairs of pods change places."""

import numpy as np

from rescheduler.strategies.balance import Floats, Rows
from rescheduler.strategies.descent import SLACK
from rescheduler.strategies.sketch import NEGLIGIBLE, Sketch

__all__ = ["trade"]

TRADERS = 48
"""Nodes, the furthest from the mean, that seek to trade in one round."""
PARTNERS = 6
"""Nodes, the furthest from it in load, that a node may trade with in one round."""
PAIRS = 40_000
"""Pairs of pods that are looked at for one trader."""


def trade(sketch: Sketch) -> None:
    """Pairs of pods change places, until the limit, the threshold, or no pair that gains."""
    while sketch.moves < sketch.bounds.limit and not sketch.balanced:
        sketch.balance.recentre()
        if not _trade_round(sketch):
            return


def _trade_round(sketch: Sketch) -> bool:
    balance = sketch.balance
    pods, others, gains = _pairs(sketch)
    touched = np.zeros(len(sketch.bounds.takes), np.bool_)
    floor, made = NEGLIGIBLE, False
    for index in np.argsort(-gains, kind="stable").tolist():
        gain = float(gains[index])
        if gain <= floor:
            break
        pod, other = int(pods[index]), int(others[index])
        here, there = int(balance.at[pod]), int(balance.at[other])
        if touched[here] or touched[there] or not sketch.is_worth_it(gain, (here, there)):
            continue
        if sketch.moves + _more_moves(sketch, pod, other) > sketch.bounds.limit or not sketch.may_exchange(
            pod, other
        ):
            continue
        sketch.exchange(pod, other)
        touched[[here, there]] = True
        floor = max(floor, SLACK * gain)
        made = True
        if sketch.bounds.threshold and sketch.is_inside:
            break
    return made


def _pairs(sketch: Sketch) -> tuple[Rows, Rows, Floats]:
    """For each of the nodes furthest from the mean, the most promising exchanges with nodes unlike it."""
    balance = sketch.balance
    by_node = np.argsort(balance.at, kind="stable")
    first = np.searchsorted(balance.at[by_node], np.arange(len(sketch.bounds.takes) + 1))
    usable = sketch.bounds.takes & (np.diff(first) > 0)
    distance = np.square(balance.off).sum(axis=1)
    traders = [node for node in np.argsort(-distance, kind="stable").tolist() if usable[node]][:TRADERS]
    found: list[tuple[Rows, Rows, Floats]] = []
    for node in traders:
        apart = np.where(usable, np.square(balance.off - balance.off[node]).sum(axis=1), -1.0)
        if not sketch.bounds.sheds[node]:
            apart[~sketch.bounds.sheds] = -1.0
        apart[node] = -1.0
        partners = np.argsort(-apart, kind="stable")[:PARTNERS]
        partners = partners[apart[partners] > 0]
        own = by_node[first[node] : first[node + 1]]
        own = own[~sketch.stays[own]]
        theirs = [by_node[first[partner] : first[partner + 1]] for partner in partners.tolist()]
        if not theirs or not len(own):
            continue
        other = np.concatenate(theirs)
        other = other[~sketch.stays[other]][: max(1, PAIRS // len(own))]
        gains = balance.exchange_gains(own, other)
        best = gains.argmax(axis=0)
        found.append((own[best], other, gains[best, np.arange(len(other))]))
    if not found:
        nothing = np.zeros(0, np.intp)
        return nothing, nothing, np.zeros(0)
    pods, others, gains = (np.concatenate(column) for column in zip(*found, strict=True))
    return pods, others, gains


def _more_moves(sketch: Sketch, pod: int, other: int) -> int:
    here, there = sketch.balance.at[pod], sketch.balance.at[other]
    before = sketch.is_away(pod) + sketch.is_away(other)
    return int(there != sketch.home[pod]) + int(here != sketch.home[other]) - before
