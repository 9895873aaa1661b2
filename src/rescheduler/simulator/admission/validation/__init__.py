"""Which objects the API server refuses, and for which faults in which fields.

`check` is what the server calls, after `defaults.apply`: the object it is given has been read as one of
its kind, so every known field has its type. Rules and messages are those of the real server; rules
about fields that matter nowhere here are left out, so what is accepted here may be refused there, but
not the other way round.
"""

from collections.abc import Callable, Iterator

from rescheduler.simulator.admission.lookup import Lookup
from rescheduler.simulator.admission.validation import (
    batch,
    cluster,
    configuration,
    network,
    pod_updates,
    pods,
    storage,
    webhooks,
    workloads,
)
from rescheduler.simulator.admission.validation.ephemeral import check_ephemeral_containers
from rescheduler.simulator.admission.validation.metadata import check_metadata
from rescheduler.simulator.admission.validation.statuses import STATUS_RULES
from rescheduler.simulator.custom import definitions, structural
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Cause
from rescheduler.simulator.kinds import Kind

__all__ = ["check"]

_RULES: dict[str, Callable[[Object, Object | None], Iterator[Cause]]] = {
    "Deployment.apps": workloads.check_deployment,
    "ReplicaSet.apps": workloads.check_replica_set,
    "StatefulSet.apps": workloads.check_stateful_set,
    "DaemonSet.apps": workloads.check_daemon_set,
    "ReplicationController": workloads.check_replication_controller,
    "Job.batch": batch.check_job,
    "CronJob.batch": batch.check_cron_job,
    "Service": network.check_service,
    "EndpointSlice.discovery.k8s.io": network.check_endpoint_slice,
    "PersistentVolume": storage.check_volume,
    "PersistentVolumeClaim": storage.check_claim,
    "StorageClass.storage.k8s.io": storage.check_storage_class,
    "CSIStorageCapacity.storage.k8s.io": storage.check_capacity,
    "Node": cluster.check_node,
    "PodDisruptionBudget.policy": cluster.check_budget,
    "PriorityClass.scheduling.k8s.io": cluster.check_priority_class,
    "Lease.coordination.k8s.io": cluster.check_lease,
    "Event": cluster.check_event,
    "ConfigMap": configuration.check_configuration,
    "Secret": configuration.check_configuration,
    "HorizontalPodAutoscaler.autoscaling": cluster.check_autoscaler,
    "RoleBinding.rbac.authorization.k8s.io": cluster.check_role_binding,
    "ClusterRoleBinding.rbac.authorization.k8s.io": cluster.check_role_binding,
    "MutatingWebhookConfiguration.admissionregistration.k8s.io": webhooks.check_webhook_configuration,
    "ValidatingWebhookConfiguration.admissionregistration.k8s.io": webhooks.check_webhook_configuration,
    "CustomResourceDefinition.apiextensions.k8s.io": structural.check_definition,
}


def check(
    kind: Kind, new: Object, old: Object | None, *, lookup: Lookup, subresource: str = ""
) -> list[Cause]:
    """The faults of `new`; `old` is what it replaces, none when it is created."""
    found = list(check_metadata(kind, new["metadata"], creating=old is None))
    if kind.custom:
        schema = definitions.schema_of(kind, lookup)
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


def _pod_faults(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    if old is None:
        yield from pods.check_new_pod(new)
    elif subresource == "status":
        yield from pods.check_pod_status(new, old)
    elif subresource == "ephemeralcontainers":
        yield from pods.check_pod(new)
        yield from check_ephemeral_containers(new, old)
    else:
        yield from pods.check_pod(new)
        yield from pod_updates.check_pod_update(new, old, may_resize=subresource == "resize")
