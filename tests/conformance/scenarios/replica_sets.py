"""ReplicaSets: which pods they count as theirs, and which they delete first."""

import asyncio

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.api_resources import DEPLOYMENTS, REPLICA_SETS, Object, merge_patch
from tests.conformance.objects import owner_reference
from tests.conformance.running_cluster import RunningCluster, is_ready, numbers
from tests.conformance.scenario import running_cluster_scenario

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


async def _scale(cluster: RunningCluster, name: str, replicas: int) -> None:
    change = merge_patch({"spec": {"replicas": replicas}})
    await cluster.client.patch(REPLICA_SETS, cluster.key(name), change)


def _owner(pod: Object | None) -> list[list[object]]:
    assert pod is not None
    return [
        [each["kind"], each["name"], each.get("controller"), each.get("blockOwnerDeletion")]
        for each in pod["metadata"].get("ownerReferences") or ()
    ]


@running_cluster_scenario(
    "a ReplicaSet creates its pods, and counts those that run, are ready and are available"
)
async def counts(cluster: RunningCluster) -> None:
    cluster.behave({"match": {"labels": {"late": "yes"}}, "readiness": "never"})
    await cluster.create(REPLICA_SETS, cluster.workload("web", 3))
    pods = await cluster.until_pods(3)
    ready = await cluster.settled(REPLICA_SETS, "web", availableReplicas=3)
    cluster.saw("all ready", numbers(ready))
    cluster.saw("owner", _owner(pods[0]))
    cluster.saw("labels", pods[0]["metadata"]["labels"].get("app"))
    cluster.saw("generateName", pods[0]["metadata"]["generateName"])
    label = merge_patch({"metadata": {"labels": {"late": "yes"}}})
    await cluster.client.patch(PODS, cluster.key(pods[0]["metadata"]["name"]), label)
    cluster.behave({"match": {"labels": {"late": "yes"}}, "readiness": "never"})
    cluster.saw("one unready", numbers(await cluster.settled(REPLICA_SETS, "web", readyReplicas=2)))


@running_cluster_scenario("pods that are ready but not for minReadySeconds are not available")
async def min_ready_seconds(cluster: RunningCluster) -> None:
    await cluster.create(REPLICA_SETS, cluster.workload("web", 2, minReadySeconds=3600))
    await cluster.until_pods(2)
    cluster.saw("status", numbers(await cluster.settled(REPLICA_SETS, "web", readyReplicas=2)))


@running_cluster_scenario(
    "a ReplicaSet adopts a matching pod without an owner, and releases one that no longer matches"
)
async def adopts_and_releases(cluster: RunningCluster) -> None:
    orphan = await cluster.create(PODS, cluster.pod("orphan", app="web"))
    await cluster.until_pods(1)
    await cluster.create(REPLICA_SETS, cluster.workload("web", 1))
    adopted = await cluster.until_one(PODS, "orphan", lambda pod: pod["metadata"].get("ownerReferences"))
    cluster.saw("adopted", [adopted["metadata"]["uid"] == orphan["metadata"]["uid"], _owner(adopted)])
    cluster.saw("status", numbers(await cluster.settled(REPLICA_SETS, "web", availableReplicas=1)))
    cluster.saw("pods", len(await cluster.until_pods(1)))
    label = merge_patch({"metadata": {"labels": {"app": "other"}}})
    await cluster.client.patch(PODS, cluster.key("orphan"), label)
    released = await cluster.until_one(PODS, "orphan", lambda pod: not pod["metadata"].get("ownerReferences"))
    cluster.saw("released", [is_ready(released), _owner(released)])
    await cluster.until_pods(1, app="web")
    cluster.saw("status after it", numbers(await cluster.settled(REPLICA_SETS, "web", availableReplicas=1)))


@running_cluster_scenario(
    "an adopted pod too many is deleted: the one that is not assigned yet, else the youngest"
)
async def one_too_many(cluster: RunningCluster) -> None:
    await cluster.create(REPLICA_SETS, cluster.workload("web", 2))
    before = {pod["metadata"]["name"] for pod in await cluster.until_pods(2)}
    await cluster.create(
        PODS, cluster.pod("gated", app="web", schedulingGates=[{"name": "example.com/hold"}])
    )
    await cluster.gone(PODS, "gated")
    left = {pod["metadata"]["name"] for pod in await cluster.until_pods(2)}
    cluster.saw("the others stay", left == before)


@running_cluster_scenario("a ReplicaSet ignores a pod that another controller owns, until that releases it")
async def other_controllers(cluster: RunningCluster) -> None:
    holder = await cluster.create(PODS, cluster.pod("holder"))
    metadata = {
        "labels": {"app": "web"},
        "annotations": {DELETION_COST: "100"},
        "ownerReferences": [owner_reference(holder, controller=True)],
    }
    await cluster.create(PODS, cluster.pod("foreign", metadata=metadata))
    await cluster.create(REPLICA_SETS, cluster.workload("web", 2))
    cluster.saw("pods with that label", len(await cluster.until_pods(3, app="web")))
    cluster.saw("status", numbers(await cluster.settled(REPLICA_SETS, "web", availableReplicas=2)))
    cluster.saw("its owner", _owner(await cluster.read(PODS, "foreign")))
    let_go = merge_patch({"metadata": {"ownerReferences": [owner_reference(holder, controller=False)]}})
    await cluster.client.patch(PODS, cluster.key("foreign"), let_go)
    left = await cluster.until_pods(2, app="web")
    cluster.saw("it is one of the two", "foreign" in _names(left))
    cluster.saw("its owners", sorted(_owner(await cluster.read(PODS, "foreign"))))


