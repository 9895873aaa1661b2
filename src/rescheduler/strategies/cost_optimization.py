"""CostOptimization: empty nodes that the cluster does not need, so that the node autoscaler removes them."""

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from rescheduler.cluster.node_record import (
    UNSCHEDULABLE_TAINT,
    NodeChange,
    NodeRecord,
    in_maintenance,
    is_cordoned_by,
)
from rescheduler.cluster.pod_record import NODE_BOUND_KINDS, PodRecord, belongs_to_node
from rescheduler.cluster.snapshot import CPU, MEMORY, NO_ROW, Flags, Floats, Indices, Snapshot
from rescheduler.config.policy_blocks import Cost
from rescheduler.rules.rule_check import SchedulerRule
from rescheduler.rules.taint_toleration import untolerated
from rescheduler.strategies.strategy import NodeProposal, Proposal, ProposedMove, View
from rescheduler.strategies.target_search import (
    average_node,
    complete_units,
    find_targets,
    free_after,
)

__all__ = [
    "INSTANCE_TYPE",
    "CostOptimization",
    "lacks_room",
    "node_prices",
    "nodes_to_uncordon",
    "unschedulable_pods",
]

INSTANCE_TYPE = "node.kubernetes.io/instance-type"


def node_prices(nodes: Sequence[NodeRecord], cost: Cost) -> Floats:
    """Return [node]: the price. A node of unknown price gets the average, or 1 if no price is known."""
    found = [_price(node, cost) for node in nodes]
    known = [price for price in found if price is not None]
    default = sum(known) / len(known) if known else 1.0
    return np.array([default if price is None else price for price in found], np.float64)


def _price(node: NodeRecord, cost: Cost) -> float | None:
    if cost.price_label is not None:
        price = _number(node.labels.get(cost.price_label, ""))
        if price is not None:
            return price
    return cost.prices.get(node.labels.get(INSTANCE_TYPE, ""))


def _number(text: str) -> float | None:
    """Parse a price; None if the label is not a price."""
    try:
        price = float(text)
    except ValueError:
        return None
    return price if math.isfinite(price) and price >= 0 else None


_SHORTAGES = ("Insufficient ", "Too many pods")
"""Texts in the scheduler's message that mean that nodes are full."""


def unschedulable_pods(snapshot: Snapshot) -> list[int]:
    """Return the pods for which the scheduler found no node, the highest priority first, as it does."""
    pods = snapshot.pods
    unscheduled = np.flatnonzero(pods.node == NO_ROW).tolist()
    waiting = [pod for pod in unscheduled if _is_unschedulable(pods.records[pod])]
    return sorted(waiting, key=lambda pod: (-int(pods.priority[pod]), pod))


def _is_unschedulable(pod: PodRecord) -> bool:
    if pod.node or pod.is_terminating or pod.is_finished:
        return False
    condition = pod.condition("PodScheduled")
    return condition is not None and condition.status == "False" and condition.reason == "Unschedulable"


def lacks_room(view: View, pod: int) -> bool:
    """Return whether the scheduler reports full nodes, and some node is large enough for the pod if empty."""
    condition = view.snapshot.pods.records[pod].condition("PodScheduled")
    if condition is None or not any(words in condition.message for words in _SHORTAGES):
        return False
    return bool((view.snapshot.nodes.allocatable >= view.snapshot.pods.requests[pod]).all(axis=1).any())


