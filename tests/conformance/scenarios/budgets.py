"""Disruption budgets: what their controller counts, and what evictions get of it."""

from typing import Any

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import (
    DEPLOYMENTS,
    JOBS,
    POD_DISRUPTION_BUDGETS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Object,
    merge_patch,
)
from tests.conformance.definitions import define, version
from tests.conformance.living import LivingWorld, conditions, is_ready, numbers
from tests.conformance.objects import budget, owner_reference
from tests.conformance.scenario import living


async def _counted(world: LivingWorld, name: str = "guard", *, within_s: float = 60, **counts: int) -> Object:
    """The budget, once its controller counts so many."""

    def so(found: Object) -> bool:
        status = found.get("status") or {}
        seen = status.get("observedGeneration") == found["metadata"]["generation"]
        return seen and all(status.get(field) == count for field, count in counts.items())

    return await world.until_one(POD_DISRUPTION_BUDGETS, name, so, within_s=within_s)


async def _guard(world: LivingWorld, name: str = "guard", app: str = "web", **spec: Any) -> None:
    await world.create(POD_DISRUPTION_BUDGETS, budget(name, app, **spec))


def _told(found: Object) -> list[object]:
    return [numbers(found), conditions(found)]


@living("a budget counts healthy pods, and allows as many disruptions as it can spare")
async def counts(world: LivingWorld) -> None:
    await world.create(DEPLOYMENTS, world.workload("web", 3))
    await world.until_pods(3)
    await _guard(world, minAvailable=2)
    world.saw("one can be spared", _told(await _counted(world, currentHealthy=3)))
    change = merge_patch({"spec": {"minAvailable": 3}})
    await world.client.patch(POD_DISRUPTION_BUDGETS, world.key("guard"), change)
    world.saw("none can be spared", _told(await _counted(world, desiredHealthy=3)))
    await world.client.patch(DEPLOYMENTS, world.key("web"), merge_patch({"spec": {"replicas": 5}}))
    world.saw("scaled up", _told(await _counted(world, currentHealthy=5, expectedPods=5)))


@living("percentages and maxUnavailable count from the scale of the pods' owners, rounded up")
async def percentages(world: LivingWorld) -> None:
    await world.create(DEPLOYMENTS, world.workload("web", 3))
    await world.create(
        STATEFUL_SETS, world.workload("db", 3, serviceName="db", podManagementPolicy="Parallel")
    )
    await world.create(REPLICA_SETS, world.workload("cache", 3))
    await world.until_pods(9)
    await _guard(world, "half-of-web", "web", minAvailable="50%")
    await _guard(world, "third-of-db", "db", maxUnavailable="34%")
    await _guard(world, "one-of-cache", "cache", maxUnavailable=1)
    await _guard(world, "all-of-web", "nobody", maxUnavailable="10%")
    for name in ("half-of-web", "third-of-db", "one-of-cache"):
        world.saw(name, _told(await _counted(world, name, currentHealthy=3)))
    world.saw("of nobody", _told(await _counted(world, "all-of-web")))


@living("pods that are not there yet are expected all the same: the owner's scale counts, not the pods")
async def expected(world: LivingWorld) -> None:
    world.behave({"match": {"labels": {"apps.kubernetes.io/pod-index": "1"}}, "readiness": "never"})
    await world.create(STATEFUL_SETS, world.workload("db", 4, serviceName="db"))
    await _guard(world, app="db", maxUnavailable=1)
    world.saw("one ready of four", _told(await _counted(world, currentHealthy=1, expectedPods=4)))


@living("pods of nobody have no scale: maxUnavailable can't be computed, a number that must stay can")
async def no_owner(world: LivingWorld) -> None:
    await world.create(PODS, world.pod("web"))
    await world.until_pods(1)
    await _guard(world, "share", maxUnavailable=1)
    failed = await world.until_one(
        POD_DISRUPTION_BUDGETS, "share", lambda found: (found.get("status") or {}).get("conditions")
    )
    world.saw("maxUnavailable", _told(failed))
    await world.tried("eviction", world.client.evict(world.key("web")))
    await world.client.delete(POD_DISRUPTION_BUDGETS, world.key("share"))
    await _guard(world, "number", minAvailable=1)
    world.saw("minAvailable", _told(await _counted(world, "number", currentHealthy=1)))


@living("the owner may be of any kind that has a scale subresource")
async def custom_owner(world: LivingWorld) -> None:
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    scalable = version(more={"subresources": {"status": {}, "scale": paths}}, replicas={"type": "integer"})
    widgets = await define(world, scalable)
    owner = await world.create(widgets, {"metadata": {"name": "owner"}, "spec": {"replicas": 4}})
    reference = owner_reference(owner, controller=True)
    for name in ("web-1", "web-2"):
        metadata = {"labels": {"app": "web"}, "ownerReferences": [reference]}
        await world.create(PODS, world.pod(name, metadata=metadata))
    await world.until_pods(2)
    await _guard(world, maxUnavailable="50%")
    world.saw("two of four", _told(await _counted_in_the_end(world, 4)))
    await world.client.patch(widgets, world.key("owner"), merge_patch({"spec": {"replicas": 2}}))
    world.saw("two of two", _told(await _counted_in_the_end(world, 2)))


