"""A small cluster to look at: six nodes, two of them hot and one idle, with the workloads a shop would run.

Everything a control plane would have made is here too (ReplicaSets, owner references, statuses), so that
the cluster is whole from the first moment. Same cluster every time.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from rescheduler.simulator.exchange import Object

__all__ = ["sample_cluster"]

NODE_CPU, NODE_MEMORY, NODE_PODS = "4", "16Gi", "110"
ZONES = ("zone-a", "zone-b", "zone-c")
NODE_COUNT = 6


class Workload(NamedTuple):
    """A row of the cluster: what runs, how large one pod is, and the node of each replica."""

    kind: str
    namespace: str
    name: str
    cpu: str
    memory: str
    on: tuple[int, ...]
    min_available: int | None = None


WORKLOADS = (
    Workload("DaemonSet", "kube-system", "node-logs", "100m", "128Mi", (1, 2, 3, 4, 5, 6)),
    Workload("Deployment", "shop", "web", "600m", "512Mi", (1, 1, 1, 2, 2, 3)),
    Workload("Deployment", "shop", "cart", "400m", "1Gi", (1, 2, 2, 4)),
    Workload("Deployment", "shop", "checkout", "800m", "2Gi", (1,), min_available=1),
    Workload("Deployment", "shop", "search", "500m", "3Gi", (2, 3, 5), min_available=3),
    Workload("StatefulSet", "shop", "orders-db", "500m", "2Gi", (3, 4, 5)),
    Workload("Deployment", "reports", "renderer", "300m", "1Gi", (2, 4, 4, 5)),
)


def sample_cluster(now: datetime) -> Iterator[Object]:
    """Every object of the cluster, in an order in which an API server accepts them."""
    for namespace in ("kube-system", "shop", "reports"):
        yield _object("v1", "Namespace", None, namespace, now - timedelta(days=40))
    for number in range(1, NODE_COUNT + 1):
        yield _node(number, now)
    for workload in WORKLOADS:
        yield from _workload(workload, now - timedelta(days=3, hours=len(workload.name)))


def _object(
    api_version: str, kind: str, namespace: str | None, name: str, created: datetime, **parts: Any
) -> Object:
    metadata: Object = {
        "name": name,
        "uid": str(uuid5(NAMESPACE_URL, f"{kind}/{namespace}/{name}")),
        "creationTimestamp": _time(created),
    }
    if namespace:
        metadata["namespace"] = namespace
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": metadata | parts.pop("metadata", {}),
        **parts,
    }


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _node(number: int, now: datetime) -> Object:
    name = f"worker-{number}"
    size = {"cpu": NODE_CPU, "memory": NODE_MEMORY, "pods": NODE_PODS}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": ZONES[number % len(ZONES)],
        "node-role.kubernetes.io/worker": "",
    }
    ready = _condition("Ready", now - timedelta(days=40)) | {"reason": "KubeletReady"}
    return _object(
        "v1", "Node", None, name, now - timedelta(days=40),
        metadata={"labels": labels},
        spec={},
        status={
            "capacity": size,
            "allocatable": size,
            "conditions": [ready],
            "addresses": [{"type": "InternalIP", "address": f"10.0.0.{number}"}],
            "nodeInfo": {
                "machineID": name, "systemUUID": name, "bootID": name, "kernelVersion": "simulated",
                "osImage": "Simulated", "operatingSystem": "linux", "architecture": "amd64",
                "containerRuntimeVersion": "simulated://1",
                "kubeletVersion": "v1.37.1", "kubeProxyVersion": "",
            },
        },
    )  # fmt: skip


def _condition(name: str, since: datetime) -> Object:
    return {"type": name, "status": "True", "lastTransitionTime": _time(since)}


def _workload(row: Workload, created: datetime) -> Iterator[Object]:
    labels = {"app": row.name}
    template = {"metadata": {"labels": labels}, "spec": _pod_spec(row)}
    count = len(row.on)
    spec: Object = {"selector": {"matchLabels": labels}, "template": template}
    if row.kind != "DaemonSet":
        spec["replicas"] = count
    if row.kind == "StatefulSet":
        spec["serviceName"] = row.name
    top = _object(
        "apps/v1",
        row.kind,
        row.namespace,
        row.name,
        created,
        spec=spec,
        status=_workload_status(row.kind, count),
    )
    yield top
    owner = top
    if row.kind == "Deployment":
        revision = uuid5(NAMESPACE_URL, row.name).hex[:10]
        labels = labels | {"pod-template-hash": revision}
        owner = _object(
            "apps/v1", "ReplicaSet", row.namespace, f"{row.name}-{revision}", created,
            metadata={"labels": labels, "ownerReferences": [_controller(top)],
                      "annotations": {"deployment.kubernetes.io/revision": "1"}},
            spec={"replicas": count, "selector": {"matchLabels": labels},
                  "template": {"metadata": {"labels": labels}, "spec": _pod_spec(row)}},
            status=_workload_status("ReplicaSet", count),
        )  # fmt: skip
        yield owner
    for ordinal, node in enumerate(row.on):
        yield _pod(row, owner, labels, ordinal, node, created)
    if row.min_available is not None:
        yield _budget(row, created)


def _workload_status(kind: str, count: int) -> Object:
    if kind == "DaemonSet":
        return {
            "observedGeneration": 1,
            "currentNumberScheduled": count,
            "desiredNumberScheduled": count,
            "numberMisscheduled": 0,
            "numberReady": count,
            "numberAvailable": count,
            "updatedNumberScheduled": count,
        }
    status = {"observedGeneration": 1, "replicas": count, "readyReplicas": count, "availableReplicas": count}
    if kind == "ReplicaSet":
        return status | {"fullyLabeledReplicas": count}
    return status | {"updatedReplicas": count}


def _controller(owner: Object) -> Object:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _pod_spec(row: Workload) -> Object:
    requests = {"cpu": row.cpu, "memory": row.memory}
    return {
        "containers": [
            {"name": row.name, "image": f"example.com/{row.name}:1.0", "resources": {"requests": requests}}
        ]
    }


def _pod(
    row: Workload, owner: Object, labels: dict[str, str], ordinal: int, node: int, created: datetime
) -> Object:
    identity = uuid5(NAMESPACE_URL, f"{row.name}/{ordinal}")
    suffix = str(ordinal) if row.kind == "StatefulSet" else identity.hex[:5]
    return _object(
        "v1", "Pod", row.namespace, f"{owner['metadata']['name']}-{suffix}", created,
        metadata={"labels": labels, "ownerReferences": [_controller(owner)]},
        spec=_pod_spec(row) | {"nodeName": f"worker-{node}"},
        status={
            "phase": "Running",
            "startTime": _time(created),
            "hostIP": f"10.0.0.{node}",
            "podIP": f"10.1.{node}.{identity.bytes[0]}",
            "conditions": [_condition(name, created)
                           for name in ("PodScheduled", "Initialized", "ContainersReady", "Ready")],
            "containerStatuses": [
                {"name": row.name, "ready": True, "started": True, "restartCount": 0, "imageID": "",
                 "image": f"example.com/{row.name}:1.0", "state": {"running": {"startedAt": _time(created)}}}
            ],
        },
    )  # fmt: skip


def _budget(row: Workload, created: datetime) -> Object:
    """A budget that allows no disruption: the usual reason why a drain never ends."""
    count = len(row.on)
    return _object(
        "policy/v1", "PodDisruptionBudget", row.namespace, row.name, created,
        spec={"minAvailable": row.min_available, "selector": {"matchLabels": {"app": row.name}}},
        status={"observedGeneration": 1, "currentHealthy": count, "desiredHealthy": row.min_available,
                "expectedPods": count, "disruptionsAllowed": count - (row.min_available or 0)},
    )  # fmt: skip
