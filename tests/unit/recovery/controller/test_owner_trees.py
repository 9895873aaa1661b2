"""Which owner tree a pod or a workload belongs to, also while the topmost workload is not cached yet."""

import asyncio
import contextlib

import pytest

from rescheduler.api.podmigration_crd import podmigration_crd
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.sources.watched_cluster import WatchedCluster
from rescheduler.cluster.sources.watched_objects import WatchedObjects
from rescheduler.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, NAMESPACES, REPLICA_SETS
from rescheduler.recovery.controller.owner_trees import OwnerTrees
from rescheduler.recovery.controller.recovery_controller import RecoveryEventRouter
from rescheduler.recovery.recovery_decision import RETRIES_ANNOTATION
from tests.stories import objects

DEPLOYMENT_KEY = "Deployment/moves/web"


def controlled_by(item, kind, name, uid):
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": True}
    item["metadata"]["ownerReferences"] = [reference]
    return item


def deployment(**metadata):
    made = objects.deployment("moves", "web", 1, objects.pod_spec("simulated"))
    made["metadata"] |= metadata
    return made


def replica_set(uid, **metadata):
    made = objects.replica_set("moves", "web-1", 1, objects.pod_spec("simulated"))
    made["metadata"] |= metadata
    return controlled_by(made, "Deployment", "web", uid)


@pytest.fixture
async def cluster(server, client):
    """A cluster without controllers: only what a test creates is there."""
    await client.create(NAMESPACES, {"metadata": {"name": "moves"}})
    await client.create(CUSTOM_RESOURCE_DEFINITIONS, podmigration_crd())
    known = WatchedCluster(client, WatchedObjects(client), server.clock.now)
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(known.running())
        yield known


async def until(holds):
    async with asyncio.timeout(30):
        while not (found := holds()):  # noqa: ASYNC110 - only asking tells
            await asyncio.sleep(0.1)
    return found


async def seen(cluster, kind, key):
    return await until(lambda: cluster.workloads[kind].get(key))


async def pod_of(cluster, client, owner):
    pod = objects.pod("moves", "web-1-a", objects.pod_spec("simulated"))
    made = controlled_by(pod, "ReplicaSet", "web-1", owner["metadata"]["uid"])
    await client.create(PODS.as_json, made)
    return await until(lambda: cluster.watched.pods.get("moves/web-1-a"))


async def test_a_tree_is_unknown_until_the_deployment_above_a_replica_set_is_in_the_cache(cluster, client):
    """Otherwise the same failure is reported twice: for the ReplicaSet, then for its Deployment."""
    trees = OwnerTrees(cluster)
    above = await client.create(DEPLOYMENTS, deployment())
    made = await client.create(REPLICA_SETS, replica_set(above["metadata"]["uid"]))
    item = await seen(cluster, "ReplicaSet", "moves/web-1")
    pod = await pod_of(cluster, client, made)
    cluster.workloads = {**cluster.workloads, "Deployment": _Empty()}
    assert trees.key_of_workload("ReplicaSet", item) == ""
    assert trees.key_of(pod) == ""


async def test_a_tree_is_known_by_its_deployment_as_soon_as_that_is_in_the_cache(cluster, client):
    trees = OwnerTrees(cluster)
    above = await client.create(DEPLOYMENTS, deployment())
    made = await client.create(REPLICA_SETS, replica_set(above["metadata"]["uid"]))
    await seen(cluster, "Deployment", "moves/web")
    item = await seen(cluster, "ReplicaSet", "moves/web-1")
    pod = await pod_of(cluster, client, made)
    assert trees.key_of_workload("ReplicaSet", item) == DEPLOYMENT_KEY
    assert trees.key_of(pod) == DEPLOYMENT_KEY


async def test_a_tree_is_known_by_the_topmost_workload_whose_kind_can_be_read(cluster, client):
    """Without permission to list Deployments, none will ever be in the cache."""
    cluster.workloads = {kind: each for kind, each in cluster.workloads.items() if kind != "Deployment"}
    above = await client.create(DEPLOYMENTS, deployment())
    await client.create(REPLICA_SETS, replica_set(above["metadata"]["uid"]))
    item = await seen(cluster, "ReplicaSet", "moves/web-1")
    assert OwnerTrees(cluster).key_of_workload("ReplicaSet", item) == "ReplicaSet/moves/web-1"


async def test_a_replica_set_enqueues_its_deployment(cluster, client):
    """The ReplicaSet is seen before its Deployment."""
    enqueued = []
    annotations = {RETRIES_ANNOTATION: "many"}
    above = await client.create(DEPLOYMENTS, deployment(annotations=annotations))
    item = await seen(cluster, "Deployment", "moves/web")
    router = RecoveryEventRouter(cluster, OwnerTrees(cluster), enqueued.append)
    changed = router._of_workload("ReplicaSet")
    below = replica_set(above["metadata"]["uid"], annotations=annotations)
    below["metadata"] |= {"uid": "below", "resourceVersion": "1"}
    known, cluster.workloads = cluster.workloads, {**cluster.workloads, "Deployment": _Empty()}
    changed(None, below)
    cluster.workloads = known
    router._of_workload("Deployment")(None, item)
    changed(below, below)
    assert enqueued == [DEPLOYMENT_KEY, DEPLOYMENT_KEY]


async def test_a_deployment_that_is_seen_after_its_failing_pods_enqueues_its_tree(cluster, client):
    enqueued = []
    above = await client.create(DEPLOYMENTS, deployment())
    made = await client.create(REPLICA_SETS, replica_set(above["metadata"]["uid"]))
    await seen(cluster, "ReplicaSet", "moves/web-1")
    await pod_of(cluster, client, made)
    item = await seen(cluster, "Deployment", "moves/web")
    RecoveryEventRouter(cluster, OwnerTrees(cluster), enqueued.append)._of_workload("Deployment")(None, item)
    assert enqueued == [DEPLOYMENT_KEY]


class _Empty:
    """A cache that is still empty."""

    def get(self, _key):
        return None
