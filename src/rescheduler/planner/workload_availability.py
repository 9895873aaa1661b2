"""Find the effects of a move on other pods: budgets, ready replicas, StatefulSet order, preemption."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kubevalues import Selector
from rescheduler.api.podmigration import Handover
from rescheduler.cluster.budget_record import BudgetRecord
from rescheduler.cluster.pod_record import PodRecord, statefulset_ordinal
from rescheduler.cluster.snapshot import NO_ROW, Flags, Ints, PodsByWorkload, Snapshot
from rescheduler.cluster.workload_record import WorkloadRecord
from rescheduler.rules.placement import Placement

__all__ = [
    "DisruptionBudgets",
    "Preemption",
    "ReplicaReadiness",
    "WorkloadReadiness",
    "creates_pods_in_order",
    "disruptions_left",
    "first_missing_ordinal",
    "ordinal_of",
    "revision_of_successor",
]

_PENDING = "Pending"


def disruptions_left(budget: BudgetRecord) -> int:
    """Return how many disruptions the budget allows now; none if its status is out of date."""
    return budget.disruptions_allowed if budget.is_current else 0


def _can_do_without(budget: BudgetRecord) -> bool:
    """Return whether the workload can do without a pod that is not ready."""
    return budget.always_allows_unhealthy or 0 < budget.desired_healthy <= budget.current_healthy


class DisruptionBudgets:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._by_class: dict[int, tuple[BudgetRecord, ...]] = {}
        self._read: dict[str, list[tuple[BudgetRecord, Selector]]] = {}
        """The budgets by namespace, with parsed selectors; read on first use."""
        self._replicas: dict[str, int] = {}
        """The replicas under each budget, by its key; counted on first use."""

    def covering(self, pod: int) -> tuple[BudgetRecord, ...]:
        row = int(self._snapshot.pods.pod_class[pod])
        if row not in self._by_class:
            pod_class = self._snapshot.classes[row]
            there = self._in(pod_class.namespace)
            self._by_class[row] = tuple(
                budget for budget, selector in there if selector.matches(pod_class.labels)
            )
        return self._by_class[row]

    def guarding(self, pod: int) -> tuple[BudgetRecord, ...]:
        """Return the budgets that the API server applies to an eviction of the pod.

        These are none for a pod in phase Pending, and none for a pod that is not ready if its only budget
        allows its eviction (`unhealthyPodEvictionPolicy`).
        """
        covering = self.covering(pod)
        pods = self._snapshot.pods
        if not covering or pods.ready[pod]:
            return covering
        if pods.records[pod].phase == _PENDING:
            return ()
        return () if len(covering) == 1 and _can_do_without(covering[0]) else covering

    def spent_by(self, pod: int, handover: Handover) -> BudgetRecord | None:
        """Return the budget from which the move takes one disruption while it runs.

        Adopt takes none: the ready copy counts as one more pod, so the source may be evicted.
        """
        if handover is Handover.ADOPT:
            return None
        return next(iter(self.guarding(pod)), None)

    def replicas_under(self, budget: BudgetRecord) -> int:
        """Return how many pods the workloads under the budget should have; a pod without workload counts as
        1.

        Missing replicas count, because they may be created at any moment.
        """
        found = self._replicas.get(budget.key)
        if found is None:
            found = self._replicas[budget.key] = self._count_replicas(budget)
        return found

    def _count_replicas(self, budget: BudgetRecord) -> int:
        snapshot, selector = self._snapshot, budget.pods()
        pods = snapshot.pods
        classes = [
            row
            for row, each in enumerate(snapshot.classes)
            if each.namespace == budget.namespace and selector.matches(each.labels)
        ]
        there = np.isin(pods.pod_class, classes)
        rows, counts = np.unique(pods.workload[there], return_counts=True)
        replicas = 0
        for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
            record = None if row == NO_ROW else snapshot.workloads[row].record
            replicas += count if record is None else max(record.replicas, count)
        return replicas

    def _in(self, namespace: str) -> list[tuple[BudgetRecord, Selector]]:
        if namespace not in self._read:
            there = self._by_namespace.get(namespace, ())
            self._read[namespace] = [(budget, budget.pods()) for budget in there]
        return self._read[namespace]

    @cached_property
    def _by_namespace(self) -> dict[str, list[BudgetRecord]]:
        found: dict[str, list[BudgetRecord]] = {}
        for budget in self._snapshot.budgets:
            found.setdefault(budget.namespace, []).append(budget)
        return found


_ORDERED = "OrderedReady"
_REVISION = "controller-revision-hash"


def creates_pods_in_order(record: WorkloadRecord | None) -> bool:
    """Return whether a StatefulSet creates pods in order, each after the one before is ready: the default."""
    return record is None or record.pod_management == _ORDERED


def ordinal_of(pod: PodRecord) -> int | None:
    """Return the ordinal of a StatefulSet's pod; None if its name has none."""
    return None if pod.owner is None else statefulset_ordinal(pod.name, pod.owner.name)


def first_missing_ordinal(pods: Iterable[PodRecord], record: WorkloadRecord | None, now_s: float) -> int:
    """Return the smallest ordinal whose pod is missing or not available: no later pod is created before it.

    If the StatefulSet is not known, ordinals start with that of the first pod.
    """
    by_number = {number: pod for pod in pods if (number := ordinal_of(pod)) is not None}
    least_s = record.min_ready_s if record is not None else 0
    number = record.first_ordinal if record is not None else min(by_number, default=0)
    while number in by_number and _is_available(by_number[number], least_s, now_s):
        number += 1
    return number


