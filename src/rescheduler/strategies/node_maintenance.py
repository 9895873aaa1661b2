"""NodeMaintenance and Evacuation: cordon and empty nodes in maintenance, or with a signal of `evacuateOn`."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from typing import ClassVar

import numpy as np

from rescheduler.api.podmigration import EVACUATION
from rescheduler.cluster.node_record import (
    NodeChange,
    NodeRecord,
    evacuation_of,
    held_until,
    in_maintenance,
    is_cordoned_by,
    maintenance_requester,
)
from rescheduler.cluster.pod_record import is_rescheduler_pod
from rescheduler.cluster.snapshot import Flags, evacuations
from rescheduler.rules.placement import Placement
from rescheduler.strategies.fair_shares import interleave_namespaces
from rescheduler.strategies.strategy import NodeProposal, Proposal, ProposedMove, View
from rescheduler.strategies.target_search import (
    PodUnit,
    TargetAssignment,
    complete_units,
    find_displacement,
    find_targets,
    least_loaded,
    tightest_fit,
)

__all__ = ["Evacuation", "NodeMaintenance", "backtrack_targets"]

_MOST_PODS = 24
_TRIES = 4_000
"""How many placements to try. Both limits bound the time; larger problems rarely have a solution."""


def backtrack_targets(
    placement: Placement, pods: Sequence[int], allowed: Callable[[int], Flags]
) -> dict[int, int] | None:
    """Return a target for each pod; None if the bounded search finds none. The placement is unchanged."""
    if len(pods) > _MOST_PODS:
        return None
    search = _Backtracking(placement, allowed)
    return search.found if search.place(frozenset(pods)) else None


@dataclass(slots=True)
class _Backtracking:
    placement: Placement
    allowed: Callable[[int], Flags]
    found: dict[int, int] = field(default_factory=dict)
    tries: int = 0

    def place(self, pods: frozenset[int]) -> bool:
        if not pods:
            return True
        # Place the pod with the fewest possible nodes first: if it has none, the search ends at once.
        places = {pod: np.flatnonzero(self.allowed(pod)).tolist() for pod in sorted(pods)}
        pod = min(places, key=lambda each: (len(places[each]), each))
        for node in self._fullest_first(places[pod]):
            self.tries += 1
            if self.tries > _TRIES:
                return False
            with self.placement.trial():
                self.placement.move(pod, node)
                if self.place(pods - {pod}):
                    self.found[pod] = node
                    return True
        return False

    def _fullest_first(self, nodes: Sequence[int]) -> list[int]:
        snapshot, requested = self.placement.snapshot, self.placement.requested
        free = {node: int((snapshot.nodes.allocatable[node] - requested[node])[0]) for node in nodes}
        return sorted(nodes, key=lambda node: (free[node], node))


class NodeMaintenance:
    """Empties nodes with the label `scheduler.alpha.kubernetes.io/maintenance=true` of every movable pod.

    It cordons them first, and uncordons those that it cordoned when the label is removed. It finds all
    targets before the first pod moves, even if the plan has room for few moves, so that easy pods don't take
    the targets that hard ones need. Our own pods move last.
    """

    name: ClassVar[str] = "NodeMaintenance"
    state: ClassVar[str] = "in maintenance"
    """The words for such a node in messages."""

    def __init__(self, only: Collection[str] | None = None) -> None:
        """Limit the strategy to the nodes in `only`, for a drain."""
        self._only = only

    def propose(self, view: View) -> Iterator[Proposal | NodeProposal]:
        leaving: list[int] = []
        for node, record in enumerate(view.snapshot.nodes.records):
            # A node that the user names is planned even if it is not selected: the plan says why its pods
            # stay.
            if not (view.nodes[node] if self._only is None else record.name in self._only):
                continue
            why, may_move = self.emptied_because(view, record)
            if why:
                if may_move:
                    leaving.extend(view.placement.pods_on(node))
                if not record.unschedulable:
                    yield NodeProposal(node, NodeChange.CORDON, why)
            elif (
                is_cordoned_by(record, self.name)
                and not view.being_emptied[node]
                and self.may_return(view, record)
            ):
                yield NodeProposal(node, NodeChange.UNCORDON, f"no longer {self.state}")
        # `may_move` records the reason for each pod that stays.
        movable = [pod for pod in leaving if view.may_move(pod)]
        yield from _moves(view, movable, self.state)

    def emptied_because(self, view: View, node: NodeRecord) -> tuple[str, bool]:
        """Return why the node has to be emptied (`""` if it need not be), and whether pods may leave now."""
        del view
        return self.state if in_maintenance(node) else "", True

    def may_return(self, view: View, node: NodeRecord) -> bool:
        """Return whether a node that need not be emptied any more may be uncordoned now."""
        del view, node
        return True


class Evacuation(NodeMaintenance):
    """Empties nodes that give a signal of `evacuateOn`, as NodeMaintenance does.

    The strategy need not be enabled: it is active while `evacuateOn` has entries, and while a node is still
    cordoned because of earlier entries. If every node gives a signal, it cordons none, because no pod could
    be scheduled any more.
    """

    name: ClassVar[str] = EVACUATION
    state: ClassVar[str] = "evacuated"

    def propose(self, view: View) -> Iterator[Proposal | NodeProposal]:
        if not any(each.is_everywhere for each in evacuations(view.snapshot, view.policy).values()):
            yield from super().propose(view)

    def emptied_because(self, view: View, node: NodeRecord) -> tuple[str, bool]:
        now_s = view.snapshot.taken_at_s
        evacuation = evacuation_of(node, view.policy.evacuate_on, now_s)
        if evacuation is None:
            return "", False
        may_move = evacuation.is_urgent or view.policy.in_window(datetime.fromtimestamp(now_s, UTC))
        return f"{self.state}: {evacuation.reason}", may_move

    def may_return(self, view: View, node: NodeRecord) -> bool:
        return view.snapshot.taken_at_s >= held_until(node, view.snapshot.taken_at_s)


def _moves(view: View, leaving: list[int], state: str) -> Iterator[Proposal]:
    """Propose the moves: pods of lower priority first, our own pods last."""
    pods = view.snapshot.pods

    def turn(unit: PodUnit) -> tuple[bool, int, PodUnit]:
        ours = any(is_rescheduler_pod(pods.records[pod]) for pod in unit)
        return ours, max(int(pods.priority[pod]) for pod in unit), unit

    units = sorted(complete_units(view, leaving), key=turn)
    places = _find_targets(view, units)
    gain = 1 / max(len(leaving), 1)
    without_target = set(places.without_target)
    waiting = [unit for unit in units if unit not in without_target]
    if sum(map(len, waiting)) > view.room:
        waiting = _interleaved(view, waiting, lambda unit: turn(unit)[:2])
    for unit in _in_feasible_order(view, waiting, places.targets):
        yield Proposal(tuple(_proposed_move(view, pod, places.targets[pod], gain, state) for pod in unit))
    for unit in units:
        if unit in without_target or (view.room > 0 and view.may_move(unit[0])):
            yield from _last_resort(view, unit, gain, state)


def _interleaved(
    view: View, units: list[PodUnit], rank: Callable[[PodUnit], tuple[bool, int]]
) -> list[PodUnit]:
    """Return the units by rank; within a rank, namespaces take turns."""
    pods = view.snapshot.pods.records
    ordered: list[PodUnit] = []
    for _, equal in groupby(units, key=rank):
        ordered += interleave_namespaces(equal, lambda unit: pods[unit[0]].namespace)
    return ordered


def _in_feasible_order(view: View, units: list[PodUnit], targets: dict[int, int]) -> Iterator[PodUnit]:
    """Yield the units in an order that fits; with spread constraints, some must wait for others."""
    progress = True
    while progress:
        asked, units, progress = units, [], False
        for unit in asked:
            if view.room <= 0:
                return
            if all(view.targets(pod)[targets[pod]] for pod in unit):
                progress = True
                yield unit
            else:
                units.append(unit)


def _find_targets(view: View, units: list[PodUnit]) -> TargetAssignment:
    """Find targets on the least loaded nodes; pack tightly if not all pods get a target that way."""
    found = find_targets(view, units, least_loaded)
    if found.without_target:
        tight = find_targets(view, units, tightest_fit)
        found = min(found, tight, key=lambda places: sum(map(len, places.without_target)))
    hopeless = [unit for unit in found.without_target if not all(view.targets(pod).any() for pod in unit)]
    if len(found.without_target) > len(hopeless):
        pods = [pod for unit in units if unit not in hopeless for pod in unit]
        targets = backtrack_targets(view.placement, pods, view.targets)
        found = found if targets is None else TargetAssignment(targets, hopeless)
    return found


def _last_resort(view: View, unit: PodUnit, gain: float, state: str) -> Iterator[Proposal]:
    """Propose a target that is still free, or one that a displacement frees; otherwise report the pods."""
    pod = unit[0]
    alone = len(unit) == 1
    if alone and view.room > 0 and (nodes := np.flatnonzero(view.targets(pod))).size:
        yield Proposal((_proposed_move(view, pod, least_loaded(view, pod, nodes), gain, state),))
    elif (
        alone
        and view.room > 1
        and (found := find_displacement(view, pod, np.flatnonzero(view.open).tolist()))
    ):
        aside = f"makes room for {view.snapshot.pods.records[pod].key}"
        move = ProposedMove(found.displaced, found.target, aside, gain)
        yield Proposal((move, _proposed_move(view, pod, found.place, gain, state)))
    else:
        for each in unit:
            view.report_no_target(each)


def _proposed_move(view: View, pod: int, target: int, gain: float, state: str) -> ProposedMove:
    source = view.snapshot.nodes.records[view.placement.position[pod]]
    load = view.placement.load_with(pod, np.array([target]))[0]
    user = maintenance_requester(source) if state == NodeMaintenance.state else ""
    by = f", requested by {user}" if user else ""
    return ProposedMove(pod, target, f"{source.name} {state}{by}, target {load:.1f}%", gain)
