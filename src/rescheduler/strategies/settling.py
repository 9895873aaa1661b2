"""Making a sketch better without making it longer.

The descent takes the best next move, not the best set of moves. Here moves are exchanged for others while
their number stays: another target, another pod of the same node, targets of two moves exchanged. And a
sketch that has used up its limit is loosened: the least useful moves are taken back, what remains makes up
for them with larger pods, and the moves thus saved go where they help more.
"""

from collections.abc import Callable
from itertools import combinations

import numpy as np

from rescheduler.strategies.balance import Floats, Rows
from rescheduler.strategies.descent import descend
from rescheduler.strategies.sketch import NEGLIGIBLE, Sketch
from rescheduler.strategies.trading import trade

__all__ = ["SMALL", "search"]

ROUNDS = 6
"""Most rounds of settling in a row."""
WORTH_A_ROUND = 0.01
WORTH_LOOSENING = 0.1
"""What a round of settling, or a loosening, must take off the unevenness for another one to follow."""
LOOSENING = (0.06, 0.04, 0.02, 0.01)
"""Shares of the moves that are taken back, one after the other."""
SMALL = 64
"""Up to so many nodes, where rounds cost little, more is tried."""
DEPTH = 12
"""There, each number of moves up to this one is taken back."""
TRIALS = 80
"""And so often other moves are done without, one or two at a time."""
WORST = 64
"""Nodes, the furthest from the mean, whose moves exchange targets with all others."""
TRIED = 400
"""Of the candidates of one round, how many are tried."""
PAIRED = 300_000
"""Pairs of moves that are looked at in one round."""


def search(sketch: Sketch) -> None:
    """As even as the limit allows, or inside the threshold."""
    is_small = len(sketch.bounds.takes) <= SMALL
    descend(sketch)
    if sketch.balanced:
        return
    _settle(sketch)
    descend(sketch)  # with what settling saved
    if sketch.moves < sketch.bounds.limit:
        sketch.look_again()
        trade(sketch)
        if is_small:
            _go_on_until_nothing_changes(sketch)
        return
    _loosen_and_tighten(sketch)
    if is_small:
        _do_without_each(sketch)


def _go_on_until_nothing_changes(sketch: Sketch) -> None:
    """So that the next check, which knows nothing of this one, finds nothing more to do."""
    for _ in range(ROUNDS):
        before = sketch.arrangement()
        sketch.look_again()
        _settle(sketch)
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
        _take_back(sketch, fewer)
        _settle(sketch)
        descend(sketch)
        trade(sketch)
        _settle(sketch)
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


def _do_without_each(sketch: Sketch) -> None:
    """Takes back each move, and each two, and looks for something better: moves first, or exchanges."""
    best, least = sketch.arrangement(), sketch.balance.unevenness
    trials = iter(range(TRIALS))
    has_gained = True
    while has_gained and not sketch.balanced:
        has_gained = False
        away = sketch.away().tolist()
        for few in (*combinations(away, 1), *combinations(away, 2)):
            for first, then in ((descend, trade), (trade, descend)):
                if next(trials, None) is None:
                    return
                for pod in few:
                    sketch.put(pod, int(sketch.home[pod]))
                first(sketch)
                then(sketch)
                _settle(sketch)
                if least - sketch.balance.unevenness > NEGLIGIBLE:
                    best, least, has_gained = sketch.arrangement(), sketch.balance.unevenness, True
                else:
                    sketch.restore(best)
            if has_gained:
                break


def _take_back(sketch: Sketch, fewer: int) -> None:
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


def _settle(sketch: Sketch) -> None:
    is_small = len(sketch.bounds.takes) <= SMALL
    for _ in range(ROUNDS):
        sketch.balance.recentre()
        before = sketch.balance.unevenness
        changes = _retarget(sketch) + _replace(sketch) + _exchange_targets(sketch)
        gained = before - sketch.balance.unevenness
        if not changes or (not is_small and gained < WORTH_A_ROUND * before):
            return


def _retarget(sketch: Sketch) -> int:
    """Moves that had better go elsewhere, or not be made."""
    pods = sketch.away()
    nodes = np.flatnonzero(sketch.bounds.takes)
    nodes = nodes[np.argsort(sketch.balance.off[nodes].sum(axis=1), kind="stable")][: 2 * WORST]
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
    """Moves that another pod of the same node had better make, of no higher priority."""
    balance = sketch.balance
    away = sketch.away()
    homes = sketch.home[away]
    is_home = np.zeros(len(sketch.bounds.takes), np.bool_)
    is_home[homes] = True
    stayers = np.flatnonzero(is_home[balance.at])
    stayers = stayers[(balance.at[stayers] == sketch.home[stayers]) & ~sketch.stays[stayers]]
    stayers = stayers[np.argsort(balance.at[stayers], kind="stable")]
    first = np.searchsorted(balance.at[stayers], np.arange(len(sketch.bounds.takes) + 1))
    count = np.diff(first)[homes]
    pods = np.repeat(away, count)
    position = np.arange(len(pods)) - np.repeat(np.cumsum(count) - count, count)
    others = stayers[np.repeat(first[homes], count) + position]
    gains = balance.exchange_gains_each(pods, others)
    gains[sketch.priority[others] > sketch.priority[pods]] = 0.0
    return _exchange_some(sketch, pods, others, gains)


def _exchange_targets(sketch: Sketch) -> int:
    """Pairs of moves that had better go to each other's target."""
    balance = sketch.balance
    away = sketch.away()
    distance = np.square(balance.off).sum(axis=1)
    worst = np.zeros(len(distance), np.bool_)
    worst[np.argsort(-distance, kind="stable")[:WORST]] = True
    own = away[worst[balance.at[away]]][: max(1, PAIRED // max(1, len(away)))]
    gains = balance.exchange_gains(own, away)
    gains[sketch.home[own][:, None] == balance.at[away]] = 0.0
    gains[balance.at[own][:, None] == sketch.home[away]] = 0.0
    rows, columns = np.nonzero(gains > NEGLIGIBLE)
    return _exchange_some(sketch, own[rows], away[columns], gains[rows, columns])


def _exchange_some(sketch: Sketch, pods: Rows, others: Rows, gains: Floats) -> int:
    def attempt(index: int) -> bool:
        pod, other = int(pods[index]), int(others[index])
        here, there = int(sketch.balance.at[pod]), int(sketch.balance.at[other])
        if not (sketch.may_go(pod, there) and sketch.may_go(other, here)):
            return False
        sketch.exchange(pod, other)
        return True

    return _take(gains, (sketch.balance.at[pods], sketch.balance.at[others]), attempt)


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
    touched: set[int] = set()
    taken = 0
    for index in top[np.argsort(-gains[top], kind="stable")].tolist():
        if gains[index] <= floor or taken == most:
            break
        here, there = int(nodes[0][index]), int(nodes[1][index])
        if here in touched or there in touched:
            continue
        if attempt(index):
            touched |= {here, there}
            taken += 1
    return taken
