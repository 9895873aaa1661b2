"""CronJobs: a Job each time that the schedule says so."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from rescheduler.simulator.clock import timestamp
from rescheduler.simulator.conditions import condition
from rescheduler.simulator.controllers.frame import Controller, Noticed, World, split_key
from rescheduler.simulator.controllers.jobs.verdict import is_finished
from rescheduler.simulator.controllers.moments import moment
from rescheduler.simulator.controllers.ownership import controller_reference, is_deleting
from rescheduler.simulator.controllers.schedules import next_time
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Failure
from rescheduler.simulator.kinds import Kind
from rescheduler.simulator.store import Change

__all__ = ["CronJobs"]

_SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_MOST_MISSED = 100


class CronJobs(Controller):
    name = "cronjob-controller"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._cron_jobs = self.kind("batch/v1", "CronJob")
        self._jobs = self.kind("batch/v1", "Job")

    def watches(self) -> Mapping[Kind, Noticed]:
        return {self._cron_jobs: self.enqueue, self._jobs: self._job_changed}

    def _job_changed(self, change: Change) -> None:
        record = change.after or change.before
        for uid in record.owners if record is not None else ():
            found = self.world.store.by_uid(uid)
            if found is not None and found[0] == self._cron_jobs:
                self.queue.add(found[1].key)

    async def reconcile(self, key: str) -> float | None:
        cron_job = self.world.read(self._cron_jobs, *split_key(key))
        if cron_job is None or is_deleting(cron_job):
            return None
        jobs = self._jobs_of(cron_job)
        await self._clean_up(cron_job, jobs)
        status = _status(cron_job, jobs)
        now = self.world.now()
        wait_s = None
        if not cron_job["spec"].get("suspend"):
            due, coming = _times(cron_job, now)
            if due is not None and not self._is_too_late(cron_job, due, now):
                started = await self._start(cron_job, jobs, due)
                if started is not None:
                    status["lastScheduleTime"] = timestamp(due)
                    status["active"] = [*(status.get("active") or ()), started]
            wait_s = (coming - now).total_seconds() if coming is not None else None
        await self.writes.set_status(self._cron_jobs, cron_job, status)
        return wait_s

    def _jobs_of(self, cron_job: Object) -> list[Object]:
        dependents = self.world.store.dependents(cron_job["metadata"]["uid"])
        found = [record.object for kind, record in dependents if kind == self._jobs]
        return sorted(found, key=lambda job: (job["metadata"]["creationTimestamp"], job["metadata"]["name"]))

    @staticmethod
    def _is_too_late(cron_job: Object, due: datetime, now: datetime) -> bool:
        deadline_s = cron_job["spec"].get("startingDeadlineSeconds")
        return deadline_s is not None and (now - due).total_seconds() > deadline_s

    async def _start(self, cron_job: Object, jobs: list[Object], due: datetime) -> Object | None:
        running = [job for job in jobs if not is_finished(job)]
        policy = cron_job["spec"].get("concurrencyPolicy", "Allow")
        if policy == "Forbid" and running:
            return None
        if policy == "Replace":
            for older in running:
                await self._delete(older)
        metadata, template = cron_job["metadata"], cron_job["spec"]["jobTemplate"]
        described = template.get("metadata") or {}
        job: Object = {
            "metadata": {
                "name": f"{metadata['name']}-{int(due.timestamp()) // 60}",
                "labels": dict(described.get("labels") or {}),
                "annotations": {**(described.get("annotations") or {}), _SCHEDULED: timestamp(due)},
                "ownerReferences": [controller_reference(self._cron_jobs, cron_job)],
            },
            "spec": dict(template["spec"]),
        }
        try:
            created = await self.writes.create(self._jobs, metadata["namespace"], job)
        except Failure as failure:
            if failure.reason != "AlreadyExists":
                raise
            return None
        return _reference(created)

    async def _delete(self, job: Object) -> None:
        metadata = job["metadata"]
        await self.writes.delete(
            self._jobs, metadata["namespace"], metadata["name"], metadata["uid"], policy="Background"
        )

    async def _clean_up(self, cron_job: Object, jobs: list[Object]) -> None:
        spec = cron_job["spec"]
        for result, limit in (
            ("Complete", spec.get("successfulJobsHistoryLimit", 3)),
            ("Failed", spec.get("failedJobsHistoryLimit", 1)),
        ):
            ended = [job for job in jobs if is_finished(job) and condition(job["status"], result)]
            for job in ended[: max(0, len(ended) - limit)]:
                await self._delete(job)


def _times(cron_job: Object, now: datetime) -> tuple[datetime | None, datetime | None]:
    """The latest time that is due and was not taken, and the next one to come."""
    spec, status = cron_job["spec"], cron_job.get("status", {})
    since = moment(status.get("lastScheduleTime") or cron_job["metadata"]["creationTimestamp"])
    if (deadline_s := spec.get("startingDeadlineSeconds")) is not None:
        since = max(since, now - timedelta(seconds=deadline_s))
    zone, due = spec.get("timeZone") or "UTC", None
    coming = next_time(spec["schedule"], since.astimezone(UTC), zone)
    for _ in range(_MOST_MISSED):
        if coming is None or coming > now:
            break
        due, coming = coming, next_time(spec["schedule"], coming, zone)
    else:
        coming = next_time(spec["schedule"], now, zone)
    return due, coming


def _status(cron_job: Object, jobs: list[Object]) -> Object:
    """Which Jobs run, and when the last one ended well."""
    status = {
        field: value
        for field, value in cron_job.get("status", {}).items()
        if field in {"lastScheduleTime", "lastSuccessfulTime"}
    }
    active = [_reference(job) for job in jobs if not is_finished(job)]
    if active:
        status["active"] = active
    ended = [job["status"]["completionTime"] for job in jobs if "completionTime" in job.get("status", {})]
    if ended:
        status["lastSuccessfulTime"] = max([*ended, status.get("lastSuccessfulTime", "")])
    return status


def _reference(job: Object) -> Object:
    metadata = job["metadata"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "uid": metadata["uid"],
    }
