"""The objects that a kubelet registers for its node: the Node with its status, and the Lease it renews."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

__all__ = [
    "KUBELET_LABEL",
    "LEASE_NAMESPACE",
    "NodeShape",
    "is_ready",
    "lease_object",
    "node_address",
    "node_object",
    "node_shapes",
    "ready_conditions",
    "renewal",
]

KUBELET_LABEL = "testbed.rescheduler/kubelet"
"""Says which fake kubelet plays this node, so that several in one cluster leave each other alone."""
LEASE_NAMESPACE = "kube-node-lease"
LEASE_DURATION_S = 40

_CONDITIONS = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
}


@dataclass(frozen=True)
class NodeShape:
    """A node to be. What is reserved for the system is already taken off."""

    name: str
    cpu: str = "8"
    memory: str = "32Gi"
    pods: str = "110"
    zone: str = "zone-a"
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()


def node_shapes(count: int, prefix: str = "node", **shape: Any) -> Iterator[NodeShape]:
    """Return so many equal nodes in three zones: node-0001 and so on."""
    for number in range(1, count + 1):
        yield NodeShape(f"{prefix}-{number:04}", zone=f"zone-{'abc'[number % 3]}", **shape)


def node_object(shape: NodeShape, kubelet: str, now: datetime) -> dict[str, Any]:
    size = {"cpu": shape.cpu, "memory": shape.memory, "pods": shape.pods, "ephemeral-storage": "100Gi"}
    labels = {
        KUBELET_LABEL: kubelet,
        "kubernetes.io/hostname": shape.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": f"fake-{shape.cpu}",
        "topology.kubernetes.io/region": "region-1",
        "topology.kubernetes.io/zone": shape.zone,
    }
    address = node_address(shape.name)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": shape.name, "labels": labels | dict(shape.labels)},
        "spec": {"taints": [dict(taint) for taint in shape.taints]},
        "status": {
            "capacity": size,
            "allocatable": size,
            "conditions": ready_conditions([], now),
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": shape.name},
            ],
            "nodeInfo": {
                "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "fake",
                "osImage": "no machine at all", "containerRuntimeVersion": "fake://1",
                "kubeletVersion": "v1.37.1-fake", "kubeProxyVersion": "", "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    }  # fmt: skip


def ready_conditions(before: list[dict[str, Any]], now: datetime) -> list[dict[str, Any]]:
    """All well, as of now; conditions that others added are kept."""
    known = {condition["type"]: condition for condition in before}
    for name, (status, reason, message) in _CONDITIONS.items():
        old = known.get(name)
        same = old is not None and old["status"] == status
        known[name] = {
            "type": name,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": _seconds(now),
            "lastTransitionTime": old["lastTransitionTime"] if old and same else _seconds(now),
        }
    return list(known.values())


def is_ready(node: Mapping[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def lease_object(node: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Owned by its node, so that it goes with it."""
    name, uid = node["metadata"]["name"], node["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_DURATION_S, **renewal(now)["spec"]},
    }


def renewal(now: datetime) -> dict[str, Any]:
    """The patch that is a heartbeat."""
    return {"spec": {"renewTime": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}}


def _seconds(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node_address(name: str) -> str:
    """Made of the name; a documentation range would be too small for 5,000 nodes."""
    first, second = hashlib.sha256(name.encode()).digest()[:2]
    return f"172.16.{first}.{second}"
