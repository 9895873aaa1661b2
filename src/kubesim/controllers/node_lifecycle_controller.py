"""Mark nodes without heartbeats as lost, taint nodes by their conditions, and evict pods from tainted nodes.

A node is lost when its Lease in `kube-node-lease` expires; for a node without a Lease, its status counts.
Pods are evicted when their toleration ends, and removed when their node no longer exists.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.object_store import StoreChange, StoredObject, key_of
from kubesim.common_fields import condition, format_timestamp, set_condition, set_pod_condition
from kubesim.controllers.controller_base import ChangeHandler, ControllerBase, ControllerContext, split_key
from kubesim.controllers.node_matching import NOT_READY, UNREACHABLE, IndexedNode, node_of, tolerates
from kubesim.controllers.pod_index import IndexedPod

__all__ = ["NodeLifecycleController", "TaintEvictionController"]

_LEASES = "kube-node-lease"
_GRACE_S = 50.0
_NODE_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_TAINTS_BY_CONDITION = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_OURS = frozenset({*_TAINTS_BY_CONDITION.values(), _UNSCHEDULABLE})


class NodeLifecycleController(ControllerBase):
    name = "node-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._nodes = self.kind("v1", "Node")
        self._leases = self.kind("coordination.k8s.io/v1", "Lease")
        self._lease_seen_at: dict[str, datetime] = {}

    def watches(self) -> Mapping[ResourceKind, ChangeHandler]:
        return {self._nodes: self.enqueue, self._leases: self._lease_changed}

    def _lease_changed(self, change: StoreChange) -> None:
        record = change.after or change.before
        if record is None or record.namespace != _LEASES:
            return
        if change.after is None:
            self._lease_seen_at.pop(record.name, None)
            return
        # By our own clock, as in the real controller: the kubelet's clock does not matter.
        if record.name not in self._lease_seen_at:
            self.queue.add(record.name)
        self._lease_seen_at[record.name] = self.context.now()

    async def reconcile(self, key: str) -> float | None:
        record = self.context.store.find(self._nodes, "", key)
        if record is None:
            self._lease_seen_at.pop(key, None)
            return None
        record, wait_s = await self._check_heartbeat(record)
        node = node_of(record)
        if node.condition_status("Ready") != "True":
            await self._mark_pods(node)
        await self._taint(record, node)
        return wait_s

    async def _check_heartbeat(self, record: StoredObject) -> tuple[StoredObject, float | None]:
        lease_seen_at = self._lease_seen_at.get(record.name)
        if lease_seen_at is None or node_of(record).condition_status("Ready") == "Unknown":
            return record, None  # already lost: its next heartbeat changes the node
        now = self.context.now()
        silent_s = (now - lease_seen_at).total_seconds()
        if silent_s < _GRACE_S:
            return record, _GRACE_S - silent_s
        status = record.object.get("status", {})
        for type_ in _NODE_CONDITIONS:
            known = condition(status, type_) is not None
            reason = "NodeStatusUnknown" if known else "NodeStatusNeverUpdated"
            verb = "stopped posting" if known else "never posted"
            message = f"Kubelet {verb} node status."
            set_condition(status, type_, "Unknown", now=now, reason=reason, message=message)
        await self.writes.set_status(self._nodes, record.object, status)
        return self.context.store.find(self._nodes, "", record.name) or record, None

    async def _mark_pods(self, node: IndexedNode) -> None:
        """Mark the pods of a lost node as not ready, so that Services leave them out."""
        for pod in self.context.pods.on_node(node.name):
            if pod.ready:
                await self._mark(pod)

    async def _mark(self, pod: IndexedPod) -> None:
        record = self.context.store.find(self.context.pod_kind, pod.namespace, pod.name)
        if record is None:
            return
        status = record.object["status"]
        set_pod_condition(status, "Ready", "False", now=self.context.now())
        await self.writes.set_status(self.context.pod_kind, record.object, status)

    async def _taint(self, record: StoredObject, node: IndexedNode) -> None:
        now = format_timestamp(self.context.now())
        before = {(taint["key"], taint["effect"]): taint for taint in node.taints}
        wanted = [
            before.get((key, effect)) or {"key": key, "effect": effect, "timeAdded": now}
            for key, effect in _wanted_taints(node)
        ]
        others = [taint for taint in node.taints if taint["key"] not in _OURS]
        taints = others + wanted
        if sorted(map(_identity, taints)) == sorted(map(_identity, node.taints)):
            return

        def edit(live: Object) -> None:
            spec = live.setdefault("spec", {})
            if taints:
                spec["taints"] = taints
            else:
                spec.pop("taints", None)

        await self.writes.change(self._nodes, record.object, edit)


def _wanted_taints(node: IndexedNode) -> Iterator[tuple[str, str]]:
    """Yield a NoSchedule taint for each problem of a node, and NoExecute if it is not ready."""
    for (type_, value), key in _TAINTS_BY_CONDITION.items():
        if node.condition_status(type_) == value:
            yield key, "NoSchedule"
            if type_ == "Ready":
                yield key, "NoExecute"
    if not node.condition_status("Ready"):
        yield NOT_READY, "NoSchedule"  # it has just registered
    if node.spec.unschedulable:
        yield _UNSCHEDULABLE, "NoSchedule"


def _identity(taint: Object) -> tuple[str, str]:
    return taint["key"], taint["effect"]


_QUARANTINE_S = 40.0


class TaintEvictionController(ControllerBase):
    name = "taint-eviction-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._nodes = self.kind("v1", "Node")
        self._tainted: dict[str, tuple[Object, ...]] = {}
        self._since: dict[str, datetime] = {}
        """When each pod, by uid, was first seen on a node with an untolerated taint."""

    def watches(self) -> Mapping[ResourceKind, ChangeHandler]:
        return {self._nodes: self._node_changed}

    def _node_changed(self, change: StoreChange) -> None:
        record = change.after or change.before
        assert record is not None
        taints: tuple[Object, ...] = ()
        if change.after is not None:
            taints = tuple(t for t in node_of(change.after).taints if t["effect"] == "NoExecute")
        if change.after is not None and self._tainted.get(record.name, ()) == taints and change.before:
            return
        self._tainted[record.name] = taints
        for pod in self.context.pods.on_node(record.name):
            self.queue.add(key_of(pod.namespace, pod.name))

    def pod_changed(self, before: IndexedPod | None, after: IndexedPod | None) -> None:
        if after is None:
            if before is not None:
                self._since.pop(before.uid, None)
        elif (before is None or before.node != after.node) and self._is_unwanted_on(after.node):
            self.queue.add(key_of(after.namespace, after.name))

    def _is_unwanted_on(self, node: str) -> bool:
        return bool(node) and (bool(self._tainted.get(node)) or not self._exists(node))

    def _exists(self, node: str) -> bool:
        return self.context.store.find(self._nodes, "", node) is not None

    async def reconcile(self, key: str) -> float | None:
        pod = self.context.pods.find(*split_key(key))
        if pod is None or not pod.node:
            return None
        if not self._exists(pod.node):
            return await self._remove(pod)
        taints = self._tainted.get(pod.node, ())
        tolerated_s = _tolerated_seconds(pod, taints)
        if pod.deleting or pod.finished or tolerated_s is None:
            self._since.pop(pod.uid, None)
            return None
        left_s = self._left(pod, tolerated_s)
        if left_s > 0:
            return left_s
        reason, message = "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"
        await self._mark(pod, reason, message)
        await self.writes.delete(self.context.pod_kind, pod.namespace, pod.name, pod.uid)
        return None

    async def _remove(self, pod: IndexedPod) -> float | None:
        left_s = self._left(pod, _QUARANTINE_S)
        if left_s > 0:
            return left_s
        reason, message = "DeletionByPodGC", "PodGC: node no longer exists"
        await self._mark(pod, reason, message, fail=not pod.finished)
        await self.writes.delete(self.context.pod_kind, pod.namespace, pod.name, pod.uid, grace_s=0)
        return None

    def _left(self, pod: IndexedPod, tolerated_s: float) -> float:
        now = self.context.now()
        return tolerated_s - (now - self._since.setdefault(pod.uid, now)).total_seconds()

    async def _mark(self, pod: IndexedPod, reason: str, message: str, *, fail: bool = False) -> None:
        record = self.context.store.find(self.context.pod_kind, pod.namespace, pod.name)
        if record is None:
            return
        content = record.object
        status = content.setdefault("status", {})
        now = self.context.now()
        set_pod_condition(status, "DisruptionTarget", "True", now=now, reason=reason, message=message)
        if fail:
            status["phase"] = "Failed"
        await self.writes.set_status(self.context.pod_kind, record.object, status)


def _tolerated_seconds(pod: IndexedPod, taints: tuple[Object, ...]) -> float | None:
    """Return the seconds until the pod is evicted, or None if it may stay."""
    if not taints:
        return None
    limits = []
    for taint in taints:
        used = [item for item in pod.spec.tolerations or () if tolerates(item, taint)]
        if not used:
            return 0.0
        limits += [item["tolerationSeconds"] for item in used if item.get("tolerationSeconds") is not None]
    return max(0.0, float(min(limits))) if limits else None