@running_cluster_scenario("unready pods are deleted before ready ones, whatever their deletion cost")
async def unready_first(cluster: RunningCluster) -> None:
    unready = {"match": {"labels": {"role": "unready"}}, "readiness": "never"}
    await cluster.create(
        PODS, cluster.pod("unready", app="web", metadata={"labels": {"app": "web", "role": "unready"}})
    )
    cluster.behave(unready)
    cheap = {"labels": {"app": "web"}, "annotations": {DELETION_COST: "-100"}}
    await cluster.create(PODS, cluster.pod("cheap", app="web", metadata=cheap))
    await cluster.create(PODS, cluster.pod("plain", app="web"))
    await cluster.until(PODS, lambda found: sum(map(is_ready, found.values())) == 2)
    await cluster.create(REPLICA_SETS, cluster.workload("web", 3))
    await cluster.settled(REPLICA_SETS, "web", replicas=3, availableReplicas=2)
    for replicas in (2, 1):
        await _scale(cluster, "web", replicas)
        cluster.saw(f"left of {replicas + 1}", _names(await cluster.until_pods(replicas)))


@running_cluster_scenario("among ready pods the cheapest are deleted first")
async def cheapest_first(cluster: RunningCluster) -> None:
    for name, cost in (("dear", "100"), ("cheap", "-100"), ("plain", "")):
        annotations = {DELETION_COST: cost} if cost else {}
        metadata = {"labels": {"app": "web"}, "annotations": annotations}
        await cluster.create(PODS, cluster.pod(name, metadata=metadata))
    await cluster.until_pods(3)
    await cluster.create(REPLICA_SETS, cluster.workload("web", 3))
    await cluster.settled(REPLICA_SETS, "web", availableReplicas=3)
    for replicas in (2, 1):
        await _scale(cluster, "web", replicas)
        cluster.saw(f"left of {replicas + 1}", _names(await cluster.until_pods(replicas)))


@running_cluster_scenario("a Deployment's pods go first where several of them share a node")
async def doubled_up_first(cluster: RunningCluster) -> None:
    lonely, shared = cluster.nodes
    for replicas, node, other in ((1, lonely, shared), (4, shared, lonely)):
        await cluster.client.patch(NODES, node, merge_patch({"spec": {"unschedulable": None}}))
        await cluster.client.patch(NODES, other, merge_patch({"spec": {"unschedulable": True}}))
        if replicas == 1:
            await cluster.create(DEPLOYMENTS, cluster.workload("web", replicas))
        else:
            change = merge_patch({"spec": {"replicas": replicas}})
            await cluster.client.patch(DEPLOYMENTS, cluster.key("web"), change)
        await cluster.until_pods(replicas)
    await cluster.client.patch(DEPLOYMENTS, cluster.key("web"), merge_patch({"spec": {"replicas": 2}}))
    left = await cluster.until_pods(2)
    cluster.saw("nodes of those left", sorted(pod["spec"]["nodeName"] for pod in left))


@running_cluster_scenario(
    "a ReplicaSet without a Deployment ignores nodes: the youngest pods are deleted first"
)
async def youngest_first(cluster: RunningCluster) -> None:
    lonely, shared = cluster.nodes
    for name in ("old-1", "old-2", "old-3"):
        await cluster.create(PODS, cluster.pod(name, app="web", nodeName=shared))
    await cluster.until_pods(3)
    # Ages count by their order of magnitude.
    await asyncio.sleep(5)
    await cluster.create(PODS, cluster.pod("young", app="web", nodeName=lonely))
    await cluster.until_pods(4)
    await cluster.create(REPLICA_SETS, cluster.workload("web", 3))
    cluster.saw("left", _names(await cluster.until_pods(3)))


@running_cluster_scenario("the pods of a deleted ReplicaSet are deleted with it, unless they are orphaned")
async def deleted(cluster: RunningCluster) -> None:
    for name in ("web", "kept"):
        await cluster.create(REPLICA_SETS, cluster.workload(name, 1))
        await cluster.until_pods(1, app=name)
    (kept,) = await cluster.until_pods(1, app="kept")
    await cluster.client.delete(REPLICA_SETS, cluster.key("web"), propagation="Foreground")
    await cluster.gone(REPLICA_SETS, "web")
    await cluster.client.delete(REPLICA_SETS, cluster.key("kept"), propagation="Orphan")
    await cluster.gone(REPLICA_SETS, "kept")
    (left,) = await cluster.until_pods(1)
    cluster.saw("the orphan", [left["metadata"]["uid"] == kept["metadata"]["uid"], _owner(left)])
    await cluster.create(REPLICA_SETS, cluster.workload("kept", 1))
    await cluster.settled(REPLICA_SETS, "kept", availableReplicas=1)
    (again,) = await cluster.until_pods(1)
    cluster.saw("adopted", [again["metadata"]["uid"] == kept["metadata"]["uid"], _owner(again)])


def _names(pods: list[Object]) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods]
