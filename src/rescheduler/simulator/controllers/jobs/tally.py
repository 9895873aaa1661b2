"""What has become of a Job's pods: counted once each, also those that are gone by now. Pure.

A pod that ended keeps a finalizer until its end is noted in the status (`uncountedTerminatedPods`). Then the
finalizer goes, and only when it is gone does the pod move from the notes to the count.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from rescheduler.simulator.controllers.jobs.indexes import parse_indexes, show_indexes
from rescheduler.simulator.controllers.pods import Pod
from rescheduler.simulator.exchange import Object

__all__ = ["INDEX", "TRACKING", "Tally", "index_of", "take"]

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True)
class Tally:
    succeeded: int
    failed: int
    """Both without those that are only noted."""
    noted_succeeded: tuple[str, ...]
    noted_failed: tuple[str, ...]
    completed: frozenset[int]
    """Indexes that are done."""
    active: tuple[Pod, ...]
    terminating: int

    @property
    def all_succeeded(self) -> int:
        return self.succeeded + len(self.noted_succeeded)

    @property
    def all_failed(self) -> int:
        return self.failed + len(self.noted_failed)

    @property
    def noted(self) -> tuple[str, ...]:
        return self.noted_succeeded + self.noted_failed

    def shown(self, job: Object) -> Object:
        """As the counts of a status."""
        ready = sum(1 for pod in self.active if pod.ready)
        counts = {"active": len(self.active), "succeeded": self.succeeded, "failed": self.failed}
        status: Object = {name: count for name, count in counts.items() if count}
        status |= {"ready": ready, "terminating": self.terminating}
        notes = {"succeeded": list(self.noted_succeeded), "failed": list(self.noted_failed)}
        status["uncountedTerminatedPods"] = {name: uids for name, uids in notes.items() if uids}
        if job["spec"].get("completionMode") == "Indexed" and self.completed:
            status["completedIndexes"] = show_indexes(self.completed)
        return status


def index_of(pod: Pod) -> int:
    """-1 for a pod without one."""
    text = pod.annotations.get(INDEX, "")
    return int(text) if text.isdigit() else -1


def _has_failed(pod: Pod) -> bool:
    """One that is deleted before it is done will never succeed."""
    return pod.phase == "Failed" or (pod.deleting and pod.phase != "Succeeded")


def take(job: Object, pods: Iterable[Pod]) -> Tally:
    status = job.get("status", {})
    notes = status.get("uncountedTerminatedPods") or {}
    tracked = {pod.uid: pod for pod in pods if TRACKING in (pod.metadata.finalizers or ())}
    counts, noted = {}, {}
    for outcome in ("succeeded", "failed"):
        told: list[str] = notes.get(outcome) or []
        noted[outcome] = [uid for uid in told if uid in tracked]
        counts[outcome] = status.get(outcome, 0) + len(told) - len(noted[outcome])
    known = {*noted["succeeded"], *noted["failed"]}
    completed = parse_indexes(status.get("completedIndexes", ""))
    for uid, pod in tracked.items():
        if pod.phase == "Succeeded":
            completed.add(index_of(pod))
        if uid in known:
            continue
        if pod.phase == "Succeeded":
            noted["succeeded"].append(uid)
        elif _has_failed(pod):
            noted["failed"].append(uid)
    return Tally(
        succeeded=counts["succeeded"],
        failed=counts["failed"],
        noted_succeeded=tuple(noted["succeeded"]),
        noted_failed=tuple(noted["failed"]),
        completed=frozenset(completed - {-1}),
        active=tuple(pod for pod in pods if pod.active),
        terminating=sum(1 for pod in pods if pod.terminating),
    )
