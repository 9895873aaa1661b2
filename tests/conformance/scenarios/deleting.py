"""Deletion: grace periods, finalizers, owners and what follows them."""

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import CONFIG_MAPS, NAMESPACES, REPLICA_SETS, json_patch, merge_patch
from tests.conformance.notes import at
from tests.conformance.objects import config_map, owner_reference, pod, replica_set
from tests.conformance.scenario import scenario
from tests.conformance.world import World

FINALIZER = "example.com/hold"
ABSENT_OWNER = {
    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "ghost",
    "uid": "00000000-0000-0000-0000-000000000001",
}  # fmt: skip


@scenario("a finalizer holds a deleted object until it is taken off")
async def finalizers(world: World) -> None:
    await world.create(CONFIG_MAPS, config_map("held", finalizers=[FINALIZER]))
    key = world.key("held")
    await world.client.delete(CONFIG_MAPS, key)
    held = await world.read(CONFIG_MAPS, "held")
    world.saw("deletionTimestamp", at(held, "metadata.deletionTimestamp"))
    world.saw("grace period", at(held, "metadata.deletionGracePeriodSeconds"))
    more = merge_patch({"metadata": {"finalizers": [FINALIZER, "example.com/more"]}})
    await world.tried("one more finalizer", world.client.patch(CONFIG_MAPS, key, more))
    await world.tried(
        "a label", world.client.patch(CONFIG_MAPS, key, merge_patch({"metadata": {"labels": {"a": "b"}}}))
    )
    await world.client.patch(CONFIG_MAPS, key, json_patch([{"op": "remove", "path": "/metadata/finalizers"}]))
    world.saw("after it", await world.read(CONFIG_MAPS, "held"))


@scenario("a pod that runs on no node goes at once, one on a node has its grace period")
async def grace(world: World) -> None:
    await world.create(PODS, pod("nowhere"))
    await world.create(PODS, pod("somewhere", node="worker", spec={"terminationGracePeriodSeconds": 25}))
    for name in ("nowhere", "somewhere"):
        await world.client.delete(PODS, world.key(name))
        left = await world.read(PODS, name)
        world.saw(name, left and at(left, "metadata.deletionGracePeriodSeconds"))
    await world.client.delete(PODS, world.key("somewhere"), grace_s=5)
    left = await world.read(PODS, "somewhere")
    world.saw("shortened", at(left, "metadata.deletionGracePeriodSeconds"))
    await world.client.delete(PODS, world.key("somewhere"), grace_s=60)
    left = await world.read(PODS, "somewhere")
    world.saw("not lengthened", at(left, "metadata.deletionGracePeriodSeconds"))
    await world.client.delete(PODS, world.key("somewhere"), grace_s=0)
    world.saw("forced", await world.read(PODS, "somewhere"))


@scenario("what an object owns goes with it")
async def background(world: World) -> None:
    owner = await world.create(REPLICA_SETS, replica_set("owner"))
    await world.create(CONFIG_MAPS, config_map("owned", ownerReferences=[owner_reference(owner)]))
    await world.client.delete(REPLICA_SETS, world.key("owner"), propagation="Background")
    await world.gone(CONFIG_MAPS, "owned")
    world.saw("the owner", await world.read(REPLICA_SETS, "owner"))


@scenario("an object with two owners stays while one of them is there")
async def two_owners(world: World) -> None:
    first = await world.create(REPLICA_SETS, replica_set("first"))
    second = await world.create(REPLICA_SETS, replica_set("second"))
    references = [owner_reference(first), owner_reference(second)]
    await world.create(CONFIG_MAPS, config_map("owned", ownerReferences=references))
    await world.client.delete(REPLICA_SETS, world.key("first"), propagation="Background")
    found = await world.until(
        CONFIG_MAPS, lambda found: len(at(found["owned"], "metadata.ownerReferences") or ()) == 1
    )
    world.saw("owners left", [owner["name"] for owner in at(found["owned"], "metadata.ownerReferences")])
    await world.client.delete(REPLICA_SETS, world.key("second"), propagation="Background")
    await world.gone(CONFIG_MAPS, "owned")


