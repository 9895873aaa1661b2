"""The writes of the scheduler: bindings, conditions, nominations, preemptions, Events and volumes.

Volumes are simplified: a claim gets its volume immediately, and a new volume is reachable from the zone of
the chosen node, or from that node alone if it has no zone.
"""

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.object_deletion import DeleteOptions
from kubesim.apiserver.object_store import StoredObject
from kubesim.apiserver.pod_subresources import bound
from kubesim.apiserver.simulated_cluster import SimulatedCluster
from kubesim.apiserver.status_errors import StatusError
from kubesim.apiserver.write_options import Preconditions
from kubesim.common_fields import condition, format_timestamp, set_pod_condition
from kubesim.scheduler.node_info import NodeInfo, PodInfo, StorageInfo, claim_class
from kubesim.scheduler.volume_binding_filter import SELECTED_NODE, planned_volumes

__all__ = ["SchedulerWrites", "bind_volumes"]

_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_ZONE, _HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def bind_volumes(cluster: SimulatedCluster, storage: StorageInfo, pod: PodInfo, node: NodeInfo) -> None:
    """Bind or provision a volume for every claim of the pod."""
    matched, to_make = planned_volumes(pod, node, storage)
    for claim, volume in matched:
        _bind(cluster, claim, volume, {})
    for claim in to_make:
        made = _made_for(cluster, claim, storage.classes[claim_class(claim)], node)
        _bind(cluster, claim, made, {SELECTED_NODE: node.name})


def _bind(cluster: SimulatedCluster, claim: Object, volume: Object, annotations: dict[str, str]) -> None:
    metadata = claim["metadata"]
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    spec = {**volume["spec"], "claimRef": reference}
    cluster.store.put(
        cluster.kind("v1", "PersistentVolume"),
        {**volume, "metadata": dict(volume["metadata"]), "spec": spec, "status": {"phase": "Bound"}},
    )
    marks = {_BIND_COMPLETED: "yes", _BOUND_BY_CONTROLLER: "yes", **annotations}
    status = {"phase": "Bound", "accessModes": spec.get("accessModes"), "capacity": spec.get("capacity")}
    cluster.store.put(
        cluster.kind("v1", "PersistentVolumeClaim"),
        {
            **claim,
            "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), **marks}},
            "spec": {**claim["spec"], "volumeName": volume["metadata"]["name"]},
            "status": {**(claim.get("status") or {}), **status},
        },
    )


def _made_for(cluster: SimulatedCluster, claim: Object, made_by: Object, node: NodeInfo) -> Object:
    name = f"pvc-{claim['metadata']['uid']}"
    label = _ZONE if _ZONE in node.labels else _HOST
    place = {"key": label, "operator": "In", "values": [node.labels.get(label, node.name)]}
    return {
        "metadata": {
            "name": name,
            "uid": cluster.naming.uid(),
            "creationTimestamp": format_timestamp(cluster.clock.now()),
        },
        "spec": {
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
            "accessModes": claim["spec"].get("accessModes") or ["ReadWriteOnce"],
            "volumeMode": claim["spec"].get("volumeMode") or "Filesystem",
            "storageClassName": claim_class(claim),
            "persistentVolumeReclaimPolicy": made_by.get("reclaimPolicy") or "Delete",
            "csi": {"driver": made_by["provisioner"], "volumeHandle": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [place]}]}},
        },
    }


class SchedulerWrites:
    def __init__(self, cluster: SimulatedCluster, scheduler: str) -> None:
        self._cluster = cluster
        self._scheduler = scheduler
        self._pods = cluster.kind("v1", "Pod")
        self._events = cluster.kind("v1", "Event")

    def bind(self, pod: PodInfo, node: NodeInfo, storage: StorageInfo) -> bool:
        """Bind the pod, and return False if it has changed; its change enqueues it again."""
        record = self._still_there(pod)
        if record is None:
            return False
        bind_volumes(self._cluster, storage, pod, node)
        try:
            content = bound(self._cluster, record, {}, node.name)
        except StatusError:
            return False
        self._cluster.store.put(self._pods, content)
        self._record_event(
            pod, "Normal", "Scheduled", "Binding", f"Successfully assigned {pod.key} to {node.name}"
        )
        return True

    def set_unschedulable(
        self, pod: PodInfo, message: str, *, reason: str, nominate: str | None = None
    ) -> None:
        """Record a new reason why the pod is unschedulable; `nominate` sets a node, or clears it if empty."""
        record = self._still_there(pod)
        if record is None:
            return
        content = record.object
        status = content.setdefault("status", {})
        scheduled = condition(status, "PodScheduled") or {}
        known = (scheduled.get("status"), scheduled.get("reason"), scheduled.get("message")) == (
            "False",
            reason,
            message,
        )
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
        self._record_event(pod, "Warning", "FailedScheduling", "Scheduling", message)

    def preempt(self, victim: PodInfo, preemptor: PodInfo, node: str) -> None:
        """Delete a victim gracefully, without checking its budget: the choice has considered it."""
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
        self._record_event(
            victim, "Normal", "Preempted", "Preempting", f"Preempted by pod {preemptor.uid} on node {node}"
        )

    def clear_nomination(self, pod: PodInfo) -> None:
        """Clear the nomination of a pod, because a more important pod gets the node."""
        if (record := self._still_there(pod)) is not None:
            content = record.object
            if content.get("status", {}).pop("nominatedNodeName", None):
                self._cluster.store.put(self._pods, content)

    def _still_there(self, pod: PodInfo) -> StoredObject | None:
        record = self._cluster.store.find(self._pods, pod.namespace, pod.name)
        return record if record is not None and record.uid == pod.uid else None

    def _record_event(self, pod: PodInfo, type_: str, reason: str, action: str, message: str) -> None:
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
    scheduled = condition(status, "PodScheduled")
    assert scheduled is not None
    scheduled["observedGeneration"] = generation
