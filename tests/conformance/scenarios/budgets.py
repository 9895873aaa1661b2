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
from tests.conformance.objects import budget, owner_reference
from tests.conformance.running_cluster import RunningCluster, conditions, is_ready, numbers
from tests.conformance.scenario import running_cluster_scenario


async def _counted(
    cluster: RunningCluster, name: str = "guard", *, within_s: float = 60, **counts: int
) -> Object:
    """The budget, once its controller counts so many."""

    def so(found: Object) -> bool:
        status = found.get("status") or {}
        seen = status.get("observedGeneration") == found["metadata"]["generation"]
        return seen and all(status.get(field) == count for field, count in counts.items())

    return await cluster.until_one(POD_DISRUPTION_BUDGETS, name, so, within_s=within_s)


async def _guard(cluster: RunningCluster, name: str = "guard", app: str = "web", **spec: Any) -> None:
    await cluster.create(POD_DISRUPTION_BUDGETS, budget(name, app, **spec))


def _reported(found: Object) -> list[object]:
    return [numbers(found), conditions(found)]


@running_cluster_scenario("a budget counts healthy pods, and allows the disruptions that are left")
async def counts(cluster: RunningCluster) -> None:
    await cluster.create(DEPLOYMENTS, cluster.workload("web", 3))
    await cluster.until_pods(3)
    await _guard(cluster, minAvailable=2)
    cluster.saw("one can be spared", _reported(await _counted(cluster, currentHealthy=3)))
    change = merge_patch({"spec": {"minAvailable": 3}})
    await cluster.client.patch(POD_DISRUPTION_BUDGETS, cluster.key("guard"), change)
    cluster.saw("none can be spared", _reported(await _counted(cluster, desiredHealthy=3)))
    await cluster.client.patch(DEPLOYMENTS, cluster.key("web"), merge_patch({"spec": {"replicas": 5}}))
    cluster.saw("scaled up", _reported(await _counted(cluster, currentHealthy=5, expectedPods=5)))


@running_cluster_scenario(
    "percentages and maxUnavailable count from the scale of the pods' owners, rounded up"
)
async def percentages(cluster: RunningCluster) -> None:
    await cluster.create(DEPLOYMENTS, cluster.workload("web", 3))
    await cluster.create(
        STATEFUL_SETS, cluster.workload("db", 3, serviceName="db", podManagementPolicy="Parallel")
    )
    await cluster.create(REPLICA_SETS, cluster.workload("cache", 3))
    await cluster.until_pods(9)
    await _guard(cluster, "half-of-web", "web", minAvailable="50%")
    await _guard(cluster, "third-of-db", "db", maxUnavailable="34%")
    await _guard(cluster, "one-of-cache", "cache", maxUnavailable=1)
    await _guard(cluster, "all-of-web", "nobody", maxUnavailable="10%")
    for name in ("half-of-web", "third-of-db", "one-of-cache"):
        cluster.saw(name, _reported(await _counted(cluster, name, currentHealthy=3)))
    cluster.saw("of nobody", _reported(await _counted(cluster, "all-of-web")))


@running_cluster_scenario(
    "pods that are not there yet are expected all the same: the owner's scale counts, not the pods"
)
async def expected(cluster: RunningCluster) -> None:
    cluster.behave({"match": {"labels": {"apps.kubernetes.io/pod-index": "1"}}, "readiness": "never"})
    await cluster.create(STATEFUL_SETS, cluster.workload("db", 4, serviceName="db"))
    await _guard(cluster, app="db", maxUnavailable=1)
    cluster.saw("one ready of four", _reported(await _counted(cluster, currentHealthy=1, expectedPods=4)))


