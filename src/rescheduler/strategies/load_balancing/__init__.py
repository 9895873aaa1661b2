"""LoadBalancing: balance the load of nodes with as few moves as possible.

`BalancingProblem` is the input: the nodes and their pods, as numbers, and the rules for moving them.
"""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from rescheduler.cluster.snapshot import Flags, Floats, Indices, Snapshot
from rescheduler.strategies.load_balancing.assignment import Assignment, LoadModel, SearchBounds
from rescheduler.strategies.load_balancing.local_search import SMALL
from rescheduler.strategies.load_balancing.move_bundles import MoveBundle, move_bundles
from rescheduler.strategies.load_balancing.move_search import search_moves
from rescheduler.strategies.strategy import Proposal, ProposedMove, View

__all__ = ["BalancingProblem", "LoadBalancing"]


_TRIAL_RUNS = 4
"""How often to search again without the moves that are not possible in any order."""
_SWAPS_TRIED = 100
"""How many swaps of pods between full nodes to try on the placement, because each takes time."""


class BalancingProblem:
    """The strategy's Ready nodes and the pods on them, numbered from 0. It also provides the
    `AssignmentRules` of the search, which runs in a trial of the placement."""

    def __init__(self, view: View) -> None:
        snapshot, policy = view.snapshot, view.policy
        self.view = view
        self.resources = [name for name in policy.balance_resources if name in snapshot.resources]
        columns = np.array([snapshot.resources.index(name) for name in self.resources], np.intp)
        self.nodes: Indices = np.flatnonzero(view.nodes & snapshot.nodes.ready & _is_known(snapshot, columns))
        """[node]: its row in the snapshot."""
        number = np.full(len(snapshot.nodes) + 1, -1, np.intp)  # the last entry is for pods without a node
        number[self.nodes] = np.arange(len(self.nodes))
        at = number[view.placement.position]
        self.pods: Indices = np.flatnonzero(at >= 0)
        """[pod]: its row in the snapshot."""
        # A node that an autoscaler is about to remove must not be filled: then it would stay.
        self.receives: Flags = (view.open & ~view.scale_down_candidates)[self.nodes]
        allocatable = snapshot.nodes.allocatable[self.nodes][:, columns].astype(np.float64)
        weight = np.divide(100.0, allocatable, out=np.zeros_like(allocatable), where=allocatable > 0)
        load = view.placement.load[self.nodes][:, columns].astype(np.float64) * weight
        self._load_before: Floats = snapshot.nodes.load[self.nodes][:, columns].astype(np.float64) * weight
        """[node, resource]: before any move of the plan, in percent."""
        amount = snapshot.pods.load[self.pods][:, columns].astype(np.float64)
        self.load_model = LoadModel(amount, weight, at[self.pods], load)
        """The load with all accepted moves."""
        self._unreachable: dict[int, set[int]] = {}
        """The nodes, by pod, that it may go to alone, but not in any order of moves that was tried."""
        self._swaps = self._accepted = self._refused = 0

    @property
    def is_balanced(self) -> bool:
        threshold = self.view.policy.imbalance_threshold
        return threshold > 0 and self.load_model.is_inside(threshold, self.receives)

    def bundles(self) -> Iterator[MoveBundle]:
        """Yield bundles to propose, in order. Those that don't fit come last, to report why."""
        if not self.resources or not self.receives.any() or self.view.room <= 0 or self.is_balanced:
            return
        pods, targets = self._feasible_moves()
        yield from self._fitting_bundles(self.load_model, pods, targets)
        left = self.load_model.at[pods] != targets
        yield from move_bundles(
            self.load_model, pods[left], targets[left], min_gain=self.view.policy.min_gain
        )

    def _feasible_moves(self) -> tuple[Indices, Indices]:
        """Return pods and targets; in a small cluster, moves that can be made one after the other.

        A search may find moves that can't be made in any order. A refused pod stays for the rest of the plan,
        and the moves before it may be of no use without it. So a small cluster tries
        the moves first, and searches again without those that fail.
        """
        pods, targets = self._search()
        for _ in range(_TRIAL_RUNS if len(self.nodes) <= SMALL else 0):
            if not (impossible := self._trial_run(pods, targets)):
                break
            for pod, target in impossible:
                self._unreachable.setdefault(pod, set()).add(target)
            pods, targets = self._search()
        return pods, targets

    def _search(self) -> tuple[Indices, Indices]:
        """Return the pods that should move, and their targets."""
        assignment = self._assignment()
        with self.view.placement.trial():
            search_moves(assignment)
        pods = assignment.moved_pods()
        return pods, assignment.load_model.at[pods]

    def _trial_run(self, pods: Indices, targets: Indices) -> list[tuple[int, int]]:
        """Make the moves in a trial, and return those that are impossible."""
        load_model = self.load_model.copy()
        with self.view.placement.trial():
            for bundle in self._fitting_bundles(load_model, pods, targets):
                for pod, _, target in bundle.moves:
                    self.move(pod, target)
                    load_model.put(pod, target)
        left = load_model.at[pods] != targets
        return list(zip(pods[left].tolist(), targets[left].tolist(), strict=True))

    def _fitting_bundles(
        self, load_model: LoadModel, pods: Indices, targets: Indices
    ) -> Iterator[MoveBundle]:
        """Yield bundles as soon as they fit; one that doesn't fit yet waits for others."""
        before = len(pods) + 1
        while len(pods) < before:
            before = len(pods)
            for bundle in move_bundles(load_model, pods, targets, min_gain=self.view.policy.min_gain):
                if self._may_be_made(bundle):
                    yield bundle
            left = load_model.at[pods] != targets
            pods, targets = pods[left], targets[left]

    def _may_be_made(self, bundle: MoveBundle) -> bool:
        """Return whether a single move fits now. For several moves, the planner decides, which can reorder
        them."""
        view, rows = self.view, [int(self.pods[pod]) for pod, *_ in bundle.moves]
        if not all(map(view.may_move, rows)):
            return False
        if len(rows) > 1:
            return True
        target, stays = int(self.nodes[bundle.moves[0][2]]), view.handover(rows[0]).source_stays
        # The search has checked spread constraints for the final state; they may be worse in between.
        return view.placement.fits_on(rows[0], target, source_stays=stays)

    def _assignment(self) -> Assignment:
        view, policy = self.view, self.view.policy
        bounds = SearchBounds(
            sheds=view.hot[self.nodes],
            receives=self.receives,
            limit=view.room,
            threshold=policy.imbalance_threshold,
            min_gain=policy.min_gain,
        )
        return Assignment(self.load_model.copy(), self, view.snapshot.pods.priority[self.pods], bounds)

    def may_move(self, pod: int) -> bool:
        row = int(self.pods[pod])
        if not self.view.may_move(row):
            return False
        if len(self.view.moves_with(row)) > 1:
            self.view.report_staying(
                row, "GroupIncomplete", "its whole group would have to move, which balances nothing"
            )
            return False
        return True

    def places(self, pod: int) -> Flags:
        places: Flags = self.view.targets(int(self.pods[pod]))[self.nodes]
        places[[*self._unreachable.get(pod, ())]] = False
        return places

    def may_go(self, pod: int, node: int) -> bool:
        return node not in self._unreachable.get(pod, ()) and self.view.may_go(
            int(self.pods[pod]), int(self.nodes[node])
        )

    def move(self, pod: int, node: int) -> None:
        self.view.placement.move(int(self.pods[pod]), int(self.nodes[node]))

    def may_swap(self, pod: int, other: int) -> bool:
        """Return whether the two pods can swap, by trying it on the placement."""
        self._swaps += 1
        if self._swaps > _SWAPS_TRIED:
            return False
        row, other_row = int(self.pods[pod]), int(self.pods[other])
        placement = self.view.placement
        here, there = int(placement.position[row]), int(placement.position[other_row])
        with placement.trial():
            placement.remove(other_row, there)
            if not self.view.targets(row)[there]:
                return False
            placement.move(row, there)
            return bool(self.view.targets(other_row)[here])

    def proposal(self, bundle: MoveBundle) -> Proposal:
        return Proposal(
            tuple(
                ProposedMove(
                    int(self.pods[pod]), int(self.nodes[target]), self._reason(bundle, number), bundle.gain
                )
                for number, (pod, _, target) in enumerate(bundle.moves)
            )
        )

    def _reason(self, bundle: MoveBundle, number: int) -> str:
        """Return the reason, with the resource in which the two nodes differ most when the move is made.

        The loads are those before the plan, as in all output about it, not those after earlier moves.
        """
        pod, *ends = bundle.moves[number]
        widest = int(np.abs(np.subtract(*bundle.loads[number])).argmax())
        source, target = self._load_before[ends, widest]
        words = f"{self.resources[widest]}: source {source:.1f}%, target {target:.1f}%"
        others = [other for other, *_ in bundle.moves if other != pod]
        if not others:
            return words
        keys = ", ".join(self.view.snapshot.pods.records[self.pods[other]].key for other in others)
        return f"{words}; together with {keys}"

    def note_answer(self, bundle: MoveBundle) -> None:
        """Record whether a bundle was accepted; then its pods are at their targets."""
        position = self.view.placement.position
        if all(position[self.pods[pod]] == self.nodes[target] for pod, _, target in bundle.moves):
            self._accepted += 1
            for pod, _, target in bundle.moves:
                self.load_model.put(pod, target)
        else:
            self._refused += 1

    @property
    def is_worth_another_pass(self) -> bool:
        """Return whether to search again: moves were accepted and others refused, so the loads differ from
        what the search assumed. In a small cluster, search again until nothing more is found."""
        return self._accepted > 0 and (self._refused > 0 or len(self.nodes) <= SMALL)


