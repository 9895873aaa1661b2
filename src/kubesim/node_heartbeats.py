"""Heartbeats of nodes: renew the Lease of each node while its kubelet runs.

The first heartbeat after an outage reports the node as ready again. Other conditions are left alone.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.object_store import StoredObject
from kubesim.apiserver.simulated_cluster import SimulatedCluster
from kubesim.common_fields import condition, format_timestamp

__all__ = ["EVERY_S", "Heartbeats", "healthy_conditions"]

EVERY_S = 10.0
_NAMESPACE = "kube-node-lease"
_DURATION_S = 40

_HEALTHY = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
}


class Heartbeats:
    def __init__(self, cluster: SimulatedCluster, is_dead: Callable[[str], bool]) -> None:
        self._cluster = cluster
        self._is_dead = is_dead
        self._nodes = cluster.kind("v1", "Node")
        self._leases = cluster.kind("coordination.k8s.io/v1", "Lease")
        self._known: dict[str, tuple[StoredObject, Object]] = {}
        """The Leases as they were last written, because decoding all of them each time takes long."""
        cluster.clock.call_later(0, self._renew_all)

    def _renew_all(self) -> None:
        """Renew all Leases in one step: one timer for all nodes, and a fixed order."""
        for node in list(self._cluster.store.collection(self._nodes).ordered()):
            if not self._is_dead(node.name):
                self._renew(node)
                self._recover(node)
        self._cluster.clock.call_later(EVERY_S, self._renew_all)

    def _renew(self, node: StoredObject) -> None:
        now = self._cluster.clock.now()
        found = self._cluster.store.find(self._leases, _NAMESPACE, node.name)
        stored, lease = self._known.get(node.name, (None, {}))
        if found is None:
            lease = self._lease_of(node, now)
        elif found is not stored:
            lease = found.object
        lease["spec"] = {
            "holderIdentity": node.name,
            "leaseDurationSeconds": _DURATION_S,
            "renewTime": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        self._known[node.name] = self._cluster.store.put(self._leases, lease), lease

    def _lease_of(self, node: StoredObject, now: datetime) -> Object:
        """Return a new Lease that is owned by its node and deleted with it."""
        owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}
        return {
            "metadata": {
                "name": node.name,
                "namespace": _NAMESPACE,
                "uid": self._cluster.naming.uid(),
                "creationTimestamp": format_timestamp(now),
                "ownerReferences": [owner],
            }
        }

    def _recover(self, node: StoredObject) -> None:
        if b'"Unknown"' not in node.raw:
            return  # a cheap check, true for nearly all nodes
        content = node.object
        status = content.get("status") or {}
        if (condition(status, "Ready") or {}).get("status") != "Unknown":
            return
        conditions = healthy_conditions(status.get("conditions") or (), self._cluster.clock.now())
        content["status"] = status | {"conditions": conditions}
        self._cluster.store.put(self._nodes, content)


def healthy_conditions(before: list[Object] | tuple[Object, ...], now: datetime) -> list[Object]:
    """Return the conditions that a healthy kubelet reports; conditions of other writers are kept."""
    known = {each["type"]: each for each in before}
    for name, (status, reason, message) in _HEALTHY.items():
        old = known.get(name)
        since = (
            old["lastTransitionTime"]
            if old is not None and old["status"] == status
            else format_timestamp(now)
        )
        known[name] = {
            "type": name,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": format_timestamp(now),
            "lastTransitionTime": since,
        }
    return list(known.values())
