"""Find targets for many pods together, so that as many as possible get one.

The pods that are hardest to place choose first: those with the fewest possible nodes, then the largest. If
a pod finds no target because an earlier pod took it, the earlier pod looks for another one. If a pod fits
nowhere, a pod that need not move may be displaced to make room.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import TypeVar

import numpy as np

from rescheduler.cluster.node_record import leaving_because
from rescheduler.cluster.pod_record import NODE_BOUND_KINDS, is_rescheduler_pod
from rescheduler.cluster.snapshot import Flags, Floats, Indices, NodeTable
from rescheduler.rules.rule_check import SchedulerRule
from rescheduler.strategies.strategy import View

__all__ = [
    "Displacement",
    "PodUnit",
    "TargetAssignment",
    "TargetChoice",
    "average_node",
    "complete_units",
    "find_displacement",
    "find_targets",
    "free_after",
    "in_turn",
    "is_wholly_among",
    "least_loaded",
    "share_of_node",
    "tightest_fit",
    "unbound_pods",
]

T = TypeVar("T")

PodUnit = tuple[int, ...]
"""Pods that move together or not at all: usually one."""

TargetChoice = Callable[[View, int, Indices], int]
"""Returns the best of the nodes that a pod may go to."""

_PASSES = 3
"""How often to try all pods: with spread constraints, a pod may get a target only after others have moved."""
_RELOCATIONS = 2_000
"""How many relocations of other pods to try in total. This limits the time; it changes the result only in
clusters that are almost full."""


@dataclass(frozen=True, slots=True)
class TargetAssignment:
    targets: dict[int, int]
    """The targets by pod, in the order in which they were found."""
    without_target: list[PodUnit]


def complete_units(view: View, pods: Iterable[int]) -> list[PodUnit]:
    """Return the pods with those that must move with them. If one of a group can't move, all stay."""
    complete: list[PodUnit] = []
    for unit in sorted({view.moves_with(pod) for pod in pods}):
        kept = [pod for pod in unit if not view.may_move(pod)]
        if not kept:
            complete.append(unit)
            continue
        name = view.snapshot.pods.records[kept[0]].key
        for pod in set(unit) - set(kept):
            view.report_staying(pod, "GroupIncomplete", f"{name} can't move")
    return complete


def is_wholly_among(view: View, unit: PodUnit, wanted: Container[int]) -> bool:
    """Return whether all pods of the unit are wanted; otherwise report that the group stays."""
    if all(pod in wanted for pod in unit):
        return True
    for pod in unit:
        if pod in wanted:
            view.report_staying(pod, "GroupIncomplete", "its whole group would have to move")
    return False


def unbound_pods(view: View) -> Indices:
    """Return the pods on those nodes of the strategy that are Ready and not about to be removed, without pods
    that belong to their node."""
    nodes = view.snapshot.nodes
    stays = np.array([not leaving_because(node) for node in nodes.records], np.bool_)
    sources: Flags = view.nodes & nodes.ready & ~view.being_emptied & stays
    # Row -1, no node, finds the last place, which is False.
    at_source = np.append(sources, False)[view.placement.position]
    bound = np.array([each.kind in NODE_BOUND_KINDS for each in view.snapshot.workloads], np.bool_)
    is_bound = np.append(bound, False)[view.snapshot.pods.workload]
    return np.flatnonzero(at_source & ~is_bound)


