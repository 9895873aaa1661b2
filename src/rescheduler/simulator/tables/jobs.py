"""Work that ends: Jobs and what starts them."""

from datetime import datetime

from rescheduler.simulator.exchange import Object
from rescheduler.simulator.tables.ages import age, human_duration, moment, since
from rescheduler.simulator.tables.layout import AGE, NAME, Cell, Column, Layout, each
from rescheduler.simulator.tables.phrases import NONE, UNSET, condition_status, name, spec, status
from rescheduler.simulator.tables.workloads import TEMPLATE_COLUMNS, template_cells

__all__ = ["CRON_JOB", "JOB"]


def _job_cells(job: Object, now: datetime) -> list[Cell]:
    return [
        name(job),
        _job_status(job),
        _completions(job),
        _duration(status(job), now),
        age(job, now),
        *template_cells(spec(job)),
    ]


def _job_status(job: Object) -> str:
    def is_true(condition_type: str) -> bool:
        return condition_status(status(job).get("conditions"), condition_type) == "True"

    ended = [word for word in ("Complete", "Failed") if is_true(word)]
    if not ended and "deletionTimestamp" in job["metadata"]:
        return "Terminating"
    under_way = (word for word in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if is_true(word))
    return ended[0] if ended else next(under_way, "Running")


def _completions(job: Object) -> str:
    succeeded = status(job).get("succeeded") or 0
    wanted = spec(job).get("completions")
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    parallelism = spec(job).get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(told: Object, now: datetime) -> str:
    if not told.get("startTime"):
        return ""
    ended = moment(told["completionTime"]) if told.get("completionTime") else now
    return human_duration(ended - moment(told["startTime"]))


JOB = Layout(
    (
        NAME,
        Column("Status", description="Whether it runs, and how it ended."),
        Column("Completions", description="Pods that succeeded of those needed."),
        Column("Duration", description="From its start to its end, or until now."),
        AGE,
        *TEMPLATE_COLUMNS,
    ),
    each(_job_cells),
)

_SUSPENDED = {True: "True", False: "False", None: UNSET}


def _cron_job_cells(cron_job: Object, now: datetime) -> list[Cell]:
    wanted, told = spec(cron_job), status(cron_job)
    last = told.get("lastScheduleTime")
    return [
        name(cron_job),
        wanted.get("schedule", ""),
        wanted.get("timeZone") or NONE,
        _SUSPENDED[wanted.get("suspend")],
        len(told.get("active") or ()),
        since(last, now) if last else NONE,
        age(cron_job, now),
        *template_cells(spec(wanted.get("jobTemplate") or {})),
    ]


CRON_JOB = Layout(
    (
        NAME,
        Column("Schedule", description="When it starts Jobs."),
        Column("Timezone", description="Zone of the schedule."),
        Column("Suspend", "boolean", "Whether it starts none for now."),
        Column("Active", "integer", "Jobs that run."),
        Column("Last Schedule", description="How long ago it last started one."),
        AGE,
        *TEMPLATE_COLUMNS,
    ),
    each(_cron_job_cells),
)
