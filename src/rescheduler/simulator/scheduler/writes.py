"""All that a scheduler writes: bindings, conditions, promises, preemptions, and events about them."""

from rescheduler.simulator.cluster import Cluster
from rescheduler.simulator.conditions import condition, set_pod_condition
from rescheduler.simulator.deletion import DeleteOptions
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Failure
from rescheduler.simulator.options import Preconditions
from rescheduler.simulator.scheduler.nodes import NodeView
from rescheduler.simulator.scheduler.pods import PodView
from rescheduler.simulator.scheduler.storage import StorageView
from rescheduler.simulator.scheduler.volume_making import give_volumes
from rescheduler.simulator.store import Record
from rescheduler.simulator.subresources.binding import bound

__all__ = ["Writes"]


class Writes:
    def __init__(self, cluster: Cluster, scheduler: str) -> None:
        self._cluster = cluster
        self._scheduler = scheduler
        self._pods = cluster.kind("v1", "Pod")
        self._events = cluster.kind("v1", "Event")

    def bind(self, pod: PodView, node: NodeView, storage: StorageView) -> bool:
        """False if the pod is not what it was any more: whatever changed it brings it back."""
        record = self._still_there(pod)
        if record is None:
            return False
        give_volumes(self._cluster, storage, pod, node)
        try:
            content = bound(self._cluster, record, {}, node.name)
        except Failure:
            return False
        self._cluster.store.put(self._pods, content)
        self._tell(pod, "Normal", "Scheduled", "Binding", f"Successfully assigned {pod.key} to {node.name}")
        return True

    def say_why_not(self, pod: PodView, message: str, *, reason: str, nominate: str | None = None) -> None:
        """Only if it was not said before. `nominate`: a node to promise, or empty to take a promise back."""
        record = self._still_there(pod)
        if record is None:
            return
        content = record.object
        status = content.setdefault("status", {})
        said = condition(status, "PodScheduled") or {}
        known = (said.get("status"), said.get("reason"), said.get("message")) == ("False", reason, message)
        if known and nominate in (None, pod.nominated_node):
            return
        set_pod_condition(
            status, "PodScheduled", "False", now=self._cluster.clock.now(), reason=reason, message=message
        )
        if generation := content["metadata"].get("generation"):
            _generation(status, generation)
        if nominate:
            status["nominatedNodeName"] = nominate
        elif nominate is not None:
            status.pop("nominatedNodeName", None)
        self._cluster.store.put(self._pods, content)
        self._tell(pod, "Warning", "FailedScheduling", "Scheduling", message)

    def preempt(self, victim: PodView, preemptor: PodView, node: str) -> None:
        """Graceful, and whatever its budget says: the choice was made with an eye on that."""
        record = self._still_there(victim)
        if record is None or record.deleting:
            return
        content = record.object
        set_pod_condition(
            content.setdefault("status", {}),
            "DisruptionTarget",
            "True",
            now=self._cluster.clock.now(),
            reason="PreemptionByScheduler",
            message=f"{self._scheduler}: preempting to accommodate a higher priority pod",
        )
        self._cluster.store.put(self._pods, content)
        options = DeleteOptions(preconditions=Preconditions(uid=victim.uid))
        self._cluster.deletion.delete(self._pods, victim.namespace, victim.name, options)
        self._tell(
            victim, "Normal", "Preempted", "Preempting", f"Preempted by pod {preemptor.uid} on node {node}"
        )

    def take_back_promise(self, pod: PodView) -> None:
        """The room it waited for goes to a more important pod."""
        if (record := self._still_there(pod)) is not None:
            content = record.object
            if content.get("status", {}).pop("nominatedNodeName", None):
                self._cluster.store.put(self._pods, content)

    def _still_there(self, pod: PodView) -> Record | None:
        record = self._cluster.store.find(self._pods, pod.namespace, pod.name)
        return record if record is not None and record.uid == pod.uid else None

    def _tell(self, pod: PodView, type_: str, reason: str, action: str, message: str) -> None:
        cluster = self._cluster
        now = cluster.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        taken = cluster.store.collection(self._events).records
        regarding: Object = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "namespace": pod.namespace}
        cluster.store.put(
            self._events,
            {
                "metadata": {
                    "name": cluster.naming.name(f"{pod.name[:50]}.", taken),
                    "namespace": pod.namespace,
                    "uid": cluster.naming.uid(),
                    "creationTimestamp": f"{now[:19]}Z",
                },
                "involvedObject": {**regarding, "uid": pod.uid},
                "type": type_,
                "reason": reason,
                "action": action,
                "message": message,
                "eventTime": now,
                "firstTimestamp": None,
                "lastTimestamp": None,
                "source": {},
                "reportingComponent": self._scheduler,
                "reportingInstance": f"{self._scheduler}-simulated",
            },
        )


def _generation(status: Object, generation: int) -> None:
    said = condition(status, "PodScheduled")
    assert said is not None
    said["observedGeneration"] = generation