def in_turn(view: View, items: list[T], most: int) -> list[T]:
    """Return the same items; if there are too many for one check, each check starts with others."""
    if len(items) <= most:
        return items
    check = int(view.snapshot.taken_at_s // view.policy.rescheduling_interval.total_seconds())
    first = check * most % len(items)
    return items[first:] + items[:first]


@lru_cache(maxsize=2)
def average_node(nodes: NodeTable) -> Floats:
    """Return [resource]: the average amount that a node has, never 0. Custom metrics don't count, because
    pods don't request them."""
    average: Floats = np.maximum(nodes.allocatable.sum(axis=0) / max(len(nodes), 1), 1)
    average[len(average) - nodes.metrics :] = np.inf
    return average


def share_of_node(view: View, pod: int) -> float:
    """Return which share of an average node the pod requests, of its largest resource."""
    return float((view.snapshot.pods.requests[pod] / average_node(view.snapshot.nodes)).max())


def least_loaded(view: View, pod: int, nodes: Indices) -> int:
    """Return the node that is least loaded with the pod on it, so that the load stays even."""
    return int(nodes[view.placement.load_with(pod, nodes).argmin()])


def free_after(view: View, pod: int, nodes: Indices) -> Floats:
    """Return how much each of these nodes has free with the pod on it, as a share of an average node, summed
    over all resources."""
    snapshot = view.snapshot
    left = snapshot.nodes.allocatable[nodes] - view.placement.requested[nodes] - snapshot.pods.requests[pod]
    total: Floats = left @ (1 / average_node(snapshot.nodes))
    return total


def tightest_fit(view: View, pod: int, nodes: Indices) -> int:
    """Return the node that has least free with the pod on it, so that large gaps stay for large pods.

    Requests count here, not load, because they decide what fits.
    """
    return int(nodes[free_after(view, pod, nodes).argmin()])


def find_targets(
    view: View, units: Sequence[PodUnit], choose: TargetChoice, allowed: Callable[[int], Flags] | None = None
) -> TargetAssignment:
    """Find a target for each unit. The placement is unchanged afterwards.

    `allowed` returns where a pod may go at the moment; a strategy may restrict `view.targets`, the default.
    """
    allowed = allowed or view.targets
    options = {pod: np.flatnonzero(allowed(pod)) for unit in units for pod in unit}
    home = {pod: int(view.placement.position[pod]) for pod in options}

    def hardness(unit: PodUnit) -> tuple[int, float, PodUnit]:
        return (
            min(options[pod].size for pod in unit),
            -max(share_of_node(view, pod) for pod in unit),
            unit,
        )

    waiting = sorted(units, key=hardness)
    with view.placement.trial():
        search = _TargetSearch(view, choose, allowed, options, home)
        for _ in range(_PASSES):
            before = len(waiting)
            waiting = [unit for unit in waiting if not search.settle(unit)]
            if len(waiting) in (0, before):
                break
        without_target = [unit for unit in waiting if not search.settle(unit, relocate_others=True)]
    return TargetAssignment(search.targets, without_target)


@dataclass(slots=True)
class _TargetSearch:
    view: View
    choose: TargetChoice
    allowed: Callable[[int], Flags]
    options: dict[int, Indices]
    """The nodes that each pod could go to before any pod moves."""
    home: dict[int, int]
    """The node that each pod is on."""
    targets: dict[int, int] = field(default_factory=dict)
    relocations: int = 0

    def settle(self, unit: PodUnit, *, relocate_others: bool = False) -> bool:
        for pod in unit:
            if self._place(pod) or (relocate_others and self._relocate_one(pod, unit)):
                continue
            for placed in unit:
                if self.targets.pop(placed, None) is not None:
                    self.view.placement.move(placed, self.home[placed])
            return False
        return True

    def _place(self, pod: int) -> bool:
        node = self._best(pod)
        if node is None:
            return False
        self._put(pod, node)
        return True

    def _best(self, pod: int) -> int | None:
        """Return the best node, if possible one that keeps the pods of the workload evenly spread."""
        nodes = np.flatnonzero(self.view.placement.keeping_spread(pod, self.allowed(pod)))
        return self.choose(self.view, pod, nodes) if nodes.size else None

    def _put(self, pod: int, node: int) -> None:
        self.view.placement.move(pod, node)
        self.targets[pod] = node

    def _relocate_one(self, pod: int, unit: PodUnit) -> bool:
        """Move a pod that took a target of this pod to another node."""
        for other in self._pods_in_the_way(pod):
            if other in unit or self.relocations >= _RELOCATIONS:
                continue
            self.relocations += 1
            exchange = self._exchange(pod, other)
            if exchange is not None:
                for mover, node in exchange:
                    self._put(mover, node)
                return True
        return False

    def _pods_in_the_way(self, pod: int) -> list[int]:
        """Return the pods that took targets of this pod, those of its own workload first: spread constraints
        and anti-affinity mostly apply within a workload."""
        wanted = set(self.options[pod].tolist())
        workload = self.view.snapshot.pods.workload
        others = [other for other, node in self.targets.items() if node in wanted]
        return sorted(others, key=lambda other: (workload[other] != workload[pod], other))

    def _exchange(self, pod: int, other: int) -> list[tuple[int, int]] | None:
        placement, place = self.view.placement, self.targets[other]
        with placement.trial():
            placement.move(other, self.home[other])
            if not self.allowed(pod)[place]:
                return None
            placement.move(pod, place)
            new_target = self._best(other)
            return None if new_target is None else [(pod, place), (other, new_target)]


_RULES_ABOUT_OTHER_PODS = frozenset(
    {SchedulerRule.NODE_RESOURCES, SchedulerRule.NODE_PORTS, SchedulerRule.POD_AFFINITY}
)
"""Rules by which a pod on a node can keep another pod away."""
_NODES_TRIED = 20
_DISPLACED_PODS_TRIED = 8
"""How many pods to try per node, the smallest first. Both limits bound the time."""


@dataclass(frozen=True, slots=True)
class Displacement:
    displaced: int
    """The pod that moves to make room."""
    target: int
    """The node that it moves to."""
    place: int
    """The node that it leaves, for the pod that needs room."""


def find_displacement(view: View, pod: int, nodes: Iterable[int]) -> Displacement | None:
    """Return a displacement that makes room for the pod on one of the nodes, the best of which come first.

    Return None if there is none. Only pods that stay available during a move are displaced, because they gain
    nothing from it.
    """
    placement = view.placement
    stays = view.handover(pod).source_stays
    within_reach = (node for node in nodes if _is_blocked_by_pods(view, pod, node, stays=stays))
    for node in islice(within_reach, _NODES_TRIED):
        for displaced in islice(_displaceable_pods(view, node), _DISPLACED_PODS_TRIED):
            with placement.trial():
                targets = view.targets(displaced)
                targets[node] = False
                choices = np.flatnonzero(targets)
                if not choices.size:
                    continue
                target = least_loaded(view, displaced, choices)
                placement.move(displaced, target)
                if placement.fits_on(pod, node, source_stays=stays):
                    return Displacement(displaced, target, node)
    return None


def _is_blocked_by_pods(view: View, pod: int, node: int, *, stays: bool) -> bool:
    """Return whether only rules about other pods keep the pod off that node."""
    refusals = view.placement.refusals(pod, node, source_stays=stays)
    return bool(refusals) and all(refusal.rule in _RULES_ABOUT_OTHER_PODS for refusal in refusals)


def _displaceable_pods(view: View, node: int) -> Iterator[int]:
    """Yield the pods that may be displaced: the lowest priority first, then the smallest."""
    pods = view.snapshot.pods
    for each in sorted(
        view.placement.pods_on(node),
        key=lambda each: (int(pods.priority[each]), share_of_node(view, each), each),
    ):
        if is_rescheduler_pod(pods.records[each]) or not view.may_move(each):
            continue
        if view.moves_with(each) == (each,) and view.handover(each).source_stays:
            yield each
