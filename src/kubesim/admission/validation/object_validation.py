"""Validate objects of all built-in kinds, with the rules and messages of the real API server.

`validate_object` runs after `apply_defaults`, so every known field has its type. Rules for fields without an
effect in the simulated cluster are left out: it may accept what a real server rejects, but never the reverse.
"""

from collections.abc import Callable, Iterator

from kubesim.admission.admission_lookup import Lookup
from kubesim.admission.validation import (
    cluster_validation,
    job_validation,
    pod_update_validation,
    pod_validation,
    storage_validation,
    webhook_validation,
    workload_validation,
)
from kubesim.admission.validation.metadata_validation import check_metadata
from kubesim.admission.validation.pod_update_validation import check_ephemeral_containers
from kubesim.admission.validation.workload_validation import STATUS_RULES
from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.status_errors import FieldError
from kubesim.custom_resources import definition_validation, served_definitions

__all__ = ["validate_object"]

_RULES: dict[str, Callable[[Object, Object | None], Iterator[FieldError]]] = {
    "Deployment.apps": workload_validation.check_deployment,
    "ReplicaSet.apps": workload_validation.check_replica_set,
    "StatefulSet.apps": workload_validation.check_stateful_set,
    "DaemonSet.apps": workload_validation.check_daemon_set,
    "ReplicationController": workload_validation.check_replication_controller,
    "Job.batch": job_validation.check_job,
    "CronJob.batch": job_validation.check_cron_job,
    "Service": cluster_validation.check_service,
    "EndpointSlice.discovery.k8s.io": cluster_validation.check_endpoint_slice,
    "PersistentVolume": storage_validation.check_volume,
    "PersistentVolumeClaim": storage_validation.check_claim,
    "StorageClass.storage.k8s.io": storage_validation.check_storage_class,
    "CSIStorageCapacity.storage.k8s.io": storage_validation.check_capacity,
    "Node": cluster_validation.check_node,
    "PodDisruptionBudget.policy": cluster_validation.check_budget,
    "PriorityClass.scheduling.k8s.io": cluster_validation.check_priority_class,
    "Lease.coordination.k8s.io": cluster_validation.check_lease,
    "Event": cluster_validation.check_event,
    "ConfigMap": cluster_validation.check_configuration,
    "Secret": cluster_validation.check_configuration,
    "HorizontalPodAutoscaler.autoscaling": cluster_validation.check_autoscaler,
    "RoleBinding.rbac.authorization.k8s.io": cluster_validation.check_role_binding,
    "ClusterRoleBinding.rbac.authorization.k8s.io": cluster_validation.check_role_binding,
    "MutatingWebhookConfiguration.admissionregistration.k8s.io": (
        webhook_validation.check_webhook_configuration
    ),
    "ValidatingWebhookConfiguration.admissionregistration.k8s.io": (
        webhook_validation.check_webhook_configuration
    ),
    "CustomResourceDefinition.apiextensions.k8s.io": definition_validation.check_definition,
}


def validate_object(
    kind: ResourceKind, new: Object, old: Object | None, *, lookup: Lookup, subresource: str = ""
) -> list[FieldError]:
    """Return the faults of `new`; `old` is the object it replaces, or None on creation."""
    found = list(check_metadata(kind, new["metadata"], creating=old is None))
    if kind.custom:
        schema = served_definitions.schema_of(kind, lookup)
        return found + (list(schema.faults(new, old)) if schema else [])
    name = f"{kind.name}.{kind.group}" if kind.group else kind.name
    if name == "Pod":
        return found + list(_pod_faults(new, old, subresource))
    if subresource == "status" and name in STATUS_RULES:
        return found + list(STATUS_RULES[name](new.get("status", {})))
    rules = _RULES.get(name)
    if rules and (subresource != "status" or name == "Node"):
        found += rules(new, old)
    return found


def _pod_faults(new: Object, old: Object | None, subresource: str) -> Iterator[FieldError]:
    if old is None:
        yield from pod_validation.check_new_pod(new)
    elif subresource == "status":
        yield from pod_validation.check_pod_status(new, old)
    elif subresource == "ephemeralcontainers":
        yield from pod_validation.check_pod(new)
        yield from check_ephemeral_containers(new, old)
    else:
        yield from pod_validation.check_pod(new)
        yield from pod_update_validation.check_pod_update(new, old, may_resize=subresource == "resize")
