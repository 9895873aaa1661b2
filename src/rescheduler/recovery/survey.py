"""Which pods of a whole cluster keep failing: asked at every check, so it costs next to nothing if none do.

Only pods that are not ready are looked at, or whose node is not; of those only what their owners ask us to
see to.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from rescheduler.config.policy import FailedPods
from rescheduler.model.nodes import NodeRecord
from rescheduler.model.pods import PodRecord
from rescheduler.model.workloads import WorkloadRecord
from rescheduler.recovery.allowance import RETRIES, allowance_of, chain_of
from rescheduler.recovery.examining import Case, Examination, examine, holder_of
from rescheduler.recovery.ledger import FAILED_ATTEMPTS
from rescheduler.recovery.suspects import suspects, witness_of
from rescheduler.recovery.trouble import trouble_of
from rescheduler.snapshot.snapshot import NOWHERE, Rows, Snapshot

__all__ = ["Survey", "examined", "survey"]

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    cases: Mapping[int, Case]
    """Failing pods that somebody asked about, by row, in that order."""
    suspects: Mapping[str, tuple[str, ...]]
    """Nodes on which several workloads failed lately, with those workloads."""
    is_suspect: Flags
    """[node]: the same."""
    failed_on: Mapping[int, Flags]
    """By workload, [node]: where pods of it keep failing, or failed and have not recovered yet."""

    def rather_not(self, workload: int) -> Flags | None:
        """[node]: the last places to send pods of that workload to; None if all are as good."""
        own = self.failed_on.get(workload)
        if own is None:
            return self.is_suspect if self.suspects else None
        return own | self.is_suspect


def survey(snapshot: Snapshot, terms: FailedPods) -> Survey:
    if not terms.enabled:
        return Survey({}, {}, _flags(snapshot, ()), {})
    now_s, nodes = snapshot.taken_at_s, snapshot.nodes.records
    seen = list(_Surveyor(snapshot, terms).examinations())
    row = snapshot.pods.row
    cases = {row[case.pod.key]: case for _, each in seen for case in each.cases if case.allowance is not None}
    witnesses = [(workload, witness_of(each, snapshot.left_failing, now_s)) for workload, each in seen]
    made_s = {node.name: node.created_s for node in nodes} if witnesses else {}
    found = suspects((witness for _, witness in witnesses), made_s, terms, now_s)
    failed_on = {
        workload: _flags(snapshot, (failure.node for failure in witness.failures))
        for workload, witness in witnesses
        if workload != NOWHERE and witness.failures
    }
    return Survey(dict(sorted(cases.items())), found, _flags(snapshot, found), failed_on)


def examined(snapshot: Snapshot, terms: FailedPods, row: int) -> Examination | None:
    """The pod with all of its workload; None if nothing is known of its owner."""
    return _Surveyor(snapshot, terms).examined(row)


class _Surveyor:
    def __init__(self, snapshot: Snapshot, terms: FailedPods) -> None:
        self._snapshot = snapshot
        self._terms = terms

    def examinations(self) -> Iterator[tuple[int, Examination]]:
        """With the number of the workload: of all that something is, or was, amiss with."""
        pods = self._snapshot.pods
        seen: set[int] = set()
        for row in chain(self._in_question(), self._one_of_each_on_record()):
            workload = int(pods.workload[row])
            if workload in seen or not (self._is_on_record(workload) or self._fails(row)):
                continue
            if workload != NOWHERE:
                seen.add(workload)
            if (found := self.examined(row)) is not None:
                yield workload, found

    def _one_of_each_on_record(self) -> Iterator[int]:
        for workload in range(len(self._snapshot.workloads)):
            if self._is_on_record(workload):
                rows, first = self._by_workload
                yield int(rows[first[workload]])

    def _is_on_record(self, workload: int) -> bool:
        """Whether something is remembered of it."""
        record = None if workload == NOWHERE else self._snapshot.workloads[workload].record
        return record is not None and FAILED_ATTEMPTS in record.marks

    def examined(self, row: int) -> Examination | None:
        pods = self._snapshot.pods
        pod, workload = pods.records[row], pods.workload[row]
        holder = holder_of(pod, self._chain(pod))
        if holder is None:
            return None
        if workload == NOWHERE:
            members = [pod]
        else:
            rows, first = self._by_workload
            members = [pods.records[each] for each in rows[first[workload] : first[workload + 1]].tolist()]
        return examine(holder, members, self._chain, self._node, self._terms, self._snapshot.taken_at_s)

    @cached_property
    def _by_workload(self) -> tuple[Rows, Rows]:
        """Rows of all pods, sorted by workload, and where each workload's begin."""
        workload = self._snapshot.pods.workload
        rows = np.argsort(workload, kind="stable").astype(np.int32)
        first = np.searchsorted(workload, np.arange(len(self._snapshot.workloads) + 1), sorter=rows)
        return rows, first.astype(np.int32)

    def _in_question(self) -> Iterator[int]:
        """Rows of pods that are not at their best, and that may be asked about."""
        pods, workloads = self._snapshot.pods, self._snapshot.workloads
        # A pod whose node is not known counts on none; the last entry stands for that.
        lost = np.append(~self._snapshot.nodes.ready, True)
        rows = np.flatnonzero(~pods.ready | lost[pods.node])
        if self._terms.default_retries:
            yield from rows.tolist()
            return
        of_rows = pods.workload[rows]
        present = np.flatnonzero(np.bincount(of_rows[of_rows != NOWHERE], minlength=1)).tolist()
        asked = [each for each in present if workloads and _may_ask(workloads[each].record)]
        yield from rows[np.isin(of_rows, asked)].tolist()
        for row in rows[of_rows == NOWHERE].tolist():
            if RETRIES in pods.records[row].marks:
                yield row

    def _fails(self, row: int) -> bool:
        pod = self._snapshot.pods.records[row]
        if pod.phase == "Succeeded" or not pod.node:
            return False
        if trouble_of(pod, self._node(pod.node), self._terms, self._snapshot.taken_at_s) is None:
            return False
        return allowance_of(pod, self._chain(pod), self._terms) is not None

    def _chain(self, pod: PodRecord) -> tuple[WorkloadRecord, ...]:
        return chain_of(pod, self._snapshot.controllers)

    def _node(self, name: str) -> NodeRecord | None:
        row = self._snapshot.nodes.row.get(name)
        return None if row is None else self._snapshot.nodes.records[row]


def _flags(snapshot: Snapshot, nodes: Iterable[str]) -> Flags:
    known = snapshot.nodes.row
    found = np.zeros(len(snapshot.nodes), np.bool_)
    found[[known[node] for node in nodes if node in known]] = True
    return found


def _may_ask(top: WorkloadRecord | None) -> bool:
    """By an annotation of its own, or of its Jobs."""
    return top is not None and (RETRIES in top.marks or top.kind == "CronJob")
