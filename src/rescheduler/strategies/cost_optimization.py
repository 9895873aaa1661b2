"""CostOptimization: nodes that the cluster can do without are emptied and left to the autoscaler."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from rescheduler.model.node_marks import in_maintenance, is_cordoned_by
from rescheduler.model.plan import NodeChange
from rescheduler.snapshot.snapshot import CPU, MEMORY, NOWHERE
from rescheduler.strategies.placing import average_node, complete_units, find_places, load_with, room_left
from rescheduler.strategies.prices import prices_of
from rescheduler.strategies.shortage import lacks_room, nodes_to_reopen, waiting_pods
from rescheduler.strategies.strategy import NodeProposal, Proposal, Step, View
from rescheduler.strategies.tenants import NODE_BOUND, belongs_to_node

__all__ = ["CostOptimization"]

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

_LATE = 1.0
"""How much room of an average node it is worth that a target is emptied last rather than first."""
_TINY = 1e-9


class CostOptimization:
    """Empties the nodes that are cheapest to empty, where all their pods fit elsewhere.

    Cheapest is what takes the fewest moves for the price that it saves. An emptied node stays cordoned for
    the autoscaler, until a pod can't be scheduled for lack of room: then it is opened again, and nothing is
    emptied as long as pods wait. A node is emptied in one plan or, if it has more pods than one plan may
    move, in several; it is finished before another is begun. Nodes that are empty anyway are neither
    cordoned (they are the room for what comes next) nor filled.
    """

    name: ClassVar[str] = "CostOptimization"
    urgent: ClassVar[bool] = False

    def propose(self, view: View) -> Iterator[Proposal | NodeProposal]:
        prices = prices_of(view.snapshot.nodes.records, view.policy.cost)
        cordoned = self._cordoned_by_us(view, prices)
        waiting = waiting_pods(view)
        reopened = list(nodes_to_reopen(view, waiting, cordoned))
        for node, pod in reopened:
            reason = f"{view.snapshot.pods.records[pod].key} finds no room elsewhere"
            yield NodeProposal(node, NodeChange.UNCORDON, reason)
        if reopened or any(lacks_room(view, pod) for pod in waiting):
            return
        yield from _Emptying(view, prices).proposals(begun=cordoned)

    def _cordoned_by_us(self, view: View, prices: Floats) -> list[int]:
        """Those first that cost least to have again."""
        records = view.snapshot.nodes.records
        ours = [
            node
            for node in np.flatnonzero(view.nodes).tolist()
            if is_cordoned_by(records[node], self.name) and not in_maintenance(records[node])
        ]
        return sorted(ours, key=lambda node: (prices[node], node))


class _Emptying:
    def __init__(self, view: View, prices: Floats) -> None:
        self.view = view
        self.prices = prices
        self.ceilings = _ceilings(view)
        self.occupied = _number_of_tenants(view) > 0
        self.order = _cheapest_first(view, prices)
        self.turn = np.ones(len(prices))
        """[node]: when it would be emptied, from 0 to 1."""
        self.turn[self.order] = np.linspace(0, 1, len(self.order))
        self.hopeless: set[int] = set()
        """Pod classes that have no place elsewhere: while others move in there won't be more."""

    def proposals(self, begun: Sequence[int]) -> Iterator[Proposal | NodeProposal]:
        """First what was begun in earlier plans: a node that is half empty saves nothing."""
        for node in (*begun, *self.order):
            if self.view.room <= 0:
                return
            steps = self._steps(node)
            if not steps:
                continue
            if len(steps) <= self.view.room:
                yield Proposal(tuple(steps))
                if node not in begun and self.view.board.position[steps[0].pod] != node:
                    yield self._cordon(node, len(steps))
            elif node in begun or len(steps) > self.view.policy.max_reschedule_pods:
                # Too many for any one plan: cordoned, so that the next plan goes on with what is left.
                if node not in begun:
                    yield self._cordon(node, len(steps))
                if self.view.open[node]:
                    continue  # it may not be closed, so it would fill up again
                yield from (Proposal((step,)) for step in steps[: self.view.room])
            else:
                return

    def _steps(self, node: int) -> list[Step]:
        """All of its pods to other nodes; none if one of them has to stay, or there is no one to move."""
        pods = self.view.snapshot.pods
        tenants = [pod for pod in self.view.board.pods_on(node) if not belongs_to_node(pods.records[pod])]
        if not all(self._has_hope(pod) for pod in tenants):
            return []
        units = complete_units(self.view, tenants)
        if sorted(pod for unit in units for pod in unit) != tenants:
            return []  # some would bring along others of their group, who are well where they are
        places = find_places(
            self.view, units, self._choice, lambda pod: self._allowed(pod) & self._worth_filling(node)
        )
        if places.homeless:
            return []
        in_turn = sorted(places.targets, key=lambda pod: (int(pods.priority[pod]), pod))
        return [self._step(node, pod, places.targets[pod], 1 / len(in_turn)) for pod in in_turn]

    def _has_hope(self, pod: int) -> bool:
        pod_class = int(self.view.snapshot.pods.pod_class[pod])
        if pod_class in self.hopeless or not self.view.may_move(pod):
            return False
        if not self._allowed(pod).any():
            self.hopeless.add(pod_class)
            return False
        return True

    def _allowed(self, pod: int) -> Flags:
        view = self.view
        allowed = view.targets(pod) & view.nodes
        for column, ceiling in self.ceilings.items():
            allowed &= view.board.load[:, column] + view.snapshot.pods.load[pod, column] <= ceiling
        return allowed

    def _worth_filling(self, node: int) -> Flags:
        """An empty node saves as much as this one would, unless it is the cheaper one to keep."""
        cheaper: Flags = self.prices < self.prices[node]
        return self.occupied | cheaper

    def _choice(self, view: View, pod: int, nodes: Rows) -> int:
        """The tightest, but rather one that is to be emptied late or never."""
        return int(nodes[(room_left(view, pod, nodes) - _LATE * self.turn[nodes]).argmin()])

    def _step(self, node: int, pod: int, target: int, share: float) -> Step:
        view = self.view
        gain = share * float(self.prices[node] / max(self.prices[view.nodes].sum(), _TINY))
        load = load_with(view, pod, np.array([target]))[0]
        name = view.snapshot.nodes.records[node].name
        return Step(pod, target, f"empties {name}, target {load:.1f}%", gain)

    def _cordon(self, node: int, moves: int) -> NodeProposal:
        reason = f"can be done without: {moves} pods fit elsewhere, saves {self.prices[node]:g}"
        return NodeProposal(node, NodeChange.CORDON, reason)


