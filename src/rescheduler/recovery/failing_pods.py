"""Find all failing pods of a cluster, and the suspect nodes.

This runs in every check, so it must cost almost nothing when no pod fails: it examines only pods that are not
ready or whose node is not, and only if their owners ask for recovery.

Suspect nodes: nodes on which several workloads fail, so that the node is the likely cause.

Failures that are the workload's own fault don't count against a node:

- A workload that fails on several nodes and runs on no other says nothing about any of them. Each pod
  template counts separately: pods of the last rollout may run while those of the next one fail.
- If more than half of all nodes would be suspect, none is: the cause is something that they share, such as a
  registry.
- A failure from before a node was created belongs to another node of the same name.

One tenant should not be able to make a node suspect, and would gain little from it:

- An entry of a ledger counts only if rescheduler has observed the failure: the pod fails there now, or a
  migration has moved it away from there.
- The workloads must be of several namespaces, and of more namespaces than those whose new pods became ready
  there meanwhile. A tenant with several namespaces can make pods fail, but can't keep the pods of others from
  starting. Pods that have been running for long say nothing: on a node without disk space they keep running.
- At most a quarter of all nodes are suspect at once, those with failures of the most namespaces.
- A suspect node is used last, for as long as failures are recent. It is neither cordoned nor emptied.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from math import inf
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from rescheduler.api.well_known_names import FAILED_ATTEMPTS_ANNOTATION
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.pod_classes import owner_chain
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.snapshot import NO_ROW, Flags, PodsByWorkload, Snapshot
from rescheduler.cluster.workload_record import WorkloadRecord
from rescheduler.config.policy import FailedPodsPolicy
from rescheduler.recovery.failure_signs import failure_of
from rescheduler.recovery.recovery_decision import RETRIES_ANNOTATION, NotRequested, allowance_of
from rescheduler.recovery.workload_examination import (
    FailingReplica,
    WorkloadExamination,
    examine_workload,
    holder_of,
)

__all__ = [
    "FailingPods",
    "FailureOnNode",
    "StartedThere",
    "WorkloadFailures",
    "examine_pod",
    "find_failing_pods",
    "find_suspect_nodes",
    "is_healthy",
    "next_expiry_s",
    "started_there",
    "workload_failures_of",
]

_FEWEST_NAMESPACES: Final = 2
_FEWEST_SUSPECTS: Final = 2
"""The number of nodes that may be suspect, however small the cluster is."""
_LARGEST_SHARE: Final = 0.25
"""The share of nodes that may be suspect at once."""

StartedThere = Callable[[str], Collection[str]]
"""Returns the namespaces of the pods that were created within `suspectWindow` and are ready on that node."""


@dataclass(frozen=True, slots=True)
class FailureOnNode:
    """One failure of a workload on a node."""

    node: str
    at_s: float
    revision: str = ""
    """The revision of the pod template."""
    is_observed: bool = True
    """Whether rescheduler has observed it, and not only read it from the ledger."""


@dataclass(frozen=True, slots=True)
class WorkloadFailures:
    """Where a workload fails, and where it runs."""

    workload: str
    """`Deployment/shop/web`."""
    namespace: str
    failures: tuple[FailureOnNode, ...]
    """The recorded failures and the present ones."""
    healthy_nodes: Mapping[str, frozenset[str]]
    """Nodes on which its pods are ready, by revision of the pod template."""


def workload_failures_of(
    seen: WorkloadExamination, observed: Mapping[str, Collection[str]], now_s: float
) -> WorkloadFailures:
    """Return where a workload fails. Pods whose owners don't ask for recovery don't count.

    `observed` are the nodes from which migrations have moved failing pods, by the uid of the pod.
    """
    on_record = (
        FailureOnNode(each.node, each.at_s, lineage.revision, each.node in observed.get(each.pod, ()))
        for lineage in seen.ledger.lineages.values()
        for each in lineage.failures
        if each.node
    )
    present = (
        FailureOnNode(replica.pod.node, now_s, replica.revision)
        for replica in seen.failing
        if not isinstance(replica.decision, NotRequested)
    )
    holder = seen.holder
    workload, namespace = f"{holder.kind}/{holder.key}", holder.key.partition("/")[0]
    return WorkloadFailures(workload, namespace, (*on_record, *present), seen.healthy_nodes)


def find_suspect_nodes(
    all_failures: Iterable[WorkloadFailures],
    made_s: Mapping[str, float],
    terms: FailedPodsPolicy,
    now_s: float,
    *,
    started_there: StartedThere,
) -> Mapping[str, tuple[str, ...]]:
    """Return the suspect nodes, each with the workloads that failed there recently; both sorted.

    `made_s` says when each node was created.
    """
    found: dict[str, set[tuple[str, str]]] = {}
    for each in all_failures:
        for node in _implicated_nodes(each, made_s, terms, now_s):
            found.setdefault(node, set()).add((each.workload, each.namespace))
    many = {node: workloads for node, workloads in found.items() if _is_suspect(workloads, terms)}
    if 2 * len(many) > len(made_s):
        return {}
    namespaces = {node: {namespace for _, namespace in workloads} for node, workloads in many.items()}
    likely = [
        node for node, failing in namespaces.items() if len(failing) > len(set(started_there(node)) - failing)
    ]
    likely.sort(key=lambda node: (-len(namespaces[node]), -len(many[node]), node))
    most = max(_FEWEST_SUSPECTS, int(_LARGEST_SHARE * len(made_s)))
    return {node: tuple(sorted(name for name, _ in many[node])) for node in sorted(likely[:most])}


def _is_suspect(workloads: Collection[tuple[str, str]], terms: FailedPodsPolicy) -> bool:
    """Return whether enough workloads of enough namespaces fail; `suspectAfter: 1` needs only one
    namespace."""
    namespaces = {namespace for _, namespace in workloads}
    fewest = min(_FEWEST_NAMESPACES, terms.suspect_after)
    return len(workloads) >= terms.suspect_after and len(namespaces) >= fewest


def started_there(present: Callable[[], Snapshot], terms: FailedPodsPolicy) -> StartedThere:
    """Return the function that tells which namespaces have new pods that are ready on a node. It takes a
    snapshot only when it is called."""
    taken = cache(present)

    def namespaces(node: str) -> set[str]:
        snapshot = taken()
        since_s = snapshot.taken_at_s - terms.suspect_window.total_seconds()
        pods, row = snapshot.pods, snapshot.nodes.row.get(node)
        rows = () if row is None else pods.on(row).tolist()
        records = (pods.records[each] for each in rows if is_healthy(snapshot, each))
        return {pod.namespace for pod in records if pod.created_s >= since_s}

    return namespaces


def next_expiry_s(
    all_failures: Iterable[WorkloadFailures], terms: FailedPodsPolicy, now_s: float
) -> float | None:
    """Return when the next failure is too old to count; None if there is none."""
    window_s = terms.suspect_window.total_seconds()
    ends = (failure.at_s + window_s for each in all_failures for failure in each.failures)
    return min((end for end in ends if end > now_s), default=None)


def _implicated_nodes(
    of_workload: WorkloadFailures, made_s: Mapping[str, float], terms: FailedPodsPolicy, now_s: float
) -> Iterator[str]:
    """Yield the nodes that the failures of this workload count against; a node may be repeated."""
    window_s = terms.suspect_window.total_seconds()
    by_template: dict[str, list[FailureOnNode]] = {}
    for each in of_workload.failures:
        by_template.setdefault(each.revision, []).append(each)
    for revision, failures in by_template.items():
        # Failures of any age count here: a replica without attempts left stays in the ledger and keeps
        # failing.
        nodes = {each.node for each in failures}
        if len(nodes) == 1 or of_workload.healthy_nodes.get(revision, frozenset()) - nodes:
            lately = (each for each in failures if each.is_observed and now_s - each.at_s < window_s)
            yield from (each.node for each in lately if each.at_s >= made_s.get(each.node, inf))


@dataclass(frozen=True, slots=True, eq=False)
class FailingPods:
    """The failing pods and suspect nodes of one snapshot."""

    failing: Mapping[int, FailingReplica]
    """Failing pods whose owners ask for recovery, by row, in that order."""
    suspects: Mapping[str, tuple[str, ...]]
    """Nodes on which several workloads failed recently, with those workloads."""
    is_suspect: Flags
    """[node]: whether it is among `suspects`."""
    failed_on: Mapping[int, Flags]
    """The nodes on which pods of a workload fail, or failed and have not recovered: [node], by workload."""

    def last_resort_nodes(self, workload: int) -> Flags | None:
        """Return [node]: whether that workload may use the node only if there is no other; None if it may use
        all."""
        own = self.failed_on.get(workload)
        if own is None:
            return self.is_suspect if self.suspects else None
        return own | self.is_suspect


# Strategies and protections ask about the same snapshot. Keys are weak, because a snapshot of a large cluster
# must not outlive its check.
_found: WeakKeyDictionary[Snapshot, tuple[FailedPodsPolicy, FailingPods]] = WeakKeyDictionary()


def find_failing_pods(snapshot: Snapshot, terms: FailedPodsPolicy) -> FailingPods:
    """Return all failing pods of a snapshot. They are examined once, however often this is called."""
    found = _found.get(snapshot)
    if found is None or found[0] != terms:
        found = _found[snapshot] = terms, _find_failing_pods(snapshot, terms)
    return found[1]


def _find_failing_pods(snapshot: Snapshot, terms: FailedPodsPolicy) -> FailingPods:
    if not terms.enabled:
        return FailingPods({}, {}, _node_flags(snapshot, ()), {})
    now_s, nodes = snapshot.taken_at_s, snapshot.nodes.records
    seen = list(_Finder(snapshot, terms).examinations())
    row = snapshot.pods.row
    failing = {
        row[replica.pod.key]: replica
        for _, each in seen
        for replica in each.failing
        if replica.allowance is not None
    }
    of_workloads = [
        (workload, workload_failures_of(each, snapshot.left_after_failure, now_s)) for workload, each in seen
    ]
    made_s = {node.name: node.created_s for node in nodes} if of_workloads else {}
    found = find_suspect_nodes(
        (failures for _, failures in of_workloads),
        made_s,
        terms,
        now_s,
        started_there=started_there(lambda: snapshot, terms),
    )
    failed_on = {
        workload: _node_flags(snapshot, (failure.node for failure in failures.failures))
        for workload, failures in of_workloads
        if workload != NO_ROW and failures.failures
    }
    return FailingPods(dict(sorted(failing.items())), found, _node_flags(snapshot, found), failed_on)


def is_healthy(snapshot: Snapshot, row: int) -> bool:
    """Return whether a pod is ready, and so is its node."""
    node = snapshot.pods.node[row]
    return bool(snapshot.pods.ready[row] and node != NO_ROW and snapshot.nodes.ready[node])


def examine_pod(snapshot: Snapshot, terms: FailedPodsPolicy, row: int) -> WorkloadExamination | None:
    """Examine the workload of a pod; None if its controller is unknown."""
    return _Finder(snapshot, terms).examined(row)


class _Finder:
    def __init__(self, snapshot: Snapshot, terms: FailedPodsPolicy) -> None:
        self._snapshot = snapshot
        self._terms = terms

    def examinations(self) -> Iterator[tuple[int, WorkloadExamination]]:
        """Examine every workload that has failing pods or a ledger; yield each with its index."""
        pods = self._snapshot.pods
        seen: set[int] = set()
        for row in chain(self._in_question(), self._one_of_each_on_record()):
            workload = int(pods.workload[row])
            if workload in seen or not (self._is_on_record(workload) or self._fails(row)):
                continue
            if workload != NO_ROW:
                seen.add(workload)
            if (found := self.examined(row)) is not None:
                yield workload, found

    def _one_of_each_on_record(self) -> Iterator[int]:
        for workload in range(len(self._snapshot.workloads)):
            if self._is_on_record(workload):
                yield int(self._by_workload.of(workload)[0])

    def _is_on_record(self, workload: int) -> bool:
        """Return whether the workload has a ledger."""
        record = None if workload == NO_ROW else self._snapshot.workloads[workload].record
        return record is not None and FAILED_ATTEMPTS_ANNOTATION in record.annotations

    def examined(self, row: int) -> WorkloadExamination | None:
        pods = self._snapshot.pods
        pod, workload = pods.records[row], pods.workload[row]
        holder = holder_of(pod, self._chain(pod))
        if holder is None:
            return None
        if workload == NO_ROW:
            members = [pod]
        else:
            members = [pods.records[each] for each in self._by_workload.of(int(workload)).tolist()]
        return examine_workload(
            holder, members, self._chain, self._node, self._terms, self._snapshot.taken_at_s
        )

    @cached_property
    def _by_workload(self) -> PodsByWorkload:
        return PodsByWorkload(self._snapshot)

    def _in_question(self) -> Iterator[int]:
        """Yield the rows of pods that may fail, and whose owners may ask for recovery."""
        pods, workloads = self._snapshot.pods, self._snapshot.workloads
        # The node of a pod without a known node is -1, which selects the appended entry.
        lost = np.append(~self._snapshot.nodes.ready, True)
        rows = np.flatnonzero(~pods.ready | lost[pods.node])
        if self._terms.default_retries:
            yield from rows.tolist()
            return
        of_rows = pods.workload[rows]
        present = np.flatnonzero(np.bincount(of_rows[of_rows != NO_ROW], minlength=1)).tolist()
        asked = [each for each in present if workloads and _may_request_recovery(workloads[each].record)]
        yield from rows[np.isin(of_rows, asked)].tolist()
        for row in rows[of_rows == NO_ROW].tolist():
            if RETRIES_ANNOTATION in pods.records[row].annotations:
                yield row

    def _fails(self, row: int) -> bool:
        pod = self._snapshot.pods.records[row]
        if pod.phase == "Succeeded" or not pod.node:
            return False
        if failure_of(pod, self._node(pod.node), self._terms, self._snapshot.taken_at_s) is None:
            return False
        return allowance_of(pod, self._chain(pod), self._terms) is not None

    def _chain(self, pod: PodRecord) -> tuple[WorkloadRecord, ...]:
        return owner_chain(pod.namespace, pod.owner, self._snapshot.controllers)

    def _node(self, name: str) -> NodeRecord | None:
        row = self._snapshot.nodes.row.get(name)
        return None if row is None else self._snapshot.nodes.records[row]


def _node_flags(snapshot: Snapshot, nodes: Iterable[str]) -> Flags:
    known = snapshot.nodes.row
    found = np.zeros(len(snapshot.nodes), np.bool_)
    found[[known[node] for node in nodes if node in known]] = True
    return found


def _may_request_recovery(top: WorkloadRecord | None) -> bool:
    """Return whether the workload has the annotation, or perhaps one of its Jobs has."""
    return top is not None and (RETRIES_ANNOTATION in top.annotations or top.kind == "CronJob")
