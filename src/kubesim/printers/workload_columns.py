"""Table columns of Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and CronJobs."""

from datetime import datetime

from kubesim.apiserver.api_messages import Object
from kubesim.common_fields import parse_timestamp
from kubesim.printers.table_columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Cell,
    TableColumn,
    TableLayout,
    age,
    condition_status,
    container_images,
    container_names,
    each,
    human_duration,
    labels,
    name,
    selector,
    since,
    spec,
    status,
    wide,
)

__all__ = [
    "CRON_JOB",
    "DAEMON_SET",
    "DEPLOYMENT",
    "JOB",
    "REPLICA_SET",
    "STATEFUL_SET",
    "TEMPLATE_COLUMNS",
    "template_cells",
]

_CONTAINERS = wide("Containers", "Names of the containers in the template.")
_IMAGES = wide("Images", "Images of the containers in the template.")
TEMPLATE_COLUMNS = (_CONTAINERS, _IMAGES, wide("Selector", "Which pods belong to it."))


def _pod_spec(template_holder: Object) -> Object:
    return spec(template_holder.get("template") or {})


def template_cells(template_holder: Object) -> list[Cell]:
    """Return the cells of a spec with `template` and `selector`."""
    pod_spec = _pod_spec(template_holder)
    return [container_names(pod_spec), container_images(pod_spec), selector(template_holder.get("selector"))]


def _count(part: Object, field: str) -> int:
    return int(part.get(field) or 0)


def _deployment_cells(deployment: Object, now: datetime) -> list[Cell]:
    current = status(deployment)
    return [
        name(deployment),
        f"{_count(current, 'readyReplicas')}/{_count(spec(deployment), 'replicas')}",
        _count(current, "updatedReplicas"),
        _count(current, "availableReplicas"),
        age(deployment, now),
        *template_cells(spec(deployment)),
    ]


DEPLOYMENT = TableLayout(
    (
        NAME,
        TableColumn("Ready", description="Ready and desired pods."),
        TableColumn("Up-to-date", description="Pods with the current template."),
        TableColumn("Available", description="Pods ready for at least minReadySeconds."),
        AGE,
        *TEMPLATE_COLUMNS,
    ),
    each(_deployment_cells),
)


def _replica_set_cells(replica_set: Object, now: datetime) -> list[Cell]:
    return [
        name(replica_set),
        _count(spec(replica_set), "replicas"),
        _count(status(replica_set), "replicas"),
        _count(status(replica_set), "readyReplicas"),
        age(replica_set, now),
        *template_cells(spec(replica_set)),
    ]


_REPLICA_COLUMNS = (
    NAME,
    TableColumn("Desired", "integer", "Desired pods."),
    TableColumn("Current", "integer", "Pods that exist."),
    TableColumn("Ready", "integer", "Pods that are ready."),
    AGE,
    *TEMPLATE_COLUMNS,
)
REPLICA_SET = TableLayout(_REPLICA_COLUMNS, each(_replica_set_cells))


def _stateful_set_cells(stateful_set: Object, now: datetime) -> list[Cell]:
    pod_spec = _pod_spec(spec(stateful_set))
    ready = _count(status(stateful_set), "readyReplicas")
    return [
        name(stateful_set),
        f"{ready}/{_count(spec(stateful_set), 'replicas')}",
        age(stateful_set, now),
        container_names(pod_spec),
        container_images(pod_spec),
    ]


STATEFUL_SET = TableLayout(
    (NAME, TableColumn("Ready", description="Ready and desired pods."), AGE, _CONTAINERS, _IMAGES),
    each(_stateful_set_cells),
)


def _daemon_set_cells(daemon_set: Object, now: datetime) -> list[Cell]:
    current = status(daemon_set)
    return [
        name(daemon_set),
        _count(current, "desiredNumberScheduled"),
        _count(current, "currentNumberScheduled"),
        _count(current, "numberReady"),
        _count(current, "updatedNumberScheduled"),
        _count(current, "numberAvailable"),
        labels(_pod_spec(spec(daemon_set)).get("nodeSelector")),
        age(daemon_set, now),
        *template_cells(spec(daemon_set)),
    ]


DAEMON_SET = TableLayout(
    (
        NAME,
        TableColumn("Desired", "integer", "Nodes that should run its pod."),
        TableColumn("Current", "integer", "Nodes that run its pod, of the desired ones."),
        TableColumn("Ready", "integer", "Nodes where its pod is ready."),
        TableColumn("Up-to-date", "integer", "Nodes where its pod has the current template."),
        TableColumn("Available", "integer", "Nodes where its pod has been ready for minReadySeconds."),
        TableColumn("Node Selector", description="Labels of the nodes it runs on."),
        AGE,
        *TEMPLATE_COLUMNS,
    ),
    each(_daemon_set_cells),
)


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


def _duration(current: Object, now: datetime) -> str:
    if not current.get("startTime"):
        return ""
    ended = parse_timestamp(current["completionTime"]) if current.get("completionTime") else now
    return human_duration(ended - parse_timestamp(current["startTime"]))


JOB = TableLayout(
    (
        NAME,
        TableColumn("Status", description="Whether it runs, and how it ended."),
        TableColumn("Completions", description="Succeeded pods and required completions."),
        TableColumn("Duration", description="From its start to its end, or until now."),
        AGE,
        *TEMPLATE_COLUMNS,
    ),
    each(_job_cells),
)

_SUSPENDED = {True: "True", False: "False", None: UNSET}


def _cron_job_cells(cron_job: Object, now: datetime) -> list[Cell]:
    wanted, current = spec(cron_job), status(cron_job)
    last = current.get("lastScheduleTime")
    return [
        name(cron_job),
        wanted.get("schedule", ""),
        wanted.get("timeZone") or NONE,
        _SUSPENDED[wanted.get("suspend")],
        len(current.get("active") or ()),
        since(last, now) if last else NONE,
        age(cron_job, now),
        *template_cells(spec(wanted.get("jobTemplate") or {})),
    ]


CRON_JOB = TableLayout(
    (
        NAME,
        TableColumn("Schedule", description="When it starts Jobs."),
        TableColumn("Timezone", description="Zone of the schedule."),
        TableColumn("Suspend", "boolean", "Whether it is suspended."),
        TableColumn("Active", "integer", "Running Jobs."),
        TableColumn("Last Schedule", description="How long ago it last started one."),
        AGE,
        *TEMPLATE_COLUMNS,
    ),
    each(_cron_job_cells),
)
