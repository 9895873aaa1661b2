"""Report the state of all owner trees: failing pods, pods without attempts left, and suspect nodes.

`ObservedFailures` are the nodes on which migrations have seen pods fail. Owners can write anything into their
ledgers, so ledgers are compared with it.

`RecoveryEvents` reports failures as Events on workloads, pods and nodes, and as log lines.
"""

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rescheduler.api.daemon_status import FailingPod, SuspectNode
from rescheduler.api.well_known_names import FAILED_ATTEMPTS_ANNOTATION
from rescheduler.cluster.cluster_state import observed_pod_failures
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.sources.watched_objects import WatchedObjects, object_key
from rescheduler.cluster.workload_record import WORKLOAD_KINDS
from rescheduler.config.policy import FailedPodsPolicy
from rescheduler.kube.api_resources import Object, split_key
from rescheduler.kube.event_recorder import EventRecorder, InvolvedObject
from rescheduler.recovery.controller.owner_trees import OwnerTrees
from rescheduler.recovery.failing_pods import (
    StartedThere,
    find_suspect_nodes,
    next_expiry_s,
    workload_failures_of,
)
from rescheduler.recovery.recovery_decision import (
    RETRIES_ANNOTATION,
    NoAction,
    NotRequested,
    RetriesExhausted,
)
from rescheduler.recovery.workload_examination import FailingReplica, WorkloadExamination

__all__ = [
    "ExaminationCache",
    "FailureListener",
    "ObservedFailures",
    "RecoveryEvents",
    "RecoveryReport",
]


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """The failing pods and suspect nodes of the whole cluster."""

    failing: tuple[FailingPod, ...] = ()
    """Failing pods whose owners ask for recovery, by name; also those without attempts left."""
    exhausted: tuple[str, ...] = ()
    """Pods without attempts left: `namespace/name`."""
    suspects: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Suspect nodes, each with the workloads (`Deployment/shop/web`) that failed there recently."""
    changes_s: float | None = None
    """When the suspect nodes may change although nothing happens; None if they won't."""

    @property
    def suspect_nodes(self) -> tuple[SuspectNode, ...]:
        return tuple(
            SuspectNode(node, len(workloads), ", ".join(workloads))
            for node, workloads in self.suspects.items()
        )


class FailureListener:
    """Receives every report. Override the methods that you need."""

    def failing(self, pods: Sequence[FailingPod]) -> None:
        """Receive all pods that fail now."""

    def suspects(self, nodes: Sequence[SuspectNode]) -> None:
        """Receive all nodes that are suspect now."""


class ExaminationCache:
    """The last examination of each owner tree with failures."""

    def __init__(self) -> None:
        self._seen: dict[str, WorkloadExamination] = {}

    def observe(self, key: str, seen: WorkloadExamination | None) -> bool:
        """Store an examination, and return whether it changes the report."""
        before = self._seen.pop(key, None)
        if seen is not None and (seen.failing or seen.ledger.lineages):
            self._seen[key] = seen
        after = self._seen.get(key)
        if before is None or after is None:
            return before is not after
        return _reported_part(before) != _reported_part(after)

    def report(
        self,
        terms: FailedPodsPolicy,
        made_s: Mapping[str, float],
        observed: Mapping[str, Collection[str]],
        now_s: float,
        started_there: StartedThere,
    ) -> RecoveryReport:
        """Summarise all trees. `made_s` says when each node was created; `observed` as in
        `workload_failures_of`."""
        failing = [
            replica
            for _, seen in sorted(self._seen.items())
            for replica in seen.failing
            if _is_requested(replica)
        ]
        workload_failures = [workload_failures_of(seen, observed, now_s) for seen in self._seen.values()]
        found = find_suspect_nodes(workload_failures, made_s, terms, now_s, started_there=started_there)
        return RecoveryReport(
            failing=tuple(_failing_pod_status(replica) for replica in failing),
            exhausted=tuple(
                replica.pod.key for replica in failing if isinstance(replica.decision, RetriesExhausted)
            ),
            suspects=found,
            changes_s=next_expiry_s(workload_failures, terms, now_s),
        )


def _reported_part(seen: WorkloadExamination) -> tuple[object, ...]:
    return seen.failing, seen.ledger, seen.healthy_nodes


def _is_requested(replica: FailingReplica) -> bool:
    return not isinstance(replica.decision, NotRequested)


def _failing_pod_status(replica: FailingReplica) -> FailingPod:
    match replica.decision:
        case RetriesExhausted():
            message = "no attempts left"
        case NoAction(why=why):
            message = why
        case _:
            message = ""
    return FailingPod(
        pod=replica.pod.key,
        node=replica.pod.node,
        why=replica.failure.message,
        tries=replica.lineage.count,
        allowed=replica.retries,
        message=message,
    )


