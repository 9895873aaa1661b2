"""Making a sketch better without making it longer.

The descent takes the best next move, not the best set of moves. Here moves are exchanged for others while
their number stays: another target, another pod of the same node, targets of two moves exchanged.
"""

from collections.abc import Callable

import numpy as np

from rescheduler.strategies.load_balancing.assignment import NEGLIGIBLE, Assignment
from rescheduler.strategies.load_balancing.load_model import Floats, Rows, over_resources

__all__ = ["SMALL", "improve_moves", "reselect_by_source", "undo_moves"]

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


def improve_moves(assignment: Assignment) -> None:
    is_small = len(assignment.bounds.receives) <= SMALL
    for _ in range(ROUNDS):
        assignment.load_model.recompute_mean()
        before = assignment.load_model.squared_deviation
        changes = _retarget(assignment) + _replace(assignment) + _exchange_targets(assignment, NEGLIGIBLE)
        gained = before - assignment.load_model.squared_deviation
        if not changes or (not is_small and gained < WORTH_A_ROUND * before):
            return


def reselect_by_source(assignment: Assignment) -> None:
    """Sources first, then targets: nodes send what suits themselves best, wherever it goes, and then all that
    is sent is dealt out anew.

    Whom a source had better send depends on a few pods; whom a target gets, on all that are sent. So what
    suits the source can nearly always be made to suit the targets, though not by one exchange at a time.
    """
    assignment.load_model.recompute_mean()
    if not _select_for_sources(assignment):
        return
    for _ in range(ROUNDS):
        before = assignment.load_model.squared_deviation
        _exchange_targets(assignment, FINE)
        if before - assignment.load_model.squared_deviation < WORTH_A_ROUND * before:
            return


def undo_moves(assignment: Assignment, fewer: int) -> None:
    """Sends home those that are missed least there."""
    moves = max(assignment.moves - fewer, 0)
    while (surplus := assignment.moves - moves) > 0:
        assignment.load_model.recompute_mean()
        pods = assignment.moved_pods()
        targets = assignment.home[pods]
        gains = assignment.load_model.gains_each(pods, targets)

        def attempt(index: int, pods: Rows = pods, targets: Rows = targets) -> bool:
            assignment.put(int(pods[index]), int(targets[index]))
            return True

        _take(gains, (assignment.load_model.at[pods], targets), attempt, most=surplus, floor=-np.inf)


def _retarget(assignment: Assignment) -> int:
    """Moves that had better go elsewhere, or not be made."""
    pods = assignment.moved_pods()
    nodes = np.flatnonzero(assignment.bounds.receives)
    nodes = nodes[np.argsort(over_resources(assignment.load_model.deviation[nodes]), kind="stable")][:COLDEST]
    gains = assignment.load_model.gains(pods, nodes)
    best = gains.argmax(axis=1)
    targets = nodes[best]

    def attempt(index: int) -> bool:
        pod, target = int(pods[index]), int(targets[index])
        if not assignment.may_go(pod, target):
            return False
        assignment.put(pod, target)
        return True

    return _take(gains[np.arange(len(pods)), best], (assignment.load_model.at[pods], targets), attempt)


def _replace(assignment: Assignment) -> int:
    """Moves that another pod of the same node had better make."""
    pods, others = _replacements(assignment)
    return _exchange_some(assignment, pods, others, assignment.load_model.exchange_gains_each(pods, others))


def _select_for_sources(assignment: Assignment) -> int:
    """The same, but by what the source alone gains."""
    load_model = assignment.load_model
    pods, others = _replacements(assignment)
    homes = assignment.home[pods]
    more = (load_model.amount[pods] - load_model.amount[others]) * load_model.weight[homes]
    deviation = load_model.deviation[homes]
    return _exchange_some(
        assignment, pods, others, over_resources(np.square(deviation) - np.square(deviation + more))
    )


def _replacements(assignment: Assignment) -> tuple[Rows, Rows]:
    """Pods that are away, each with every pod that stayed at home and has no higher priority."""
    at, home = assignment.load_model.at, assignment.home
    moved_pods = assignment.moved_pods()
    is_home = np.zeros(len(assignment.bounds.receives), np.bool_)
    is_home[home[moved_pods]] = True
    stayers = np.flatnonzero(is_home[at])
    stayers = stayers[(at[stayers] == home[stayers]) & ~assignment.immovable[stayers]]
    stayers = stayers[np.argsort(at[stayers], kind="stable")]
    first = np.searchsorted(at[stayers], np.arange(len(is_home) + 1))
    count = np.diff(first)[home[moved_pods]]
    pods = np.repeat(moved_pods, count)
    position = np.arange(len(pods)) - np.repeat(np.cumsum(count) - count, count)
    others = stayers[np.repeat(first[home[moved_pods]], count) + position]
    allowed = assignment.priority[others] <= assignment.priority[pods]
    return pods[allowed], others[allowed]


def _exchange_targets(assignment: Assignment, floor: float) -> int:
    """Pairs of moves that had better go to each other's target: those to the nodes furthest from the mean
    with all others."""
    load_model = assignment.load_model
    moved_pods = assignment.moved_pods()
    worst_first = np.argsort(-load_model.distances()[load_model.at[moved_pods]], kind="stable")
    own = moved_pods[worst_first][: max(1, PAIRED // max(1, len(moved_pods)))]
    gains = load_model.exchange_gains(own, moved_pods)
    gains[assignment.home[own][:, None] == load_model.at[moved_pods]] = 0.0
    gains[load_model.at[own][:, None] == assignment.home[moved_pods]] = 0.0
    rows, columns = np.nonzero(gains > floor)
    return _exchange_some(assignment, own[rows], moved_pods[columns], gains[rows, columns], floor)


def _exchange_some(
    assignment: Assignment, pods: Rows, others: Rows, gains: Floats, floor: float = NEGLIGIBLE
) -> int:
    def attempt(index: int) -> bool:
        pod, other = int(pods[index]), int(others[index])
        here, there = int(assignment.load_model.at[pod]), int(assignment.load_model.at[other])
        if not (assignment.may_go(pod, there) and assignment.may_go(other, here)):
            return False
        assignment.exchange(pod, other)
        return True

    return _take(
        gains, (assignment.load_model.at[pods], assignment.load_model.at[others]), attempt, floor=floor
    )


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