def nodes_to_uncordon(
    view: View, waiting: Sequence[int], cordoned: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Yield as few of the cordoned nodes as possible, each with the first pod that needs it.

    `cordoned` has the best nodes to uncordon first. A pod that fits on an open node, or on one that is
    uncordoned for an earlier pod, needs no other.
    """
    placement = view.placement
    reopened: list[int] = []
    with placement.trial():
        for pod in waiting:
            fits = np.flatnonzero(placement.fits(pod, source_stays=False) & view.open)
            place = int(fits[0]) if fits.size else _first_without_cordon(view, pod, reopened)
            if place is None:
                place = _first_without_cordon(view, pod, cordoned)
                if place is None:
                    continue
                reopened.append(place)
                yield place, pod
            placement.place(pod, place)


def _first_without_cordon(view: View, pod: int, nodes: Sequence[int]) -> int | None:
    return next((node for node in nodes if _fits_without_cordon(view, pod, node)), None)


def _fits_without_cordon(view: View, pod: int, node: int) -> bool:
    refusals = view.placement.refusals(pod, node, source_stays=False)
    return all(_is_due_to_cordon(view, pod, node, refusal.rule) for refusal in refusals)


def _is_due_to_cordon(view: View, pod: int, node: int, rule: SchedulerRule) -> bool:
    """Return whether the refusal is only due to the cordon, or to the taint that comes with it."""
    if rule is SchedulerRule.TAINT_TOLERATION:
        taints = view.snapshot.nodes.records[node].taints
        tolerations = view.snapshot.pods.records[pod].constraints.tolerations
        return all(taint.key == UNSCHEDULABLE_TAINT for taint in untolerated(taints, tolerations))
    return rule is SchedulerRule.NODE_UNSCHEDULABLE


_LATE = 1.0
"""How much room, in average nodes, a target may lose so that it is emptied last instead of first."""
_TINY = 1e-9


class CostOptimization:
    """Empties nodes whose pods all fit elsewhere and which a node autoscaler removes when they are empty.

    Nodes that need the fewest moves for the price that they save come first. An emptied node stays cordoned
    until the autoscaler removes it. If a pod can't be scheduled for lack of room, the node is uncordoned, and
    no node is emptied while pods wait. A node is emptied in one plan or, if it has more pods than one plan
    may move, in several; the next node starts when it is finished. Nodes that are already empty are neither
    cordoned, because new pods may need them, nor filled.
    """

    name: ClassVar[str] = "CostOptimization"

    def propose(self, view: View) -> Iterator[Proposal | NodeProposal]:
        prices = node_prices(view.snapshot.nodes.records, view.policy.cost)
        cordoned = self._cordoned_by_us(view, prices)
        waiting = unschedulable_pods(view.snapshot)
        reopened = list(nodes_to_uncordon(view, waiting, cordoned))
        for node, pod in reopened:
            reason = f"{view.snapshot.pods.records[pod].key} does not fit on any other node"
            yield NodeProposal(node, NodeChange.UNCORDON, reason)
        if reopened or any(lacks_room(view, pod) for pod in waiting):
            return
        removed = _removed_once_empty(view)
        for node in cordoned:
            if not removed[node]:
                why = view.autoscalers.removal_of(view.snapshot.nodes.records[node]).why
                yield NodeProposal(node, NodeChange.UNCORDON, f"no component would remove it: {why}")
        started = [node for node in cordoned if removed[node]]
        yield from _Consolidation(view, prices, removed).proposals(started)

    def _cordoned_by_us(self, view: View, prices: Floats) -> list[int]:
        """Return the nodes that we cordoned, cheapest first."""
        records = view.snapshot.nodes.records
        ours = [
            node
            for node in np.flatnonzero(view.nodes).tolist()
            if is_cordoned_by(records[node], self.name) and not in_maintenance(records[node])
        ]
        return sorted(ours, key=lambda node: (prices[node], node))


def _removed_once_empty(view: View) -> Flags:
    """Return [node]: some component removes it once it is empty. Report the other nodes."""
    autoscalers, records = view.autoscalers, view.snapshot.nodes.records
    removals = [autoscalers.removal_of(node) for node in records]
    if not autoscalers.evidence:
        why = "no node autoscaler was found: CostOptimization empties no node"
        view.report_node(None, "NodeNotRemoved", why)
    else:
        for node in np.flatnonzero(view.nodes).tolist():
            if removals[node].by is None:
                view.report_node(node, "NodeNotRemoved", removals[node].why)
    return np.fromiter((each.by is not None for each in removals), np.bool_, len(removals))


class _Consolidation:
    def __init__(self, view: View, prices: Floats, removed: Flags) -> None:
        self.view = view
        self.prices = prices
        self.ceilings = _ceilings(view)
        self.occupied = _movable_pod_counts(view) > 0
        self.order = _consolidation_order(view, prices, removed)
        self.turn = np.ones(len(prices))
        """[node]: its position in the order of emptying, from 0 to 1."""
        self.turn[self.order] = np.linspace(0, 1, len(self.order))
        self.unplaceable: set[int] = set()
        """Pod classes without a target. They won't get one later, because moves only take room."""

    def proposals(self, started: Sequence[int]) -> Iterator[Proposal | NodeProposal]:
        """Propose started nodes first, because a node that is half empty saves nothing."""
        for node in (*started, *self.order):
            if self.view.room <= 0:
                return
            moves = self._proposed_moves(node)
            if not moves:
                continue
            if len(moves) <= self.view.room:
                yield Proposal(tuple(moves))
                if node not in started and self.view.placement.position[moves[0].pod] != node:
                    yield self._cordon(node, len(moves))
            elif node in started or len(moves) > self.view.most_moves:
                # Too many for one plan: cordon the node, so that the next plan continues.
                if node not in started:
                    yield self._cordon(node, len(moves))
                if self.view.open[node]:
                    continue  # the cordon was not accepted, so the node would fill up again
                yield from (Proposal((move,)) for move in moves[: self.view.room])
            else:
                return

    def _proposed_moves(self, node: int) -> list[ProposedMove]:
        """Return moves that empty the node; none if one of its pods must stay or none has to move."""
        pods = self.view.snapshot.pods
        leaving = [pod for pod in self.view.placement.pods_on(node) if not belongs_to_node(pods.records[pod])]
        if not all(self._may_fit_elsewhere(pod) for pod in leaving):
            return []
        units = complete_units(self.view, leaving)
        if sorted(pod for unit in units for pod in unit) != leaving:
            return []  # members of a group on other nodes would have to move, too
        places = find_targets(
            self.view, units, self._choice, lambda pod: self._allowed(pod) & self._worth_filling(node)
        )
        if places.without_target:
            return []
        in_turn = sorted(places.targets, key=lambda pod: (int(pods.priority[pod]), pod))
        return [self._proposed_move(node, pod, places.targets[pod], 1 / len(in_turn)) for pod in in_turn]

    def _may_fit_elsewhere(self, pod: int) -> bool:
        pod_class = int(self.view.snapshot.pods.pod_class[pod])
        if pod_class in self.unplaceable or not self.view.may_move(pod):
            return False
        if not self._allowed(pod).any():
            self.unplaceable.add(pod_class)
            return False
        return True

    def _allowed(self, pod: int) -> Flags:
        view = self.view
        allowed = view.targets(pod) & view.nodes
        for column, ceiling in self.ceilings.items():
            allowed &= view.placement.load[:, column] + view.snapshot.pods.load[pod, column] <= ceiling
        return allowed

    def _worth_filling(self, node: int) -> Flags:
        """Return [node]: may be filled to empty this node. An empty node qualifies only if it is cheaper."""
        cheaper: Flags = self.prices < self.prices[node]
        return self.occupied | cheaper

    def _choice(self, view: View, pod: int, nodes: Indices) -> int:
        """Return the tightest node, but prefer nodes that are emptied late or never."""
        return int(nodes[(free_after(view, pod, nodes) - _LATE * self.turn[nodes]).argmin()])

    def _proposed_move(self, node: int, pod: int, target: int, share: float) -> ProposedMove:
        view = self.view
        gain = share * float(self.prices[node] / max(self.prices[view.nodes].sum(), _TINY))
        load = view.placement.load_with(pod, np.array([target]))[0]
        name = view.snapshot.nodes.records[node].name
        return ProposedMove(pod, target, f"empties {name}, target {load:.1f}%", gain)

    def _cordon(self, node: int, moves: int) -> NodeProposal:
        fitting = "1 pod fits" if moves == 1 else f"{moves} pods fit"
        reason = f"not needed: {fitting} elsewhere, saves {self.prices[node]:g}"
        return NodeProposal(node, NodeChange.CORDON, reason)


def _movable_pod_counts(view: View) -> Floats:
    """Return [node]: how many pods don't belong to the node, according to their workload."""
    snapshot = view.snapshot
    of_nodes = [row for row, workload in enumerate(snapshot.workloads) if workload.kind in NODE_BOUND_KINDS]
    position = view.placement.position
    counted = (position != NO_ROW) & ~np.isin(snapshot.pods.workload, of_nodes)
    return np.bincount(position[counted], minlength=len(snapshot.nodes)).astype(np.float64)


def _consolidation_order(view: View, prices: Floats, removed: Flags) -> list[int]:
    """Return the nodes that may be emptied, those with the fewest moves for their price first."""
    snapshot = view.snapshot
    movable = _movable_pod_counts(view)
    size = (snapshot.nodes.allocatable / average_node(snapshot.nodes)).sum(axis=1)
    candidates = np.flatnonzero(view.nodes & view.open & removed & (movable > 0) & (prices > 0))
    moves_per_price = movable[candidates] / prices[candidates]
    found: list[int] = candidates[np.lexsort((candidates, size[candidates], moves_per_price))].tolist()
    return found


def _ceilings(view: View) -> dict[int, Floats]:
    """Return the maximum load of a target, by resource: [node]. With ResourceOptimization, the threshold."""
    percent = {CPU: 100.0, MEMORY: 100.0}
    if "ResourceOptimization" in view.policy.enabled_strategies:
        percent = {CPU: view.policy.cpu_threshold, MEMORY: view.policy.memory_threshold}
    return {
        column: view.snapshot.nodes.allocatable[:, column] * most / 100 for column, most in percent.items()
    }
