"""Print objects of one kind as a `meta.k8s.io/v1` Table."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache

from kubesim.apiserver.api_messages import Object, decode, encode
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.printers.cluster_columns import (
    EVENT,
    HORIZONTAL_POD_AUTOSCALER,
    NODE,
    POD_DISRUPTION_BUDGET,
    PRIORITY_CLASS,
    RESOURCE_QUOTA,
)
from kubesim.printers.config_columns import (
    CONFIG_MAP,
    ENDPOINT_SLICE,
    LEASE,
    NAMESPACE,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    WEBHOOK_CONFIGURATION,
)
from kubesim.printers.custom_columns import DEFINITION, PLAIN, custom_layout
from kubesim.printers.pod_columns import POD, pod_conditions
from kubesim.printers.storage_columns import (
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
)
from kubesim.printers.table_columns import Cell, TableLayout
from kubesim.printers.workload_columns import (
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    REPLICA_SET,
    STATEFUL_SET,
)

__all__ = ["table"]

_LAYOUTS = {
    ("", "Namespace"): NAMESPACE,
    ("", "Node"): NODE,
    ("", "Pod"): POD,
    ("", "Service"): SERVICE,
    ("", "ConfigMap"): CONFIG_MAP,
    ("", "Secret"): SECRET,
    ("", "Event"): EVENT,
    ("", "ServiceAccount"): SERVICE_ACCOUNT,
    ("", "PersistentVolume"): PERSISTENT_VOLUME,
    ("", "PersistentVolumeClaim"): PERSISTENT_VOLUME_CLAIM,
    ("", "ResourceQuota"): RESOURCE_QUOTA,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): WEBHOOK_CONFIGURATION,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): WEBHOOK_CONFIGURATION,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): DEFINITION,
    ("apps", "DaemonSet"): DAEMON_SET,
    ("apps", "Deployment"): DEPLOYMENT,
    ("apps", "ReplicaSet"): REPLICA_SET,
    ("apps", "StatefulSet"): STATEFUL_SET,
    ("autoscaling", "HorizontalPodAutoscaler"): HORIZONTAL_POD_AUTOSCALER,
    ("batch", "CronJob"): CRON_JOB,
    ("batch", "Job"): JOB,
    ("coordination.k8s.io", "Lease"): LEASE,
    ("discovery.k8s.io", "EndpointSlice"): ENDPOINT_SLICE,
    ("events.k8s.io", "Event"): EVENT,
    ("policy", "PodDisruptionBudget"): POD_DISRUPTION_BUDGET,
    ("scheduling.k8s.io", "PriorityClass"): PRIORITY_CLASS,
    ("storage.k8s.io", "StorageClass"): STORAGE_CLASS,
}


def table(
    kind: ResourceKind,
    objects: Sequence[Object],
    now: datetime,
    columns: Iterable[Object] | None = None,
    *,
    list_metadata: Object | None = None,
    include_object: str = "Metadata",
) -> Object:
    """Return the Table of objects.

    `columns` are a custom resource's `additionalPrinterColumns`. `list_metadata` is the metadata of the
    list; without it, the table has the version of its only object.
    """
    layout = _layout(kind, columns)
    rows = zip(objects, layout.rows(objects, now), strict=True)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_metadata or _version_of(objects),
        "columnDefinitions": [column.definition() for column in layout.columns],
        "rows": [_row(kind, obj, cells, include_object) for obj, cells in rows],
    }


def _version_of(objects: Sequence[Object]) -> Object:
    metadata = objects[0]["metadata"] if len(objects) == 1 else {}
    return {"resourceVersion": metadata["resourceVersion"]} if "resourceVersion" in metadata else {}


def _layout(kind: ResourceKind, columns: Iterable[Object] | None) -> TableLayout:
    if kind.custom:
        return _parsed(encode(list(columns or ())))
    return _LAYOUTS.get((kind.group, kind.name), PLAIN)


@lru_cache(maxsize=64)
def _parsed(printer_columns: bytes) -> TableLayout:
    """Return the layout, cached because a watch needs a table per event."""
    return custom_layout(decode(printer_columns))


def _row(kind: ResourceKind, obj: Object, cells: list[Cell], include_object: str) -> Object:
    row: Object = {"cells": cells}
    if (kind.group, kind.name) == ("", "Pod") and (conditions := pod_conditions(obj)):
        row["conditions"] = conditions
    row["object"] = _included(obj, include_object)
    return row


def _included(obj: Object, include_object: str) -> Object | None:
    """Return the part of the object that a row contains; kubectl asks for all of it to sort by any field."""
    match include_object:
        case "Object":
            return obj
        case "None":
            return None
    metadata = obj["metadata"]
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
