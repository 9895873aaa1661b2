"""What LimitRanges and the default priority class change in new pods."""

import asyncio

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import PRIORITY_CLASSES, Object, api_resource, merge_patch
from rescheduler.kube.errors import Forbidden
from tests.conformance.cluster_under_test import ClusterUnderTest
from tests.conformance.notes import at
from tests.conformance.objects import pod
from tests.conformance.scenario import scenario

LIMIT_RANGES = api_resource("", "v1", "limitranges", "LimitRange")


async def _limit(cluster: ClusterUnderTest, type_: str = "Container", **limits: Object) -> None:
    spec = {"limits": [{"type": type_, **limits}]}
    await cluster.create(LIMIT_RANGES, {"metadata": {"name": "limits"}, "spec": spec})
    # Limits are in force when the server has heard of them itself, a moment later.
    probe = cluster.placed(PODS, pod("probe"))
    for _ in range(100):
        try:
            made = await cluster.client.create(PODS.as_json, probe, dry_run=True)
        except Forbidden:
            return
        if "annotations" in made["metadata"]:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the limits were never in force")


def _asking(name: str, *, requests: Object | None = None, limits: Object | None = None) -> Object:
    wanted = pod(name)
    sides = {"requests": requests, "limits": limits}
    wanted["spec"]["containers"][0]["resources"] = {side: said for side, said in sides.items() if said}
    return wanted


async def _tried(cluster: ClusterUnderTest, what: str, wanted: Object) -> None:
    fields = ("spec.containers.0.resources", "metadata.annotations", "status.qosClass")
    await cluster.created(what, PODS, wanted, *fields)


@scenario("containers get the default limits, and an annotation of the pod records that")
async def defaults(cluster: ClusterUnderTest) -> None:
    await _limit(cluster, default={"cpu": "500m"}, defaultRequest={"cpu": "100m", "memory": "64Mi"})
    await _tried(cluster, "asks for nothing", _asking("nothing"))
    await _tried(cluster, "asks for memory", _asking("memory", requests={"memory": "1Gi"}))
    await _tried(cluster, "limits its cpu", _asking("limited", limits={"cpu": "200m"}))
    two = _asking("two", requests={"cpu": "50m"})
    two["spec"]["initContainers"] = [{"name": "first", "image": "example.com/init:1"}]
    await _tried(cluster, "an init container", two)


@scenario("containers that ask for too little or too much are refused")
async def bounds(cluster: ClusterUnderTest) -> None:
    await _limit(cluster, min={"cpu": "100m"}, max={"cpu": "1"}, maxLimitRequestRatio={"cpu": "4"})
    made = await cluster.read(LIMIT_RANGES, "limits")
    cluster.saw("the limits", at(made, "spec.limits"))
    await _tried(cluster, "too little", _asking("little", requests={"cpu": "50m"}))
    await _tried(cluster, "too much", _asking("much", requests={"cpu": "2"}, limits={"cpu": "2"}))
    await _tried(cluster, "limited too low", _asking("low", requests={"cpu": "100m"}, limits={"cpu": "50m"}))
    await _tried(cluster, "too far apart", _asking("apart", requests={"cpu": "100m"}, limits={"cpu": "500m"}))
    await _tried(cluster, "as allowed", _asking("fine", requests={"cpu": "500m"}, limits={"cpu": "1"}))
    await _tried(cluster, "asks for nothing", _asking("nothing"))


@scenario("a pod as a whole can be limited")
async def whole_pods(cluster: ClusterUnderTest) -> None:
    await _limit(cluster, "Pod", max={"cpu": "1"})
    await _tried(cluster, "without limits", _asking("unlimited", requests={"cpu": "100m"}))
    both = _asking("both", limits={"cpu": "600m"})
    second = {**both["spec"]["containers"][0], "name": "second"}
    both["spec"]["containers"].append(second)
    await _tried(cluster, "two containers together", both)


@scenario("pods without a priority class get the default class, of which there is at most one", alone=True)
async def default_priority(cluster: ClusterUnderTest) -> None:
    name = cluster.unique("default")
    wanted = {"metadata": {"name": name}, "value": 7, "globalDefault": True, "preemptionPolicy": "Never"}
    await cluster.create(PRIORITY_CLASSES, wanted)
    fields = ("spec.priority", "spec.priorityClassName", "spec.preemptionPolicy")
    for _ in range(100):
        made = await cluster.client.create(PODS.as_json, cluster.placed(PODS, pod("probe")), dry_run=True)
        if made["spec"]["priority"] == 7:
            break
        await asyncio.sleep(0.05)
    await cluster.created("a pod", PODS, pod("web"), *fields)
    second = {"metadata": {"name": cluster.unique("second")}, "value": 8, "globalDefault": True}
    await cluster.created("a second default", PRIORITY_CLASSES, second)
    label = merge_patch({"metadata": {"labels": {"a": "b"}}})
    await cluster.patched("a label for it", PRIORITY_CLASSES, name, label)
