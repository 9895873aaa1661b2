"""The life of nodes: a node that says nothing for too long is lost, and its taints say what is wrong.

A node counts as lost by its Lease in `kube-node-lease`: one that has none has nobody who would renew it, and
is believed what its status says.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime

from rescheduler.simulator.clock import timestamp
from rescheduler.simulator.conditions import condition, set_condition, set_pod_condition
from rescheduler.simulator.controllers.frame import Controller, Noticed, World
from rescheduler.simulator.controllers.nodes import NOT_READY, UNREACHABLE, Node, node_of
from rescheduler.simulator.controllers.pods import Pod
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.kinds import Kind
from rescheduler.simulator.store import Change, Record

__all__ = ["NodeLifecycle"]

_LEASES = "kube-node-lease"
_GRACE_S = 50.0
_JUDGED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
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


class NodeLifecycle(Controller):
    name = "node-controller"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._nodes = self.kind("v1", "Node")
        self._leases = self.kind("coordination.k8s.io/v1", "Lease")
        self._heard: dict[str, datetime] = {}

    def watches(self) -> Mapping[Kind, Noticed]:
        return {self._nodes: self.enqueue, self._leases: self._lease_changed}

    def _lease_changed(self, change: Change) -> None:
        record = change.after or change.before
        if record is None or record.namespace != _LEASES:
            return
        if change.after is None:
            self._heard.pop(record.name, None)
            return
        # By our own clock, as the real one does it: what the kubelet's clock says does not matter.
        if record.name not in self._heard:
            self.queue.add(record.name)
        self._heard[record.name] = self.world.now()

    async def reconcile(self, key: str) -> float | None:
        record = self.world.store.find(self._nodes, "", key)
        if record is None:
            self._heard.pop(key, None)
            return None
        record, wait_s = await self._judge(record)
        node = node_of(record)
        if node.says("Ready") != "True":
            await self._mark_pods(node)
        await self._taint(record, node)
        return wait_s

    async def _judge(self, record: Record) -> tuple[Record, float | None]:
        heard = self._heard.get(record.name)
        if heard is None or node_of(record).says("Ready") == "Unknown":
            return record, None  # it is lost already: a sign of life will be a change
        now = self.world.now()
        silent_s = (now - heard).total_seconds()
        if silent_s < _GRACE_S:
            return record, _GRACE_S - silent_s
        status = record.object.get("status", {})
        for type_ in _JUDGED:
            known = condition(status, type_) is not None
            reason = "NodeStatusUnknown" if known else "NodeStatusNeverUpdated"
            told = "stopped posting" if known else "never posted"
            message = f"Kubelet {told} node status."
            set_condition(status, type_, "Unknown", now=now, reason=reason, message=message)
        await self.writes.set_status(self._nodes, record.object, status)
        return self.world.store.find(self._nodes, "", record.name) or record, None

    async def _mark_pods(self, node: Node) -> None:
        """Nobody says any more that they are ready, so Services leave them out."""
        for pod in self.world.pods.on_node(node.name):
            if pod.ready:
                await self._mark(pod)

    async def _mark(self, pod: Pod) -> None:
        record = self.world.store.find(self.world.pod_kind, pod.namespace, pod.name)
        if record is None:
            return
        status = record.object["status"]
        set_pod_condition(status, "Ready", "False", now=self.world.now())
        await self.writes.set_status(self.world.pod_kind, record.object, status)

    async def _taint(self, record: Record, node: Node) -> None:
        now = timestamp(self.world.now())
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


def _wanted_taints(node: Node) -> Iterator[tuple[str, str]]:
    """No pods are placed where something is wrong, and none stay where the node itself is in doubt."""
    for (type_, value), key in _TAINTS_BY_CONDITION.items():
        if node.says(type_) == value:
            yield key, "NoSchedule"
            if type_ == "Ready":
                yield key, "NoExecute"
    if not node.says("Ready"):
        yield NOT_READY, "NoSchedule"  # it has just registered
    if node.spec.unschedulable:
        yield _UNSCHEDULABLE, "NoSchedule"


def _identity(taint: Object) -> tuple[str, str]:
    return taint["key"], taint["effect"]
