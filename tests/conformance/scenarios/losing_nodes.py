"""Nodes that fall silent, taints that drive pods away, and what becomes of the pods."""

import asyncio

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.api_resources import (
    DAEMON_SETS,
    LEASES,
    REPLICA_SETS,
    STATEFUL_SETS,
    Object,
    merge_patch,
    strategic_patch,
)
from tests.conformance.living import LivingWorld, condition, conditions, is_ready, numbers
from tests.conformance.scenario import living
from tests.testbed.fake_kubelet.nodes import NodeShape

UNREACHABLE = "node.kubernetes.io/unreachable"
PATIENCE_S = 2
IMPATIENT = [
    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": PATIENCE_S}
    for key in (UNREACHABLE, "node.kubernetes.io/not-ready")
]


def _taints(node: Object) -> list[list[str]]:
    return sorted([taint["key"], taint["effect"]] for taint in node["spec"].get("taints") or ())


async def _beating(world: LivingWorld, node: str) -> None:
    """Its first sign of life has been heard; who was never heard is not missed."""
    while True:
        found = await world.client.list(LEASES, namespace="kube-node-lease")
        if node in {item["metadata"]["name"] for item in found.items}:
            return
        await asyncio.sleep(0.5)


@living("a silent node is lost: nothing is known of it, its pods are unready and in the end replaced")
async def lost(world: LivingWorld) -> None:
    silent, other = world.nodes
    await world.client.patch(NODES, other, merge_patch({"spec": {"unschedulable": True}}))
    await world.create(REPLICA_SETS, world.workload("web", 1, pod={"tolerations": IMPATIENT}))
    (pod,) = await world.until_pods(1)
    name = pod["metadata"]["name"]
    await world.client.patch(NODES, other, merge_patch({"spec": {"unschedulable": None}}))
    await _beating(world, silent)
    world.machines.kill(silent)
    gone = await world.until_one(
        NODES,
        silent,
        lambda node: condition(node, "Ready")["status"] == "Unknown" and len(_taints(node)) == 2,
    )
    world.saw("conditions", conditions(gone))
    world.saw("taints", _taints(gone))
    going = await world.until_one(PODS, name, lambda found: "deletionTimestamp" in found["metadata"])
    told = {each[0]: each for each in conditions(going)}
    world.saw("the pod", [told["Ready"][:2], told.get("DisruptionTarget")])
    world.saw("how it goes", going["metadata"]["deletionGracePeriodSeconds"])
    replaced = await world.until(PODS, lambda found: sum(map(is_ready, found.values())) == 1)
    world.saw("pods", sorted([each["spec"]["nodeName"], is_ready(each)] for each in replaced.values()))
    world.machines.revive(silent)
    back = await world.until_one(NODES, silent, lambda node: is_ready(node) and not _taints(node))
    world.saw("back", conditions(back))
    world.saw("pods in the end", len(await world.until_pods(1)))


@living("a NoExecute taint drives away who does not tolerate it, at once or when its patience ends")
async def no_execute(world: LivingWorld) -> None:
    key = "example.com/broken"
    (node,) = world.nodes[:1]
    tolerations: dict[str, list[Object]] = {
        "intolerant": [],
        "patient": [{"key": key, "operator": "Exists", "effect": "NoExecute"}],
        "impatient": [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": PATIENCE_S}
        ],
    }
    for name, tolerated in tolerations.items():
        await world.create(PODS, world.pod(name, nodeName=node, tolerations=tolerated))
    await world.until_pods(3)
    world.behave({"termination": "ignored"})
    taint = merge_patch({"spec": {"taints": [{"key": key, "effect": "NoExecute"}]}})
    await world.client.patch(NODES, node, taint)
    leaving = await world.until_one(PODS, "intolerant", lambda pod: "deletionTimestamp" in pod["metadata"])
    world.saw("why", [each for each in conditions(leaving) if each[0] == "DisruptionTarget"])
    await world.until_one(PODS, "impatient", lambda pod: "deletionTimestamp" in pod["metadata"])
    left = await world.until(PODS, lambda found: len(found) == 3)
    world.saw(
        "who goes", sorted(name for name, pod in left.items() if "deletionTimestamp" in pod["metadata"])
    )


@living("a NoExecute taint that goes in time takes nobody's patience")
async def taint_taken_back(world: LivingWorld) -> None:
    key = "example.com/broken"
    (node,) = world.nodes[:1]
    patience = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 4}
    await world.create(PODS, world.pod("patient", nodeName=node, tolerations=[patience]))
    await world.until_pods(1)
    taint = merge_patch({"spec": {"taints": [{"key": key, "effect": "NoExecute"}]}})
    await world.client.patch(NODES, node, taint)
    await asyncio.sleep(2)
    await world.client.patch(NODES, node, merge_patch({"spec": {"taints": None}}))
    await asyncio.sleep(4)
    (pod,) = await world.until_pods(1)
    world.saw("it stays", [pod["metadata"]["name"], is_ready(pod)])


