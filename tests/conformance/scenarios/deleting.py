"""Deletion: grace periods, finalizers, owners and what follows them."""

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import CONFIG_MAPS, NAMESPACES, REPLICA_SETS, json_patch, merge_patch
from tests.conformance.cluster_under_test import ClusterUnderTest
from tests.conformance.notes import at
from tests.conformance.objects import config_map, owner_reference, pod, replica_set
from tests.conformance.scenario import scenario

FINALIZER = "example.com/hold"
ABSENT_OWNER = {
    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "ghost",
    "uid": "00000000-0000-0000-0000-000000000001",
}  # fmt: skip


@scenario("a finalizer keeps a deleted object until it is removed")
async def finalizers(cluster: ClusterUnderTest) -> None:
    await cluster.create(CONFIG_MAPS, config_map("held", finalizers=[FINALIZER]))
    key = cluster.key("held")
    await cluster.client.delete(CONFIG_MAPS, key)
    held = await cluster.read(CONFIG_MAPS, "held")
    cluster.saw("deletionTimestamp", at(held, "metadata.deletionTimestamp"))
    cluster.saw("grace period", at(held, "metadata.deletionGracePeriodSeconds"))
    more = merge_patch({"metadata": {"finalizers": [FINALIZER, "example.com/more"]}})
    await cluster.tried("one more finalizer", cluster.client.patch(CONFIG_MAPS, key, more))
    await cluster.tried(
        "a label", cluster.client.patch(CONFIG_MAPS, key, merge_patch({"metadata": {"labels": {"a": "b"}}}))
    )
    await cluster.client.patch(
        CONFIG_MAPS, key, json_patch([{"op": "remove", "path": "/metadata/finalizers"}])
    )
    cluster.saw("after it", await cluster.read(CONFIG_MAPS, "held"))


@scenario("a pod that runs on no node goes at once, one on a node has its grace period")
async def grace(cluster: ClusterUnderTest) -> None:
    await cluster.create(PODS, pod("nowhere"))
    await cluster.create(PODS, pod("somewhere", node="worker", spec={"terminationGracePeriodSeconds": 25}))
    for name in ("nowhere", "somewhere"):
        await cluster.client.delete(PODS, cluster.key(name))
        left = await cluster.read(PODS, name)
        cluster.saw(name, left and at(left, "metadata.deletionGracePeriodSeconds"))
    await cluster.client.delete(PODS, cluster.key("somewhere"), grace_s=5)
    left = await cluster.read(PODS, "somewhere")
    cluster.saw("shortened", at(left, "metadata.deletionGracePeriodSeconds"))
    await cluster.client.delete(PODS, cluster.key("somewhere"), grace_s=60)
    left = await cluster.read(PODS, "somewhere")
    cluster.saw("not lengthened", at(left, "metadata.deletionGracePeriodSeconds"))
    await cluster.client.delete(PODS, cluster.key("somewhere"), grace_s=0)
    cluster.saw("forced", await cluster.read(PODS, "somewhere"))


@scenario("dependents are deleted with their owner")
async def background(cluster: ClusterUnderTest) -> None:
    owner = await cluster.create(REPLICA_SETS, replica_set("owner"))
    await cluster.create(CONFIG_MAPS, config_map("owned", ownerReferences=[owner_reference(owner)]))
    await cluster.client.delete(REPLICA_SETS, cluster.key("owner"), propagation="Background")
    await cluster.gone(CONFIG_MAPS, "owned")
    cluster.saw("the owner", await cluster.read(REPLICA_SETS, "owner"))


@scenario("an object with two owners stays while one of them exists")
async def two_owners(cluster: ClusterUnderTest) -> None:
    first = await cluster.create(REPLICA_SETS, replica_set("first"))
    second = await cluster.create(REPLICA_SETS, replica_set("second"))
    references = [owner_reference(first), owner_reference(second)]
    await cluster.create(CONFIG_MAPS, config_map("owned", ownerReferences=references))
    await cluster.client.delete(REPLICA_SETS, cluster.key("first"), propagation="Background")
    found = await cluster.until(
        CONFIG_MAPS, lambda found: len(at(found["owned"], "metadata.ownerReferences") or ()) == 1
    )
    cluster.saw("owners left", [owner["name"] for owner in at(found["owned"], "metadata.ownerReferences")])
    await cluster.client.delete(REPLICA_SETS, cluster.key("second"), propagation="Background")
    await cluster.gone(CONFIG_MAPS, "owned")


