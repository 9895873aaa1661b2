"""Fills in what a request left out, as the real API server does.

`apply` is what the server calls, before `validation.check`: it reads the object as one of its kind (see
`decoding`), fills in defaults, and does what the admission plugins do that change objects: priority,
tolerations of a node in trouble, the taint of a new node. It never changes its argument, and applying
it twice changes nothing more. `metadata.uid` must be set before, as jobs select their pods by it.
"""

from collections.abc import Callable
from datetime import datetime

from rescheduler.simulator.admission import decoding
from rescheduler.simulator.admission.defaults import (
    batch,
    cluster,
    network,
    pods,
    storage,
    webhooks,
    workloads,
)
from rescheduler.simulator.admission.defaults.filling import Circumstances, Operation
from rescheduler.simulator.admission.lookup import Lookup
from rescheduler.simulator.custom import definitions
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.kinds import Kind

__all__ = ["Operation", "apply"]

_DEFAULTS: dict[str, Callable[[Object, Circumstances], None]] = {
    "Pod": pods.fill_pod,
    "Deployment.apps": workloads.fill_deployment,
    "ReplicaSet.apps": workloads.fill_replica_set,
    "StatefulSet.apps": workloads.fill_stateful_set,
    "DaemonSet.apps": workloads.fill_daemon_set,
    "ReplicationController": workloads.fill_replication_controller,
    "Job.batch": batch.fill_job,
    "CronJob.batch": batch.fill_cron_job,
    "Service": network.fill_service,
    "EndpointSlice.discovery.k8s.io": network.fill_endpoint_slice,
    "PersistentVolume": storage.fill_volume,
    "PersistentVolumeClaim": storage.fill_volume_claim,
    "StorageClass.storage.k8s.io": storage.fill_storage_class,
    "CSIDriver.storage.k8s.io": storage.fill_csi_driver,
    "Node": cluster.fill_node,
    "Namespace": cluster.fill_namespace,
    "PriorityClass.scheduling.k8s.io": cluster.fill_priority_class,
    "PodDisruptionBudget.policy": cluster.fill_budget,
    "Secret": cluster.fill_secret,
    "Event": cluster.fill_event,
    "LimitRange": cluster.fill_limit_range,
    "ResourceQuota": cluster.fill_quota,
    "RoleBinding.rbac.authorization.k8s.io": cluster.fill_binding,
    "ClusterRoleBinding.rbac.authorization.k8s.io": cluster.fill_binding,
    "HorizontalPodAutoscaler.autoscaling": cluster.fill_autoscaler,
    "CustomResourceDefinition.apiextensions.k8s.io": cluster.fill_definition,
    "MutatingWebhookConfiguration.admissionregistration.k8s.io": webhooks.fill_webhook_configuration,
    "ValidatingWebhookConfiguration.admissionregistration.k8s.io": webhooks.fill_webhook_configuration,
}


def apply(
    kind: Kind, obj: Object, operation: Operation, *, now: datetime, lookup: Lookup, subresource: str = ""
) -> Object:
    """A copy of `obj` with its defaults; who writes to a subresource meets no admission plugins.

    Raises a `Failure` for a value of the wrong type (400) and where an admission plugin refuses (403).
    """
    known = decoding.read(kind, obj)
    if kind.custom:
        schema = definitions.schema_of(kind, lookup)
        return schema.completed(known) if schema else known
    fill = _DEFAULTS.get(f"{kind.name}.{kind.group}" if kind.group else kind.name)
    if fill:
        fill(known, Circumstances(kind, operation, now, lookup, subresource))
    return known
