"""What a namespace's limits and the cluster's default priority make of new pods."""

import asyncio

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import PRIORITY_CLASSES, Object, api_resource, merge_patch
from rescheduler.kube.errors import Forbidden
from tests.conformance.notes import at
from tests.conformance.objects import pod
from tests.conformance.scenario import scenario
from tests.conformance.world import World

LIMIT_RANGES = api_resource("", "v1", "limitranges", "LimitRange")


async def _limit(world: World, type_: str = "Container", **limits: Object) -> None:
    spec = {"limits": [{"type": type_, **limits}]}
    await world.create(LIMIT_RANGES, {"metadata": {"name": "limits"}, "spec": spec})
    # Limits are in force when the server has heard of them itself, a moment later.
    probe = world.placed(PODS, pod("probe"))
    for _ in range(100):
        try:
            made = await world.client.create(PODS.as_json, probe, dry_run=True)
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


async def _tried(world: World, what: str, wanted: Object) -> None:
    fields = ("spec.containers.0.resources", "metadata.annotations", "status.qosClass")
    await world.created(what, PODS, wanted, *fields)


@scenario("containers get what they leave unsaid, and their pod says so")
async def defaults(world: World) -> None:
    await _limit(world, default={"cpu": "500m"}, defaultRequest={"cpu": "100m", "memory": "64Mi"})
    await _tried(world, "asks for nothing", _asking("nothing"))
    await _tried(world, "asks for memory", _asking("memory", requests={"memory": "1Gi"}))
    await _tried(world, "limits its cpu", _asking("limited", limits={"cpu": "200m"}))
    two = _asking("two", requests={"cpu": "50m"})
    two["spec"]["initContainers"] = [{"name": "first", "image": "example.com/init:1"}]
    await _tried(world, "an init container", two)


@scenario("containers that ask for too little or too much are refused")
async def bounds(world: World) -> None:
    await _limit(world, min={"cpu": "100m"}, max={"cpu": "1"}, maxLimitRequestRatio={"cpu": "4"})
    made = await world.read(LIMIT_RANGES, "limits")
    world.saw("the limits", at(made, "spec.limits"))
    await _tried(world, "too little", _asking("little", requests={"cpu": "50m"}))
    await _tried(world, "too much", _asking("much", requests={"cpu": "2"}, limits={"cpu": "2"}))
    await _tried(world, "limited too low", _asking("low", requests={"cpu": "100m"}, limits={"cpu": "50m"}))
    await _tried(world, "too far apart", _asking("apart", requests={"cpu": "100m"}, limits={"cpu": "500m"}))
    await _tried(world, "as allowed", _asking("fine", requests={"cpu": "500m"}, limits={"cpu": "1"}))
    await _tried(world, "asks for nothing", _asking("nothing"))


@scenario("a pod as a whole can be limited")
async def whole_pods(world: World) -> None:
    await _limit(world, "Pod", max={"cpu": "1"})
    await _tried(world, "without limits", _asking("unlimited", requests={"cpu": "100m"}))
    both = _asking("both", limits={"cpu": "600m"})
    second = {**both["spec"]["containers"][0], "name": "second"}
    both["spec"]["containers"].append(second)
    await _tried(world, "two containers together", both)


@scenario("pods that name no priority are of the default class, of which there can be one", alone=True)
async def default_priority(world: World) -> None:
    name = world.unique("default")
    wanted = {"metadata": {"name": name}, "value": 7, "globalDefault": True, "preemptionPolicy": "Never"}
    await world.create(PRIORITY_CLASSES, wanted)
    fields = ("spec.priority", "spec.priorityClassName", "spec.preemptionPolicy")
    for _ in range(100):
        made = await world.client.create(PODS.as_json, world.placed(PODS, pod("probe")), dry_run=True)
        if made["spec"]["priority"] == 7:
            break
        await asyncio.sleep(0.05)
    await world.created("a pod", PODS, pod("web"), *fields)
    second = {"metadata": {"name": world.unique("second")}, "value": 8, "globalDefault": True}
    await world.created("a second default", PRIORITY_CLASSES, second)
    label = merge_patch({"metadata": {"labels": {"a": "b"}}})
    await world.patched("a label for it", PRIORITY_CLASSES, name, label)