def revision_of_successor(pod: PodRecord, record: WorkloadRecord | None) -> str:
    """Return the revision of its successor if it differs from the pod's own, else an empty string."""
    own, ordinal = pod.labels.get(_REVISION), ordinal_of(pod)
    if record is None or not record.update_revision or own is None or ordinal is None:
        return ""
    held_back = record.update_type == "RollingUpdate" and ordinal < record.first_ordinal + record.partition
    successor = record.current_revision if held_back else record.update_revision
    return successor if successor != own else ""


def _is_available(pod: PodRecord, least_s: int, now_s: float) -> bool:
    ready = pod.condition("Ready")
    if pod.is_terminating or ready is None or ready.status != "True":
        return False
    return now_s - ready.since_s >= least_s


@dataclass(frozen=True, slots=True)
class ReplicaReadiness:
    ready: int
    unready: str
    """The name of the first pod that is not ready; empty if all existing pods are ready."""
    first_missing: int
    """The smallest ordinal that is missing, for the pods of a StatefulSet."""


class WorkloadReadiness:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._known: dict[int, ReplicaReadiness] = {}

    def of(self, workload: int) -> ReplicaReadiness:
        if workload not in self._known:
            self._known[workload] = self._count_ready(workload)
        return self._known[workload]

    def _count_ready(self, workload: int) -> ReplicaReadiness:
        records = self._snapshot.pods.records
        pods = [records[row] for row in self._by_workload.of(workload).tolist()]
        ready = {pod.key for pod in pods if pod.is_ready and not pod.is_terminating}
        unready = min((pod.name for pod in pods if pod.key not in ready and not pod.is_finished), default="")
        record = self._snapshot.workloads[workload].record
        return ReplicaReadiness(
            len(ready), unready, first_missing_ordinal(pods, record, self._snapshot.taken_at_s)
        )

    @cached_property
    def _by_workload(self) -> PodsByWorkload:
        return PodsByWorkload(self._snapshot)


class Preemption:
    def __init__(self, snapshot: Snapshot, *, unreserved: int = NO_ROW) -> None:
        """See `Placement` for `unreserved`."""
        self._snapshot = snapshot
        self._unreserved = unreserved
        self._outranked: dict[int, tuple[Flags, Ints]] = {}
        self._room_for_two: dict[int, bool] = {}

    def by_surplus(self, row: int) -> str:
        """Return which pods a surplus pod could preempt if the pod moved now; empty if none. The copy takes
        room, too."""
        return self._victims(row) if self._could_preempt(row) and not self._has_room_for_two(row) else ""

    def _has_room_for_two(self, row: int) -> bool:
        """Return whether two more pods like it fit; the same for all pods of a class, and expensive."""
        pod_class = int(self._snapshot.pods.pod_class[row])
        found = self._room_for_two.get(pod_class)
        if found is None:
            placement = self._placement
            fits = np.flatnonzero(placement.fits_another(row))
            found = len(fits) > 1
            if len(fits) == 1:
                with placement.trial():
                    placement.place(row, int(fits[0]))
                    found = bool(placement.fits_another(row).any())
            self._room_for_two[pod_class] = found
        return found

    def by_another(self, row: int) -> str:
        """Return which pods one more pod like this could preempt now that the copy exists; empty if none."""
        if not self._could_preempt(row) or self._placement.fits_another(row).any():
            return ""
        return self._victims(row)

    @cached_property
    def _placement(self) -> Placement:
        return Placement(self._snapshot, unreserved=self._unreserved)

    @cached_property
    def _least(self) -> int:
        """Return the lowest priority of all pods on nodes."""
        pods = self._snapshot.pods
        placed = pods.priority[pods.node != NO_ROW]
        return int(placed.min()) if len(placed) else 0

    def _could_preempt(self, row: int) -> bool:
        """Return whether the pod may preempt, and some pod has a lower priority. Usually none has, so this is
        checked first."""
        pods = self._snapshot.pods
        return int(pods.priority[row]) > self._least and not pods.records[row].shape.never_preempts

    def _victims(self, row: int) -> str:
        """Return the pods of lower priority that could be preempted, on the first node where that helps."""
        snapshot = self._snapshot
        asks = snapshot.classes[snapshot.pods.pod_class[row]].asks
        has_lesser, free = self._without_lesser(int(snapshot.pods.priority[row]))
        enough = (free >= asks)[:, asks > 0].all(axis=1)
        found = np.flatnonzero(has_lesser & enough & self._placement.static_fits(row))
        if not len(found):
            return ""
        node = int(found[0])
        lesser = [
            pod
            for pod in snapshot.pods.on(node).tolist()
            if snapshot.pods.priority[pod] < snapshot.pods.priority[row]
        ]
        names = ", ".join(snapshot.pods.records[pod].key for pod in lesser[:3])
        more = f" and {len(lesser) - 3} more" if len(lesser) > 3 else ""
        return f"{names}{more} on {snapshot.nodes.records[node].name}"

    def _without_lesser(self, priority: int) -> tuple[Flags, Ints]:
        """Return [node]: whether there are pods of lower priority, and [node, resource]: what is free without
        them."""
        found = self._outranked.get(priority)
        if found is None:
            pods, nodes = self._snapshot.pods, self._snapshot.nodes
            placed = pods.node != NO_ROW
            stays = placed & (pods.priority >= priority)
            taken = np.zeros_like(nodes.requested)
            np.add.at(taken, pods.node[stays], pods.requests[stays])
            has_lesser = np.zeros(len(nodes), np.bool_)
            has_lesser[pods.node[placed & (pods.priority < priority)]] = True
            found = self._outranked[priority] = (has_lesser, nodes.allocatable - taken)
        return found
