"""The scheduler: who is placed where, who waits, and what it says to those that wait.

Those that wait are told of all nodes there are, so nobody else's nodes may be there.
"""

import asyncio
from typing import Any

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.api_resources import (
    DEPLOYMENTS,
    EVENTS,
    POD_DISRUPTION_BUDGETS,
    PRIORITY_CLASSES,
    Object,
    json_patch,
    merge_patch,
)
from rescheduler.kube.errors import Forbidden
from tests.conformance.living import LivingWorld, condition, conditions, is_ready
from tests.conformance.objects import budget
from tests.conformance.scenario import living
from tests.testbed.fake_kubelet.nodes import NodeShape

HOST = "kubernetes.io/hostname"


async def _waits(world: LivingWorld, name: str) -> list[Any]:
    """What a pod without a node is told."""
    pod = await world.until_one(PODS, name, lambda pod: condition(pod, "PodScheduled").get("reason"))
    return conditions(pod)


async def _placed(world: LivingWorld, name: str) -> str:
    pod = await world.until_one(PODS, name, lambda pod: pod["spec"].get("nodeName"))
    return str(pod["spec"]["nodeName"])


async def _reasons(world: LivingWorld, pod: str, *, until: str) -> list[str]:
    """Of all events about a pod, once there is one with that reason."""

    def about(found: dict[str, Object]) -> list[Object]:
        return [each for each in found.values() if each["involvedObject"]["name"] == pod]

    found = await world.until(EVENTS, lambda seen: any(each["reason"] == until for each in about(seen)))
    return sorted({each["reason"] for each in about(found) if each["reason"] in _OF_THE_SCHEDULER})


_OF_THE_SCHEDULER = {"Scheduled", "FailedScheduling", "Preempted"}


def _affinity(kind: str, app: str) -> Object:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOST}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


async def _priority(world: LivingWorld, name: str, value: int, **more: Any) -> str:
    """Its full name, once the server knows it well enough to accept pods of it."""
    full = world.unique(name)
    await world.create(PRIORITY_CLASSES, {"metadata": {"name": full}, "value": value, **more})
    probe = world.placed(PODS, world.pod("probe", priorityClassName=full))
    for _ in range(100):
        try:
            await world.client.create(PODS.as_json, probe, dry_run=True)
        except Forbidden:
            await asyncio.sleep(0.05)
        else:
            return full
    raise AssertionError(f"pods of {full} were never accepted")


@living("a pod that fits nowhere is told what speaks against each node", alone=True)
async def told_why(world: LivingWorld) -> None:
    taint = {"key": "example.com/reserved", "value": "yes", "effect": "NoSchedule"}
    await world.add_nodes(NodeShape(f"{world.namespace}-reserved", taints=(taint,)))
    await world.client.patch(NODES, world.nodes[1], merge_patch({"spec": {"unschedulable": True}}))
    await world.until_one(NODES, world.nodes[1], lambda node: node["spec"].get("taints"))
    large = world.pod("large", cpu="9")
    large["spec"]["nodeSelector"] = {}
    await world.create(PODS, large)
    world.saw("too large", await _waits(world, "large"))
    wrong = world.pod("wrong")
    wrong["spec"]["nodeSelector"] = {"disk": "fast"}
    await world.create(PODS, wrong)
    world.saw("wrong label", await _waits(world, "wrong"))
    world.saw("events", await _reasons(world, "wrong", until="FailedScheduling"))
    await world.create(PODS, world.pod("friend", **_affinity("podAffinity", "nobody")))
    world.saw("no such friend", await _waits(world, "friend"))


@living("pods that keep apart from each other need a node each", alone=True)
async def keep_apart(world: LivingWorld) -> None:
    for name in ("one", "two", "three"):
        await world.create(PODS, world.pod(name, app="web", **_affinity("podAntiAffinity", "web")))
    waiting = await world.until(
        PODS, lambda found: sum(map(is_ready, found.values())) == 2 and len(_unplaced(found)) == 1
    )
    (name,) = _unplaced(waiting)
    world.saw("the third", await _waits(world, name))
    gone = next(other for other in waiting if other != name)
    await world.client.delete(PODS, world.key(gone))
    world.saw("when there is room", bool(await _placed(world, name)))


