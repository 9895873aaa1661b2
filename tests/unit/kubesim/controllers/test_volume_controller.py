"""Volume claims are bound to existing volumes or to new ones."""

import asyncio

from tests.unit.kubesim.controllers.conftest import template


def claim(name="c", storage="1Gi", **spec):
    resources = {"requests": {"storage": storage}}
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec},
    }


def volume(name, storage="1Gi", **spec):
    content = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": storage},
        "hostPath": {"path": "/x"},
        **spec,
    }
    return {"metadata": {"name": name}, "spec": content}


async def storage_class(sim, name="fast", mode="Immediate", **more):
    content = {"metadata": {"name": name}, "provisioner": "csi.example", "volumeBindingMode": mode, **more}
    await sim.create("storageclasses", content)


async def bound_to(sim, name="c"):
    await asyncio.sleep(0.1)
    found = await sim.get("persistentvolumeclaims", name)
    return found["spec"].get("volumeName") if found["status"]["phase"] == "Bound" else None


async def test_the_smallest_volume_that_is_large_enough(sim):
    for name, storage in (("huge", "10Gi"), ("fit", "2Gi"), ("small", "1Gi")):
        await sim.create("persistentvolumes", volume(name, storage))
    await sim.create("persistentvolumeclaims", claim(storage="1500Mi", storageClassName=""))
    assert await bound_to(sim) == "fit"
    taken = await sim.get("persistentvolumes", "fit")
    assert (taken["status"]["phase"], taken["spec"]["claimRef"]["name"]) == ("Bound", "c")
    assert (await sim.get("persistentvolumes", "huge"))["status"]["phase"] == "Available"
    assert (await sim.get("persistentvolumeclaims", "c"))["status"]["capacity"] == {"storage": "2Gi"}


async def test_one_that_comes_later(sim):
    await sim.create("persistentvolumeclaims", claim(storageClassName=""))
    assert await bound_to(sim) is None
    await sim.create("persistentvolumes", volume("late"))
    assert await bound_to(sim) == "late"


async def test_one_is_made_if_the_class_can(sim):
    await storage_class(sim)
    made = await sim.create("persistentvolumeclaims", claim(storageClassName="fast"))
    name = await bound_to(sim)
    assert name == f"pvc-{made['metadata']['uid']}"
    found = await sim.get("persistentvolumes", name)
    assert (found["spec"]["csi"]["driver"], found["spec"]["storageClassName"]) == ("csi.example", "fast")


async def test_the_default_class_is_for_claims_that_name_none(sim):
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    await storage_class(sim, metadata={"name": "usual", "annotations": annotations})
    await sim.create("persistentvolumeclaims", claim())
    assert await bound_to(sim)
    assert (await sim.get("persistentvolumeclaims", "c"))["spec"]["storageClassName"] == "usual"


async def test_a_class_waits_for_the_first_consumer(sim):
    """The claim is bound when a pod has a node, and the volume stays in the node's zone."""
    await sim.patch("nodes", "n1", {"metadata": {"labels": {"topology.kubernetes.io/zone": "z1"}}})
    await storage_class(sim, mode="WaitForFirstConsumer")
    await sim.create("persistentvolumeclaims", claim(storageClassName="fast"))
    assert await bound_to(sim) is None
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    spec = {**template(volumes=volumes)["spec"], "nodeName": "n1"}
    await sim.create("pods", {"metadata": {"name": "p"}, "spec": spec})
    found = await sim.get("persistentvolumes", await bound_to(sim))
    (term,) = found["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"]}
    ]


async def test_the_schedulers_choice_is_enough(sim):
    await storage_class(sim, mode="WaitForFirstConsumer")
    await sim.create("persistentvolumeclaims", claim(storageClassName="fast"))
    note = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n2"}}}
    await sim.patch("persistentvolumeclaims", "c", note)
    assert await bound_to(sim)


async def test_when_the_claim_goes_the_volume_does_what_its_policy_says(sim):
    await storage_class(sim)
    await sim.create("persistentvolumes", volume("kept"))
    await sim.create("persistentvolumeclaims", claim("own", storageClassName="fast"))
    await sim.create("persistentvolumeclaims", claim("found", storageClassName=""))
    assert await bound_to(sim, "found") == "kept"
    for name in ("own", "found"):
        await sim.delete("persistentvolumeclaims", name)
    await asyncio.sleep(0.1)
    (left,) = await sim.all("persistentvolumes")
    assert (left["metadata"]["name"], left["status"]["phase"]) == ("kept", "Released")
