"""Order selected moves into waves: moves of one wave run at the same time.

The moves of a wave finish in an unknown order, so each must fit before the others start, while all copies
run beside their sources, and after others have finished. A wave starts when the waves before it have
finished.

The moves fit one after the other in the order in which they were selected. To run more of them at the same
time, later moves may overtake earlier ones that can't start yet. If some can't be ordered that way, the
original order is used. Limits apply in total and per node, workload and budget.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rescheduler.api.podmigration import Handover
from rescheduler.cluster.snapshot import NO_ROW, PodClass, Snapshot
from rescheduler.cluster.workload_record import controller_of
from rescheduler.config.policy import Policy
from rescheduler.planner.move_sequence import (
    MoveUnit,
    PlannedMove,
    can_start,
    finish,
    is_at_source,
    start,
    withdraw,
)
from rescheduler.planner.workload_availability import (
    DisruptionBudgets,
    creates_pods_in_order,
    disruptions_left,
)
from rescheduler.rules.placement import Placement

__all__ = ["Wave", "WaveDemand", "WaveInteractions", "WaveLimits", "WaveOrder", "order_into_waves"]


@dataclass(frozen=True, slots=True)
class WaveDemand:
    """How much a unit counts against the limits while it runs.

    A group can only move as one, so it counts as one for a node and for a workload, however many of its
    pods are there; for the total, each of its pods counts.
    """

    unit: MoveUnit
    names: frozenset[str | int]
    """Its group or its pod, which is never in two running units: members of a group are handed over together,
    and a second hop starts after the first."""
    pods: int
    nodes: frozenset[int]
    workloads: frozenset[int]
    alone: frozenset[int]
    """Workloads of which only one pod may move at a time, regardless of the configuration."""
    disruptions: tuple[tuple[str, int, int], ...]
    """For each budget: its key, the disruptions that are needed, and those that it allows."""


class WaveLimits:
    def __init__(self, snapshot: Snapshot, policy: Policy, budgets: DisruptionBudgets) -> None:
        self.in_all = policy.max_concurrent_migrations
        self.per_node = policy.max_concurrent_per_node
        self.per_workload = policy.max_concurrent_per_workload
        self._snapshot = snapshot
        self._workload = snapshot.pods.workload
        self._budgets = budgets

    def demand(self, unit: MoveUnit) -> WaveDemand:
        moves = unit.moves
        return WaveDemand(
            unit,
            frozenset([unit.group] if unit.group else [move.pod for move in moves]),
            len(moves),
            frozenset(node for move in moves for node in (move.source, move.target)),
            # A pod without a workload has no siblings.
            frozenset(int(self._workload[move.pod]) for move in moves) - {NO_ROW},
            frozenset(int(self._workload[move.pod]) for move in moves if self._goes_alone(move)) - {NO_ROW},
            self._disruptions(unit),
        )

    def _goes_alone(self, move: PlannedMove) -> bool:
        """Return whether only one pod of the workload may be evicted at a time: no budget covers it, or its
        StatefulSet creates the successors one after the other."""
        if move.handover is not Handover.EVICT:
            return False
        if not self._budgets.covering(move.pod):
            return True
        pod = self._snapshot.pods.records[move.pod]
        if pod.owner is None or pod.owner.kind != "StatefulSet":
            return False
        return creates_pods_in_order(controller_of(self._snapshot.controllers, pod.namespace, pod.owner))

    def _disruptions(self, unit: MoveUnit) -> tuple[tuple[str, int, int], ...]:
        spent = (self._budgets.spent_by(move.pod, move.handover) for move in unit.moves)
        budgets = [budget for budget in spent if budget is not None]
        needed = Counter(budget.key for budget in budgets)
        allowed = {budget.key: disruptions_left(budget) for budget in budgets}
        return tuple((key, count, allowed[key]) for key, count in needed.items())


class Wave:
    """Units that run at the same time."""

    def __init__(self, limits: WaveLimits) -> None:
        self.units: list[MoveUnit] = []
        self._limits = limits
        self._pods = 0
        self._names: set[str | int] = set()
        self._nodes: Counter[int] = Counter()
        self._workloads: Counter[int] = Counter()
        self._alone: set[int] = set()
        self._disruptions: Counter[str] = Counter()

    @property
    def is_full(self) -> bool:
        return self._pods >= self._limits.in_all

    def has_room_for(self, demand: WaveDemand) -> bool:
        limits, nodes, workloads = self._limits, self._nodes, self._workloads
        return (
            self._pods + demand.pods <= limits.in_all
            and self._names.isdisjoint(demand.names)
            and all(nodes[node] < limits.per_node for node in demand.nodes)
            and all(workloads[workload] < limits.per_workload for workload in demand.workloads)
            and self._alone.isdisjoint(demand.workloads)
            and not any(workloads[workload] for workload in demand.alone)
            and all(self._disruptions[key] + needed <= most for key, needed, most in demand.disruptions)
        )

    def add(self, demand: WaveDemand) -> None:
        self.units.append(demand.unit)
        self._pods += demand.pods
        self._names |= demand.names
        self._nodes.update(demand.nodes)
        self._workloads.update(demand.workloads)
        self._alone |= demand.alone
        for key, needed, _ in demand.disruptions:
            self._disruptions[key] += needed


class _Dependency(NamedTuple):
    """The pods on which a unit's constraints depend, by namespace."""

    namespaces: frozenset[str]
    everywhere: bool

    def meets(self, namespaces: frozenset[str]) -> bool:
        return self.everywhere or not self.namespaces.isdisjoint(namespaces)


