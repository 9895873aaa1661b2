"""What people are told about failing pods: Events on the workload or pod that it is about, and on nodes."""

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
    def __init__(self, events: EventRecorder, families: OwnerTrees) -> None:
        self._events = events
        self._trees = families
        self._suspects: frozenset[str] = frozenset()

    def tell(self, seen: WorkloadExamination) -> None:
        """What follows from how things stand. May be called again and again with the same."""
        holder = _workload_subject(seen.holder.kind, seen.holder.key, seen.holder.uid)
        for each in seen.malformed:
            record = self._trees.record(each.kind, each.key)
            subject = holder if record is None else _workload_subject(each.kind, each.key, record.uid)
            self._events.tell(
                subject, "SchedulingRetriesIgnored", f"{each.why}: it is ignored", warning=True, once=True
            )
        for allowance in seen.capped:
            message = f"{allowance.cap}: that many reschedulings of one failing replica are made"
            self._events.tell(holder, "SchedulingRetriesCapped", message, warning=True, once=True)
        if seen.ledger.is_damaged:
            message = (
                f"{FAILED_ATTEMPTS_ANNOTATION} is invalid. "
                "It was removed, and attempts are counted from zero again"
            )
            self._events.tell(holder, "FailedAttemptsUnreadable", message, warning=True)
        if seen.is_carried_over:
            message = "the record of kse-rescheduler was carried over; its annotation is gone"
            self._events.tell(holder, "FailedAttemptsCarriedOver", message)
        for name in seen.recovered:
            if seen.ledger.line(name).count:
                log.info("%s/%s line=%s has recovered", seen.holder.kind, seen.holder.key, name)
                self._events.tell(holder, "Recovered", f"{name} runs well: its failed tries are forgotten")
        for case in seen.cases:
            if isinstance(case.decision, RetriesExhausted):
                self._exhausted(holder, case)

    def _exhausted(self, holder: InvolvedObject, case: FailingReplica) -> None:
        tries = (
            f"{case.retries} of {case.retries} reschedulings" if case.retries != 1 else "its one rescheduling"
        )
        message = (
            f"{case.pod.name} still fails after {tries} ({case.trouble.words}): it is left where it is "
            f"until its template or {RETRIES_ANNOTATION} changes"
        )
        for subject in {holder, _pod_subject(case.pod)}:
            self._events.tell(subject, "ReschedulingExhausted", message, warning=True, once=True)

    # -- what was done

    def restarted(self, case: FailingReplica) -> None:
        message = f"{case.pod.name} is made anew on {case.pod.node}: {case.trouble.words}"
        self._did(case, "RestartedInPlace", message)

    def removed(self, case: FailingReplica) -> None:
        message = f"{case.pod.name} was removed from {case.pod.node} by force: {case.trouble.words}"
        self._did(case, "RemovedFromLostNode", message)

    def _did(self, case: FailingReplica, reason: str, message: str) -> None:
        log.info("pod=%s node=%s %s: %s", case.pod.key, case.pod.node, reason, message)
        self._events.tell(_pod_subject(case.pod), reason, message, warning=True)

    # -- nodes

    def suspects(self, found: Mapping[str, Iterable[str]]) -> None:
        """Of each once, when it becomes suspect."""
        for node in sorted(found.keys() - self._suspects):
            workloads = sorted(found[node])
            named = ", ".join(workloads[:_MAX_WORKLOADS_NAMED]) + (
                ", …" if len(workloads) > _MAX_WORKLOADS_NAMED else ""
            )
            message = f"{len(workloads)} different workloads fail here ({named}): perhaps it is the node"
            log.warning("node=%s is suspect: %s", node, message)
            self._events.tell(InvolvedObject.of_node(node), "SuspectNode", message, warning=True, once=True)
        self._suspects = frozenset(found)


def _workload_subject(kind: str, key: str, uid: str) -> InvolvedObject:
    namespace, name = split_key(key)
    return InvolvedObject(WORKLOAD_KINDS.get(kind, "v1"), kind, namespace, name, uid)


def _pod_subject(pod: PodRecord) -> InvolvedObject:
    return InvolvedObject("v1", "Pod", pod.namespace, pod.name, pod.uid)