@scenario("an orphaned object stays, without its owner")
async def orphan(cluster: ClusterUnderTest) -> None:
    owner = await cluster.create(REPLICA_SETS, replica_set("owner"))
    await cluster.create(CONFIG_MAPS, config_map("owned", ownerReferences=[owner_reference(owner)]))
    await _collector_has_caught_up(cluster)
    await cluster.client.delete(REPLICA_SETS, cluster.key("owner"), propagation="Orphan")
    await cluster.gone(REPLICA_SETS, "owner")
    left = await cluster.read(CONFIG_MAPS, "owned")
    cluster.saw("owners left", at(left, "metadata.ownerReferences"))


@scenario("in the foreground, the owner waits for what blocks its deletion")
async def foreground(cluster: ClusterUnderTest) -> None:
    owner = await cluster.create(REPLICA_SETS, replica_set("owner"))
    references = [owner_reference(owner, blockOwnerDeletion=True)]
    await cluster.create(CONFIG_MAPS, config_map("owned", ownerReferences=references, finalizers=[FINALIZER]))
    await _collector_has_caught_up(cluster)
    await cluster.client.delete(REPLICA_SETS, cluster.key("owner"), propagation="Foreground")
    await cluster.until(CONFIG_MAPS, lambda found: "deletionTimestamp" in found["owned"]["metadata"])
    waiting = await cluster.read(REPLICA_SETS, "owner")
    cluster.saw("the owner's finalizers meanwhile", at(waiting, "metadata.finalizers"))
    release = json_patch([{"op": "remove", "path": "/metadata/finalizers"}])
    await cluster.client.patch(CONFIG_MAPS, cluster.key("owned"), release)
    await cluster.gone(REPLICA_SETS, "owner")


@scenario("an owner that does not exist is no owner: the object is collected")
async def absent_owner(cluster: ClusterUnderTest) -> None:
    await cluster.create(CONFIG_MAPS, config_map("owned", ownerReferences=[ABSENT_OWNER]))
    await cluster.gone(CONFIG_MAPS, "owned")
    cluster.saw("owned", await cluster.read(CONFIG_MAPS, "owned"))


@scenario("only one owner may be the controller")
async def two_controllers(cluster: ClusterUnderTest) -> None:
    first = await cluster.create(REPLICA_SETS, replica_set("first"))
    second = await cluster.create(REPLICA_SETS, replica_set("second"))
    references = [owner_reference(each, controller=True) for each in (first, second)]
    owned = cluster.placed(CONFIG_MAPS, config_map("owned", ownerReferences=references))
    await cluster.tried("two controllers", cluster.client.create(CONFIG_MAPS, owned))


@scenario("deleting a namespace deletes its contents, and new objects are refused meanwhile", alone=True)
async def namespace(cluster: ClusterUnderTest) -> None:
    await cluster.create(CONFIG_MAPS, config_map("held", finalizers=[FINALIZER]))
    await cluster.client.delete(NAMESPACES, cluster.namespace)
    await cluster.until(CONFIG_MAPS, lambda found: "deletionTimestamp" in found["held"]["metadata"])
    terminating = await cluster.client.get(NAMESPACES, cluster.namespace)
    cluster.saw("phase", at(terminating, "status.phase"))
    late = cluster.placed(CONFIG_MAPS, config_map("late"))
    await cluster.tried("a late comer", cluster.client.create(CONFIG_MAPS, late))
    release = json_patch([{"op": "remove", "path": "/metadata/finalizers"}])
    await cluster.client.patch(CONFIG_MAPS, cluster.key("held"), release)


async def _collector_has_caught_up(cluster: ClusterUnderTest) -> None:
    """Wait until the garbage collector knows every ConfigMap that exists now.

    It has one watch per kind: a watch on ConfigMaps that lags behind the one on ReplicaSets lets it treat an
    owner as one that owns nothing. It removes a ConfigMap of an absent owner only after it has processed all
    earlier ones.
    """
    await cluster.create(CONFIG_MAPS, config_map("marker", ownerReferences=[ABSENT_OWNER]))
    await cluster.gone(CONFIG_MAPS, "marker")
