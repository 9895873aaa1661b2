"""All pods of a workload, and which of them are missed: found out once for all that ask."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rescheduler.planner.stateful_sets import first_gap
from rescheduler.snapshot.snapshot import Rows, Snapshot

__all__ = ["Crew", "Crews"]


@dataclass(frozen=True, slots=True)
class Crew:
    ready: int
    unready: str
    """The name of one that is not, the first of them; empty if all that are there are."""
    gap: int
    """Where the pods of a StatefulSet are numbered: the smallest number that is missed."""


class Crews:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._known: dict[int, Crew] = {}

    def of(self, workload: int) -> Crew:
        if workload not in self._known:
            self._known[workload] = self._muster(workload)
        return self._known[workload]

    def _muster(self, workload: int) -> Crew:
        rows, first = self._by_workload
        records = self._snapshot.pods.records
        pods = [records[row] for row in rows[first[workload] : first[workload + 1]].tolist()]
        ready = {pod.key for pod in pods if pod.is_ready and not pod.is_terminating}
        unready = min((pod.name for pod in pods if pod.key not in ready and not pod.is_finished), default="")
        record = self._snapshot.workloads[workload].record
        return Crew(len(ready), unready, first_gap(pods, record, self._snapshot.taken_at_s))

    @cached_property
    def _by_workload(self) -> tuple[Rows, Rows]:
        """Rows of all pods, sorted by workload, and where each workload's begin."""
        workload = self._snapshot.pods.workload
        rows = np.argsort(workload, kind="stable").astype(np.int32)
        first = np.searchsorted(workload, np.arange(len(self._snapshot.workloads) + 1), sorter=rows)
        return rows, first.astype(np.int32)