@running_cluster_scenario(
    "bare pods have no scale: maxUnavailable can't be computed, minAvailable as a number can"
)
async def no_owner(cluster: RunningCluster) -> None:
    await cluster.create(PODS, cluster.pod("web"))
    await cluster.until_pods(1)
    await _guard(cluster, "share", maxUnavailable=1)
    cluster.saw("maxUnavailable", _reported(await _counted(cluster, "share", currentHealthy=1)))
    await cluster.tried("eviction", cluster.client.evict(cluster.key("web")))
    await cluster.client.delete(POD_DISRUPTION_BUDGETS, cluster.key("share"))
    await _guard(cluster, "number", minAvailable=1)
    cluster.saw("minAvailable", _reported(await _counted(cluster, "number", currentHealthy=1)))


@running_cluster_scenario("the owner may be of any kind that has a scale subresource")
async def custom_owner(cluster: RunningCluster) -> None:
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    scalable = version(more={"subresources": {"status": {}, "scale": paths}}, replicas={"type": "integer"})
    widgets = await define(cluster, scalable)
    owner = await cluster.create(widgets, {"metadata": {"name": "owner"}, "spec": {"replicas": 4}})
    reference = owner_reference(owner, controller=True)
    for name in ("web-1", "web-2"):
        metadata = {"labels": {"app": "web"}, "ownerReferences": [reference]}
        await cluster.create(PODS, cluster.pod(name, metadata=metadata))
    await cluster.until_pods(2)
    await _guard(cluster, maxUnavailable="50%")
    cluster.saw("two of four", _reported(await _counted_in_the_end(cluster, 4)))
    await cluster.client.patch(widgets, cluster.key("owner"), merge_patch({"spec": {"replicas": 2}}))
    cluster.saw("two of two", _reported(await _counted_in_the_end(cluster, 2)))


async def _counted_in_the_end(cluster: RunningCluster, expected: int) -> Object:
    """The controller learns of new kinds every half minute, and of a changed scale when a pod changes."""
    for number in range(60):
        change = merge_patch({"metadata": {"annotations": {"example.com/touched": str(number)}}})
        await cluster.client.patch(PODS, cluster.key("web-1"), change)
        try:
            return await _counted(cluster, expectedPods=expected, within_s=1)
        except AssertionError:
            continue
    raise AssertionError(f"{expected} pods were never expected")


@running_cluster_scenario(
    "an eviction takes what the budget allows, and the next waits until its replacement is ready"
)
async def evictions(cluster: RunningCluster) -> None:
    await cluster.create(DEPLOYMENTS, cluster.workload("web", 2))
    first, second = await cluster.until_pods(2)
    await _guard(cluster, minAvailable=1)
    await _counted(cluster, disruptionsAllowed=1)
    cluster.behave({"startup": "1h"})
    await cluster.tried("the first", cluster.client.evict(cluster.key(first["metadata"]["name"])))
    await cluster.gone(PODS, first["metadata"]["name"])
    cluster.saw("one is missing", _reported(await _counted(cluster, currentHealthy=1, expectedPods=2)))
    await cluster.tried("the second", cluster.client.evict(cluster.key(second["metadata"]["name"])))
    cluster.behave()
    await cluster.until_pods(2)
    cluster.saw("replaced", _reported(await _counted(cluster, currentHealthy=2, expectedPods=2)))
    await cluster.tried("the second again", cluster.client.evict(cluster.key(second["metadata"]["name"])))


