"""Fill in the fields that a request left out, as the real API server does.

`apply_defaults` runs before `validate_object`. It decodes the object, sets its defaults and does the work of
the mutating admission plugins: priority, default tolerations, the taint of a new node. It never changes its
argument and is idempotent. `metadata.uid` must be set before, because Jobs select their pods by it.
"""

from collections.abc import Callable
from datetime import datetime

from kubesim.admission import cluster_defaults, object_decoding, pod_defaults, workload_defaults
from kubesim.admission.admission_lookup import DefaultingContext, Lookup, Operation
from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.custom_resources import served_definitions

__all__ = ["Operation", "apply_defaults"]

_DEFAULTS: dict[str, Callable[[Object, DefaultingContext], None]] = {
    "Pod": pod_defaults.fill_pod,
    "Deployment.apps": workload_defaults.fill_deployment,
    "ReplicaSet.apps": workload_defaults.fill_replica_set,
    "StatefulSet.apps": workload_defaults.fill_stateful_set,
    "DaemonSet.apps": workload_defaults.fill_daemon_set,
    "ReplicationController": workload_defaults.fill_replication_controller,
    "Job.batch": workload_defaults.fill_job,
    "CronJob.batch": workload_defaults.fill_cron_job,
    "Service": cluster_defaults.fill_service,
    "EndpointSlice.discovery.k8s.io": cluster_defaults.fill_endpoint_slice,
    "PersistentVolume": cluster_defaults.fill_persistent_volume,
    "PersistentVolumeClaim": cluster_defaults.fill_volume_claim,
    "StorageClass.storage.k8s.io": cluster_defaults.fill_storage_class,
    "CSIDriver.storage.k8s.io": cluster_defaults.fill_csi_driver,
    "Node": cluster_defaults.fill_node,
    "Namespace": cluster_defaults.fill_namespace,
    "PriorityClass.scheduling.k8s.io": cluster_defaults.fill_priority_class,
    "PodDisruptionBudget.policy": cluster_defaults.fill_budget,
    "Secret": cluster_defaults.fill_secret,
    "Event": cluster_defaults.fill_event,
    "LimitRange": cluster_defaults.fill_limit_range,
    "ResourceQuota": cluster_defaults.fill_quota,
    "RoleBinding.rbac.authorization.k8s.io": cluster_defaults.fill_binding,
    "ClusterRoleBinding.rbac.authorization.k8s.io": cluster_defaults.fill_binding,
    "HorizontalPodAutoscaler.autoscaling": cluster_defaults.fill_autoscaler,
    "CustomResourceDefinition.apiextensions.k8s.io": cluster_defaults.fill_definition,
    "MutatingWebhookConfiguration.admissionregistration.k8s.io": cluster_defaults.fill_webhook_configuration,
    "ValidatingWebhookConfiguration.admissionregistration.k8s.io": (
        cluster_defaults.fill_webhook_configuration
    ),
}


def apply_defaults(
    kind: ResourceKind,
    obj: Object,
    operation: Operation,
    *,
    now: datetime,
    lookup: Lookup,
    subresource: str = "",
) -> Object:
    """Return a copy of `obj` with its defaults; admission plugins don't run for subresources.

    Raises a `StatusError` for a value of the wrong type (400) and if an admission plugin rejects it (403).
    """
    known = object_decoding.decode_object(kind, obj)
    if kind.custom:
        schema = served_definitions.schema_of(kind, lookup)
        return schema.completed(known) if schema else known
    fill = _DEFAULTS.get(f"{kind.name}.{kind.group}" if kind.group else kind.name)
    if fill:
        fill(known, DefaultingContext(kind, operation, now, lookup, subresource))
    return known
