"""Quotas for pods: what they count, and what workloads make of a refusal."""

import asyncio

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import DEPLOYMENTS, REPLICA_SETS, Object, api_resource
from rescheduler.kube.errors import Forbidden
from tests.conformance.living import LivingWorld, condition, conditions, numbers
from tests.conformance.scenario import living

RESOURCE_QUOTAS = api_resource("", "v1", "resourcequotas", "ResourceQuota")


async def _used(world: LivingWorld, **used: str) -> Object:
    """The quota's status, once so much is used."""

    def so(found: Object) -> bool:
        told = (found.get("status") or {}).get("used") or {}
        return all(told.get(name.replace("_", ".")) == amount for name, amount in used.items())

    found = await world.until_one(RESOURCE_QUOTAS, "quota", so)
    status: Object = found["status"]
    return status


async def _limit(world: LivingWorld, **hard: str) -> None:
    spec = {"hard": {name.replace("_", "."): amount for name, amount in hard.items()}}
    await world.create(RESOURCE_QUOTAS, {"metadata": {"name": "quota"}, "spec": spec})
    await world.until_one(RESOURCE_QUOTAS, "quota", lambda found: (found.get("status") or {}).get("used"))


async def _there_is_room(world: LivingWorld, name: str) -> None:
    """Whoever admits pods learns a moment later than we do what is used no more."""
    for _ in range(100):
        try:
            await world.create(PODS, world.pod(name))
        except Forbidden:
            await asyncio.sleep(0.1)
        else:
            return
    raise AssertionError(f"there was never room for {name}")


@living("a quota counts pods and their requests, refuses what is too much, and forgets who has ended")
async def counts(world: LivingWorld) -> None:
    await _limit(world, pods="2", requests_cpu="250m")
    await world.created("the first", PODS, world.pod("first"))
    world.saw("used", await _used(world, pods="1"))
    await world.created("too large", PODS, world.pod("large", cpu="200m"))
    await world.created("the second", PODS, world.pod("second"))
    await world.created("the third", PODS, world.pod("third"))
    without = world.pod("silent")
    del without["spec"]["containers"][0]["resources"]
    await world.created("without requests", PODS, without)
    await world.until_pods(2)
    await world.client.delete(PODS, world.key("first"))
    world.saw("one deleted", await _used(world, pods="1"))
    await _there_is_room(world, "third")
    world.saw("the third again", (await _used(world, pods="2"))["used"])


@living("a pod that has ended no longer counts")
async def ended(world: LivingWorld) -> None:
    await _limit(world, pods="1")
    world.behave({"run": {"lasts": "0s"}})
    await world.create(PODS, world.pod("done", restartPolicy="Never"))
    await world.until_one(PODS, "done", lambda pod: pod["status"]["phase"] == "Succeeded")
    world.saw("used", await _used(world, pods="0"))
    await _there_is_room(world, "next")
    world.saw("the next", (await _used(world, pods="1"))["used"])


@living("a workload that a quota stops says so")
async def refused(world: LivingWorld) -> None:
    await _limit(world, pods="1")
    await world.create(DEPLOYMENTS, world.workload("web", 2))
    stopped = await world.until_one(DEPLOYMENTS, "web", lambda found: condition(found, "ReplicaFailure"))
    await world.until_pods(1)
    stopped = await world.until_one(
        DEPLOYMENTS, "web", lambda found: found["status"].get("availableReplicas") == 1
    )
    world.saw("Deployment", [numbers(stopped), conditions(stopped)])
    (owned,) = (await world.client.list(REPLICA_SETS, namespace=world.namespace)).items
    world.saw("ReplicaSet", [numbers(owned), conditions(owned)])
