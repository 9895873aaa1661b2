"""Pods that end although they should run forever: who replaces them, and who clears them away."""

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import (
    DAEMON_SETS,
    POD_DISRUPTION_BUDGETS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Object,
    api_resource,
    merge_patch,
)
from tests.conformance.objects import budget
from tests.conformance.running_cluster import RunningCluster, conditions, is_ready, numbers
from tests.conformance.scenario import running_cluster_scenario
from tests.stories.objects import SERVICES

ENDPOINT_SLICES = api_resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
GIVEN_UP = {"match": {"labels": {"given": "up"}}, "evicted": {"after": "0s"}}


async def _give_up(cluster: RunningCluster, pod: Object) -> str:
    """Its kubelet evicts it: the phase becomes Failed."""
    name = str(pod["metadata"]["name"])
    label = merge_patch({"metadata": {"labels": {"given": "up"}}})
    await cluster.client.patch(PODS, cluster.key(name), label)
    cluster.behave(GIVEN_UP)
    return name


def _phases(found: dict[str, Object]) -> list[str]:
    return sorted(pod["status"]["phase"] for pod in found.values())


@running_cluster_scenario("a ReplicaSet replaces a pod that has failed, and leaves the failed one behind")
async def of_a_replica_set(cluster: RunningCluster) -> None:
    await cluster.create(REPLICA_SETS, cluster.workload("web", 2))
    pods = await cluster.until_pods(2)
    await _give_up(cluster, pods[0])
    after = await cluster.until(
        PODS, lambda found: len(found) == 3 and sum(map(is_ready, found.values())) == 2
    )
    cluster.saw("phases", _phases(after))
    cluster.saw("status", numbers(await cluster.settled(REPLICA_SETS, "web", availableReplicas=2)))
    await cluster.client.patch(REPLICA_SETS, cluster.key("web"), merge_patch({"spec": {"replicas": 1}}))
    fewer = await cluster.until(PODS, lambda found: len(found) == 2)
    cluster.saw("scaled down", _phases(fewer))


@running_cluster_scenario("a StatefulSet deletes a failed pod and creates it again under the same name")
async def of_a_stateful_set(cluster: RunningCluster) -> None:
    await cluster.create(STATEFUL_SETS, cluster.workload("db", 2, serviceName="db"))
    pods = await cluster.until_pods(2)
    uid = pods[0]["metadata"]["uid"]
    await _give_up(cluster, pods[0])
    await cluster.until_one(PODS, "db-0", lambda pod: pod["metadata"]["uid"] != uid and is_ready(pod))
    cluster.saw("status", numbers(await cluster.settled(STATEFUL_SETS, "db", readyReplicas=2)))
    cluster.saw("pods", [pod["metadata"]["name"] for pod in await cluster.until_pods(2)])


@running_cluster_scenario("a DaemonSet removes a pod that has failed and starts another on its node")
async def of_a_daemon_set(cluster: RunningCluster) -> None:
    await cluster.create(DAEMON_SETS, cluster.workload("agent"))
    pods = await cluster.until_pods(2)
    name = await _give_up(cluster, pods[0])
    await cluster.gone(PODS, name)
    cluster.saw("nodes", sorted(pod["spec"]["nodeName"] for pod in await cluster.until_pods(2)))
    cluster.saw("status", numbers(await cluster.settled(DAEMON_SETS, "agent", numberAvailable=2)))


@running_cluster_scenario(
    "a failed pod serves no traffic, counts for no budget, and can be evicted whatever the budget says"
)
async def for_others(cluster: RunningCluster) -> None:
    for name in ("one", "two"):
        await cluster.create(PODS, cluster.pod(name, app="web", restartPolicy="Never"))
    pods = await cluster.until_pods(2)
    service = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    await cluster.create(SERVICES, {"metadata": {"name": "web"}, "spec": service})
    await cluster.create(POD_DISRUPTION_BUDGETS, budget("guard", "web", minAvailable=1))
    await _give_up(cluster, pods[0])
    await cluster.until_one(PODS, "one", lambda pod: pod["status"]["phase"] == "Failed")
    guard = await cluster.until_one(
        POD_DISRUPTION_BUDGETS, "guard", lambda found: (found.get("status") or {}).get("currentHealthy") == 1
    )
    cluster.saw("budget", [numbers(guard), conditions(guard)])

    def served(slices: dict[str, Object]) -> list[str]:
        ends = [each for found in slices.values() for each in found.get("endpoints") or ()]
        return [each["targetRef"]["name"] for each in ends]

    slices = await cluster.until(ENDPOINT_SLICES, lambda found: served(found) == ["two"])
    cluster.saw("served by", served(slices))
    await cluster.tried("the failed one", cluster.client.evict(cluster.key("one")))
    await cluster.tried("the other", cluster.client.evict(cluster.key("two")))