@living("a cordoned node is tainted, and keeps its pods")
async def cordoned(world: LivingWorld) -> None:
    (node,) = world.nodes[:1]
    await world.create(PODS, world.pod("web", nodeName=node))
    await world.until_pods(1)
    await world.client.patch(NODES, node, merge_patch({"spec": {"unschedulable": True}}))
    told = await world.until_one(NODES, node, _taints)
    world.saw("taints", _taints(told))
    world.saw("pods", len(await world.until_pods(1)))
    await world.client.patch(NODES, node, merge_patch({"spec": {"unschedulable": False}}))
    world.saw("afterwards", _taints(await world.until_one(NODES, node, lambda found: not _taints(found))))


@living("the pods of a node that is no more go, and are replaced elsewhere")
async def removed(world: LivingWorld) -> None:
    removed_node, other = world.nodes
    await world.client.patch(NODES, other, merge_patch({"spec": {"unschedulable": True}}))
    await world.create(REPLICA_SETS, world.workload("web", 1))
    (before,) = await world.until_pods(1)
    await world.client.patch(NODES, other, merge_patch({"spec": {"unschedulable": None}}))
    world.machines.kill(removed_node)
    await world.client.delete(NODES, removed_node)
    await world.until(PODS, lambda found: before["metadata"]["name"] not in found, within_s=120)
    (after,) = await world.until_pods(1)
    world.saw("the new one", [after["spec"]["nodeName"], is_ready(after)])


async def _lose(world: LivingWorld, node: str) -> None:
    await _beating(world, node)
    world.machines.kill(node)
    await world.until_one(NODES, node, lambda found: condition(found, "Ready")["status"] == "Unknown")


@living("a StatefulSet does not replace a pod on a lost node: nobody knows whether it still runs", nodes=1)
async def lost_stateful_set(world: LivingWorld) -> None:
    (node,) = world.nodes
    wanted = world.workload("db", 1, serviceName="db", pod={"tolerations": IMPATIENT})
    await world.create(STATEFUL_SETS, wanted)
    (before,) = await world.until_pods(1)
    await world.add_nodes(NodeShape(f"{world.namespace}-other"))
    await _lose(world, node)
    await world.until_one(PODS, "db-0", lambda pod: "deletionTimestamp" in pod["metadata"])
    told = await world.settled(STATEFUL_SETS, "db", readyReplicas=0, currentReplicas=0)
    world.saw("while it is lost", numbers(told))
    await world.client.delete(PODS, world.key("db-0"), grace_s=0)
    uid = before["metadata"]["uid"]
    after = await world.until_one(PODS, "db-0", lambda pod: pod["metadata"]["uid"] != uid and is_ready(pod))
    world.saw("once somebody says that it is gone", after["spec"]["nodeName"])


@living("a DaemonSet's pod stays on a lost node, and does not count as ready")
async def lost_daemon_set(world: LivingWorld) -> None:
    await world.create(DAEMON_SETS, world.workload("agent"))
    before = {pod["metadata"]["uid"] for pod in await world.until_pods(2)}
    await _lose(world, world.nodes[0])
    # Whether it counts as one that should be there depends on what its controller hears of first.
    told = await world.settled(DAEMON_SETS, "agent", numberReady=1)
    world.saw("ready", told["status"]["numberReady"])
    world.machines.revive(world.nodes[0])
    after = await world.until_pods(2)
    world.saw("the same pods", {pod["metadata"]["uid"] for pod in after} == before)


@living("what a node says of itself becomes a taint", nodes=1)
async def pressure(world: LivingWorld) -> None:
    (node,) = world.nodes
    await world.create(PODS, world.pod("resident", nodeName=node))
    await world.until_pods(1)
    for type_ in ("MemoryPressure", "DiskPressure", "PIDPressure"):
        for status in ("True", "False"):
            said = {"type": type_, "status": status, "reason": "Said", "message": "by the scenario"}
            change = strategic_patch({"status": {"conditions": [said]}})
            await world.client.patch(NODES.status, node, change)
            told = await world.until_one(
                NODES, node, lambda found, there=status == "True": bool(_taints(found)) == there
            )
            world.saw(f"{type_} {status}", _taints(told))
    world.saw("pods", len(await world.until_pods(1)))
