"""Which PodDisruptionBudgets cover a pod, and what they leave.

What a StatefulSet does when one of its pods goes: which comes back, when, and of which revision.

All pods of a workload, and which of them are missed: found out once for all that ask.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kubevalues import Selector
from rescheduler.api.podmigration import Handover
from rescheduler.cluster.budget_record import BudgetRecord
from rescheduler.cluster.pod_record import PodRecord, statefulset_ordinal
from rescheduler.cluster.snapshot import Rows, Snapshot
from rescheduler.cluster.workload_record import WorkloadRecord

__all__ = [
    "DisruptionBudgets",
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
    """How many disruptions it allows now. One whose status is out of date refuses every eviction."""
    return budget.disruptions_allowed if budget.is_current else 0


def _can_do_without(budget: BudgetRecord) -> bool:
    """Without a pod that is not ready."""
    return budget.always_allows_unhealthy or 0 < budget.desired_healthy <= budget.current_healthy


class DisruptionBudgets:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._by_class: dict[int, tuple[BudgetRecord, ...]] = {}
        self._read: dict[str, list[tuple[BudgetRecord, Selector]]] = {}
        """By namespace, with the selectors read: only where somebody asks."""

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
        """Those that are asked before it is evicted: none of a pod that has not begun to run.

        Nor the one budget of a pod that is not ready, if it does not need it: as the API server has it.
        """
        covering = self.covering(pod)
        pods = self._snapshot.pods
        if not covering or pods.ready[pod]:
            return covering
        if pods.records[pod].phase == _PENDING:
            return ()
        return () if len(covering) == 1 and _can_do_without(covering[0]) else covering

    def spent_by(self, pod: int, handover: Handover) -> BudgetRecord | None:
        """The budget of which moving it takes one disruption, as long as the move is under way.

        Adopt takes none: the ready copy counts as one more, for which the source may go.
        """
        if handover is Handover.ADOPT:
            return None
        return next(iter(self.guarding(pod)), None)

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
    """Whether it makes no pod before all those with smaller numbers are ready. Unless told, it does."""
    return record is None or record.pod_management == _ORDERED


def ordinal_of(pod: PodRecord) -> int | None:
    """Its number among its siblings; None if its name has none."""
    return None if pod.owner is None else statefulset_ordinal(pod.name, pod.owner.name)


def first_missing_ordinal(pods: Iterable[PodRecord], record: WorkloadRecord | None, now_s: float) -> int:
    """The smallest number of which no pod is there, or one that is not available: none after it is made.

    Without the StatefulSet, its first pod is the first that is there.
    """
    by_number = {number: pod for pod in pods if (number := ordinal_of(pod)) is not None}
    least_s = record.min_ready_s if record is not None else 0
    number = record.first_ordinal if record is not None else min(by_number, default=0)
    while number in by_number and _is_available(by_number[number], least_s, now_s):
        number += 1
    return number


def revision_of_successor(pod: PodRecord, record: WorkloadRecord | None) -> str:
    """If it is another than the pod's own; empty if it is the same, or nobody knows."""
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
    """The name of one that is not, the first of them; empty if all that are there are."""
    first_missing: int
    """Where the pods of a StatefulSet are numbered: the smallest number that is missed."""


class WorkloadReadiness:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._known: dict[int, ReplicaReadiness] = {}

    def of(self, workload: int) -> ReplicaReadiness:
        if workload not in self._known:
            self._known[workload] = self._count_ready(workload)
        return self._known[workload]

    def _count_ready(self, workload: int) -> ReplicaReadiness:
        rows, first = self._by_workload
        records = self._snapshot.pods.records
        pods = [records[row] for row in rows[first[workload] : first[workload + 1]].tolist()]
        ready = {pod.key for pod in pods if pod.is_ready and not pod.is_terminating}
        unready = min((pod.name for pod in pods if pod.key not in ready and not pod.is_finished), default="")
        record = self._snapshot.workloads[workload].record
        return ReplicaReadiness(
            len(ready), unready, first_missing_ordinal(pods, record, self._snapshot.taken_at_s)
        )

    @cached_property
    def _by_workload(self) -> tuple[Rows, Rows]:
        """Rows of all pods, sorted by workload, and where each workload's begin."""
        workload = self._snapshot.pods.workload
        rows = np.argsort(workload, kind="stable").astype(np.int32)
        first = np.searchsorted(workload, np.arange(len(self._snapshot.workloads) + 1), sorter=rows)
        return rows, first.astype(np.int32)
