"""Steepest descent: again and again the pods and targets that gain most.

It considers a short list: the pods of the hottest nodes, the coldest nodes as targets. A round makes several
moves, as long as they concern different nodes and gain about as much as the best: what one gains does not
depend on the others then. The work is bounded by counts, never by time: the same cluster gives the same
moves.
"""

from collections.abc import Iterator

import numpy as np

from rescheduler.cluster.snapshot import Flags, Floats, Indices, Rows
from rescheduler.strategies.load_balancing.assignment import NEGLIGIBLE, Assignment, over_resources

__all__ = ["SLACK", "descend"]

SOURCES = 96
"""How many of the hottest nodes have their pods considered at once."""
SOURCE_BATCHES = 12
"""How many such goes, each with the next hottest, before there is nothing to be found."""
SINKS = 128
"""How many of the coldest nodes are considered as targets."""
WIDELY_TRIED = 32
"""Pods of one round that may go to none of these and are tried on every node."""
NODES_PER_MOVE = 6
"""One round makes a move for every so many nodes; in small clusters, one move."""
LESSONS = 16
"""Pods in a row that turn out not to be allowed on the expected node: then the round starts again."""
MAX_FAILED_TRIES = 500
"""Pods in a row that nothing comes of: then the rest, which promises less, is not asked about."""
SLACK = 0.3
"""What a move of a round must gain, relative to the first of it."""
NEAR = 1.05
"""Gains within this factor count as equal: there the lower priority moves first."""


def descend(assignment: Assignment, worth_a_round: float = 0.0) -> None:
    """Make single moves until the limit, the threshold, or no move that gains.

    It also ends after a round that takes off less than `worth_a_round` of the unevenness.
    """
    content = np.zeros(len(assignment.home), np.bool_)
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
            round_ = _Round(assignment, sources, sinks, content)
            goes_on = round_.goes_on()
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
    """Return the nodes to relieve, the one with the highest gain first. In the end also those below the mean,
    because others may be further below it than a pod is large."""
    load_model, bounds = assignment.load_model, assignment.bounds
    excess = over_resources(np.square(np.maximum(load_model.deviation, 0)))
    too_far_up = (load_model.load - load_model.lowest(bounds.receives) > bounds.threshold).any(axis=1)
    order: Indices = np.lexsort((-over_resources(load_model.deviation), -excess))
    hottest: Indices = order[(bounds.sheds & too_far_up)[order]]
    return hottest


