"""Improve an assignment: first without more moves, then by swapping pairs of pods.

Steepest descent takes the best next move, not the best set of moves. Here moves are exchanged for others:
another target, another pod of the same node, exchanged targets.
"""

from collections.abc import Callable, Iterator

import numpy as np

from rescheduler.cluster.snapshot import Flags, Floats, Indices
from rescheduler.strategies.load_balancing.assignment import NEGLIGIBLE, Assignment, over_resources

__all__ = [
    "SMALL",
    "improve_moves",
    "reselect_by_source",
    "swap_pods",
    "undo_moves",
]

SMALL = 64
"""A cluster with at most this number of nodes is small: more is tried in it, because rounds cost little."""
ROUNDS = 6
"""The most rounds of improvement in a row."""
WORTH_A_ROUND = 0.01
"""The share of the imbalance that a round must remove for another one to follow."""
COLDEST = 128
"""How many of the coldest nodes are considered as other targets."""
TRIED = 400
"""How many candidates one round tries."""
PAIRED = 300_000
"""How many pairs of moves one round considers."""
FINE = NEGLIGIBLE / 8
"""The least gain of an exchange of targets, which costs no move."""


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
    """Select the best pods for each source, whatever their targets, then assign targets again.

    Only a few pods compete for each source, but all moved pods for each target. So targets can nearly always
    be assigned to a selection by source, though not by one exchange at a time.
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
    """Undo this number of moves, those that gain least first."""
    moves = max(assignment.moves - fewer, 0)
    while (surplus := assignment.moves - moves) > 0:
        assignment.load_model.recompute_mean()
        pods = assignment.moved_pods()
        targets = assignment.home[pods]
        gains = assignment.load_model.gains_each(pods, targets)

        def attempt(index: int, pods: Indices = pods, targets: Indices = targets) -> bool:
            assignment.put(int(pods[index]), int(targets[index]))
            return True

        _take(gains, (assignment.load_model.at[pods], targets), attempt, most=surplus, floor=-np.inf)


def _retarget(assignment: Assignment) -> int:
    """Give moves better targets, or undo them."""
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
    """Replace moved pods by other pods of the same node where that gains more."""
    pods, others = _replacements(assignment)
    return _exchange_some(assignment, pods, others, assignment.load_model.exchange_gains_each(pods, others))


def _select_for_sources(assignment: Assignment) -> int:
    """Replace moved pods by other pods of the same node where that gains more for the source alone."""
    load_model = assignment.load_model
    pods, others = _replacements(assignment)
    original_nodes = assignment.home[pods]
    more = (load_model.amount[pods] - load_model.amount[others]) * load_model.weight[original_nodes]
    deviation = load_model.deviation[original_nodes]
    return _exchange_some(
        assignment, pods, others, over_resources(np.square(deviation) - np.square(deviation + more))
    )


def _replacements(assignment: Assignment) -> tuple[Indices, Indices]:
    """Return moved pods, each paired with every pod that stayed on its node and has no higher priority."""
    at, home = assignment.load_model.at, assignment.home
    moved_pods = assignment.moved_pods()
    is_home = np.zeros(len(assignment.bounds.receives), np.bool_)
    is_home[home[moved_pods]] = True
    staying = np.flatnonzero(is_home[at])
    staying = staying[(at[staying] == home[staying]) & ~assignment.immovable[staying]]
    staying = staying[np.argsort(at[staying], kind="stable")]
    first = np.searchsorted(at[staying], np.arange(len(is_home) + 1))
    count = np.diff(first)[home[moved_pods]]
    pods = np.repeat(moved_pods, count)
    position = np.arange(len(pods)) - np.repeat(np.cumsum(count) - count, count)
    others = staying[np.repeat(first[home[moved_pods]], count) + position]
    allowed = assignment.priority[others] <= assignment.priority[pods]
    return pods[allowed], others[allowed]


def _exchange_targets(assignment: Assignment, floor: float) -> int:
    """Exchange the targets of pairs of moves where that gains; return how many.

    Moves to the nodes furthest from the mean are paired with all others.
    """
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
    assignment: Assignment, pods: Indices, others: Indices, gains: Floats, floor: float = NEGLIGIBLE
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
    nodes: tuple[Indices, Indices],
    attempt: Callable[[int], bool],
    *,
    most: int = TRIED,
    floor: float = NEGLIGIBLE,
) -> int:
    """Try the candidates, the best first, each node at most once, so that their gains add up."""
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


SWAPPING_NODES = 48
"""How many nodes, the furthest from the mean, look for swaps in one round."""
PARTNERS = 6
"""The number of nodes, those that differ most in load, with which a node may swap in one round."""
PAIRS = 40_000
"""How many pairs of pods are considered per node."""
AT_ONCE = 400_000
"""How many gains of pairs are computed at once."""
SWAP_SLACK = 0.05
"""The share of the gain of the first swap of its round that a swap must gain."""

Pairs = tuple[Indices, Indices, Floats]
"""Pods, the pods to swap them with, and the gains."""


def swap_pods(assignment: Assignment) -> None:
    """Swap pairs of pods until the limit or the threshold is reached, or no pair gains.

    A node that found no swap is considered again only after all others, because they may have changed by
    then.
    """
    pods_by_node, exhausted = _PodsByNode(assignment), np.zeros(len(assignment.bounds.receives), np.bool_)
    while assignment.moves < assignment.bounds.limit and not assignment.balanced:
        assignment.load_model.recompute_mean()
        is_last_round = not exhausted.any()
        if not _swap_round(assignment, pods_by_node, exhausted):
            if is_last_round:
                return
            exhausted[:] = False


def _swap_round(assignment: Assignment, pods_by_node: "_PodsByNode", exhausted: Flags) -> bool:
    """Swap pods for one round; return whether any were. Mark nodes without a swap in `exhausted`."""
    load_model = assignment.load_model
    swapping_nodes, (pods, others, gains) = _promising(assignment, pods_by_node, ~exhausted)
    exhausted[swapping_nodes] = True
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
        floor = max(floor, SWAP_SLACK * gain)
        if assignment.bounds.threshold and assignment.is_inside:
            break
    exhausted[[*touched]] = False
    return bool(touched)


def _promising(assignment: Assignment, pods_by_node: "_PodsByNode", seeking: Flags) -> tuple[Indices, Pairs]:
    """Return the nodes that look for swaps (those furthest from the mean), and their most promising swaps
    with nodes that differ most."""
    order = np.argsort(-assignment.load_model.distances(), kind="stable")
    swapping_nodes: Indices = order[(pods_by_node.usable & seeking)[order]][:SWAPPING_NODES]
    found = [*_best_of(assignment, pods_by_node, swapping_nodes)] if len(swapping_nodes) else []
    if not found:
        nothing = np.zeros(0, np.intp)
        return swapping_nodes, (nothing, nothing, np.zeros(0))
    pods, others, gains = (np.concatenate(column) for column in zip(*found, strict=True))
    return swapping_nodes, (pods, others, gains)


def _best_of(assignment: Assignment, pods_by_node: "_PodsByNode", swapping_nodes: Indices) -> Iterator[Pairs]:
    """Yield the best swap for each pod of each node's partners."""
    partners, apart = _partners(assignment, pods_by_node.usable, swapping_nodes)
    own, is_own = pods_by_node.of(swapping_nodes[:, None])
    others, is_other = pods_by_node.of(np.where(apart > 0, partners, -1))
    most = max(1, PAIRS // max(1, own.shape[1]))
    others, is_other = others[:, :most], is_other[:, :most]
    at_once = max(1, AT_ONCE // max(1, own.shape[1] * others.shape[1]))
    for start in range(0, len(swapping_nodes), at_once):
        some = slice(start, start + at_once)
        gains = assignment.load_model.exchange_gains(own[some], others[some])
        gains[~is_own[some]] = 0.0
        best = gains.argmax(axis=1)
        expected = np.take_along_axis(gains, best[:, None], axis=1)[:, 0]
        worth = is_other[some] & (expected > NEGLIGIBLE)
        yield np.take_along_axis(own[some], best, axis=1)[worth], others[some][worth], expected[worth]


def _partners(assignment: Assignment, usable: Flags, swapping_nodes: Indices) -> tuple[Indices, Floats]:
    """Return [node, partner]: the nodes that differ most from each, and by how much; 0 for none."""
    deviation, sheds = assignment.load_model.deviation, assignment.bounds.sheds
    apart = over_resources(np.square(deviation[swapping_nodes][:, None] - deviation))
    apart[:, ~usable] = 0.0
    apart[np.ix_(~sheds[swapping_nodes], ~sheds)] = 0.0
    few = min(PARTNERS, len(deviation))
    partners = np.argpartition(-apart, few - 1, axis=1)[:, :few]
    return partners, np.take_along_axis(apart, partners, axis=1)


class _PodsByNode:
    """The pods of each node, updated by every swap."""

    def __init__(self, assignment: Assignment) -> None:
        at, nodes = assignment.load_model.at, len(assignment.bounds.receives)
        self._immovable = assignment.immovable
        self._by_node = np.argsort(at, kind="stable")
        self._first = np.searchsorted(at[self._by_node], np.arange(nodes))
        self._count = np.bincount(at, minlength=nodes)
        self._position = np.empty_like(self._by_node)
        """[pod]: its index in `_by_node`."""
        self._position[self._by_node] = np.arange(len(at))
        self.usable: Flags = assignment.bounds.receives & (self._count > 0)

    def exchange(self, pod: int, other: int) -> None:
        here, there = self._position[pod], self._position[other]
        self._by_node[here], self._by_node[there] = other, pod
        self._position[pod], self._position[other] = there, here

    def of(self, nodes: Indices) -> tuple[Indices, Flags]:
        """Return [group, pod]: the pods on each group of nodes [group, node], and which entries are movable
        pods.

        All rows are as long as the longest; node -1 has no pods.
        """
        counts = np.where(nodes >= 0, self._count[nodes], 0)
        places = np.arange(int(counts.max(initial=0)))
        is_there: Flags = (places < counts[..., None]).reshape(len(nodes), -1)
        rows = (self._first[nodes][..., None] + places).reshape(len(nodes), -1)
        pods: Indices = self._by_node[np.where(is_there, rows, 0)]
        return pods, is_there & ~self._immovable[pods]


def _more_moves(assignment: Assignment, pod: int, other: int) -> int:
    here, there = assignment.load_model.at[pod], assignment.load_model.at[other]
    before = assignment.is_moved(pod) + assignment.is_moved(other)
    return int(there != assignment.home[pod]) + int(here != assignment.home[other]) - before
