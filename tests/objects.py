"""Objects for tests, as the API server has them, in a few words."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rescheduler.cluster.pod_constraints import (
    Affinity,
    NodeSelector,
    NodeSelectorTerm,
    exclusion_requirements,
)

__all__ = [
    "LONG_AGO",
    "REQUIRED",
    "ROLLING",
    "Json",
    "api_version_of",
    "budget_object",
    "claim_object",
    "csi_node_object",
    "empty_lookup",
    "merged",
    "metadata_of",
    "node_object",
    "only_on",
    "parts_of",
    "pod_object",
    "reference_to",
    "replica_counts",
    "storage_class_object",
    "volume_object",
    "with_exclusions",
    "workload_object",
]

Json = dict[str, Any]

LONG_AGO = "2026-03-01T12:00:00Z"
"""When objects were made, unless a test says otherwise."""
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}

_API_VERSIONS = {"Job": "batch/v1", "CronJob": "batch/v1"}


def node_object(
    name: str,
    *,
    cpu: str = "8",
    memory: str = "32Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[Json | str] = (),
    ready: bool = True,
    cordoned: bool = False,
    more: Mapping[str, str] | None = None,
    status: Json | None = None,
) -> Json:
    """`taints` as objects or as `key=value:Effect`; `more` resources by name, such as nvidia.com/gpu."""
    amounts = {"cpu": cpu, "memory": memory, "pods": str(pods), "ephemeral-storage": "100Gi"}
    amounts |= dict(more or {})
    item = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-of-node-{name}",
            "creationTimestamp": LONG_AGO,
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
            "annotations": dict(annotations or {}),
        },
        "spec": {"taints": [_taint(each) for each in taints], "unschedulable": cordoned},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }
    return merged(item, {"status": status or {}})


def pod_object(
    key: str,
    *,
    on: str = "",
    cpu: str = "100m",
    memory: str = "128Mi",
    more: Mapping[str, str] | None = None,
    owner: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    priority: int = 0,
    ready: bool = True,
    phase: str = "",
    deleted: str = "",
    created: str = LONG_AGO,
    claims: Sequence[str] = (),
    volumes: Sequence[Json] = (),
    uid: str = "",
    metadata: Json | None = None,
    spec: Json | None = None,
    pod_spec: Json | None = None,
    status: Json | None = None,
    pod_status: Json | None = None,
) -> Json:
    """`owner` is `Kind/name` and controls it; `claims` are names of claims that it mounts.

    `pod_spec` and `pod_status` are other names for `spec` and `status`, for pods that are made with their
    workload, which has its own.

    Lists in `spec` replace those that are made here, containers for example.
    """
    namespace, name = key.split("/")
    phase = phase or ("Running" if on else "Pending")
    item = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-of-pod-{namespace}-{name}",
            "creationTimestamp": created,
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
            "ownerReferences": [reference_to(namespace, owner)] if owner else [],
        },
        "spec": {
            "nodeName": on,
            "schedulerName": "default-scheduler",
            "restartPolicy": "Always",
            "priority": priority,
            "containers": [
                {
                    "name": "app",
                    "image": "registry.example.com/app:1",
                    "resources": {"requests": {"cpu": cpu, "memory": memory, **(more or {})}},
                }
            ],
            "volumes": [*volumes, *map(_mounted, claims)],
        },
        "status": {
            "phase": phase,
            "conditions": [
                {"type": "PodScheduled", "status": "True" if on else "False"},
                {"type": "Ready", "status": "True" if on and ready else "False"},
            ],
        },
    }
    if deleted:
        item["metadata"]["deletionTimestamp"] = deleted
    more_parts = {
        "metadata": metadata or {},
        "spec": spec or pod_spec or {},
        "status": status or pod_status or {},
    }
    return merged(item, more_parts)


def workload_object(
    kind: str,
    key: str,
    item: Json,
    labels: Mapping[str, str],
    annotations: Mapping[str, str] | None = None,
    owner: str = "",
) -> Json:
    metadata = metadata_of(key, kind) | {
        "generation": 1,
        "labels": dict(labels),
        "annotations": dict(annotations or {}),
        "ownerReferences": [reference_to(key.partition("/")[0], owner)] if owner else [],
    }
    return {"apiVersion": api_version_of(kind), "kind": kind, "metadata": metadata, **item}


def budget_object(
    key: str,
    *,
    selector: Mapping[str, str] | None = None,
    allowed: int = 1,
    healthy: int = 0,
    desired: int = 0,
    expected: int = 0,
    spec: Json | None = None,
    status: Json | None = None,
) -> Json:
    """`selector` as labels; none given selects no pod, an empty one all of the namespace."""
    item = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata_of(key) | {"generation": 1},
        "spec": {} if selector is None else {"selector": {"matchLabels": dict(selector)}},
        "status": {
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "observedGeneration": 1,
        },
    }
    return merged(item, parts_of(spec, status))


def claim_object(
    key: str,
    *,
    volume: str = "",
    modes: Sequence[str] = ("ReadWriteOnce",),
    storage_class: str = "standard",
    size: str = "10Gi",
    annotations: Mapping[str, str] | None = None,
    spec: Json | None = None,
) -> Json:
    """Bound if it names a volume."""
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    item = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata_of(key) | {"annotations": {**bound, **(annotations or {})}},
        "spec": {
            "accessModes": list(modes),
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
            **({"volumeName": volume} if volume else {}),
        },
        "status": {"phase": "Bound" if volume else "Pending"},
    }
    return merged(item, {"spec": spec or {}})


def volume_object(
    name: str,
    *,
    claim: str = "",
    labels: Mapping[str, str] | None = None,
    nodes: Sequence[str] = (),
    zones: Sequence[str] = (),
    driver: str = "disks.example.com",
    modes: Sequence[str] = ("ReadWriteOnce",),
    storage_class: str = "standard",
    size: str = "10Gi",
    source: Json | None = None,
    spec: Json | None = None,
) -> Json:
    """Return a volume of a CSI driver, unless another `source` is given, for these nodes or zones only."""
    terms = []
    if nodes:
        terms.append(_in("kubernetes.io/hostname", nodes))
    if zones:
        terms.append(_in("topology.kubernetes.io/zone", zones))
    item = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": metadata_of(name) | {"labels": dict(labels or {})},
        "spec": {
            "accessModes": list(modes),
            "storageClassName": storage_class,
            "capacity": {"storage": size},
            **(source or {"csi": {"driver": driver, "volumeHandle": f"handle-of-{name}"}}),
        },
        "status": {"phase": "Bound" if claim else "Available"},
    }
    if claim:
        namespace, claim_name = claim.split("/")
        item["spec"]["claimRef"] = {"namespace": namespace, "name": claim_name}
    if terms:
        item["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": terms}]}}
    return merged(item, {"spec": spec or {}})


def storage_class_object(
    name: str, *, waits: bool = False, provisioner: str = "disks.example.com", **parts: Any
) -> Json:
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    item = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": metadata_of(name),
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }
    return item | parts


def csi_node_object(name: str, **limits: int | None) -> Json:
    """`limits` by driver, dots as `__`: `disks__example__com=3`."""
    drivers = [
        {"name": driver.replace("__", ".")} | ({} if count is None else {"allocatable": {"count": count}})
        for driver, count in limits.items()
    ]
    return {"kind": "CSINode", "metadata": metadata_of(name), "spec": {"drivers": drivers}}


def merged(below: Json, above: Json) -> Json:
    """Objects are laid into each other; all else of `above` replaces what is `below`."""
    result = dict(below)
    for name, part in above.items():
        old = result.get(name)
        result[name] = merged(old, part) if isinstance(old, dict) and isinstance(part, dict) else part
    return result


def parts_of(spec: Json | None, status: Json | None) -> Json:
    return {"spec": spec or {}, "status": status or {}}


def metadata_of(key: str, kind: str = "") -> Json:
    namespace, _, name = key.rpartition("/")
    found = {"name": name, "uid": _uid(kind, namespace, name), "creationTimestamp": LONG_AGO}
    return found | {"namespace": namespace} if namespace else found


def _uid(kind: str, namespace: str, name: str) -> str:
    return "-".join(("uid-of", *filter(None, (kind.lower(), namespace, name))))


def api_version_of(kind: str) -> str:
    return _API_VERSIONS.get(kind, "apps/v1")


def reference_to(namespace: str, owner: str) -> Json:
    kind, name = owner.split("/")
    return {
        "apiVersion": api_version_of(kind),
        "kind": kind,
        "name": name,
        "uid": _uid(kind, namespace, name),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def replica_counts(replicas: int) -> Json:
    counted = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas"), replicas)
    return counted | {"observedGeneration": 1}


def _taint(taint: Json | str) -> Json:
    if isinstance(taint, dict):
        return taint
    label, _, effect = taint.rpartition(":")
    key, _, value = label.partition("=")
    return {"key": key, "value": value, "effect": effect}


def _mounted(claim: str) -> Json:
    return {"name": f"volume-{claim}", "persistentVolumeClaim": {"claimName": claim}}


def only_on(node: str) -> Json:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}


def _in(label: str, values: Sequence[str]) -> Json:
    return {"key": label, "operator": "In", "values": list(values)}


def with_exclusions(affinity: Affinity, nodes: Sequence[str]) -> Affinity:
    """Return the affinity of a replacement that must not return to these nodes, as the webhook writes it."""
    own = exclusion_requirements(nodes)
    required = affinity.node_affinity.required
    terms = [NodeSelectorTerm()] if required is None else required.node_selector_terms
    excluding = tuple(
        # An empty term of the owner matches no node; with our exclusions, it would match nearly all nodes.
        term
        if required is not None and term == NodeSelectorTerm()
        else msgspec.structs.replace(term, match_fields=term.match_fields + own)
        for term in terms
    )
    node_affinity = msgspec.structs.replace(affinity.node_affinity, required=NodeSelector(excluding))
    return msgspec.structs.replace(affinity, node_affinity=node_affinity)


def empty_lookup(api_version: str, kind_name: str, namespace: str, name: str) -> None:
    """Find no object, as in an empty store of the simulator."""