def _coldest(assignment: Assignment) -> Indices:
    """Return the nodes to move to: the lowest in all resources together, and in each."""
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

    def __init__(self, assignment: Assignment, sources: Indices, sinks: Indices, content: Flags) -> None:
        """`content` are pods whose nodes were not far enough above any place of theirs, which rarely changes
        on the way down; those that are found so are added."""
        self.assignment, self.sinks, self.content = assignment, sinks, content
        on_source = np.zeros(len(assignment.bounds.receives), np.bool_)
        on_source[sources] = True
        pods = np.flatnonzero(on_source[assignment.load_model.at])
        at_home = assignment.load_model.at[pods] == assignment.home[pods]
        self.pods: Indices = pods[at_home & ~assignment.immovable[pods] & ~content[pods]]
        self.gains = assignment.load_model.gains(self.pods, sinks)
        """[pod, sink]: 0 where a pod is known not to be allowed, and for nodes of moves of this round."""
        self.elsewhere: dict[int, tuple[int, float]] = {}
        """The best target of some pods that may go to none of the sinks, and what it gains."""
        self.touched: set[int] = set()
        self.floor = NEGLIGIBLE
        self.learnt = 0
        """Pods found to be more constrained than was thought."""
        self.made = 0
        self.failed_tries = 0
        """Pods since the last move that were asked about, and nothing came of it."""

    def goes_on(self) -> bool:
        """Return whether a move was made, or something was learnt that makes another round different."""
        assignment, lessons = self.assignment, 0
        if not len(self.pods) or not len(self.sinks):
            return False
        promise = self._promise()
        most = max(1, len(assignment.bounds.receives) // NODES_PER_MOVE)
        sources = assignment.load_model.at[self.pods].tolist()
        for index in _by_gain(promise, assignment.priority[self.pods]):
            if (
                promise[index] <= self.floor
                or self.made == most
                or assignment.moves == assignment.bounds.limit
            ):
                break
            if sources[index] in self.touched:
                continue
            if self._make(index, sources[index]):
                lessons = self.learnt
                if assignment.bounds.threshold and assignment.is_inside:
                    break
            elif self.learnt - lessons == LESSONS or self.failed_tries >= MAX_FAILED_TRIES:
                break
        return self.made > 0 or self.learnt > 0

    def _promise(self) -> Floats:
        """Return [pod]: what it gains at best, as far as is known of where it may go."""
        assignment, pods = self.assignment, self.pods
        promise: Floats = self.gains.max(axis=1)
        constrained = np.flatnonzero(assignment.constrained[pods])
        if not len(constrained):
            return promise
        promised_before = promise[constrained]
        allowed = np.stack([assignment.places(pod)[self.sinks] for pod in pods[constrained].tolist()])
        self.gains[constrained] = np.where(allowed, self.gains[constrained], 0.0)
        promise[constrained] = self.gains[constrained].max(axis=1)
        barred = np.flatnonzero((promise[constrained] <= NEGLIGIBLE) & (promised_before > NEGLIGIBLE))
        if len(barred) and len(self.sinks) < assignment.bounds.receives.sum():
            self._look_elsewhere(
                constrained[barred[np.argsort(-promised_before[barred], kind="stable")]], promise
            )
        return promise

    def _look_elsewhere(self, indices: Indices, promise: Floats) -> None:
        indices = indices[:WIDELY_TRIED]
        pods = self.pods[indices]
        allowed = np.stack([self.assignment.places(pod) for pod in pods.tolist()])
        gains = np.where(allowed, self.assignment.load_model.gains(pods, np.arange(allowed.shape[1])), 0.0)
        promise[indices] = gains.max(axis=1)
        for index, target in zip(indices.tolist(), gains.argmax(axis=1).tolist(), strict=True):
            self.elsewhere[index] = target, float(promise[index])

    def _make(self, index: int, source: int) -> bool:
        assignment, pod = self.assignment, int(self.pods[index])
        # The rules are asked last: that costs more than all else.
        if index not in self.elsewhere and self.gains[index].max() <= self.floor:
            return False
        if not assignment.may_move(pod):
            self.learnt += 1
            return False
        target, gain = self._best(index, pod)
        if target in self.touched:
            return False
        if gain <= self.floor or not assignment.is_worth_it(gain, (source, target)):
            self.failed_tries += 1
            return False
        if not assignment.reaches_far_enough(pod, target):
            self.content[pod] = True
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
        """Return the best target that it may go to, and the gain."""
        if index in self.elsewhere:
            target, gain = self.elsewhere[index]
            return target, gain if self.assignment.may_go(pod, target) else 0.0
        was_constrained, gains = self.assignment.constrained[pod], self.gains[index]
        while gains[best := int(gains.argmax())] > self.floor:
            if self.assignment.may_go(pod, int(self.sinks[best])):
                return int(self.sinks[best]), float(gains[best])
            gains = np.where(self.assignment.places(pod)[self.sinks], gains, 0.0)
            gains[best] = 0.0
        self.learnt += bool(self.assignment.constrained[pod] and not was_constrained)
        return int(self.sinks[best]), 0.0


def _by_gain(gains: Floats, priority: Rows) -> list[int]:
    """Return indices by falling gain; among near equals, by priority, then in order."""
    steps = np.floor(np.log(np.maximum(gains, NEGLIGIBLE)) / np.log(NEAR))
    order: list[int] = np.lexsort((-gains, priority, -steps)).tolist()
    return order
