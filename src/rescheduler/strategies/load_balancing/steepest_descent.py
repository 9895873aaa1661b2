"""Steepest descent: make the moves that gain most, in rounds.

It considers only the pods of the hottest nodes, and the coldest nodes as targets. A round makes several
moves, as long as they use different nodes, so that their gains are independent, and gain about as much as the
best. The work is bounded by counts, never by time, so that the same cluster gives the same moves.
"""

from collections.abc import Iterator

import numpy as np

from rescheduler.cluster.snapshot import Flags, Floats, Indices, Rows
from rescheduler.strategies.load_balancing.assignment import NEGLIGIBLE, Assignment, over_resources

__all__ = ["SLACK", "descend"]

SOURCES = 96
"""How many of the hottest nodes are considered at once."""
SOURCE_BATCHES = 12
"""How many batches of hottest nodes are tried before the search ends."""
SINKS = 128
"""How many of the coldest nodes are considered as targets."""
WIDELY_TRIED = 32
"""How many pods per round that may go to none of the coldest nodes are tried on every node."""
NODES_PER_MOVE = 6
"""One round makes one move per this number of nodes, but at least one."""
MAX_UNEXPECTED = 16
"""After this many pods without a move that may not go to the expected node, the round starts again."""
MAX_FAILED_TRIES = 500
"""After this many pods in a row without a move, the others, which gain less, are not tried."""
SLACK = 0.3
"""The share of the gain of the first move of its round that a move must gain."""
NEAR = 1.05
"""Gains within this factor count as equal: then the pod with the lower priority moves first."""


def descend(assignment: Assignment, worth_a_round: float = 0.0) -> None:
    """Make single moves until the limit or the threshold is reached, or no move gains.

    Also end after a round that removes less than the share `worth_a_round` of the imbalance.
    """
    skipped = np.zeros(len(assignment.home), np.bool_)
    failed_tries = 0
    before = np.inf
    while assignment.moves < assignment.bounds.limit and not assignment.balanced:
        uneven = assignment.load_model.squared_deviation
        if before - uneven < worth_a_round * uneven:
            return
        before = uneven
        assignment.load_model.recompute_mean()
        sinks = _coldest(assignment)
        for sources in _batches(assignment):
            round_ = _Round(assignment, sources, sinks, skipped)
            goes_on = round_.make_moves()
            failed_tries = round_.failed_tries + (0 if round_.made else failed_tries)
            if goes_on or failed_tries >= MAX_FAILED_TRIES:
                break
        else:
            return
        if failed_tries >= MAX_FAILED_TRIES:
            return


def _batches(assignment: Assignment) -> Iterator[Indices]:
    hottest = _hottest(assignment)[: SOURCES * SOURCE_BATCHES]
    return (hottest[start : start + SOURCES] for start in range(0, len(hottest), SOURCES))


def _hottest(assignment: Assignment) -> Indices:
    """Return the nodes to relieve, those furthest above the mean first, then nodes below the mean that exceed
    the lowest by more than the threshold."""
    load_model, bounds = assignment.load_model, assignment.bounds
    excess = over_resources(np.square(np.maximum(load_model.deviation, 0)))
    too_far_up = (load_model.load - load_model.lowest(bounds.receives) > bounds.threshold).any(axis=1)
    order: Indices = np.lexsort((-over_resources(load_model.deviation), -excess))
    hottest: Indices = order[(bounds.sheds & too_far_up)[order]]
    return hottest


def _coldest(assignment: Assignment) -> Indices:
    """Return the nodes to move to: the coldest in all resources together, and in each."""
    nodes: Indices = np.flatnonzero(assignment.bounds.receives)
    if len(nodes) <= SINKS:
        return nodes
    nodes = np.flatnonzero(assignment.common_targets)
    if len(nodes) <= SINKS:
        return nodes
    deviation = assignment.load_model.deviation[nodes]
    views = [deviation.sum(axis=1)] if deviation.shape[1] == 1 else [deviation.sum(axis=1), *deviation.T]
    share = SINKS // len(views)
    chosen = np.unique(np.concatenate([np.argpartition(view, share)[:share] for view in views]))
    coldest: Indices = nodes[chosen]
    return coldest


