"""List what rescheduler leaves in a cluster: installed objects, marks on other objects, and history. Pure.

The list of installed objects follows from the manifests. An object is removed only if its kind and name are
on that list and it has the install id. History is finished migrations and the marks of pods that were moved;
it is kept unless its removal is requested.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from rescheduler.api.migration_journal import HISTORY_CONFIG_MAP
from rescheduler.api.podmigration import MigrationPhase
from rescheduler.api.podmigration_crd import POD_MIGRATION_PLURAL
from rescheduler.api.well_known_names import (
    API_VERSION,
    AVOIDED_NODES_ANNOTATION,
    CORDONED_BY_ANNOTATION,
    DRAIN_CONDITIONS,
    DRAIN_REASON,
    DRY_RUN_LEASE_SUFFIX,
    EMPTY_CONDITION,
    FAILED_ATTEMPTS_ANNOTATION,
    FINALIZER,
    GROUP,
    INSTALL_ID,
    MAINTENANCE_LABEL,
    POD_MIGRATION_KIND,
    REQUESTED_BY_ANNOTATION,
    STEERED_BY_ANNOTATION,
    VERSION,
    install_id,
)
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.node_record import cordoned_by_others, labelled_by
from rescheduler.install.install_options import (
    DAEMON,
    Options,
    PrometheusRule,
    ServiceMonitor,
    WebValues,
    metadata,
    with_install_id,
)
from rescheduler.install.manifests import install_manifests
from rescheduler.kube import api_resources
from rescheduler.kube.api_resources import (
    CLUSTER_ROLE_BINDINGS,
    DEPLOYMENTS,
    ApiResource,
    Object,
    Patch,
    identity_of_object,
    key_of,
    merge_patch,
    resource_of_object,
    strategic_patch,
)
from rescheduler.kube.client import FIELD_MANAGER
from rescheduler.migrations.labels_and_names import (
    ANNOTATIONS,
    BUDGET_SUFFIX,
    LABELS,
    MIGRATION_ID_LABEL,
    STATUS_LABEL,
    MigrationLabelStatus,
)

__all__ = [
    "LEFTOVER_SEARCHES",
    "InstalledObject",
    "Leftover",
    "LeftoverKind",
    "LeftoverSearch",
    "definition_leftovers",
    "has_install_id",
    "installed_leftovers",
    "inventory",
]


class LeftoverKind(Enum):
    RUNNING = auto()
    """A migration that has not finished: it is cancelled or finished, never just removed."""
    MARK = auto()
    INSTALLED = auto()
    WRITTEN = auto()
    """A Lease or ConfigMap of our own, which commands write without an installation, too."""
    HISTORY = auto()


@dataclass(frozen=True, slots=True)
class Leftover:
    kind: LeftoverKind
    resource: ApiResource[Any]
    key: str
    uid: str
    what: str
    """A description for users."""
    patch: Patch | None = None
    """The patch that removes the mark; None if the whole object is removed."""

    @property
    def name(self) -> str:
        return f"{self.resource.kind} {self.key}"


@dataclass(frozen=True, slots=True)
class LeftoverSearch:
    resource: ApiResource[Any]
    find: Callable[[ApiResource[Any], Object], Leftover | None]
    labels: str = ""


def _leftover(
    kind: LeftoverKind,
    resource: ApiResource[Any],
    item: Object,
    what: str,
    changes: Mapping[str, Any] | None = None,
) -> Leftover:
    found = identity_of_object(item)
    patch = None
    if changes is not None:
        about = {**changes.get("metadata", {}), "resourceVersion": found.version}
        patch = merge_patch({**changes, "metadata": about})
    return Leftover(kind, resource, found.key, found.uid, what, patch)


def _present_keys(item: Object, part: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name in (item["metadata"].get(part) or {})]


def _migration(resource: ApiResource[Any], item: Object) -> Leftover:
    phase = (item.get("status") or {}).get("phase", MigrationPhase.PENDING)
    is_held = FINALIZER in (item["metadata"].get("finalizers") or ())
    if not MigrationPhase(phase).is_final or is_held:
        return _leftover(LeftoverKind.RUNNING, resource, item, f"{phase}, will be cancelled or finished")
    return _leftover(LeftoverKind.HISTORY, resource, item, phase)


def _pod(resource: ApiResource[Any], item: Object) -> Leftover | None:
    labels, annotations = (
        _present_keys(item, "labels", LABELS),
        _present_keys(item, "annotations", (*ANNOTATIONS, AVOIDED_NODES_ANNOTATION, STEERED_BY_ANNOTATION)),
    )
    if not labels and not annotations:
        return None
    status = (item["metadata"].get("labels") or {}).get(STATUS_LABEL, MigrationLabelStatus.COMPLETED)
    kind = LeftoverKind.HISTORY if status == MigrationLabelStatus.COMPLETED else LeftoverKind.MARK
    changes = {"metadata": {"labels": dict.fromkeys(labels), "annotations": dict.fromkeys(annotations)}}
    return _leftover(kind, resource, item, _description(labels, annotations), changes)


def _node(resource: ApiResource[Any], item: Object) -> Leftover | None:
    """Return the marks on a node. Uncordon it only if we cordoned it, and remove only a label that `drain`
    set, because other clients may have done either since."""
    annotations = _present_keys(item, "annotations", (CORDONED_BY_ANNOTATION, REQUESTED_BY_ANNOTATION))
    labels = _present_keys(item, "labels", (MAINTENANCE_LABEL,))
    if not labelled_by(item, FIELD_MANAGER, MAINTENANCE_LABEL):
        labels = []
    if not annotations and not labels:
        return None
    changes: Object = {
        "metadata": {"annotations": dict.fromkeys(annotations), "labels": dict.fromkeys(labels)}
    }
    is_cordoned = bool((item.get("spec") or {}).get("unschedulable"))
    has_mark = CORDONED_BY_ANNOTATION in annotations
    is_ours = has_mark and is_cordoned and not cordoned_by_others(item, FIELD_MANAGER)
    if is_ours:
        changes["spec"] = {"unschedulable": None}
    return _leftover(
        LeftoverKind.MARK,
        resource,
        item,
        _description(labels, annotations, "cordoned by rescheduler" if is_ours else ""),
        changes,
    )


def _is_our_condition(condition: Object) -> bool:
    is_drain = condition["type"] in DRAIN_CONDITIONS and condition.get("reason") == DRAIN_REASON
    return condition["type"] == EMPTY_CONDITION or is_drain


def _condition(resource: ApiResource[Any], item: Object) -> Leftover | None:
    conditions = (item.get("status") or {}).get("conditions") or ()
    ours = [each["type"] for each in conditions if _is_our_condition(each)]
    if not ours:
        return None
    found = identity_of_object(item)
    gone = [{"$patch": "delete", "type": each} for each in ours]
    patch = strategic_patch({"status": {"conditions": gone}})
    return Leftover(
        LeftoverKind.MARK, resource.status, found.key, found.uid, f"condition {', '.join(ours)}", patch
    )


def _workload(resource: ApiResource[Any], item: Object) -> Leftover | None:
    annotations = _present_keys(item, "annotations", (FAILED_ATTEMPTS_ANNOTATION,))
    if not annotations:
        return None
    changes = {"metadata": {"annotations": dict.fromkeys(annotations)}}
    return _leftover(LeftoverKind.MARK, resource, item, _description([], annotations), changes)


def _budget(resource: ApiResource[Any], item: Object) -> Leftover | None:
    """Return the budget only if a PodMigration owns it: the label alone proves nothing."""
    owners = item["metadata"].get("ownerReferences") or ()
    is_owned = any(
        each["kind"] == POD_MIGRATION_KIND and each["apiVersion"] == API_VERSION for each in owners
    )
    if not is_owned or not item["metadata"]["name"].endswith(BUDGET_SUFFIX):
        return None
    return _leftover(LeftoverKind.MARK, resource, item, "temporary budget of a migration")


def installed_leftovers(
    resource: ApiResource[Any], item: Object, kind: LeftoverKind = LeftoverKind.INSTALLED
) -> list[Leftover]:
    """Return our own object, unless it is being deleted."""
    is_going = "deletionTimestamp" in item["metadata"]
    return [] if is_going else [_leftover(kind, resource, item, kind.name.lower())]


def definition_leftovers(resource: ApiResource[Any], item: Object) -> list[Leftover]:
    if "deletionTimestamp" in item["metadata"]:
        return []
    return [_leftover(LeftoverKind.HISTORY, resource, item, "CRD of the history")]


def _description(labels: list[str], annotations: list[str], also: str = "") -> str:
    def parts() -> Iterator[str]:
        if also:
            yield also
        if labels:
            yield f"labels {', '.join(labels)}"
        if annotations:
            yield f"annotations {', '.join(annotations)}"

    return "; ".join(parts())


_WORKLOADS: Final = (
    api_resources.DEPLOYMENTS,
    api_resources.REPLICA_SETS,
    api_resources.STATEFUL_SETS,
    api_resources.DAEMON_SETS,
    api_resources.JOBS,
    api_resources.CRON_JOBS,
)


LEFTOVER_SEARCHES: Final = (
    LeftoverSearch(
        api_resources.api_resource(GROUP, VERSION, POD_MIGRATION_PLURAL, POD_MIGRATION_KIND), _migration
    ),
    LeftoverSearch(PODS.as_json, _pod),
    LeftoverSearch(api_resources.POD_DISRUPTION_BUDGETS, _budget, labels=MIGRATION_ID_LABEL),
    LeftoverSearch(NODES.as_json, _node),
    LeftoverSearch(NODES.as_json, _condition),
    *(LeftoverSearch(each, _workload) for each in _WORKLOADS),
)
"""Migrations, which come first, and marks on other objects."""

_ALL_OBJECTS: Final = Options(
    service_monitor=ServiceMonitor(enabled=True),
    prometheus_rule=PrometheusRule(enabled=True),
    web=WebValues(tls_secret="any"),  # noqa: S106 - a name
)
"""The options that install every optional object."""
_STATE_CONFIG_MAP: Final = "rescheduler-state"


@dataclass(frozen=True, slots=True)
class InstalledObject:
    """One object of an installation, which may or may not exist."""

    resource: ApiResource[Any]
    key: str
    kind: LeftoverKind = LeftoverKind.INSTALLED

    @property
    def name(self) -> str:
        return f"{self.resource.kind} {self.key}"


def inventory(namespace: str, lease_name: str = DAEMON) -> list[InstalledObject]:
    """Return all objects that the installation in this namespace can have, with any options.

    The namespace and the PodMigration CRD are not included: they have their own conditions. The Deployments
    come first, because they need the rest while they run, then the webhook configurations, because API
    servers call them. The ClusterRoleBinding that identifies the installation is last, so that `uninstall`
    can be repeated.
    """
    items = [
        item
        for item in install_manifests(_ALL_OBJECTS, namespace=namespace)
        if item["kind"] != "CustomResourceDefinition"
    ]
    written = [with_install_id(item, namespace) for item in _runtime_objects(namespace, lease_name)]
    kinds = {_name(item): LeftoverKind.WRITTEN for item in written}
    return [
        InstalledObject(resource_of_object(item), _key(item), kinds.get(_name(item), LeftoverKind.INSTALLED))
        for item in sorted([*items, *written], key=_removal_rank)
    ]


def has_install_id(item: Mapping[str, Any], namespace: str) -> bool:
    return (item["metadata"].get("labels") or {}).get(INSTALL_ID) == install_id(namespace)


def _runtime_objects(namespace: str, lease_name: str) -> list[Object]:
    return [
        *(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(each, namespace)}
            for each in (_STATE_CONFIG_MAP, HISTORY_CONFIG_MAP)
        ),
        *(
            {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata(each, namespace)}
            for each in (lease_name, f"{lease_name}{DRY_RUN_LEASE_SUFFIX}")
        ),
    ]


def _name(item: Object) -> tuple[str, str]:
    return item["kind"], _key(item)


def _key(item: Object) -> str:
    return key_of(item["metadata"].get("namespace", ""), item["metadata"]["name"])


def _removal_rank(item: Object) -> int:
    if item["kind"] == DEPLOYMENTS.kind:
        return 0
    if item["kind"].endswith("WebhookConfiguration"):
        return 1
    is_daemons = item["metadata"]["labels"].get("app.kubernetes.io/component") == "daemon"
    return 3 if item["kind"] == CLUSTER_ROLE_BINDINGS.kind and is_daemons else 2