_NO_DEPENDENCY = _Dependency(frozenset(), everywhere=False)


class WaveInteractions:
    def __init__(self, snapshot: Snapshot) -> None:
        self._classes, self._class_of = snapshot.classes, snapshot.pods.pod_class
        self._dependencies: dict[int, _Dependency] = {}
        """The dependencies by class."""

    def depends_on(self, unit: MoveUnit, others: Sequence[MoveUnit]) -> list[MoveUnit]:
        """Return the other units that the unit depends on."""
        dependency = self._dependency(unit)
        if dependency is _NO_DEPENDENCY:
            return []
        return [other for other in others if dependency.meets(self._namespaces(other))]

    def dependents(self, unit: MoveUnit, others: Sequence[MoveUnit]) -> list[MoveUnit]:
        """Return the other units that depend on the unit."""
        namespaces = self._namespaces(unit)
        return [other for other in others if self._dependency(other).meets(namespaces)]

    def _namespaces(self, unit: MoveUnit) -> frozenset[str]:
        return frozenset(self._classes[self._class_of[move.pod]].namespace for move in unit.moves)

    def _dependency(self, unit: MoveUnit) -> _Dependency:
        if len(unit.moves) == 1:
            return self._of_class(int(self._class_of[unit.moves[0].pod]))
        each = [self._of_class(int(self._class_of[move.pod])) for move in unit.moves]
        return _Dependency(
            frozenset().union(*(dependency.namespaces for dependency in each)),
            any(dependency.everywhere for dependency in each),
        )

    def _of_class(self, number: int) -> _Dependency:
        found = self._dependencies.get(number)
        if found is None:
            found = self._dependencies[number] = _dependency_of(self._classes[number])
        return found


def _dependency_of(pod_class: PodClass) -> _Dependency:
    near = pod_class.affinity.pod_affinity.required
    if not near and not pod_class.constraints.spread:
        return _NO_DEPENDENCY
    far = any(term.namespaces or term.namespace_selector is not None for term in near)
    return _Dependency(frozenset({pod_class.namespace}), far)


_MAX_REFUSED_UNITS = 16
"""After so many units that don't fit, a wave that has units is closed: asking the rules takes time."""


def order_into_waves(placement: Placement, units: Sequence[MoveUnit], limits: WaveLimits) -> "WaveOrder":
    """Order the units into waves; changes `placement`, which must be in the state of the snapshot."""
    ordering = WaveOrder(placement, units, limits, overtaking=True)
    if ordering.left:
        ordering = WaveOrder(Placement(placement.snapshot), units, limits, overtaking=False)
    return ordering


class WaveOrder:
    def __init__(
        self, placement: Placement, units: Sequence[MoveUnit], limits: WaveLimits, *, overtaking: bool
    ) -> None:
        self.waves: list[list[MoveUnit]] = []
        self.placement = placement
        """The placement after all moves."""
        self._limits = limits
        self._overtaking = overtaking
        self._interactions = WaveInteractions(placement.snapshot)
        self._waiting = [limits.demand(unit) for unit in units]
        while self._waiting:
            wave = self._next_wave()
            if not wave.units:
                break
            self.waves.append(wave.units)
            for unit in wave.units:
                finish(placement, unit)

    @property
    def left(self) -> list[MoveUnit]:
        """Return the units for which no order was found; none if the units were selected one by one."""
        return [demand.unit for demand in self._waiting]

    def _next_wave(self) -> Wave:
        """Return the next wave: all waiting units that can start now."""
        wave = Wave(self._limits)
        waiting: list[WaveDemand] = []
        refused_units = 0
        for at, demand in enumerate(self._waiting):
            if wave.is_full or refused_units > _MAX_REFUSED_UNITS or (waiting and not self._overtaking):
                waiting += self._waiting[at:]
                break
            if not wave.has_room_for(demand) or not is_at_source(self.placement, demand.unit):
                waiting.append(demand)
            elif self._fits(demand.unit, wave):
                wave.add(demand)
                start(self.placement, demand.unit)
            else:
                waiting.append(demand)
                refused_units += bool(wave.units)
        self._waiting = waiting
        return wave

    def _fits(self, unit: MoveUnit, wave: Wave) -> bool:
        """Return whether the unit fits the wave, whichever of its units have finished, and whether these
        units fit with it."""
        if not can_start(self.placement, unit):
            return False
        dependencies = self._interactions.depends_on(unit, wave.units)
        dependents = self._interactions.dependents(unit, wave.units)
        return all(self._fits_after(do, unit, dependencies) for do in (withdraw, finish)) and all(
            self._fits_with(unit, other) for other in dependents
        )

    def _fits_after(
        self, do: Callable[[Placement, MoveUnit], None], unit: MoveUnit, others: list[MoveUnit]
    ) -> bool:
        """Return whether the unit can start after `do` has withdrawn or finished the others."""
        if not others:
            return True
        with self.placement.trial():
            for other in others:
                do(self.placement, other)
            return can_start(self.placement, unit)

    def _fits_with(self, added: MoveUnit, unit: MoveUnit) -> bool:
        """Return whether a started unit could also start after the added one started or finished."""
        with self.placement.trial():
            withdraw(self.placement, unit)
            start(self.placement, added)
            if not can_start(self.placement, unit):
                return False
            finish(self.placement, added)
            return can_start(self.placement, unit)