class _Round:
    """Makes the best moves from some sources, at most one per node."""

    def __init__(self, assignment: Assignment, sources: Indices, sinks: Indices, skipped: Flags) -> None:
        """Prepare a round. It adds pods to `skipped` whose node does not exceed any possible target by more
        than the threshold; later rounds skip them, because that rarely changes."""
        self.assignment, self.sinks, self.skipped = assignment, sinks, skipped
        on_source = np.zeros(len(assignment.bounds.receives), np.bool_)
        on_source[sources] = True
        pods = np.flatnonzero(on_source[assignment.load_model.at])
        at_home = assignment.load_model.at[pods] == assignment.home[pods]
        self.pods: Indices = pods[at_home & ~assignment.immovable[pods] & ~skipped[pods]]
        self.gains = assignment.load_model.gains(self.pods, sinks)
        """[pod, sink]: 0 if the pod may not go there, or if the round has already used the node."""
        self.elsewhere: dict[int, tuple[int, float]] = {}
        """The best target and its gain, for some pods that may go to none of the sinks."""
        self.touched: set[int] = set()
        self.floor = NEGLIGIBLE
        self.unexpected = 0
        """How many pods turned out to be more constrained than expected."""
        self.made = 0
        self.failed_tries = 0
        """How many pods were tried without success since the last move."""

    def make_moves(self) -> bool:
        """Make the moves of the round; return whether another round may find more."""
        assignment, unexpected_before = self.assignment, 0
        if not len(self.pods) or not len(self.sinks):
            return False
        expected = self._expected_gains()
        most = max(1, len(assignment.bounds.receives) // NODES_PER_MOVE)
        sources = assignment.load_model.at[self.pods].tolist()
        for index in _by_gain(expected, assignment.priority[self.pods]):
            if (
                expected[index] <= self.floor
                or self.made == most
                or assignment.moves == assignment.bounds.limit
            ):
                break
            if sources[index] in self.touched:
                continue
            if self._make(index, sources[index]):
                unexpected_before = self.unexpected
                if assignment.bounds.threshold and assignment.is_inside:
                    break
            elif (
                self.unexpected - unexpected_before == MAX_UNEXPECTED or self.failed_tries >= MAX_FAILED_TRIES
            ):
                break
        return self.made > 0 or self.unexpected > 0

    def _expected_gains(self) -> Floats:
        """Return [pod]: the highest gain among its known targets."""
        assignment, pods = self.assignment, self.pods
        expected: Floats = self.gains.max(axis=1)
        constrained = np.flatnonzero(assignment.constrained[pods])
        if not len(constrained):
            return expected
        expected_before = expected[constrained]
        allowed = np.stack([assignment.places(pod)[self.sinks] for pod in pods[constrained].tolist()])
        self.gains[constrained] = np.where(allowed, self.gains[constrained], 0.0)
        expected[constrained] = self.gains[constrained].max(axis=1)
        barred = np.flatnonzero((expected[constrained] <= NEGLIGIBLE) & (expected_before > NEGLIGIBLE))
        if len(barred) and len(self.sinks) < assignment.bounds.receives.sum():
            self._look_elsewhere(
                constrained[barred[np.argsort(-expected_before[barred], kind="stable")]], expected
            )
        return expected

    def _look_elsewhere(self, indices: Indices, expected: Floats) -> None:
        indices = indices[:WIDELY_TRIED]
        pods = self.pods[indices]
        allowed = np.stack([self.assignment.places(pod) for pod in pods.tolist()])
        gains = np.where(allowed, self.assignment.load_model.gains(pods, np.arange(allowed.shape[1])), 0.0)
        expected[indices] = gains.max(axis=1)
        for index, target in zip(indices.tolist(), gains.argmax(axis=1).tolist(), strict=True):
            self.elsewhere[index] = target, float(expected[index])

    def _make(self, index: int, source: int) -> bool:
        assignment, pod = self.assignment, int(self.pods[index])
        # Ask the rules last, because that takes most of the time.
        if index not in self.elsewhere and self.gains[index].max() <= self.floor:
            return False
        if not assignment.may_move(pod):
            self.unexpected += 1
            return False
        target, gain = self._best(index, pod)
        if target in self.touched:
            return False
        if gain <= self.floor or not assignment.is_worth_it(gain, (source, target)):
            self.failed_tries += 1
            return False
        if not assignment.reaches_far_enough(pod, target):
            self.skipped[pod] = True
            self.failed_tries += 1
            return False
        assignment.put(pod, target)
        self.touched |= {source, target}
        for sink in np.flatnonzero((self.sinks == source) | (self.sinks == target)).tolist():
            self.gains[:, sink] = 0.0
        self.floor = max(self.floor, SLACK * gain)
        self.made, self.failed_tries = self.made + 1, 0
        return True

    def _best(self, index: int, pod: int) -> tuple[int, float]:
        """Return the best target that the pod may go to, and the gain; a gain of 0 if there is none."""
        if index in self.elsewhere:
            target, gain = self.elsewhere[index]
            return target, gain if self.assignment.may_go(pod, target) else 0.0
        was_constrained, gains = self.assignment.constrained[pod], self.gains[index]
        while gains[best := int(gains.argmax())] > self.floor:
            if self.assignment.may_go(pod, int(self.sinks[best])):
                return int(self.sinks[best]), float(gains[best])
            gains = np.where(self.assignment.places(pod)[self.sinks], gains, 0.0)
            gains[best] = 0.0
        self.unexpected += bool(self.assignment.constrained[pod] and not was_constrained)
        return int(self.sinks[best]), 0.0


def _by_gain(gains: Floats, priority: Rows) -> list[int]:
    """Return indices by decreasing gain; among nearly equal gains, by priority, then in order."""
    steps = np.floor(np.log(np.maximum(gains, NEGLIGIBLE)) / np.log(NEAR))
    order: list[int] = np.lexsort((-gains, priority, -steps)).tolist()
    return order
