"""Quotas for pods: what they count, and what workloads make of a refusal."""

import asyncio

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import DEPLOYMENTS, REPLICA_SETS, Object, api_resource
from rescheduler.kube.errors import Forbidden
from tests.conformance.running_cluster import RunningCluster, condition, conditions, numbers
from tests.conformance.scenario import running_cluster_scenario

RESOURCE_QUOTAS = api_resource("", "v1", "resourcequotas", "ResourceQuota")


async def _used(cluster: RunningCluster, **used: str) -> Object:
    """The quota's status, once so much is used."""

    def so(found: Object) -> bool:
        reported = (found.get("status") or {}).get("used") or {}
        return all(reported.get(name.replace("_", ".")) == amount for name, amount in used.items())

    found = await cluster.until_one(RESOURCE_QUOTAS, "quota", so)
    status: Object = found["status"]
    return status


async def _limit(cluster: RunningCluster, **hard: str) -> None:
    spec = {"hard": {name.replace("_", "."): amount for name, amount in hard.items()}}
    await cluster.create(RESOURCE_QUOTAS, {"metadata": {"name": "quota"}, "spec": spec})
    await cluster.until_one(RESOURCE_QUOTAS, "quota", lambda found: (found.get("status") or {}).get("used"))


async def _there_is_room(cluster: RunningCluster, name: str) -> None:
    """Admission learns a moment later than we do what is no longer used."""
    for _ in range(100):
        try:
            await cluster.create(PODS, cluster.pod(name))
        except Forbidden:
            await asyncio.sleep(0.1)
        else:
            return
    raise AssertionError(f"there was never room for {name}")


@running_cluster_scenario(
    "a quota counts pods and their requests, refuses what exceeds it, and doesn't count finished pods"
)
async def counts(cluster: RunningCluster) -> None:
    await _limit(cluster, pods="2", requests_cpu="250m")
    await cluster.created("the first", PODS, cluster.pod("first"))
    cluster.saw("used", await _used(cluster, pods="1"))
    await cluster.created("too large", PODS, cluster.pod("large", cpu="200m"))
    await cluster.created("the second", PODS, cluster.pod("second"))
    await cluster.created("the third", PODS, cluster.pod("third"))
    without = cluster.pod("silent")
    del without["spec"]["containers"][0]["resources"]
    await cluster.created("without requests", PODS, without)
    await cluster.until_pods(2)
    await cluster.client.delete(PODS, cluster.key("first"))
    cluster.saw("one deleted", await _used(cluster, pods="1"))
    await _there_is_room(cluster, "third")
    cluster.saw("the third again", (await _used(cluster, pods="2"))["used"])


@running_cluster_scenario("a pod that has ended no longer counts")
async def ended(cluster: RunningCluster) -> None:
    await _limit(cluster, pods="1")
    cluster.behave({"run": {"lasts": "0s"}})
    await cluster.create(PODS, cluster.pod("done", restartPolicy="Never"))
    await cluster.until_one(PODS, "done", lambda pod: pod["status"]["phase"] == "Succeeded")
    cluster.saw("used", await _used(cluster, pods="0"))
    await _there_is_room(cluster, "next")
    cluster.saw("the next", (await _used(cluster, pods="1"))["used"])


@running_cluster_scenario("a workload that a quota stops reports it in its status")
async def refused(cluster: RunningCluster) -> None:
    await _limit(cluster, pods="1")
    await cluster.create(DEPLOYMENTS, cluster.workload("web", 2))
    stopped = await cluster.until_one(DEPLOYMENTS, "web", lambda found: condition(found, "ReplicaFailure"))
    await cluster.until_pods(1)
    stopped = await cluster.until_one(
        DEPLOYMENTS, "web", lambda found: found["status"].get("availableReplicas") == 1
    )
    cluster.saw("Deployment", [numbers(stopped), conditions(stopped)])
    (owned,) = (await cluster.client.list(REPLICA_SETS, namespace=cluster.namespace)).items
    cluster.saw("ReplicaSet", [numbers(owned), conditions(owned)])
