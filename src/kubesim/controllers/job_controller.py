"""Jobs: run pods until enough of them have succeeded."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime

from kubesim.apiserver.api_messages import Object
from kubesim.common_fields import format_timestamp, seconds_since
from kubesim.controllers.controller_base import ControllerContext, split_key
from kubesim.controllers.job_status import (
    INDEX,
    TRACKING,
    JobCounts,
    count_pods,
    index_of,
    is_finished,
    job_conclusion,
    put_condition,
    seconds_to_deadline,
)
from kubesim.controllers.owned_objects import PodOwnerController, is_deleting, pod_from_template
from kubesim.controllers.pod_index import IndexedPod
from kubesim.controllers.replica_set_controller import slow_start
from kubesim.controllers.selector_index import read_selector
from kubevalues import selector_from_labels

__all__ = ["JobController"]

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 10.0, 600.0
_JOB_NAME = "batch.kubernetes.io/job-name"
_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"


class JobController(PodOwnerController):
    name = "job-controller"
    owner = ("batch/v1", "Job")

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._failures: dict[str, tuple[int, datetime]] = {}
        """The number of failed pods by the uid of their Job, and when the last failure was seen."""

    async def reconcile(self, key: str) -> float | None:
        job = self.context.read(self.owner_kind, *split_key(key))
        if job is None or is_deleting(job):
            await self._stop_tracking(self._pods_named_after(*split_key(key)))
            return None
        now = self.context.now()
        selector = read_selector(job["spec"].get("selector"))
        pods = await self.claim(job, selector, self.candidates(job))
        if is_finished(job):
            await self._stop_tracking([pod for pod in pods if not pod.active])
            return await self._expire(job, now)
        tally = count_pods(job, pods)
        verdict = job_conclusion(job, tally, now)
        wait_s: float | None = None
        if verdict is not None:
            await asyncio.gather(*map(self.delete_pod, tally.active))
        elif job["spec"].get("suspend"):
            await self._delete_uncounted(tally.active)
        else:
            wait_s = await self._manage(job, tally, now)
        await self.writes.set_status(self.owner_kind, job, _status(job, tally, verdict, now))
        noted = {*tally.noted}
        await self._stop_tracking([pod for pod in pods if pod.uid in noted])
        return _soonest(wait_s, seconds_to_deadline(job, now) if verdict is None else None)

    # -- pods

    async def _manage(self, job: Object, tally: JobCounts, now: datetime) -> float | None:
        """Create and delete pods; return the seconds until a waiting failed pod can be replaced, if any."""
        surplus = len(tally.active) - _wanted(job, tally)
        if surplus > 0:
            going = sorted(tally.active, key=lambda pod: (pod.ready, pod.phase == "Running", pod.name))
            await self._delete_uncounted(going[:surplus])
        elif surplus < 0:
            if (pause_s := self._pause(job, tally, now)) > 0:
                return pause_s
            free = iter(_free_indexes(job, tally))
            await slow_start(-surplus, lambda: self._create(job, next(free, -1)))
        return None

    def _pause(self, job: Object, tally: JobCounts, now: datetime) -> float:
        """Return the back-off: 10 s after the first failure, doubled after each further one."""
        uid = job["metadata"]["uid"]
        if tally.all_failed == 0:
            return 0.0
        count, since = self._failures.get(uid, (0, now))
        if count != tally.all_failed:
            since = now
            self._failures[uid] = (tally.all_failed, now)
        pause_s = min(_FIRST_PAUSE_S * 2.0 ** (tally.all_failed - 1), _LONGEST_PAUSE_S)
        return pause_s - (now - since).total_seconds()

    async def _create(self, job: Object, index: int) -> None:
        pod = pod_from_template(job["spec"]["template"], self.owner_kind, job)
        metadata, name = pod["metadata"], job["metadata"]["name"]
        metadata["finalizers"] = [TRACKING]
        if index >= 0:
            metadata["generateName"] = f"{name}-{index}-"
            for field in ("annotations", "labels"):
                metadata[field] = {**metadata.get(field, {}), INDEX: str(index)}
            pod["spec"]["hostname"] = f"{name}-{index}"
            for field in ("containers", "initContainers"):
                if field in pod["spec"]:
                    pod["spec"][field] = [
                        _with_completion_index(container) for container in pod["spec"][field]
                    ]
        await self.writes.create(self.context.pod_kind, job["metadata"]["namespace"], pod)

    async def _delete_uncounted(self, pods: Sequence[IndexedPod]) -> None:
        """Delete pods that are not needed now; they count neither as succeeded nor as failed."""
        await self._stop_tracking(pods)
        await asyncio.gather(*map(self.delete_pod, pods))

    async def _stop_tracking(self, pods: Iterable[IndexedPod]) -> None:
        """Remove the tracking finalizer, so that pods can be deleted without being counted."""

        def edit(live: Object) -> None:
            kept = [name for name in live["metadata"].get("finalizers") or () if name != TRACKING]
            live["metadata"]["finalizers"] = kept

        for pod in pods:
            record = self.context.store.find(self.context.pod_kind, pod.namespace, pod.name)
            if record is not None and TRACKING in (pod.metadata.finalizers or ()):
                await self.writes.patch(self.context.pod_kind, record.object, edit)

    def _pods_named_after(self, namespace: str, job: str) -> list[IndexedPod]:
        """Return the pods of a deleted Job, which are no longer counted."""
        return self.context.pods.selected(namespace, selector_from_labels({_JOB_NAME: job}))

    async def _expire(self, job: Object, now: datetime) -> float | None:
        """Delete finished Jobs when their time to live ends."""
        self._failures.pop(job["metadata"]["uid"], None)
        ttl_s = job["spec"].get("ttlSecondsAfterFinished")
        if ttl_s is None:
            return None
        ended = max(
            item["lastTransitionTime"]
            for item in job["status"]["conditions"]
            if item["type"] in {"Complete", "Failed"}
        )
        left_s = ttl_s - seconds_since(ended, now)
        if left_s > 0:
            return float(left_s)
        metadata = job["metadata"]
        await self.writes.delete(
            self.owner_kind, metadata["namespace"], metadata["name"], metadata["uid"], policy="Background"
        )
        return None


def _with_completion_index(container: Object) -> Object:
    env = list(container.get("env") or ())
    if any(each["name"] == _INDEX_VARIABLE for each in env):
        return container
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    return {**container, "env": [*env, {"name": _INDEX_VARIABLE, "valueFrom": source}]}


def _wanted(job: Object, tally: JobCounts) -> int:
    parallelism, completions = job["spec"].get("parallelism", 1), job["spec"].get("completions")
    if completions is None:
        return len(tally.active) if tally.all_succeeded else parallelism
    done = len(tally.completed) if job["spec"].get("completionMode") == "Indexed" else tally.all_succeeded
    return int(min(parallelism, completions - done))


def _free_indexes(job: Object, tally: JobCounts) -> list[int]:
    if job["spec"].get("completionMode") != "Indexed":
        return []
    taken = tally.completed | {index_of(pod) for pod in tally.active}
    return [index for index in range(job["spec"]["completions"]) if index not in taken]


def _status(job: Object, tally: JobCounts, verdict: tuple[str, str, str] | None, now: datetime) -> Object:
    before = job.get("status", {})
    status = tally.shown(job)
    for field in ("conditions", "startTime"):
        if field in before:
            status[field] = before[field]
    suspended = bool(job["spec"].get("suspend"))
    if suspended:
        status.pop("startTime", None)
        put_condition(status, "Suspended", "True", "JobSuspended", "Job suspended", now)
    else:
        status.setdefault("startTime", format_timestamp(now))
        if any(item["type"] == "Suspended" for item in status.get("conditions") or ()):
            put_condition(status, "Suspended", "False", "JobResumed", "Job resumed", now)
    if verdict is not None:
        result, reason, message = verdict
        target = "SuccessCriteriaMet" if result == "Complete" else "FailureTarget"
        put_condition(status, target, "True", reason, message, now)
        if not (tally.active or tally.terminating or tally.noted):  # it is over when nothing runs any more
            put_condition(status, result, "True", reason, message, now)
            if result == "Complete":
                status["completionTime"] = format_timestamp(now)
    return status


def _soonest(*waits: float | None) -> float | None:
    return min((max(0.0, wait) for wait in waits if wait is not None), default=None)