class ObservedFailures(Mapping[str, Collection[str]]):
    """Nodes on which migrations have seen a pod fail, by its uid. `changed` is a handler for their
    informer."""

    def __init__(self, watched: WatchedObjects) -> None:
        self._records = watched.records
        self._of_migration: dict[str, tuple[tuple[str, str], ...]] = {}
        self._nodes: dict[str, Counter[str]] = {}

    def changed(self, old: Object | None, new: Object | None) -> None:
        item = new or old
        assert item is not None
        key = object_key(item)
        migration = None if new is None else self._records.migration(new)
        found = () if migration is None else tuple(observed_pod_failures(migration))
        before = self._of_migration.pop(key, ())
        if found:
            self._of_migration[key] = found
        for uid, node in found:
            self._nodes.setdefault(uid, Counter())[node] += 1
        for uid, node in before:
            self._nodes[uid][node] -= 1
            self._nodes[uid] = +self._nodes[uid]
            if not self._nodes[uid]:
                del self._nodes[uid]

    def __getitem__(self, uid: str) -> Collection[str]:
        return self._nodes[uid].keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)


log = logging.getLogger("rescheduler.recovery")

_MAX_WORKLOADS_NAMED: Final = 5


class RecoveryEvents:
    def __init__(self, events: EventRecorder, trees: OwnerTrees) -> None:
        self._events = events
        self._trees = trees
        self._suspects: frozenset[str] = frozenset()

    def record(self, seen: WorkloadExamination) -> None:
        """Report what an examination shows. Calls may be repeated."""
        holder = _workload_subject(seen.holder.kind, seen.holder.key, seen.holder.uid)
        for each in seen.malformed:
            record = self._trees.record(each.kind, each.key)
            subject = holder if record is None else _workload_subject(each.kind, each.key, record.uid)
            self._events.record(
                subject, "SchedulingRetriesIgnored", f"Ignored: {each.why}", warning=True, once=True
            )
        for allowance in seen.capped:
            self._events.record(holder, "SchedulingRetriesCapped", allowance.cap, warning=True, once=True)
        if seen.ledger.is_damaged:
            message = (
                f"{FAILED_ATTEMPTS_ANNOTATION} was invalid and has been removed: "
                "attempts are counted from zero again"
            )
            self._events.record(holder, "FailedAttemptsUnreadable", message, warning=True)
        if seen.is_carried_over:
            message = "converted the record of kse-rescheduler, and removed its annotation"
            self._events.record(holder, "FailedAttemptsCarriedOver", message)
        for name in seen.recovered:
            if seen.ledger.lineage(name).count:
                log.info("%s/%s replica=%s has recovered", seen.holder.kind, seen.holder.key, name)
                self._events.record(
                    holder, "Recovered", f"{name} runs again: its failed attempts are forgotten"
                )
        for replica in seen.failing:
            if isinstance(replica.decision, RetriesExhausted):
                self._exhausted(holder, replica)

    def _exhausted(self, holder: InvolvedObject, replica: FailingReplica) -> None:
        attempts = (
            f"{replica.retries} of {replica.retries} reschedulings"
            if replica.retries != 1
            else "1 rescheduling"
        )
        failure = f"{replica.pod.name} still fails after {attempts} ({replica.failure.message})"
        message = f"{failure}: it stays where it is until its template or {RETRIES_ANNOTATION} changes"
        for subject in {holder, _pod_subject(replica.pod)}:
            self._events.record(subject, "ReschedulingExhausted", message, warning=True, once=True)

    # -- what was done

    def restarted(self, replica: FailingReplica) -> None:
        message = f"restarting {replica.pod.name} on {replica.pod.node} ({replica.failure.message})"
        self._did(replica, "RestartedInPlace", message)

    def removed(self, replica: FailingReplica) -> None:
        message = f"force-deleted {replica.pod.name} from {replica.pod.node} ({replica.failure.message})"
        self._did(replica, "RemovedFromLostNode", message)

    def _did(self, replica: FailingReplica, reason: str, message: str) -> None:
        log.info("pod=%s node=%s %s: %s", replica.pod.key, replica.pod.node, reason, message)
        self._events.record(_pod_subject(replica.pod), reason, message, warning=True)

    # -- nodes

    def suspects(self, found: Mapping[str, Iterable[str]]) -> None:
        """Report each suspect node once, when it becomes suspect."""
        for node in sorted(found.keys() - self._suspects):
            workloads = sorted(found[node])
            named = ", ".join(workloads[:_MAX_WORKLOADS_NAMED]) + (
                ", …" if len(workloads) > _MAX_WORKLOADS_NAMED else ""
            )
            message = f"{len(workloads)} workloads fail on this node ({named}): check the node"
            log.warning("node=%s is suspect: %s", node, message)
            self._events.record(InvolvedObject.of_node(node), "SuspectNode", message, warning=True, once=True)
        self._suspects = frozenset(found)


def _workload_subject(kind: str, key: str, uid: str) -> InvolvedObject:
    namespace, name = split_key(key)
    return InvolvedObject(WORKLOAD_KINDS.get(kind, "v1"), kind, namespace, name, uid)


def _pod_subject(pod: PodRecord) -> InvolvedObject:
    return InvolvedObject("v1", "Pod", pod.namespace, pod.name, pod.uid)
