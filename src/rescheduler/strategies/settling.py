"""Making a sketch better without making it longer.

The descent takes the best next move, not the best set of moves. Here moves are exchanged for others while
their number stays: another target, another pod of the same node, targets of two moves exchanged.
"""

from collections.abc import Callable

import numpy as np

from rescheduler.strategies.balance import Floats, Rows, over_resources
from rescheduler.strategies.sketch import NEGLIGIBLE, Sketch

__all__ = ["SMALL", "sends_others", "settle", "take_back"]

SMALL = 64
"""Up to so many nodes, where rounds cost little, more is tried."""
ROUNDS = 6
"""Most rounds of settling in a row."""
WORTH_A_ROUND = 0.01
"""What a round must take off the unevenness for another one to follow."""
COLDEST = 128
"""Nodes that moves are sent to instead of their target."""
TRIED = 400
"""Of the candidates of one round, how many are tried."""
PAIRED = 300_000
"""Pairs of moves that are looked at in one round."""
FINE = NEGLIGIBLE / 8
"""What an exchange must gain where only targets matter: it costs no move."""


def settle(sketch: Sketch) -> None:
    is_small = len(sketch.bounds.takes) <= SMALL
    for _ in range(ROUNDS):
        sketch.balance.recentre()
        before = sketch.balance.unevenness
        changes = _retarget(sketch) + _replace(sketch) + _exchange_targets(sketch, NEGLIGIBLE)
        gained = before - sketch.balance.unevenness
        if not changes or (not is_small and gained < WORTH_A_ROUND * before):
            return


def sends_others(sketch: Sketch) -> None:
    """Sources first, then targets: nodes send what suits themselves best, wherever it goes, and then all that
    is sent is dealt out anew.

    Whom a source had better send depends on a few pods; whom a target gets, on all that are sent. So what
    suits the source can nearly always be made to suit the targets, though not by one exchange at a time.
    """
    sketch.balance.recentre()
    if not _suit_sources(sketch):
        return
    for _ in range(ROUNDS):
        before = sketch.balance.unevenness
        _exchange_targets(sketch, FINE)
        if before - sketch.balance.unevenness < WORTH_A_ROUND * before:
            return


def take_back(sketch: Sketch, fewer: int) -> None:
    """Sends home those that are missed least there."""
    moves = max(sketch.moves - fewer, 0)
    while (surplus := sketch.moves - moves) > 0:
        sketch.balance.recentre()
        pods = sketch.away()
        targets = sketch.home[pods]
        gains = sketch.balance.gains_each(pods, targets)

        def attempt(index: int, pods: Rows = pods, targets: Rows = targets) -> bool:
            sketch.put(int(pods[index]), int(targets[index]))
            return True

        _take(gains, (sketch.balance.at[pods], targets), attempt, most=surplus, floor=-np.inf)


def _retarget(sketch: Sketch) -> int:
    """Moves that had better go elsewhere, or not be made."""
    pods = sketch.away()
    nodes = np.flatnonzero(sketch.bounds.takes)
    nodes = nodes[np.argsort(over_resources(sketch.balance.off[nodes]), kind="stable")][:COLDEST]
    gains = sketch.balance.gains(pods, nodes)
    best = gains.argmax(axis=1)
    targets = nodes[best]

    def attempt(index: int) -> bool:
        pod, target = int(pods[index]), int(targets[index])
        if not sketch.may_go(pod, target):
            return False
        sketch.put(pod, target)
        return True

    return _take(gains[np.arange(len(pods)), best], (sketch.balance.at[pods], targets), attempt)


def _replace(sketch: Sketch) -> int:
    """Moves that another pod of the same node had better make."""
    pods, others = _replacements(sketch)
    return _exchange_some(sketch, pods, others, sketch.balance.exchange_gains_each(pods, others))


def _suit_sources(sketch: Sketch) -> int:
    """The same, but by what the source alone gains."""
    balance = sketch.balance
    pods, others = _replacements(sketch)
    homes = sketch.home[pods]
    more = (balance.amount[pods] - balance.amount[others]) * balance.weight[homes]
    off = balance.off[homes]
    return _exchange_some(sketch, pods, others, over_resources(np.square(off) - np.square(off + more)))


def _replacements(sketch: Sketch) -> tuple[Rows, Rows]:
    """Pods that are away, each with every pod that stayed at home and has no higher priority."""
    at, home = sketch.balance.at, sketch.home
    away = sketch.away()
    is_home = np.zeros(len(sketch.bounds.takes), np.bool_)
    is_home[home[away]] = True
    stayers = np.flatnonzero(is_home[at])
    stayers = stayers[(at[stayers] == home[stayers]) & ~sketch.stays[stayers]]
    stayers = stayers[np.argsort(at[stayers], kind="stable")]
    first = np.searchsorted(at[stayers], np.arange(len(is_home) + 1))
    count = np.diff(first)[home[away]]
    pods = np.repeat(away, count)
    position = np.arange(len(pods)) - np.repeat(np.cumsum(count) - count, count)
    others = stayers[np.repeat(first[home[away]], count) + position]
    allowed = sketch.priority[others] <= sketch.priority[pods]
    return pods[allowed], others[allowed]


def _exchange_targets(sketch: Sketch, floor: float) -> int:
    """Pairs of moves that had better go to each other's target: those to the nodes furthest from the mean
    with all others."""
    balance = sketch.balance
    away = sketch.away()
    worst_first = np.argsort(-balance.distances()[balance.at[away]], kind="stable")
    own = away[worst_first][: max(1, PAIRED // max(1, len(away)))]
    gains = balance.exchange_gains(own, away)
    gains[sketch.home[own][:, None] == balance.at[away]] = 0.0
    gains[balance.at[own][:, None] == sketch.home[away]] = 0.0
    rows, columns = np.nonzero(gains > floor)
    return _exchange_some(sketch, own[rows], away[columns], gains[rows, columns], floor)


def _exchange_some(sketch: Sketch, pods: Rows, others: Rows, gains: Floats, floor: float = NEGLIGIBLE) -> int:
    def attempt(index: int) -> bool:
        pod, other = int(pods[index]), int(others[index])
        here, there = int(sketch.balance.at[pod]), int(sketch.balance.at[other])
        if not (sketch.may_go(pod, there) and sketch.may_go(other, here)):
            return False
        sketch.exchange(pod, other)
        return True

    return _take(gains, (sketch.balance.at[pods], sketch.balance.at[others]), attempt, floor=floor)


def _take(
    gains: Floats,
    nodes: tuple[Rows, Rows],
    attempt: Callable[[int], bool],
    *,
    most: int = TRIED,
    floor: float = NEGLIGIBLE,
) -> int:
    """Tries the best candidates first, each node in one of them at most: so their gains add up."""
    if not len(gains):
        return 0
    top = np.argpartition(-gains, TRIED - 1)[:TRIED] if len(gains) > TRIED else np.arange(len(gains))
    top = top[np.argsort(-gains[top], kind="stable")]
    touched: set[int] = set()
    taken = 0
    for index, here, there in zip(top.tolist(), nodes[0][top].tolist(), nodes[1][top].tolist(), strict=True):
        if gains[index] <= floor or taken == most:
            break
        if here in touched or there in touched:
            continue
        if attempt(index):
            touched |= {here, there}
            taken += 1
    return taken
