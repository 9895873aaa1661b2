"""Reports on failing pods: Events on workloads, pods and nodes, and log lines."""

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from rescheduler.api.well_known_names import FAILED_ATTEMPTS_ANNOTATION
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.workload_record import WORKLOAD_KINDS
from rescheduler.kube.api_resources import split_key
from rescheduler.kube.event_recorder import EventRecorder, InvolvedObject
from rescheduler.recovery.controller.owner_trees import OwnerTrees
from rescheduler.recovery.recovery_decision import RETRIES_ANNOTATION, RetriesExhausted
from rescheduler.recovery.workload_examination import FailingReplica, WorkloadExamination

__all__ = ["RecoveryEvents"]

log = logging.getLogger("rescheduler.recovery")

_MAX_WORKLOADS_NAMED: Final = 5


class RecoveryEvents:
    def __init__(self, events: EventRecorder, trees: OwnerTrees) -> None:
        self._events = events
        self._trees = trees
        self._suspects: frozenset[str] = frozenset()

    def tell(self, seen: WorkloadExamination) -> None:
        """Report what an examination shows. Calls may be repeated."""
        holder = _workload_subject(seen.holder.kind, seen.holder.key, seen.holder.uid)
        for each in seen.malformed:
            record = self._trees.record(each.kind, each.key)
            subject = holder if record is None else _workload_subject(each.kind, each.key, record.uid)
            self._events.tell(
                subject, "SchedulingRetriesIgnored", f"Ignored: {each.why}", warning=True, once=True
            )
        for allowance in seen.capped:
            self._events.tell(holder, "SchedulingRetriesCapped", allowance.cap, warning=True, once=True)
        if seen.ledger.is_damaged:
            message = (
                f"{FAILED_ATTEMPTS_ANNOTATION} was invalid and has been removed: "
                "attempts are counted from zero again"
            )
            self._events.tell(holder, "FailedAttemptsUnreadable", message, warning=True)
        if seen.is_carried_over:
            message = "converted the record of kse-rescheduler, and removed its annotation"
            self._events.tell(holder, "FailedAttemptsCarriedOver", message)
        for name in seen.recovered:
            if seen.ledger.lineage(name).count:
                log.info("%s/%s replica=%s has recovered", seen.holder.kind, seen.holder.key, name)
                self._events.tell(
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
            self._events.tell(subject, "ReschedulingExhausted", message, warning=True, once=True)

    # -- what was done

    def restarted(self, replica: FailingReplica) -> None:
        message = f"restarting {replica.pod.name} on {replica.pod.node}: {replica.failure.message}"
        self._did(replica, "RestartedInPlace", message)

    def removed(self, replica: FailingReplica) -> None:
        message = f"force-deleted {replica.pod.name} from {replica.pod.node}: {replica.failure.message}"
        self._did(replica, "RemovedFromLostNode", message)

    def _did(self, replica: FailingReplica, reason: str, message: str) -> None:
        log.info("pod=%s node=%s %s: %s", replica.pod.key, replica.pod.node, reason, message)
        self._events.tell(_pod_subject(replica.pod), reason, message, warning=True)

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
            self._events.tell(InvolvedObject.of_node(node), "SuspectNode", message, warning=True, once=True)
        self._suspects = frozenset(found)


def _workload_subject(kind: str, key: str, uid: str) -> InvolvedObject:
    namespace, name = split_key(key)
    return InvolvedObject(WORKLOAD_KINDS.get(kind, "v1"), kind, namespace, name, uid)


def _pod_subject(pod: PodRecord) -> InvolvedObject:
    return InvolvedObject("v1", "Pod", pod.namespace, pod.name, pod.uid)