@running_cluster_scenario(
    "an unready pod is evicted while enough others are healthy; with AlwaysAllow it is in any case"
)
async def unhealthy_pods(cluster: RunningCluster) -> None:
    unready = {"match": {"labels": {"role": "unready"}}, "readiness": "never"}
    cluster.behave(unready)
    await cluster.create(PODS, cluster.pod("ready", app="web"))
    for name in ("unready-1", "unready-2", "unready-3"):
        await cluster.create(PODS, cluster.pod(name, metadata={"labels": {"app": "web", "role": "unready"}}))
    await cluster.until(PODS, lambda found: sum(_runs(pod) for pod in found.values()) == 4)
    await _guard(cluster, minAvailable=1)
    cluster.saw("enough are healthy", _reported(await _counted(cluster, currentHealthy=1)))
    await cluster.tried("unready, enough healthy", cluster.client.evict(cluster.key("unready-1")))
    await cluster.tried("the healthy one", cluster.client.evict(cluster.key("ready")))
    change = merge_patch({"spec": {"minAvailable": 2}})
    await cluster.client.patch(POD_DISRUPTION_BUDGETS, cluster.key("guard"), change)
    cluster.saw("too few are healthy", _reported(await _counted(cluster, desiredHealthy=2, expectedPods=3)))
    await cluster.tried("unready, too few healthy", cluster.client.evict(cluster.key("unready-2")))
    change = merge_patch({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}})
    await cluster.client.patch(POD_DISRUPTION_BUDGETS, cluster.key("guard"), change)
    await _counted(cluster, desiredHealthy=2)
    await cluster.tried("unready, always allowed", cluster.client.evict(cluster.key("unready-3")))
    await cluster.tried("the healthy one, still not", cluster.client.evict(cluster.key("ready")))


@running_cluster_scenario("a pod under two budgets can't be evicted, whatever they allow")
async def two_budgets(cluster: RunningCluster) -> None:
    await cluster.create(DEPLOYMENTS, cluster.workload("web", 2))
    pods = await cluster.until_pods(2)
    for name in ("first", "second"):
        await _guard(cluster, name, minAvailable=1)
        await _counted(cluster, name, disruptionsAllowed=1)
    await cluster.tried("eviction", cluster.client.evict(cluster.key(pods[0]["metadata"]["name"])))


def _runs(pod: Object) -> bool:
    return pod["status"]["phase"] == "Running" and (is_ready(pod) or "role" in pod["metadata"]["labels"])


@running_cluster_scenario("pods of a Job have no scale, so that shares of them can't be computed")
async def of_a_job(cluster: RunningCluster) -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": cluster.pod_spec(restartPolicy="Never")}
    await cluster.create(JOBS, {"metadata": {"name": "work"}, "spec": {"template": template}})
    await cluster.until_pods(1)
    await _guard(cluster, maxUnavailable="50%")
    failed = await cluster.until_one(
        POD_DISRUPTION_BUDGETS, "guard", lambda found: (found.get("status") or {}).get("conditions")
    )
    cluster.saw("status", _reported(failed))


@running_cluster_scenario(
    "terminating and missing pods are not healthy, but terminating ones are still expected"
)
async def deleted_and_created(cluster: RunningCluster) -> None:
    await cluster.create(DEPLOYMENTS, cluster.workload("web", 3, pod={"terminationGracePeriodSeconds": 600}))
    pods = await cluster.until_pods(3)
    await _guard(cluster, "number", minAvailable=1)
    await _guard(cluster, "share", minAvailable="50%")
    cluster.behave({"termination": "ignored", "startup": "1h"})
    await cluster.client.delete(PODS, cluster.key(pods[0]["metadata"]["name"]))
    await cluster.until(PODS, lambda found: len(found) == 4)
    cluster.saw("number", _reported(await _counted(cluster, "number", currentHealthy=2, expectedPods=4)))
    cluster.saw("share", _reported(await _counted(cluster, "share", currentHealthy=2, expectedPods=3)))


@running_cluster_scenario("a budget over pods of several owners counts them all")
async def several_owners(cluster: RunningCluster) -> None:
    for name, replicas in (("web", 3), ("api", 2)):
        await cluster.create(DEPLOYMENTS, cluster.workload(name, replicas))
    await cluster.until_pods(5)
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "api"]}]}
    spec = {"selector": selector, "maxUnavailable": "40%"}
    await cluster.create(POD_DISRUPTION_BUDGETS, {"metadata": {"name": "guard"}, "spec": spec})
    cluster.saw("status", _reported(await _counted(cluster, currentHealthy=5)))