@scenario("an orphaned object stays, without its owner")
async def orphan(world: World) -> None:
    owner = await world.create(REPLICA_SETS, replica_set("owner"))
    await world.create(CONFIG_MAPS, config_map("owned", ownerReferences=[owner_reference(owner)]))
    await _collector_has_caught_up(world)
    await world.client.delete(REPLICA_SETS, world.key("owner"), propagation="Orphan")
    await world.gone(REPLICA_SETS, "owner")
    left = await world.read(CONFIG_MAPS, "owned")
    world.saw("owners left", at(left, "metadata.ownerReferences"))


@scenario("in the foreground, the owner waits for what blocks its deletion")
async def foreground(world: World) -> None:
    owner = await world.create(REPLICA_SETS, replica_set("owner"))
    references = [owner_reference(owner, blockOwnerDeletion=True)]
    await world.create(CONFIG_MAPS, config_map("owned", ownerReferences=references, finalizers=[FINALIZER]))
    await _collector_has_caught_up(world)
    await world.client.delete(REPLICA_SETS, world.key("owner"), propagation="Foreground")
    await world.until(CONFIG_MAPS, lambda found: "deletionTimestamp" in found["owned"]["metadata"])
    waiting = await world.read(REPLICA_SETS, "owner")
    world.saw("the owner's finalizers meanwhile", at(waiting, "metadata.finalizers"))
    release = json_patch([{"op": "remove", "path": "/metadata/finalizers"}])
    await world.client.patch(CONFIG_MAPS, world.key("owned"), release)
    await world.gone(REPLICA_SETS, "owner")


@scenario("an owner that does not exist is no owner: the object is collected")
async def absent_owner(world: World) -> None:
    await world.create(CONFIG_MAPS, config_map("owned", ownerReferences=[ABSENT_OWNER]))
    await world.gone(CONFIG_MAPS, "owned")
    world.saw("owned", await world.read(CONFIG_MAPS, "owned"))


@scenario("only one owner may be the controller")
async def two_controllers(world: World) -> None:
    first = await world.create(REPLICA_SETS, replica_set("first"))
    second = await world.create(REPLICA_SETS, replica_set("second"))
    references = [owner_reference(each, controller=True) for each in (first, second)]
    owned = world.placed(CONFIG_MAPS, config_map("owned", ownerReferences=references))
    await world.tried("two controllers", world.client.create(CONFIG_MAPS, owned))


@scenario("a namespace takes its contents with it, and takes nothing new meanwhile", alone=True)
async def namespace(world: World) -> None:
    await world.create(CONFIG_MAPS, config_map("held", finalizers=[FINALIZER]))
    await world.client.delete(NAMESPACES, world.namespace)
    await world.until(CONFIG_MAPS, lambda found: "deletionTimestamp" in found["held"]["metadata"])
    terminating = await world.client.get(NAMESPACES, world.namespace)
    world.saw("phase", at(terminating, "status.phase"))
    late = world.placed(CONFIG_MAPS, config_map("late"))
    await world.tried("a late comer", world.client.create(CONFIG_MAPS, late))
    release = json_patch([{"op": "remove", "path": "/metadata/finalizers"}])
    await world.client.patch(CONFIG_MAPS, world.key("held"), release)


async def _collector_has_caught_up(world: World) -> None:
    """Wait until the garbage collector knows every ConfigMap that exists now.

    It has one watch per kind: a watch on ConfigMaps that lags behind the one on ReplicaSets lets it treat an
    owner as one that owns nothing. It removes a ConfigMap of an absent owner only after it has processed all
    earlier ones.
    """
    await world.create(CONFIG_MAPS, config_map("marker", ownerReferences=[ABSENT_OWNER]))
    await world.gone(CONFIG_MAPS, "marker")
