"""CronJobs: create Jobs on a schedule. Schedules are validated at admission."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.object_store import StoreChange
from kubesim.apiserver.status_errors import StatusError
from kubesim.common_fields import condition, format_timestamp, parse_timestamp
from kubesim.controllers.controller_base import ChangeHandler, ControllerBase, ControllerContext, split_key
from kubesim.controllers.job_status import is_finished
from kubesim.controllers.owned_objects import controller_reference, is_deleting
from kubevalues.duration import parse_duration

__all__ = ["CronJobController", "next_time"]

_EVERY = "@every "
_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_NAMES = {
    3: ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    4: ("sun", "mon", "tue", "wed", "thu", "fri", "sat"),
}
_FARTHEST = timedelta(days=5 * 366)


class _Schedule(NamedTuple):
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool

    def includes_day(self, day: datetime) -> bool:
        if day.month not in self.months:
            return False
        by_day, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        # Both given: either will do.
        return by_day and by_weekday if self.any_day or self.any_weekday else by_day or by_weekday


def next_time(schedule: str, after: datetime, zone: str = "UTC") -> datetime | None:
    """Return the first time after `after`, or None if there is none in the next years."""
    if schedule.startswith(_EVERY):
        delay = parse_duration(schedule.removeprefix(_EVERY))
        return after.replace(microsecond=0) + max(delay, timedelta(seconds=1))
    parsed = _parse(_NAMED.get(schedule, schedule))
    moment = after.astimezone(ZoneInfo(zone)).replace(second=0, microsecond=0) + timedelta(minutes=1)
    end = moment + _FARTHEST
    while moment < end:
        if not parsed.includes_day(moment):
            moment = (moment + timedelta(days=1)).replace(hour=0, minute=0)
        elif moment.hour not in parsed.hours:
            moment = (moment + timedelta(hours=1)).replace(minute=0)
        elif moment.minute not in parsed.minutes:
            moment += timedelta(minutes=1)
        else:
            return moment.astimezone(after.tzinfo)
    return None


@lru_cache(maxsize=256)
def _parse(schedule: str) -> _Schedule:
    fields = schedule.split()
    minutes, hours, days, months, weekdays = (_values(field, at) for at, field in enumerate(fields))
    free = [field.startswith(("*", "?")) for field in fields]
    return _Schedule(minutes, hours, days, months, weekdays, any_day=free[2], any_weekday=free[4])


def _values(field: str, at: int) -> frozenset[int]:
    lowest, highest = _BOUNDS[at]
    found: set[int] = set()
    for part in field.split(","):
        bounds, slash, step = part.partition("/")
        if bounds in {"*", "?"}:
            first, last = lowest, highest
        else:
            start, dash, end = bounds.partition("-")
            first = _number(start, at)
            last = _number(end, at) if dash else highest if slash else first
        found.update(range(first, last + 1, int(step) if slash else 1))
    return frozenset(found)


def _number(text: str, at: int) -> int:
    names = _NAMES.get(at, ())
    return names.index(text.lower()) + _BOUNDS[at][0] if text.lower() in names else int(text)


_SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_MOST_MISSED = 100


class CronJobController(ControllerBase):
    name = "cronjob-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._cron_jobs = self.kind("batch/v1", "CronJob")
        self._jobs = self.kind("batch/v1", "Job")

    def watches(self) -> Mapping[ResourceKind, ChangeHandler]:
        return {self._cron_jobs: self.enqueue, self._jobs: self._job_changed}

    def _job_changed(self, change: StoreChange) -> None:
        record = change.after or change.before
        for uid in record.owners if record is not None else ():
            found = self.context.store.by_uid(uid)
            if found is not None and found[0] == self._cron_jobs:
                self.queue.add(found[1].key)

    async def reconcile(self, key: str) -> float | None:
        cron_job = self.context.read(self._cron_jobs, *split_key(key))
        if cron_job is None or is_deleting(cron_job):
            return None
        jobs = self._jobs_of(cron_job)
        await self._clean_up(cron_job, jobs)
        status = _status(cron_job, jobs)
        now = self.context.now()
        wait_s = None
        if not cron_job["spec"].get("suspend"):
            due, coming = _times(cron_job, now)
            if due is not None and not self._is_too_late(cron_job, due, now):
                started = await self._start(cron_job, jobs, due)
                if started is not None:
                    status["lastScheduleTime"] = format_timestamp(due)
                    status["active"] = [*(status.get("active") or ()), started]
            wait_s = (coming - now).total_seconds() if coming is not None else None
        await self.writes.set_status(self._cron_jobs, cron_job, status)
        return wait_s

    def _jobs_of(self, cron_job: Object) -> list[Object]:
        dependents = self.context.store.dependents(cron_job["metadata"]["uid"])
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
                "annotations": {**(described.get("annotations") or {}), _SCHEDULED: format_timestamp(due)},
                "ownerReferences": [controller_reference(self._cron_jobs, cron_job)],
            },
            "spec": dict(template["spec"]),
        }
        try:
            created = await self.writes.create(self._jobs, metadata["namespace"], job)
        except StatusError as failure:
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
    """Return the latest missed time that is due, and the next time."""
    spec, status = cron_job["spec"], cron_job.get("status", {})
    since = parse_timestamp(status.get("lastScheduleTime") or cron_job["metadata"]["creationTimestamp"])
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
    """Return the status: the active Jobs, and when the last one succeeded."""
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