async def _counted_in_the_end(world: LivingWorld, expected: int) -> Object:
    """The controller learns of new kinds every half minute, and of a changed scale when a pod changes."""
    for number in range(60):
        change = merge_patch({"metadata": {"annotations": {"example.com/touched": str(number)}}})
        await world.client.patch(PODS, world.key("web-1"), change)
        try:
            return await _counted(world, expectedPods=expected, within_s=1)
        except AssertionError:
            continue
    raise AssertionError(f"{expected} pods were never expected")


@living("an eviction takes what the budget allows, and the next waits until its replacement is ready")
async def evictions(world: LivingWorld) -> None:
    await world.create(DEPLOYMENTS, world.workload("web", 2))
    first, second = await world.until_pods(2)
    await _guard(world, minAvailable=1)
    await _counted(world, disruptionsAllowed=1)
    world.behave({"startup": "1h"})
    await world.tried("the first", world.client.evict(world.key(first["metadata"]["name"])))
    await world.gone(PODS, first["metadata"]["name"])
    world.saw("one is missing", _told(await _counted(world, currentHealthy=1, expectedPods=2)))
    await world.tried("the second", world.client.evict(world.key(second["metadata"]["name"])))
    world.behave()
    await world.until_pods(2)
    world.saw("replaced", _told(await _counted(world, currentHealthy=2, expectedPods=2)))
    await world.tried("the second again", world.client.evict(world.key(second["metadata"]["name"])))


@living("an unready pod is evicted while enough others are healthy; with AlwaysAllow it is in any case")
async def unhealthy_pods(world: LivingWorld) -> None:
    unready = {"match": {"labels": {"role": "unready"}}, "readiness": "never"}
    world.behave(unready)
    await world.create(PODS, world.pod("ready", app="web"))
    for name in ("unready-1", "unready-2", "unready-3"):
        await world.create(PODS, world.pod(name, metadata={"labels": {"app": "web", "role": "unready"}}))
    await world.until(PODS, lambda found: sum(_runs(pod) for pod in found.values()) == 4)
    await _guard(world, minAvailable=1)
    world.saw("enough are healthy", _told(await _counted(world, currentHealthy=1)))
    await world.tried("unready, enough healthy", world.client.evict(world.key("unready-1")))
    await world.tried("the healthy one", world.client.evict(world.key("ready")))
    change = merge_patch({"spec": {"minAvailable": 2}})
    await world.client.patch(POD_DISRUPTION_BUDGETS, world.key("guard"), change)
    world.saw("too few are healthy", _told(await _counted(world, desiredHealthy=2, expectedPods=3)))
    await world.tried("unready, too few healthy", world.client.evict(world.key("unready-2")))
    change = merge_patch({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}})
    await world.client.patch(POD_DISRUPTION_BUDGETS, world.key("guard"), change)
    await _counted(world, desiredHealthy=2)
    await world.tried("unready, always allowed", world.client.evict(world.key("unready-3")))
    await world.tried("the healthy one, still not", world.client.evict(world.key("ready")))


@living("a pod under two budgets can't be evicted, whatever they allow")
async def two_budgets(world: LivingWorld) -> None:
    await world.create(DEPLOYMENTS, world.workload("web", 2))
    pods = await world.until_pods(2)
    for name in ("first", "second"):
        await _guard(world, name, minAvailable=1)
        await _counted(world, name, disruptionsAllowed=1)
    await world.tried("eviction", world.client.evict(world.key(pods[0]["metadata"]["name"])))


def _runs(pod: Object) -> bool:
    return pod["status"]["phase"] == "Running" and (is_ready(pod) or "role" in pod["metadata"]["labels"])


@living("pods of a Job have no scale, so that shares of them can't be computed")
async def of_a_job(world: LivingWorld) -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": world.pod_spec(restartPolicy="Never")}
    await world.create(JOBS, {"metadata": {"name": "work"}, "spec": {"template": template}})
    await world.until_pods(1)
    await _guard(world, maxUnavailable="50%")
    failed = await world.until_one(
        POD_DISRUPTION_BUDGETS, "guard", lambda found: (found.get("status") or {}).get("conditions")
    )
    world.saw("status", _told(failed))


@living("pods that are about to go or not there yet are not healthy, but those going are still expected")
async def going_and_coming(world: LivingWorld) -> None:
    await world.create(DEPLOYMENTS, world.workload("web", 3, pod={"terminationGracePeriodSeconds": 600}))
    pods = await world.until_pods(3)
    await _guard(world, "number", minAvailable=1)
    await _guard(world, "share", minAvailable="50%")
    world.behave({"termination": "ignored", "startup": "1h"})
    await world.client.delete(PODS, world.key(pods[0]["metadata"]["name"]))
    await world.until(PODS, lambda found: len(found) == 4)
    world.saw("number", _told(await _counted(world, "number", currentHealthy=2, expectedPods=4)))
    world.saw("share", _told(await _counted(world, "share", currentHealthy=2, expectedPods=3)))


@living("a budget over pods of several owners counts them all")
async def several_owners(world: LivingWorld) -> None:
    for name, replicas in (("web", 3), ("api", 2)):
        await world.create(DEPLOYMENTS, world.workload(name, replicas))
    await world.until_pods(5)
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "api"]}]}
    spec = {"selector": selector, "maxUnavailable": "40%"}
    await world.create(POD_DISRUPTION_BUDGETS, {"metadata": {"name": "guard"}, "spec": spec})
    world.saw("status", _told(await _counted(world, currentHealthy=5)))
