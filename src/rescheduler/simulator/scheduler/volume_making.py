"""What provisioners and the volume controller do for a pod whose claims waited for it, done in one go.

Simpler than the real thing: a claim gets its volume at once, and a volume that is made for it can be
reached from the chosen node's zone, or from that node alone if it has no zone.
"""

from rescheduler.simulator.clock import timestamp
from rescheduler.simulator.cluster import Cluster
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.scheduler.filters.volume_binding import SELECTED_NODE, planned_volumes
from rescheduler.simulator.scheduler.nodes import NodeView
from rescheduler.simulator.scheduler.pods import PodView
from rescheduler.simulator.scheduler.storage import StorageView, claim_class

__all__ = ["give_volumes"]

_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_ZONE, _HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def give_volumes(cluster: Cluster, storage: StorageView, pod: PodView, node: NodeView) -> None:
    """Every claim of the pod is bound afterwards."""
    matched, to_make = planned_volumes(pod, node, storage)
    for claim, volume in matched:
        _bind(cluster, claim, volume, {})
    for claim in to_make:
        made = _made_for(cluster, claim, storage.classes[claim_class(claim)], node)
        _bind(cluster, claim, made, {SELECTED_NODE: node.name})


def _bind(cluster: Cluster, claim: Object, volume: Object, annotations: dict[str, str]) -> None:
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


def _made_for(cluster: Cluster, claim: Object, made_by: Object, node: NodeView) -> Object:
    name = f"pvc-{claim['metadata']['uid']}"
    label = _ZONE if _ZONE in node.labels else _HOST
    place = {"key": label, "operator": "In", "values": [node.labels.get(label, node.name)]}
    return {
        "metadata": {
            "name": name,
            "uid": cluster.naming.uid(),
            "creationTimestamp": timestamp(cluster.clock.now()),
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
