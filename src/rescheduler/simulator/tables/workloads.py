"""What keeps pods running: Deployments, ReplicaSets, StatefulSets, DaemonSets."""

from datetime import datetime

from rescheduler.simulator.exchange import Object
from rescheduler.simulator.tables.ages import age
from rescheduler.simulator.tables.layout import AGE, NAME, Cell, Column, Layout, each, wide
from rescheduler.simulator.tables.phrases import (
    NONE,
    container_images,
    container_names,
    labels,
    name,
    selector,
    spec,
    status,
)

__all__ = [
    "CONTROLLER_REVISION",
    "DAEMON_SET",
    "DEPLOYMENT",
    "REPLICATION_CONTROLLER",
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
    """For anything with `template` and `selector`: a workload's spec, or a Job's."""
    pod_spec = _pod_spec(template_holder)
    return [container_names(pod_spec), container_images(pod_spec), selector(template_holder.get("selector"))]


def _count(part: Object, field: str) -> int:
    return int(part.get(field) or 0)


def _deployment_cells(deployment: Object, now: datetime) -> list[Cell]:
    told = status(deployment)
    return [
        name(deployment),
        f"{_count(told, 'readyReplicas')}/{_count(spec(deployment), 'replicas')}",
        _count(told, "updatedReplicas"),
        _count(told, "availableReplicas"),
        age(deployment, now),
        *template_cells(spec(deployment)),
    ]


DEPLOYMENT = Layout(
    (
        NAME,
        Column("Ready", description="Ready pods of those wanted."),
        Column("Up-to-date", description="Pods made from the present template."),
        Column("Available", description="Pods ready for at least minReadySeconds."),
        AGE,
        *TEMPLATE_COLUMNS,
    ),
    each(_deployment_cells),
)


def _replica_set_cells(replica_set: Object, now: datetime) -> list[Cell]:
    return [*_replica_counts(replica_set, now), *template_cells(spec(replica_set))]


def _replication_controller_cells(controller: Object, now: datetime) -> list[Cell]:
    pod_spec = _pod_spec(spec(controller))
    chosen = labels(spec(controller).get("selector"))
    return [*_replica_counts(controller, now), container_names(pod_spec), container_images(pod_spec), chosen]


def _replica_counts(owner: Object, now: datetime) -> list[Cell]:
    told = status(owner)
    return [
        name(owner),
        _count(spec(owner), "replicas"),
        _count(told, "replicas"),
        _count(told, "readyReplicas"),
        age(owner, now),
    ]


_REPLICA_COLUMNS = (
    NAME,
    Column("Desired", "integer", "Pods wanted."),
    Column("Current", "integer", "Pods that exist."),
    Column("Ready", "integer", "Pods that are ready."),
    AGE,
    *TEMPLATE_COLUMNS,
)
REPLICA_SET = Layout(_REPLICA_COLUMNS, each(_replica_set_cells))
REPLICATION_CONTROLLER = Layout(_REPLICA_COLUMNS, each(_replication_controller_cells))


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


STATEFUL_SET = Layout(
    (NAME, Column("Ready", description="Ready pods of those wanted."), AGE, _CONTAINERS, _IMAGES),
    each(_stateful_set_cells),
)


def _daemon_set_cells(daemon_set: Object, now: datetime) -> list[Cell]:
    told = status(daemon_set)
    return [
        name(daemon_set),
        _count(told, "desiredNumberScheduled"),
        _count(told, "currentNumberScheduled"),
        _count(told, "numberReady"),
        _count(told, "updatedNumberScheduled"),
        _count(told, "numberAvailable"),
        labels(_pod_spec(spec(daemon_set)).get("nodeSelector")),
        age(daemon_set, now),
        *template_cells(spec(daemon_set)),
    ]


DAEMON_SET = Layout(
    (
        NAME,
        Column("Desired", "integer", "Nodes that should run its pod."),
        Column("Current", "integer", "Nodes that run its pod and should."),
        Column("Ready", "integer", "Nodes where its pod is ready."),
        Column("Up-to-date", "integer", "Nodes where its pod is of the present template."),
        Column("Available", "integer", "Nodes where its pod has been ready for minReadySeconds."),
        Column("Node Selector", description="Labels of the nodes it runs on."),
        AGE,
        *TEMPLATE_COLUMNS,
    ),
    each(_daemon_set_cells),
)


def _controller_revision_cells(revision: Object, now: datetime) -> list[Cell]:
    return [name(revision), _controller(revision), revision.get("revision", 0), age(revision, now)]


def _controller(obj: Object) -> str:
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            group = owner["apiVersion"].rpartition("/")[0]
            kind = f"{owner['kind']}.{group}" if group else owner["kind"]
            return f"{kind.lower()}/{owner['name']}"
    return NONE


CONTROLLER_REVISION = Layout(
    (
        NAME,
        Column("Controller", description="Whose template it keeps."),
        Column("Revision", description="Its number in the history."),
        AGE,
    ),
    each(_controller_revision_cells),
)