def _unplaced(found: dict[str, Object]) -> list[str]:
    return [name for name, pod in found.items() if condition(pod, "PodScheduled").get("status") == "False"]


@living("pods are spread as evenly as they ask for", alone=True)
async def spread(world: LivingWorld) -> None:
    await world.client.patch(NODES, world.nodes[1], merge_patch({"spec": {"unschedulable": True}}))
    await world.until_one(NODES, world.nodes[1], lambda node: node["spec"].get("taints"))
    constraint = {
        "maxSkew": 1,
        "topologyKey": HOST,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    for name in ("one", "two"):
        await world.create(PODS, world.pod(name, app="web", topologySpreadConstraints=[constraint]))
        if name == "one":
            await _placed(world, name)
    world.saw("the second", await _waits(world, "two"))
    await world.client.patch(NODES, world.nodes[1], merge_patch({"spec": {"unschedulable": None}}))
    world.saw("where it goes", await _placed(world, "two"))


@living("a host port can be had once per node", nodes=1, alone=True)
async def host_ports(world: LivingWorld) -> None:
    for name in ("one", "two"):
        wanted = world.pod(name)
        wanted["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
        await world.create(PODS, wanted)
        if name == "one":
            await _placed(world, name)
    world.saw("the second", await _waits(world, "two"))


@living("a gated pod is not looked at until its last gate is gone")
async def gates(world: LivingWorld) -> None:
    gated = [{"name": "example.com/one"}, {"name": "example.com/two"}]
    await world.create(PODS, world.pod("web", schedulingGates=gated))
    world.saw("gated", await _waits(world, "web"))
    remove = json_patch([{"op": "remove", "path": "/spec/schedulingGates/0"}])
    await world.client.patch(PODS, world.key("web"), remove)
    still = await world.read(PODS, "web")
    assert still is not None
    world.saw("one is gone", conditions(still))
    await world.client.patch(PODS, world.key("web"), remove)
    await _placed(world, "web")
    (pod,) = await world.until_pods(1)
    world.saw("both are gone", [[each[0], each[1]] for each in conditions(pod)])
    world.saw("events", await _reasons(world, "web", until="Scheduled"))


@living("the nominated node is tried first, and another one taken if it does not fit", nodes=3)
async def nominated(world: LivingWorld) -> None:
    full, busy, idle = world.nodes
    await world.create(PODS, world.pod("filler", cpu="7500m", nodeName=full))
    await world.create(PODS, world.pod("resident", cpu="4", nodeName=busy))
    await world.until_pods(2)
    for name, node, cpu in (("fits", busy, "100m"), ("too-large", full, "1")):
        gated = world.pod(name, cpu=cpu, schedulingGates=[{"name": "example.com/hold"}])
        await world.create(PODS, gated)
        nomination = merge_patch({"status": {"nominatedNodeName": node}})
        await world.client.patch(PODS.status, world.key(name), nomination)
        opened = json_patch([{"op": "remove", "path": "/spec/schedulingGates"}])
        await world.client.patch(PODS, world.key(name), opened)
    world.saw("it fits", await _placed(world, "fits") == busy)
    world.saw("it does not", await _placed(world, "too-large") != full)
    pods = await world.until_pods(4)
    world.saw("nominations left", [pod["status"].get("nominatedNodeName") for pod in pods])
    world.saw("the idle node", idle in {pod["spec"]["nodeName"] for pod in pods} or "nobody's")


@living("a pod of higher priority takes the place of a lower one, which ends gracefully", nodes=1, alone=True)
async def preemption(world: LivingWorld) -> None:
    high = await _priority(world, "high", 1000)
    low = await _priority(world, "low", 10)
    await world.create(PODS, world.pod("low", cpu="5", priorityClassName=low))
    await world.create(PODS, world.pod("medium", cpu="2", priorityClassName=high))
    await world.until_pods(2)
    world.behave({"termination": "ignored"})
    await world.create(PODS, world.pod("high", cpu="4", priorityClassName=high))
    promised = await world.until_one(PODS, "high", lambda pod: pod["status"].get("nominatedNodeName"))
    world.saw("promised", [promised["status"]["nominatedNodeName"], conditions(promised)])
    victim = await world.until_one(PODS, "low", lambda pod: "deletionTimestamp" in pod["metadata"])
    world.saw("victim", [each for each in conditions(victim) if each[0] == "DisruptionTarget"])
    world.saw("its events", await _reasons(world, "low", until="Preempted"))
    world.behave()
    await world.until_pods(2)
    world.saw("in the end", [pod["metadata"]["name"] for pod in await world.until_pods(2)])


@living("who may not preempt waits, and is told so", nodes=1, alone=True)
async def never_preempts(world: LivingWorld) -> None:
    polite = await _priority(world, "polite", 1000, preemptionPolicy="Never")
    await world.create(PODS, world.pod("low", cpu="6"))
    await world.until_pods(1)
    await world.create(PODS, world.pod("polite", cpu="4", priorityClassName=polite))
    world.saw("polite", await _waits(world, "polite"))
    await world.create(PODS, world.pod("equal", cpu="4"))
    world.saw("of equal priority", await _waits(world, "equal"))
    world.saw("the low one", is_ready(await world.until_one(PODS, "low", lambda pod: pod)))


@living("preemption spares pods whose budget would be violated, if others can go instead")
async def preemption_and_budgets(world: LivingWorld) -> None:
    high = await _priority(world, "high", 1000)
    for name, node in (("guarded", world.nodes[0]), ("free", world.nodes[1])):
        await world.create(PODS, world.pod(name, cpu="6", nodeName=node))
    await world.until_pods(2)
    await world.create(POD_DISRUPTION_BUDGETS, budget("guard", "guarded", minAvailable=1))
    await world.until_one(
        POD_DISRUPTION_BUDGETS,
        "guard",
        lambda found: (found.get("status") or {}).get("currentHealthy") == 1,
    )
    await world.create(PODS, world.pod("high", cpu="5", priorityClassName=high))
    await world.gone(PODS, "free")
    world.saw("where", await _placed(world, "high") == world.nodes[1])
    await world.create(PODS, world.pod("higher", cpu="5", priorityClassName=high))
    await world.gone(PODS, "guarded")
    world.saw("if need be against the budget", await _placed(world, "higher") == world.nodes[0])


@living("the room that was made for a pod is nobody else's of lower priority", nodes=1, alone=True)
async def promised_room(world: LivingWorld) -> None:
    high = await _priority(world, "high", 1000)
    await world.create(PODS, world.pod("low", cpu="6", terminationGracePeriodSeconds=600))
    await world.until_pods(1)
    world.behave({"termination": "ignored"})
    await world.create(PODS, world.pod("high", cpu="4", priorityClassName=high))
    await world.until_one(PODS, "high", lambda pod: pod["status"].get("nominatedNodeName"))
    await world.create(PODS, world.pod("small", cpu="2"))
    world.saw("a small one that would fit", await _waits(world, "small"))
    urgent = await _priority(world, "urgent", 2000)
    await world.create(PODS, world.pod("urgent", cpu="2", priorityClassName=urgent))
    world.saw("one that is more important", bool(await _placed(world, "urgent")))


@living("as few pods go as make room, and the least important of them", nodes=1, alone=True)
async def several_victims(world: LivingWorld) -> None:
    high = await _priority(world, "high", 1000)
    names = [await _priority(world, f"low-{number}", number) for number in (1, 2, 3)]
    for number, name in enumerate(names, start=1):
        await world.create(PODS, world.pod(f"low-{number}", cpu="2500m", priorityClassName=name))
    await world.until_pods(3)
    await world.create(PODS, world.pod("high", cpu="5", priorityClassName=high))
    await _placed(world, "high")
    world.saw("left", [pod["metadata"]["name"] for pod in await world.until_pods(2)])


@living("a Deployment that finds no room says so when its deadline is over", nodes=1, alone=True)
async def no_room(world: LivingWorld) -> None:
    wanted = world.workload("web", 2, pod={"cpu": "5"}, progressDeadlineSeconds=1)
    await world.create(DEPLOYMENTS, wanted)
    late = await world.until_one(
        DEPLOYMENTS, "web", lambda found: condition(found, "Progressing").get("status") == "False"
    )
    world.saw("conditions", conditions(late))
    (waiting,) = _unplaced(await world.until(PODS, lambda found: len(_unplaced(found)) == 1))
    world.saw("the one that waits", await _waits(world, waiting))
    await world.add_nodes(NodeShape(f"{world.namespace}-late"))
    world.saw("with more room", len(await world.until_pods(2)))
