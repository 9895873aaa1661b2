"""ReplicaSets: which pods they count as theirs, and which they delete first."""

import asyncio

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.api_resources import DEPLOYMENTS, REPLICA_SETS, Object, merge_patch
from tests.conformance.living import LivingWorld, is_ready, numbers
from tests.conformance.objects import owner_reference
from tests.conformance.scenario import living

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


async def _scale(world: LivingWorld, name: str, replicas: int) -> None:
    change = merge_patch({"spec": {"replicas": replicas}})
    await world.client.patch(REPLICA_SETS, world.key(name), change)


def _owner(pod: Object | None) -> list[list[object]]:
    assert pod is not None
    return [
        [each["kind"], each["name"], each.get("controller"), each.get("blockOwnerDeletion")]
        for each in pod["metadata"].get("ownerReferences") or ()
    ]


@living("a ReplicaSet makes its pods, and counts those that run, are ready and are available")
async def counts(world: LivingWorld) -> None:
    world.behave({"match": {"labels": {"late": "yes"}}, "readiness": "never"})
    await world.create(REPLICA_SETS, world.workload("web", 3))
    pods = await world.until_pods(3)
    ready = await world.settled(REPLICA_SETS, "web", availableReplicas=3)
    world.saw("all ready", numbers(ready))
    world.saw("owner", _owner(pods[0]))
    world.saw("labels", pods[0]["metadata"]["labels"].get("app"))
    world.saw("generateName", pods[0]["metadata"]["generateName"])
    label = merge_patch({"metadata": {"labels": {"late": "yes"}}})
    await world.client.patch(PODS, world.key(pods[0]["metadata"]["name"]), label)
    world.behave({"match": {"labels": {"late": "yes"}}, "readiness": "never"})
    world.saw("one unready", numbers(await world.settled(REPLICA_SETS, "web", readyReplicas=2)))


@living("pods that are ready but not for minReadySeconds are not available")
async def min_ready_seconds(world: LivingWorld) -> None:
    await world.create(REPLICA_SETS, world.workload("web", 2, minReadySeconds=3600))
    await world.until_pods(2)
    world.saw("status", numbers(await world.settled(REPLICA_SETS, "web", readyReplicas=2)))


@living("a ReplicaSet adopts a pod that it selects and nobody owns, and lets go one that it selects no more")
async def adopts_and_releases(world: LivingWorld) -> None:
    orphan = await world.create(PODS, world.pod("orphan", app="web"))
    await world.until_pods(1)
    await world.create(REPLICA_SETS, world.workload("web", 1))
    adopted = await world.until_one(PODS, "orphan", lambda pod: pod["metadata"].get("ownerReferences"))
    world.saw("adopted", [adopted["metadata"]["uid"] == orphan["metadata"]["uid"], _owner(adopted)])
    world.saw("status", numbers(await world.settled(REPLICA_SETS, "web", availableReplicas=1)))
    world.saw("pods", len(await world.until_pods(1)))
    label = merge_patch({"metadata": {"labels": {"app": "other"}}})
    await world.client.patch(PODS, world.key("orphan"), label)
    released = await world.until_one(PODS, "orphan", lambda pod: not pod["metadata"].get("ownerReferences"))
    world.saw("released", [is_ready(released), _owner(released)])
    await world.until_pods(1, app="web")
    world.saw("status after it", numbers(await world.settled(REPLICA_SETS, "web", availableReplicas=1)))


@living("an adopted pod too many is deleted: the one that is not assigned yet, else the youngest")
async def one_too_many(world: LivingWorld) -> None:
    await world.create(REPLICA_SETS, world.workload("web", 2))
    before = {pod["metadata"]["name"] for pod in await world.until_pods(2)}
    await world.create(PODS, world.pod("gated", app="web", schedulingGates=[{"name": "example.com/hold"}]))
    await world.gone(PODS, "gated")
    left = {pod["metadata"]["name"] for pod in await world.until_pods(2)}
    world.saw("the others stay", left == before)


@living("a ReplicaSet leaves a pod alone that another controller owns, until that lets it go")
async def other_controllers(world: LivingWorld) -> None:
    holder = await world.create(PODS, world.pod("holder"))
    metadata = {
        "labels": {"app": "web"},
        "annotations": {DELETION_COST: "100"},
        "ownerReferences": [owner_reference(holder, controller=True)],
    }
    await world.create(PODS, world.pod("foreign", metadata=metadata))
    await world.create(REPLICA_SETS, world.workload("web", 2))
    world.saw("pods with that label", len(await world.until_pods(3, app="web")))
    world.saw("status", numbers(await world.settled(REPLICA_SETS, "web", availableReplicas=2)))
    world.saw("its owner", _owner(await world.read(PODS, "foreign")))
    let_go = merge_patch({"metadata": {"ownerReferences": [owner_reference(holder, controller=False)]}})
    await world.client.patch(PODS, world.key("foreign"), let_go)
    left = await world.until_pods(2, app="web")
    world.saw("it is one of the two", "foreign" in _names(left))
    world.saw("its owners", sorted(_owner(await world.read(PODS, "foreign"))))