def _number_of_tenants(view: View) -> Floats:
    """[node]: pods that don't belong to it, as far as their workload tells: close enough to compare by."""
    snapshot = view.snapshot
    of_nodes = [row for row, workload in enumerate(snapshot.workloads) if workload.kind in NODE_BOUND]
    position = view.board.position
    counted = (position != NOWHERE) & ~np.isin(snapshot.pods.workload, of_nodes)
    return np.bincount(position[counted], minlength=len(snapshot.nodes)).astype(np.float64)


def _cheapest_first(view: View, prices: Floats) -> list[int]:
    """Nodes that might be emptied: those first that take the fewest moves for what they save."""
    snapshot = view.snapshot
    tenants = _number_of_tenants(view)
    size = (snapshot.nodes.allocatable / average_node(snapshot.nodes)).sum(axis=1)
    candidates = np.flatnonzero(view.nodes & view.open & (tenants > 0) & (prices > 0))
    moves_per_price = tenants[candidates] / prices[candidates]
    found: list[int] = candidates[np.lexsort((candidates, size[candidates], moves_per_price))].tolist()
    return found


def _ceilings(view: View) -> dict[int, Floats]:
    """Load that a target may have, by resource [node]: where overloaded nodes shed pods, no more."""
    percent = {CPU: 100.0, MEMORY: 100.0}
    if "ResourceOptimization" in view.policy.enabled_strategies:
        percent = {CPU: view.policy.cpu_threshold, MEMORY: view.policy.memory_threshold}
    return {
        column: view.snapshot.nodes.allocatable[:, column] * most / 100 for column, most in percent.items()
    }
