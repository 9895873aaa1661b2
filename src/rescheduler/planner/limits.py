"""What may be under way at the same time: in all, per node, per workload, per budget."""

from collections import Counter
from dataclasses import dataclass

from rescheduler.config.policy import Policy
from rescheduler.model.plan import Handover
from rescheduler.model.workloads import controller_of
from rescheduler.planner.budgets import Budgets, left
from rescheduler.planner.legs import Leg, Unit
from rescheduler.planner.stateful_sets import goes_in_order
from rescheduler.snapshot.snapshot import NOWHERE, Snapshot

__all__ = ["Demand", "Limits", "Wave"]


@dataclass(frozen=True, slots=True)
class Demand:
    """What a unit takes while it is under way.

    A group can only move as one, so it counts as one for a node and for a workload, however many of its
    pods are there; in all, each of its pods counts.
    """

    unit: Unit
    names: frozenset[str | int]
    """Its group, or its pod: never under way twice. Members of a group that go separately would be handed
    over together, and a pod that stops on its way goes on when it has arrived there."""
    pods: int
    nodes: frozenset[int]
    workloads: frozenset[int]
    alone: frozenset[int]
    """Those of them of which only one may be under way, whatever is configured."""
    disruptions: tuple[tuple[str, int, int], ...]
    """Budget, how many of its disruptions are needed, how many it allows."""


class Limits:
    def __init__(self, snapshot: Snapshot, policy: Policy, budgets: Budgets) -> None:
        self.in_all = policy.max_concurrent_migrations
        self.per_node = policy.max_concurrent_per_node
        self.per_workload = policy.max_concurrent_per_workload
        self._snapshot = snapshot
        self._workload = snapshot.pods.workload
        self._budgets = budgets

    def demand(self, unit: Unit) -> Demand:
        legs = unit.legs
        return Demand(
            unit,
            frozenset([unit.group] if unit.group else [leg.pod for leg in legs]),
            len(legs),
            frozenset(node for leg in legs for node in (leg.source, leg.target)),
            # A pod without a workload is nobody's neighbour.
            frozenset(int(self._workload[leg.pod]) for leg in legs) - {NOWHERE},
            frozenset(int(self._workload[leg.pod]) for leg in legs if self._goes_alone(leg)) - {NOWHERE},
            self._disruptions(unit),
        )

    def _goes_alone(self, leg: Leg) -> bool:
        """One evicted pod at a time: where the successor of a second would have to wait for that of the
        first, and where no budget says that more may be missing."""
        if leg.handover is not Handover.EVICT:
            return False
        if not self._budgets.covering(leg.pod):
            return True
        pod = self._snapshot.pods.records[leg.pod]
        if pod.owner is None or pod.owner.kind != "StatefulSet":
            return False
        return goes_in_order(controller_of(self._snapshot.controllers, pod.namespace, pod.owner))

    def _disruptions(self, unit: Unit) -> tuple[tuple[str, int, int], ...]:
        spent = (self._budgets.spent_by(leg.pod, leg.handover) for leg in unit.legs)
        budgets = [budget for budget in spent if budget is not None]
        needed = Counter(budget.key for budget in budgets)
        allowed = {budget.key: left(budget) for budget in budgets}
        return tuple((key, count, allowed[key]) for key, count in needed.items())


class Wave:
    """Units that are under way together."""

    def __init__(self, limits: Limits) -> None:
        self.units: list[Unit] = []
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

    def has_room_for(self, demand: Demand) -> bool:
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

    def add(self, demand: Demand) -> None:
        self.units.append(demand.unit)
        self._pods += demand.pods
        self._names |= demand.names
        self._nodes.update(demand.nodes)
        self._workloads.update(demand.workloads)
        self._alone |= demand.alone
        for key, needed, _ in demand.disruptions:
            self._disruptions[key] += needed
