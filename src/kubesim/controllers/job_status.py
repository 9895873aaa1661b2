"""The status of a Job: its end, completion indexes (`0-2,4,5`) and pod counts. Pure.

A finished pod keeps a finalizer until it is listed in `uncountedTerminatedPods`, and is counted only after
the finalizer is removed, so that every pod is counted once.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from kubesim.apiserver.api_messages import Object
from kubesim.common_fields import condition, format_timestamp, seconds_since
from kubesim.controllers.pod_index import IndexedPod

__all__ = [
    "INDEX",
    "TRACKING",
    "JobCounts",
    "count_pods",
    "index_of",
    "is_finished",
    "job_conclusion",
    "parse_indexes",
    "put_condition",
    "seconds_to_deadline",
    "show_indexes",
]


def parse_indexes(text: str) -> set[int]:
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def show_indexes(indexes: Iterable[int]) -> str:
    parts: list[tuple[int, int]] = []
    for index in sorted(indexes):
        if parts and parts[-1][1] == index - 1:
            parts[-1] = (parts[-1][0], index)
        else:
            parts.append((index, index))
    return ",".join(_show(first, last) for first, last in parts)


def _show(first: int, last: int) -> str:
    """Return the range as text; two indexes are not shown as a range."""
    if last - first < 2:
        return str(first) if first == last else f"{first},{last}"
    return f"{first}-{last}"


TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True)
class JobCounts:
    succeeded: int
    failed: int
    """The counts without the uncounted pods."""
    noted_succeeded: tuple[str, ...]
    noted_failed: tuple[str, ...]
    completed: frozenset[int]
    """The completed indexes."""
    active: tuple[IndexedPod, ...]
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
        """Return the counts in the form of a status."""
        ready = sum(1 for pod in self.active if pod.ready)
        counts = {"active": len(self.active), "succeeded": self.succeeded, "failed": self.failed}
        status: Object = {name: count for name, count in counts.items() if count}
        status |= {"ready": ready, "terminating": self.terminating}
        notes = {"succeeded": list(self.noted_succeeded), "failed": list(self.noted_failed)}
        status["uncountedTerminatedPods"] = {name: uids for name, uids in notes.items() if uids}
        if job["spec"].get("completionMode") == "Indexed" and self.completed:
            status["completedIndexes"] = show_indexes(self.completed)
        return status


def index_of(pod: IndexedPod) -> int:
    """Return the completion index of a pod, or -1."""
    text = pod.annotations.get(INDEX, "")
    return int(text) if text.isdigit() else -1


def _has_failed(pod: IndexedPod) -> bool:
    """Return whether the pod failed; one that is deleted before it succeeded has failed."""
    return pod.phase == "Failed" or (pod.deleting and pod.phase != "Succeeded")


def count_pods(job: Object, pods: Iterable[IndexedPod]) -> JobCounts:
    status = job.get("status", {})
    notes = status.get("uncountedTerminatedPods") or {}
    tracked = {pod.uid: pod for pod in pods if TRACKING in (pod.metadata.finalizers or ())}
    counts, noted = {}, {}
    for outcome in ("succeeded", "failed"):
        noted_before: list[str] = notes.get(outcome) or []
        noted[outcome] = [uid for uid in noted_before if uid in tracked]
        counts[outcome] = status.get(outcome, 0) + len(noted_before) - len(noted[outcome])
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
    return JobCounts(
        succeeded=counts["succeeded"],
        failed=counts["failed"],
        noted_succeeded=tuple(noted["succeeded"]),
        noted_failed=tuple(noted["failed"]),
        completed=frozenset(completed - {-1}),
        active=tuple(pod for pod in pods if pod.active),
        terminating=sum(1 for pod in pods if pod.terminating),
    )


def is_finished(job: Object) -> bool:
    return any(
        (found := condition(job.get("status", {}), type_)) is not None and found["status"] == "True"
        for type_ in ("Complete", "Failed")
    )


def job_conclusion(job: Object, tally: JobCounts, now: datetime) -> tuple[str, str, str] | None:
    """Return the final condition (`Complete` or `Failed`), its reason and message, or None while it runs."""
    spec = job["spec"]
    for target, result in (("FailureTarget", "Failed"), ("SuccessCriteriaMet", "Complete")):
        existing = condition(job.get("status", {}), target)
        if existing is not None and existing["status"] == "True":
            return result, existing["reason"], existing["message"]
    if tally.all_failed > spec.get("backoffLimit", 6) or _restarted_too_often(job, tally):
        return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    if (left_s := seconds_to_deadline(job, now)) is not None and left_s <= 0:
        return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
    if _is_enough(spec, tally):
        return ("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
    return None


def _is_enough(spec: Object, tally: JobCounts) -> bool:
    wanted = spec.get("completions")
    if wanted is None:  # a queue of work: when one is done and the others have ended, all is done
        return tally.all_succeeded > 0 and not tally.active
    indexed = spec.get("completionMode") == "Indexed"
    return bool((len(tally.completed) if indexed else tally.all_succeeded) >= wanted)


def _restarted_too_often(job: Object, tally: JobCounts) -> bool:
    spec = job["spec"]
    if spec["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        status.restart_count for pod in tally.active for status in pod.status.container_statuses or ()
    )
    limit = spec.get("backoffLimit", 6)
    return bool(restarts > 0 if limit == 0 else restarts >= limit)


def seconds_to_deadline(job: Object, now: datetime) -> float | None:
    deadline_s, since = job["spec"].get("activeDeadlineSeconds"), job.get("status", {}).get("startTime")
    return None if deadline_s is None or not since else deadline_s - seconds_since(since, now)


def put_condition(status: Object, type_: str, value: str, reason: str, message: str, now: datetime) -> None:
    """Write a condition into `status` unless it already has this value."""
    existing = condition(status, type_)
    if existing is not None and existing["status"] == value:
        return
    new = {
        "type": type_,
        "status": value,
        "lastProbeTime": format_timestamp(now),
        "lastTransitionTime": format_timestamp(now),
        "reason": reason,
        "message": message,
    }
    others = [item for item in status.get("conditions") or () if item["type"] != type_]
    status["conditions"] = [*others, new]
