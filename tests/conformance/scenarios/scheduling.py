"""The scheduler: which pods are placed where, which wait, and the messages about those.

The message of a waiting pod counts all nodes, so the scenario must be the only one with nodes.
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
from tests.conformance.objects import budget
from tests.conformance.running_cluster import RunningCluster, condition, conditions, is_ready
from tests.conformance.scenario import running_cluster_scenario
from tests.testbed.fake_kubelet.nodes import NodeShape

HOST = "kubernetes.io/hostname"


async def _waits(cluster: RunningCluster, name: str) -> list[Any]:
    """What a pod without a node is told."""
    pod = await cluster.until_one(PODS, name, lambda pod: condition(pod, "PodScheduled").get("reason"))
    return conditions(pod)


async def _placed(cluster: RunningCluster, name: str) -> str:
    pod = await cluster.until_one(PODS, name, lambda pod: pod["spec"].get("nodeName"))
    return str(pod["spec"]["nodeName"])


async def _reasons(cluster: RunningCluster, pod: str, *, until: str) -> list[str]:
    """Return the reasons of all Events about a pod, once one has that reason."""

    def about(found: dict[str, Object]) -> list[Object]:
        return [each for each in found.values() if each["involvedObject"]["name"] == pod]

    found = await cluster.until(EVENTS, lambda seen: any(each["reason"] == until for each in about(seen)))
    return sorted({each["reason"] for each in about(found) if each["reason"] in _OF_THE_SCHEDULER})


_OF_THE_SCHEDULER = {"Scheduled", "FailedScheduling", "Preempted"}


def _affinity(kind: str, app: str) -> Object:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOST}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


async def _priority(cluster: RunningCluster, name: str, value: int, **more: Any) -> str:
    """Its full name, once the server knows it well enough to accept pods of it."""
    full = cluster.unique(name)
    await cluster.create(PRIORITY_CLASSES, {"metadata": {"name": full}, "value": value, **more})
    probe = cluster.placed(PODS, cluster.pod("probe", priorityClassName=full))
    for _ in range(100):
        try:
            await cluster.client.create(PODS.as_json, probe, dry_run=True)
        except Forbidden:
            await asyncio.sleep(0.05)
        else:
            return full
    raise AssertionError(f"pods of {full} were never accepted")


@running_cluster_scenario(
    "the condition of a pod that fits no node names the reasons for all nodes", alone=True
)
async def unschedulable_message(cluster: RunningCluster) -> None:
    taint = {"key": "example.com/reserved", "value": "yes", "effect": "NoSchedule"}
    await cluster.add_nodes(NodeShape(f"{cluster.namespace}-reserved", taints=(taint,)))
    await cluster.client.patch(NODES, cluster.nodes[1], merge_patch({"spec": {"unschedulable": True}}))
    await cluster.until_one(NODES, cluster.nodes[1], lambda node: node["spec"].get("taints"))
    large = cluster.pod("large", cpu="9")
    large["spec"]["nodeSelector"] = {}
    await cluster.create(PODS, large)
    cluster.saw("too large", await _waits(cluster, "large"))
    wrong = cluster.pod("wrong")
    wrong["spec"]["nodeSelector"] = {"disk": "fast"}
    await cluster.create(PODS, wrong)
    cluster.saw("wrong label", await _waits(cluster, "wrong"))
    cluster.saw("events", await _reasons(cluster, "wrong", until="FailedScheduling"))
    await cluster.create(PODS, cluster.pod("friend", **_affinity("podAffinity", "nobody")))
    cluster.saw("no such friend", await _waits(cluster, "friend"))


@running_cluster_scenario("pods that keep apart from each other need a node each", alone=True)
async def keep_apart(cluster: RunningCluster) -> None:
    for name in ("one", "two", "three"):
        await cluster.create(PODS, cluster.pod(name, app="web", **_affinity("podAntiAffinity", "web")))
    waiting = await cluster.until(
        PODS, lambda found: sum(map(is_ready, found.values())) == 2 and len(_unplaced(found)) == 1
    )
    (name,) = _unplaced(waiting)
    cluster.saw("the third", await _waits(cluster, name))
    gone = next(other for other in waiting if other != name)
    await cluster.client.delete(PODS, cluster.key(gone))
    cluster.saw("when there is room", bool(await _placed(cluster, name)))


def _unplaced(found: dict[str, Object]) -> list[str]:
    return [name for name, pod in found.items() if condition(pod, "PodScheduled").get("status") == "False"]


@running_cluster_scenario("pods are spread as evenly as they ask for", alone=True)
async def spread(cluster: RunningCluster) -> None:
    await cluster.client.patch(NODES, cluster.nodes[1], merge_patch({"spec": {"unschedulable": True}}))
    await cluster.until_one(NODES, cluster.nodes[1], lambda node: node["spec"].get("taints"))
    constraint = {
        "maxSkew": 1,
        "topologyKey": HOST,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    for name in ("one", "two"):
        await cluster.create(PODS, cluster.pod(name, app="web", topologySpreadConstraints=[constraint]))
        if name == "one":
            await _placed(cluster, name)
    cluster.saw("the second", await _waits(cluster, "two"))
    await cluster.client.patch(NODES, cluster.nodes[1], merge_patch({"spec": {"unschedulable": None}}))
    cluster.saw("where it goes", await _placed(cluster, "two"))


@running_cluster_scenario("a host port can be had once per node", nodes=1, alone=True)
async def host_ports(cluster: RunningCluster) -> None:
    for name in ("one", "two"):
        wanted = cluster.pod(name)
        wanted["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
        await cluster.create(PODS, wanted)
        if name == "one":
            await _placed(cluster, name)
    cluster.saw("the second", await _waits(cluster, "two"))


@running_cluster_scenario("a gated pod is not scheduled until its last gate is removed")
async def gates(cluster: RunningCluster) -> None:
    gated = [{"name": "example.com/one"}, {"name": "example.com/two"}]
    await cluster.create(PODS, cluster.pod("web", schedulingGates=gated))
    cluster.saw("gated", await _waits(cluster, "web"))
    remove = json_patch([{"op": "remove", "path": "/spec/schedulingGates/0"}])
    await cluster.client.patch(PODS, cluster.key("web"), remove)
    still = await cluster.read(PODS, "web")
    assert still is not None
    cluster.saw("one is gone", conditions(still))
    await cluster.client.patch(PODS, cluster.key("web"), remove)
    await _placed(cluster, "web")
    (pod,) = await cluster.until_pods(1)
    cluster.saw("both are gone", [[each[0], each[1]] for each in conditions(pod)])
    cluster.saw("events", await _reasons(cluster, "web", until="Scheduled"))


@running_cluster_scenario(
    "the nominated node is tried first, and another one taken if it does not fit", nodes=3
)
async def nominated(cluster: RunningCluster) -> None:
    full, busy, idle = cluster.nodes
    await cluster.create(PODS, cluster.pod("filler", cpu="7500m", nodeName=full))
    await cluster.create(PODS, cluster.pod("resident", cpu="4", nodeName=busy))
    await cluster.until_pods(2)
    for name, node, cpu in (("fits", busy, "100m"), ("too-large", full, "1")):
        gated = cluster.pod(name, cpu=cpu, schedulingGates=[{"name": "example.com/hold"}])
        await cluster.create(PODS, gated)
        nomination = merge_patch({"status": {"nominatedNodeName": node}})
        await cluster.client.patch(PODS.status, cluster.key(name), nomination)
        opened = json_patch([{"op": "remove", "path": "/spec/schedulingGates"}])
        await cluster.client.patch(PODS, cluster.key(name), opened)
    cluster.saw("it fits", await _placed(cluster, "fits") == busy)
    cluster.saw("it does not", await _placed(cluster, "too-large") != full)
    pods = await cluster.until_pods(4)
    cluster.saw("nominations left", [pod["status"].get("nominatedNodeName") for pod in pods])
    cluster.saw("the idle node", idle in {pod["spec"]["nodeName"] for pod in pods} or "nobody's")


@running_cluster_scenario(
    "a pod of higher priority takes the place of a lower one, which ends gracefully", nodes=1, alone=True
)
async def preemption(cluster: RunningCluster) -> None:
    high = await _priority(cluster, "high", 1000)
    low = await _priority(cluster, "low", 10)
    await cluster.create(PODS, cluster.pod("low", cpu="5", priorityClassName=low))
    await cluster.create(PODS, cluster.pod("medium", cpu="2", priorityClassName=high))
    await cluster.until_pods(2)
    cluster.behave({"termination": "ignored"})
    await cluster.create(PODS, cluster.pod("high", cpu="4", priorityClassName=high))
    promised = await cluster.until_one(PODS, "high", lambda pod: pod["status"].get("nominatedNodeName"))
    cluster.saw("promised", [promised["status"]["nominatedNodeName"], conditions(promised)])
    victim = await cluster.until_one(PODS, "low", lambda pod: "deletionTimestamp" in pod["metadata"])
    cluster.saw("victim", [each for each in conditions(victim) if each[0] == "DisruptionTarget"])
    cluster.saw("its events", await _reasons(cluster, "low", until="Preempted"))
    cluster.behave()
    await cluster.until_pods(2)
    cluster.saw("in the end", [pod["metadata"]["name"] for pod in await cluster.until_pods(2)])


@running_cluster_scenario("a pod that may not preempt waits, and its condition says so", nodes=1, alone=True)
async def never_preempts(cluster: RunningCluster) -> None:
    polite = await _priority(cluster, "polite", 1000, preemptionPolicy="Never")
    await cluster.create(PODS, cluster.pod("low", cpu="6"))
    await cluster.until_pods(1)
    await cluster.create(PODS, cluster.pod("polite", cpu="4", priorityClassName=polite))
    cluster.saw("polite", await _waits(cluster, "polite"))
    await cluster.create(PODS, cluster.pod("equal", cpu="4"))
    cluster.saw("of equal priority", await _waits(cluster, "equal"))
    cluster.saw("the low one", is_ready(await cluster.until_one(PODS, "low", lambda pod: pod)))


@running_cluster_scenario("preemption spares pods whose budget would be violated, if others can go instead")
async def preemption_and_budgets(cluster: RunningCluster) -> None:
    high = await _priority(cluster, "high", 1000)
    for name, node in (("guarded", cluster.nodes[0]), ("free", cluster.nodes[1])):
        await cluster.create(PODS, cluster.pod(name, cpu="6", nodeName=node))
    await cluster.until_pods(2)
    await cluster.create(POD_DISRUPTION_BUDGETS, budget("guard", "guarded", minAvailable=1))
    await cluster.until_one(
        POD_DISRUPTION_BUDGETS,
        "guard",
        lambda found: (found.get("status") or {}).get("currentHealthy") == 1,
    )
    await cluster.create(PODS, cluster.pod("high", cpu="5", priorityClassName=high))
    await cluster.gone(PODS, "free")
    cluster.saw("where", await _placed(cluster, "high") == cluster.nodes[1])
    await cluster.create(PODS, cluster.pod("higher", cpu="5", priorityClassName=high))
    await cluster.gone(PODS, "guarded")
    cluster.saw("if need be against the budget", await _placed(cluster, "higher") == cluster.nodes[0])


@running_cluster_scenario(
    "the room that was made for a pod is not given to pods of lower priority", nodes=1, alone=True
)
async def promised_room(cluster: RunningCluster) -> None:
    high = await _priority(cluster, "high", 1000)
    await cluster.create(PODS, cluster.pod("low", cpu="6", terminationGracePeriodSeconds=600))
    await cluster.until_pods(1)
    cluster.behave({"termination": "ignored"})
    await cluster.create(PODS, cluster.pod("high", cpu="4", priorityClassName=high))
    await cluster.until_one(PODS, "high", lambda pod: pod["status"].get("nominatedNodeName"))
    await cluster.create(PODS, cluster.pod("small", cpu="2"))
    cluster.saw("a small one that would fit", await _waits(cluster, "small"))
    urgent = await _priority(cluster, "urgent", 2000)
    await cluster.create(PODS, cluster.pod("urgent", cpu="2", priorityClassName=urgent))
    cluster.saw("one that is more important", bool(await _placed(cluster, "urgent")))


@running_cluster_scenario(
    "as few pods as necessary are preempted, and those of lowest priority", nodes=1, alone=True
)
async def several_victims(cluster: RunningCluster) -> None:
    high = await _priority(cluster, "high", 1000)
    names = [await _priority(cluster, f"low-{number}", number) for number in (1, 2, 3)]
    for number, name in enumerate(names, start=1):
        await cluster.create(PODS, cluster.pod(f"low-{number}", cpu="2500m", priorityClassName=name))
    await cluster.until_pods(3)
    await cluster.create(PODS, cluster.pod("high", cpu="5", priorityClassName=high))
    await _placed(cluster, "high")
    cluster.saw("left", [pod["metadata"]["name"] for pod in await cluster.until_pods(2)])


@running_cluster_scenario(
    "a Deployment that finds no room says so when its deadline is over", nodes=1, alone=True
)
async def no_room(cluster: RunningCluster) -> None:
    wanted = cluster.workload("web", 2, pod={"cpu": "5"}, progressDeadlineSeconds=1)
    await cluster.create(DEPLOYMENTS, wanted)
    late = await cluster.until_one(
        DEPLOYMENTS, "web", lambda found: condition(found, "Progressing").get("status") == "False"
    )
    cluster.saw("conditions", conditions(late))
    (waiting,) = _unplaced(await cluster.until(PODS, lambda found: len(_unplaced(found)) == 1))
    cluster.saw("the one that waits", await _waits(cluster, waiting))
    await cluster.add_nodes(NodeShape(f"{cluster.namespace}-late"))
    cluster.saw("with more room", len(await cluster.until_pods(2)))