@living("unready pods are deleted before ready ones, whatever their deletion cost")
async def unready_first(world: LivingWorld) -> None:
    unready = {"match": {"labels": {"role": "unready"}}, "readiness": "never"}
    await world.create(
        PODS, world.pod("unready", app="web", metadata={"labels": {"app": "web", "role": "unready"}})
    )
    world.behave(unready)
    cheap = {"labels": {"app": "web"}, "annotations": {DELETION_COST: "-100"}}
    await world.create(PODS, world.pod("cheap", app="web", metadata=cheap))
    await world.create(PODS, world.pod("plain", app="web"))
    await world.until(PODS, lambda found: sum(map(is_ready, found.values())) == 2)
    await world.create(REPLICA_SETS, world.workload("web", 3))
    await world.settled(REPLICA_SETS, "web", replicas=3, availableReplicas=2)
    for replicas in (2, 1):
        await _scale(world, "web", replicas)
        world.saw(f"left of {replicas + 1}", _names(await world.until_pods(replicas)))


@living("among ready pods the cheapest are deleted first")
async def cheapest_first(world: LivingWorld) -> None:
    for name, cost in (("dear", "100"), ("cheap", "-100"), ("plain", "")):
        annotations = {DELETION_COST: cost} if cost else {}
        metadata = {"labels": {"app": "web"}, "annotations": annotations}
        await world.create(PODS, world.pod(name, metadata=metadata))
    await world.until_pods(3)
    await world.create(REPLICA_SETS, world.workload("web", 3))
    await world.settled(REPLICA_SETS, "web", availableReplicas=3)
    for replicas in (2, 1):
        await _scale(world, "web", replicas)
        world.saw(f"left of {replicas + 1}", _names(await world.until_pods(replicas)))


@living("a Deployment's pods go first where several of them share a node")
async def doubled_up_first(world: LivingWorld) -> None:
    lonely, shared = world.nodes
    for replicas, node, other in ((1, lonely, shared), (4, shared, lonely)):
        await world.client.patch(NODES, node, merge_patch({"spec": {"unschedulable": None}}))
        await world.client.patch(NODES, other, merge_patch({"spec": {"unschedulable": True}}))
        if replicas == 1:
            await world.create(DEPLOYMENTS, world.workload("web", replicas))
        else:
            change = merge_patch({"spec": {"replicas": replicas}})
            await world.client.patch(DEPLOYMENTS, world.key("web"), change)
        await world.until_pods(replicas)
    await world.client.patch(DEPLOYMENTS, world.key("web"), merge_patch({"spec": {"replicas": 2}}))
    left = await world.until_pods(2)
    world.saw("nodes of those left", sorted(pod["spec"]["nodeName"] for pod in left))


@living("a ReplicaSet of nobody's does not look at nodes: the youngest go first")
async def youngest_first(world: LivingWorld) -> None:
    lonely, shared = world.nodes
    for name in ("old-1", "old-2", "old-3"):
        await world.create(PODS, world.pod(name, app="web", nodeName=shared))
    await world.until_pods(3)
    # Ages count by their order of magnitude.
    await asyncio.sleep(5)
    await world.create(PODS, world.pod("young", app="web", nodeName=lonely))
    await world.until_pods(4)
    await world.create(REPLICA_SETS, world.workload("web", 3))
    world.saw("left", _names(await world.until_pods(3)))


@living("the pods of a deleted ReplicaSet go with it, unless they are to be orphaned")
async def deleted(world: LivingWorld) -> None:
    for name in ("web", "kept"):
        await world.create(REPLICA_SETS, world.workload(name, 1))
        await world.until_pods(1, app=name)
    (kept,) = await world.until_pods(1, app="kept")
    await world.client.delete(REPLICA_SETS, world.key("web"), propagation="Foreground")
    await world.gone(REPLICA_SETS, "web")
    await world.client.delete(REPLICA_SETS, world.key("kept"), propagation="Orphan")
    await world.gone(REPLICA_SETS, "kept")
    (left,) = await world.until_pods(1)
    world.saw("the orphan", [left["metadata"]["uid"] == kept["metadata"]["uid"], _owner(left)])
    await world.create(REPLICA_SETS, world.workload("kept", 1))
    await world.settled(REPLICA_SETS, "kept", availableReplicas=1)
    (again,) = await world.until_pods(1)
    world.saw("adopted", [again["metadata"]["uid"] == kept["metadata"]["uid"], _owner(again)])


def _names(pods: list[Object]) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods]
