"""Claims and volumes: who gets which, when, and what a pod has to do with it."""

from typing import Any

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    Object,
)
from tests.conformance.living import LivingWorld, condition, conditions
from tests.conformance.scenario import living


async def _class(world: LivingWorld, mode: str) -> str:
    name = world.unique(mode.lower())
    await world.create(STORAGE_CLASSES, {
        "metadata": {"name": name},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": mode,
    })  # fmt: skip
    return name


async def _volume(world: LivingWorld, name: str, size: str, class_name: str, *, node: str = "") -> str:
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
    await world.create(PERSISTENT_VOLUMES, {"metadata": {"name": world.unique(name)}, "spec": spec})
    # Before it is available nobody gets it.
    await world.until_one(PERSISTENT_VOLUMES, world.unique(name), lambda found: _phase(found) == "Available")
    return world.unique(name)


async def _claim(world: LivingWorld, name: str, size: str, class_name: str) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "storageClassName": class_name,
    }
    await world.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": name}, "spec": spec})


def _phase(found: Object) -> str:
    return str((found.get("status") or {}).get("phase"))


def _using(world: LivingWorld, name: str, claim: str) -> Object:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    return world.pod(name, volumes=[volume])


def _reference(volume: Object) -> dict[str, Any]:
    return {key: volume["spec"]["claimRef"][key] for key in ("kind", "namespace", "name", "uid")}


@living("a claim gets the smallest volume that is large enough, at once")
async def smallest(world: LivingWorld) -> None:
    name = await _class(world, "Immediate")
    for volume, size in (("tiny", "1Gi"), ("large", "10Gi"), ("fitting", "3Gi")):
        await _volume(world, volume, size, name)
    await _claim(world, "data", "2Gi", name)
    claim = await world.until_one(PERSISTENT_VOLUME_CLAIMS, "data", lambda found: _phase(found) == "Bound")
    # Another controller adds the condition Unused, before or after the claim is bound.
    status = {field: value for field, value in claim["status"].items() if field != "conditions"}
    world.saw("claim", [claim["spec"]["volumeName"], status])
    world.saw("its annotations", sorted(claim["metadata"]["annotations"]))
    volume = await world.until_one(
        PERSISTENT_VOLUMES, world.unique("fitting"), lambda found: _phase(found) == "Bound"
    )
    world.saw("volume", [_reference(volume), sorted(volume["metadata"].get("annotations") or {})])
    await world.client.delete(PERSISTENT_VOLUME_CLAIMS, world.key("data"))
    await world.gone(PERSISTENT_VOLUME_CLAIMS, "data")
    left = await world.until_one(
        PERSISTENT_VOLUMES, world.unique("fitting"), lambda found: _phase(found) == "Released"
    )
    world.saw("afterwards it is kept for its claim", _reference(left))


@living("a claim that waits for its first pod gets a volume where that pod can be")
async def first_consumer(world: LivingWorld) -> None:
    name = await _class(world, "WaitForFirstConsumer")
    await _volume(world, "here", "1Gi", name, node=world.nodes[1])
    await _claim(world, "data", "1Gi", name)
    claim = await world.read(PERSISTENT_VOLUME_CLAIMS, "data")
    assert claim is not None
    world.saw("without a pod", _phase(claim))
    await world.create(PODS, _using(world, "web", "data"))
    (pod,) = await world.until_pods(1)
    world.saw("the pod is where the volume is", pod["spec"]["nodeName"])
    claim = await world.until_one(PERSISTENT_VOLUME_CLAIMS, "data", lambda found: _phase(found) == "Bound")
    world.saw("claim", [claim["spec"]["volumeName"], sorted(claim["metadata"]["annotations"])])


@living("a pod waits for its claim, and is told what it waits for", alone=True)
async def waiting_pods(world: LivingWorld) -> None:
    immediate, later = await _class(world, "Immediate"), await _class(world, "WaitForFirstConsumer")
    await _claim(world, "unbound", "1Gi", immediate)
    await _claim(world, "nowhere", "1Gi", later)
    for name in ("unbound", "nowhere", "missing"):
        await world.create(PODS, _using(world, name, name))
        waiting = await world.until_one(
            PODS, name, lambda pod: condition(pod, "PodScheduled").get("status") == "False"
        )
        world.saw(name, conditions(waiting))
    await _volume(world, "late", "1Gi", immediate)
    pod = await world.until_one(PODS, "unbound", lambda found: found["spec"].get("nodeName"))
    world.saw("when there is one", bool(pod["spec"]["nodeName"]))
