"""NodeMaintenance: nodes that are to be taken out of service are cordoned and emptied."""

from collections.abc import Callable, Collection, Iterator
from itertools import groupby
from typing import ClassVar

import numpy as np

from rescheduler.model.node_marks import in_maintenance, is_cordoned_by
from rescheduler.model.plan import NodeChange
from rescheduler.strategies.backtracking import try_all_ways
from rescheduler.strategies.fair_shares import taking_turns
from rescheduler.strategies.making_room import room_for
from rescheduler.strategies.placing import (
    Places,
    Unit,
    complete_units,
    find_places,
    load_with,
    roomiest,
    tightest,
)
from rescheduler.strategies.strategy import NodeProposal, Proposal, Step, View
from rescheduler.strategies.tenants import is_ours

__all__ = ["NodeMaintenance"]


class NodeMaintenance:
    """Empties nodes with the label `scheduler.alpha.kubernetes.io/maintenance=true` of every movable pod.

    They are cordoned first, and uncordoned again when the label goes, if it was us who cordoned them. All
    places are found before the first pod moves, also where the plan has room for few moves: so the easy
    ones don't take the places that the hard ones need. Our own pods are the last to go.
    """

    name: ClassVar[str] = "NodeMaintenance"
    urgent: ClassVar[bool] = True

    def __init__(self, only: Collection[str] | None = None) -> None:
        """`only` these nodes are looked at: whoever drains one does not take care of all."""
        self._only = only

    def propose(self, view: View) -> Iterator[Proposal | NodeProposal]:
        leaving: list[int] = []
        for node in np.flatnonzero(view.nodes).tolist():
            record = view.snapshot.nodes.records[node]
            if self._only is not None and record.name not in self._only:
                continue
            if in_maintenance(record):
                leaving.extend(view.board.pods_on(node))
                if not record.unschedulable:
                    yield NodeProposal(node, NodeChange.CORDON, "in maintenance")
            elif is_cordoned_by(record, self.name):
                yield NodeProposal(node, NodeChange.UNCORDON, "no longer in maintenance")
        # Also of pods that stay: what keeps them is noted for the plan.
        movable = [pod for pod in leaving if view.may_move(pod)]
        yield from _moves(view, movable)


def _moves(view: View, leaving: list[int]) -> Iterator[Proposal]:
    """Our own pods last, pods of lower priority first."""
    pods = view.snapshot.pods

    def turn(unit: Unit) -> tuple[bool, int, Unit]:
        ours = any(is_ours(pods.records[pod]) for pod in unit)
        return ours, max(int(pods.priority[pod]) for pod in unit), unit

    units = sorted(complete_units(view, leaving), key=turn)
    places = _places(view, units)
    gain = 1 / max(len(leaving), 1)
    homeless = set(places.homeless)
    waiting = [unit for unit in units if unit not in homeless]
    if sum(map(len, waiting)) > view.room:
        waiting = _taking_turns(view, waiting, lambda unit: turn(unit)[:2])
    for unit in _when_they_can(view, waiting, places.targets):
        yield Proposal(tuple(_step(view, pod, places.targets[pod], gain) for pod in unit))
    for unit in units:
        if unit in homeless or (view.room > 0 and view.may_move(unit[0])):
            yield from _last_resort(view, unit, gain)


def _taking_turns(view: View, units: list[Unit], rank: Callable[[Unit], tuple[bool, int]]) -> list[Unit]:
    """More than the plan has room for: of those with the same rank, namespaces take turns."""
    pods = view.snapshot.pods.records
    ordered: list[Unit] = []
    for _, equal in groupby(units, key=rank):
        ordered += taking_turns(equal, lambda unit: pods[unit[0]].namespace)
    return ordered


def _when_they_can(view: View, units: list[Unit], targets: dict[int, int]) -> Iterator[Unit]:
    """In turn; but some have to wait for others to go first, as with spread, step after step."""
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


def _places(view: View, units: list[Unit]) -> Places:
    """Even loads if everybody finds a place that way, else as tight as it takes."""
    found = find_places(view, units, roomiest)
    if found.homeless:
        tight = find_places(view, units, tightest)
        found = min(found, tight, key=lambda places: sum(map(len, places.homeless)))
    hopeless = [unit for unit in found.homeless if not all(view.targets(pod).any() for pod in unit)]
    if len(found.homeless) > len(hopeless):
        pods = [pod for unit in units if unit not in hopeless for pod in unit]
        targets = try_all_ways(view.board, pods, view.targets)
        found = found if targets is None else Places(targets, hopeless)
    return found


def _last_resort(view: View, unit: Unit, gain: float) -> Iterator[Proposal]:
    """A place that the moves so far have left, or one that a bystander makes."""
    pod = unit[0]
    alone = len(unit) == 1
    if alone and view.room > 0 and (nodes := np.flatnonzero(view.targets(pod))).size:
        yield Proposal((_step(view, pod, roomiest(view, pod, nodes), gain),))
    elif alone and view.room > 1 and (found := room_for(view, pod, np.flatnonzero(view.open).tolist())):
        aside = f"makes room for {view.snapshot.pods.records[pod].key}"
        step = Step(found.bystander, found.refuge, aside, gain)
        yield Proposal((step, _step(view, pod, found.place, gain)))
    else:
        for each in unit:
            view.stuck(each)


def _step(view: View, pod: int, target: int, gain: float) -> Step:
    source = view.snapshot.nodes.records[view.board.position[pod]].name
    load = load_with(view, pod, np.array([target]))[0]
    return Step(pod, target, f"{source} in maintenance, target {load:.1f}%", gain)
