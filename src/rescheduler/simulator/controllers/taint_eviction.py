"""Pods on nodes that don't want to keep them: they go when their toleration has run out.

And pods whose node is gone altogether: nobody can end them any more, so they are removed.
"""

from collections.abc import Mapping
from datetime import datetime

from rescheduler.simulator.conditions import set_pod_condition
from rescheduler.simulator.controllers.frame import Controller, Noticed, World, split_key
from rescheduler.simulator.controllers.nodes import node_of, tolerates
from rescheduler.simulator.controllers.pods import Pod
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.kinds import Kind
from rescheduler.simulator.store import Change, key_of

__all__ = ["TaintEviction"]

_QUARANTINE_S = 40.0


class TaintEviction(Controller):
    name = "taint-eviction-controller"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._nodes = self.kind("v1", "Node")
        self._tainted: dict[str, tuple[Object, ...]] = {}
        self._since: dict[str, datetime] = {}
        """When each pod began to stand on a node that does not want it, by uid."""

    def watches(self) -> Mapping[Kind, Noticed]:
        return {self._nodes: self._node_changed}

    def _node_changed(self, change: Change) -> None:
        record = change.after or change.before
        assert record is not None
        taints: tuple[Object, ...] = ()
        if change.after is not None:
            taints = tuple(t for t in node_of(change.after).taints if t["effect"] == "NoExecute")
        if change.after is not None and self._tainted.get(record.name, ()) == taints and change.before:
            return
        self._tainted[record.name] = taints
        for pod in self.world.pods.on_node(record.name):
            self.queue.add(key_of(pod.namespace, pod.name))

    def pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if after is None:
            if before is not None:
                self._since.pop(before.uid, None)
        elif (before is None or before.node != after.node) and self._is_unwanted_on(after.node):
            self.queue.add(key_of(after.namespace, after.name))

    def _is_unwanted_on(self, node: str) -> bool:
        return bool(node) and (bool(self._tainted.get(node)) or not self._exists(node))

    def _exists(self, node: str) -> bool:
        return self.world.store.find(self._nodes, "", node) is not None

    async def reconcile(self, key: str) -> float | None:
        pod = self.world.pods.find(*split_key(key))
        if pod is None or not pod.node:
            return None
        if not self._exists(pod.node):
            return await self._remove(pod)
        taints = self._tainted.get(pod.node, ())
        patience_s = _patience(pod, taints)
        if pod.deleting or pod.finished or patience_s is None:
            self._since.pop(pod.uid, None)
            return None
        left_s = self._left(pod, patience_s)
        if left_s > 0:
            return left_s
        reason, message = "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"
        await self._mark(pod, reason, message)
        await self.writes.delete(self.world.pod_kind, pod.namespace, pod.name, pod.uid)
        return None

    async def _remove(self, pod: Pod) -> float | None:
        left_s = self._left(pod, _QUARANTINE_S)
        if left_s > 0:
            return left_s
        reason, message = "DeletionByPodGC", "PodGC: node no longer exists"
        await self._mark(pod, reason, message, fail=not pod.finished)
        await self.writes.delete(self.world.pod_kind, pod.namespace, pod.name, pod.uid, grace_s=0)
        return None

    def _left(self, pod: Pod, patience_s: float) -> float:
        now = self.world.now()
        return patience_s - (now - self._since.setdefault(pod.uid, now)).total_seconds()

    async def _mark(self, pod: Pod, reason: str, message: str, *, fail: bool = False) -> None:
        record = self.world.store.find(self.world.pod_kind, pod.namespace, pod.name)
        if record is None:
            return
        content = record.object
        status = content.setdefault("status", {})
        now = self.world.now()
        set_pod_condition(status, "DisruptionTarget", "True", now=now, reason=reason, message=message)
        if fail:
            status["phase"] = "Failed"
        await self.writes.set_status(self.world.pod_kind, record.object, status)


def _patience(pod: Pod, taints: tuple[Object, ...]) -> float | None:
    """Seconds until it has to go; none if it may stay."""
    if not taints:
        return None
    limits = []
    for taint in taints:
        used = [item for item in pod.spec.tolerations or () if tolerates(item, taint)]
        if not used:
            return 0.0
        limits += [item["tolerationSeconds"] for item in used if item.get("tolerationSeconds") is not None]
    return max(0.0, float(min(limits))) if limits else None
