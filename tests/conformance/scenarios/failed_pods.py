"""Pods that end although they should run for ever: who replaces them, and who clears them away."""

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import (
    DAEMON_SETS,
    POD_DISRUPTION_BUDGETS,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
    Object,
    api_resource,
    merge_patch,
)
from tests.conformance.living import LivingWorld, conditions, is_ready, numbers
from tests.conformance.objects import budget
from tests.conformance.scenario import living

ENDPOINT_SLICES = api_resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
GIVEN_UP = {"match": {"labels": {"given": "up"}}, "evicted": {"after": "0s"}}


async def _give_up(world: LivingWorld, pod: Object) -> str:
    """Its kubelet evicts it: the phase becomes Failed."""
    name = str(pod["metadata"]["name"])
    label = merge_patch({"metadata": {"labels": {"given": "up"}}})
    await world.client.patch(PODS, world.key(name), label)
    world.behave(GIVEN_UP)
    return name


def _phases(found: dict[str, Object]) -> list[str]:
    return sorted(pod["status"]["phase"] for pod in found.values())


@living("a ReplicaSet replaces a pod that has failed, and leaves the failed one behind")
async def of_a_replica_set(world: LivingWorld) -> None:
    await world.create(REPLICA_SETS, world.workload("web", 2))
    pods = await world.until_pods(2)
    await _give_up(world, pods[0])
    after = await world.until(PODS, lambda found: len(found) == 3 and sum(map(is_ready, found.values())) == 2)
    world.saw("phases", _phases(after))
    world.saw("status", numbers(await world.settled(REPLICA_SETS, "web", availableReplicas=2)))
    await world.client.patch(REPLICA_SETS, world.key("web"), merge_patch({"spec": {"replicas": 1}}))
    fewer = await world.until(PODS, lambda found: len(found) == 2)
    world.saw("scaled down", _phases(fewer))


@living("a StatefulSet removes a pod that has failed and starts it anew, under the same name")
async def of_a_stateful_set(world: LivingWorld) -> None:
    await world.create(STATEFUL_SETS, world.workload("db", 2, serviceName="db"))
    pods = await world.until_pods(2)
    uid = pods[0]["metadata"]["uid"]
    await _give_up(world, pods[0])
    await world.until_one(PODS, "db-0", lambda pod: pod["metadata"]["uid"] != uid and is_ready(pod))
    world.saw("status", numbers(await world.settled(STATEFUL_SETS, "db", readyReplicas=2)))
    world.saw("pods", [pod["metadata"]["name"] for pod in await world.until_pods(2)])


@living("a DaemonSet removes a pod that has failed and starts another on its node")
async def of_a_daemon_set(world: LivingWorld) -> None:
    await world.create(DAEMON_SETS, world.workload("agent"))
    pods = await world.until_pods(2)
    name = await _give_up(world, pods[0])
    await world.gone(PODS, name)
    world.saw("nodes", sorted(pod["spec"]["nodeName"] for pod in await world.until_pods(2)))
    world.saw("status", numbers(await world.settled(DAEMON_SETS, "agent", numberAvailable=2)))


@living("a failed pod serves nobody, counts for no budget, and can be evicted whatever the budget says")
async def for_others(world: LivingWorld) -> None:
    for name in ("one", "two"):
        await world.create(PODS, world.pod(name, app="web", restartPolicy="Never"))
    pods = await world.until_pods(2)
    service = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    await world.create(SERVICES, {"metadata": {"name": "web"}, "spec": service})
    await world.create(POD_DISRUPTION_BUDGETS, budget("guard", "web", minAvailable=1))
    await _give_up(world, pods[0])
    await world.until_one(PODS, "one", lambda pod: pod["status"]["phase"] == "Failed")
    guard = await world.until_one(
        POD_DISRUPTION_BUDGETS, "guard", lambda found: (found.get("status") or {}).get("currentHealthy") == 1
    )
    world.saw("budget", [numbers(guard), conditions(guard)])

    def served(slices: dict[str, Object]) -> list[str]:
        ends = [each for found in slices.values() for each in found.get("endpoints") or ()]
        return [each["targetRef"]["name"] for each in ends]

    slices = await world.until(ENDPOINT_SLICES, lambda found: served(found) == ["two"])
    world.saw("served by", served(slices))
    await world.tried("the failed one", world.client.evict(world.key("one")))
    await world.tried("the other", world.client.evict(world.key("two")))