def _is_known(snapshot: Snapshot, columns: Indices) -> Flags:
    """Return [node]: all custom metrics among the columns are known. Other nodes are left out."""
    metrics = columns[columns >= len(snapshot.resources) - snapshot.nodes.metrics]
    known: Flags = np.all(snapshot.nodes.allocatable[:, metrics] > 0, axis=1)
    return known


_PASSES = 8
"""How often to search again after some moves were refused."""


class LoadBalancing:
    """Moves pods until the load of all nodes is within `imbalanceThreshold`.

    Load is percent of allocatable, per resource. The spread is the highest minus the lowest over the
    strategy's Ready nodes; above `imbalanceThreshold` in any of `balanceResources`, pods move so that Σ(load
    - mean)² over all of them falls fastest, until the spread is inside the threshold.

    No pod moves back and forth: a move must reduce the distance of its two nodes from the mean by at least
    `minGain`, and the source must exceed some possible target by more than the threshold.
    """

    name: ClassVar[str] = "LoadBalancing"

    def too_hot(self, view: View) -> Flags:
        """Return [node]: its load exceeds the lowest by more than the threshold."""
        problem = BalancingProblem(view)
        distance = problem.load_model.load - problem.load_model.lowest(problem.receives)
        flags = np.zeros(len(view.snapshot.nodes), np.bool_)
        flags[problem.nodes] = (distance > view.policy.imbalance_threshold).any(axis=1)
        return flags

    def propose(self, view: View) -> Iterator[Proposal]:
        for _ in range(_PASSES):
            problem = BalancingProblem(view)
            for bundle in problem.bundles():
                if problem.is_balanced or len(bundle.moves) > view.room:
                    return
                yield problem.proposal(bundle)
                problem.note_answer(bundle)
            if not problem.is_worth_another_pass:
                return
