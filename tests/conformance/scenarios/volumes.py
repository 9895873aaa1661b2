"""Claims and volumes: which claim gets which volume, when, and the part of the pod in that."""

from typing import Any

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    Object,
)
from tests.conformance.running_cluster import RunningCluster, condition, conditions
from tests.conformance.scenario import running_cluster_scenario


async def _class(cluster: RunningCluster, mode: str) -> str:
    name = cluster.unique(mode.lower())
    await cluster.create(STORAGE_CLASSES, {
        "metadata": {"name": name},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": mode,
    })  # fmt: skip
    return name


async def _volume(cluster: RunningCluster, name: str, size: str, class_name: str, *, node: str = "") -> str:
    spec: Object = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": class_name,
        "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": "/data"},
    }
    if node:
        here = [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": here}]}}
    await cluster.create(PERSISTENT_VOLUMES, {"metadata": {"name": cluster.unique(name)}, "spec": spec})
    # Before it is available, no claim gets it.
    await cluster.until_one(
        PERSISTENT_VOLUMES, cluster.unique(name), lambda found: _phase(found) == "Available"
    )
    return cluster.unique(name)


async def _claim(cluster: RunningCluster, name: str, size: str, class_name: str) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "storageClassName": class_name,
    }
    await cluster.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": name}, "spec": spec})


def _phase(found: Object) -> str:
    return str((found.get("status") or {}).get("phase"))


def _using(cluster: RunningCluster, name: str, claim: str) -> Object:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    return cluster.pod(name, volumes=[volume])


def _reference(volume: Object) -> dict[str, Any]:
    return {key: volume["spec"]["claimRef"][key] for key in ("kind", "namespace", "name", "uid")}


@running_cluster_scenario("a claim gets the smallest volume that is large enough, at once")
async def smallest(cluster: RunningCluster) -> None:
    name = await _class(cluster, "Immediate")
    for volume, size in (("tiny", "1Gi"), ("large", "10Gi"), ("fitting", "3Gi")):
        await _volume(cluster, volume, size, name)
    await _claim(cluster, "data", "2Gi", name)
    claim = await cluster.until_one(PERSISTENT_VOLUME_CLAIMS, "data", lambda found: _phase(found) == "Bound")
    # Another controller adds the condition Unused, before or after the claim is bound.
    status = {field: value for field, value in claim["status"].items() if field != "conditions"}
    cluster.saw("claim", [claim["spec"]["volumeName"], status])
    cluster.saw("its annotations", sorted(claim["metadata"]["annotations"]))
    volume = await cluster.until_one(
        PERSISTENT_VOLUMES, cluster.unique("fitting"), lambda found: _phase(found) == "Bound"
    )
    cluster.saw("volume", [_reference(volume), sorted(volume["metadata"].get("annotations") or {})])
    await cluster.client.delete(PERSISTENT_VOLUME_CLAIMS, cluster.key("data"))
    await cluster.gone(PERSISTENT_VOLUME_CLAIMS, "data")
    left = await cluster.until_one(
        PERSISTENT_VOLUMES, cluster.unique("fitting"), lambda found: _phase(found) == "Released"
    )
    cluster.saw("afterwards it is kept for its claim", _reference(left))


@running_cluster_scenario("a claim that waits for its first pod gets a volume where that pod can be")
async def first_consumer(cluster: RunningCluster) -> None:
    name = await _class(cluster, "WaitForFirstConsumer")
    await _volume(cluster, "here", "1Gi", name, node=cluster.nodes[1])
    await _claim(cluster, "data", "1Gi", name)
    claim = await cluster.read(PERSISTENT_VOLUME_CLAIMS, "data")
    assert claim is not None
    cluster.saw("without a pod", _phase(claim))
    await cluster.create(PODS, _using(cluster, "web", "data"))
    (pod,) = await cluster.until_pods(1)
    cluster.saw("the pod is where the volume is", pod["spec"]["nodeName"])
    claim = await cluster.until_one(PERSISTENT_VOLUME_CLAIMS, "data", lambda found: _phase(found) == "Bound")
    cluster.saw("claim", [claim["spec"]["volumeName"], sorted(claim["metadata"]["annotations"])])


@running_cluster_scenario("a pod waits for its claim, and its condition says so", alone=True)
async def waiting_pods(cluster: RunningCluster) -> None:
    immediate, later = await _class(cluster, "Immediate"), await _class(cluster, "WaitForFirstConsumer")
    await _claim(cluster, "unbound", "1Gi", immediate)
    await _claim(cluster, "nowhere", "1Gi", later)
    for name in ("unbound", "nowhere", "missing"):
        await cluster.create(PODS, _using(cluster, name, name))
        waiting = await cluster.until_one(
            PODS, name, lambda pod: condition(pod, "PodScheduled").get("status") == "False"
        )
        cluster.saw(name, conditions(waiting))
    await _volume(cluster, "late", "1Gi", immediate)
    pod = await cluster.until_one(PODS, "unbound", lambda found: found["spec"].get("nodeName"))
    cluster.saw("when there is one", bool(pod["spec"]["nodeName"]))
