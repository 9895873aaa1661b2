"""Lost nodes, NoExecute taints, and what happens to the pods."""

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
from tests.conformance.running_cluster import RunningCluster, condition, conditions, is_ready, numbers
from tests.conformance.scenario import running_cluster_scenario
from tests.testbed.fake_kubelet.nodes import NodeShape

UNREACHABLE = "node.kubernetes.io/unreachable"
PATIENCE_S = 2
SHORT_TOLERATION = [
    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": PATIENCE_S}
    for key in (UNREACHABLE, "node.kubernetes.io/not-ready")
]


def _taints(node: Object) -> list[list[str]]:
    return sorted([taint["key"], taint["effect"]] for taint in node["spec"].get("taints") or ())


async def _beating(cluster: RunningCluster, node: str) -> None:
    """Its first sign of life has been heard; who was never heard is not missed."""
    while True:
        found = await cluster.client.list(LEASES, namespace="kube-node-lease")
        if node in {item["metadata"]["name"] for item in found.items}:
            return
        await asyncio.sleep(0.5)


@running_cluster_scenario(
    "a node without heartbeats is lost: its conditions are Unknown, its pods are unready and later replaced"
)
async def lost(cluster: RunningCluster) -> None:
    silent, other = cluster.nodes
    await cluster.client.patch(NODES, other, merge_patch({"spec": {"unschedulable": True}}))
    await cluster.create(REPLICA_SETS, cluster.workload("web", 1, pod={"tolerations": SHORT_TOLERATION}))
    (pod,) = await cluster.until_pods(1)
    name = pod["metadata"]["name"]
    await cluster.client.patch(NODES, other, merge_patch({"spec": {"unschedulable": None}}))
    await _beating(cluster, silent)
    cluster.machines.kill(silent)
    gone = await cluster.until_one(
        NODES,
        silent,
        lambda node: condition(node, "Ready")["status"] == "Unknown" and len(_taints(node)) == 2,
    )
    cluster.saw("conditions", conditions(gone))
    cluster.saw("taints", _taints(gone))
    going = await cluster.until_one(PODS, name, lambda found: "deletionTimestamp" in found["metadata"])
    reported = {each[0]: each for each in conditions(going)}
    cluster.saw("the pod", [reported["Ready"][:2], reported.get("DisruptionTarget")])
    cluster.saw("how it goes", going["metadata"]["deletionGracePeriodSeconds"])
    replaced = await cluster.until(PODS, lambda found: sum(map(is_ready, found.values())) == 1)
    cluster.saw("pods", sorted([each["spec"]["nodeName"], is_ready(each)] for each in replaced.values()))
    cluster.machines.revive(silent)
    back = await cluster.until_one(NODES, silent, lambda node: is_ready(node) and not _taints(node))
    cluster.saw("back", conditions(back))
    cluster.saw("pods in the end", len(await cluster.until_pods(1)))


@running_cluster_scenario(
    "a NoExecute taint evicts pods that do not tolerate it, at once or after their tolerationSeconds"
)
async def no_execute(cluster: RunningCluster) -> None:
    key = "example.com/broken"
    (node,) = cluster.nodes[:1]
    tolerations: dict[str, list[Object]] = {
        "intolerant": [],
        "patient": [{"key": key, "operator": "Exists", "effect": "NoExecute"}],
        "impatient": [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": PATIENCE_S}
        ],
    }
    for name, tolerated in tolerations.items():
        await cluster.create(PODS, cluster.pod(name, nodeName=node, tolerations=tolerated))
    await cluster.until_pods(3)
    cluster.behave({"termination": "ignored"})
    taint = merge_patch({"spec": {"taints": [{"key": key, "effect": "NoExecute"}]}})
    await cluster.client.patch(NODES, node, taint)
    leaving = await cluster.until_one(PODS, "intolerant", lambda pod: "deletionTimestamp" in pod["metadata"])
    cluster.saw("why", [each for each in conditions(leaving) if each[0] == "DisruptionTarget"])
    await cluster.until_one(PODS, "impatient", lambda pod: "deletionTimestamp" in pod["metadata"])
    left = await cluster.until(PODS, lambda found: len(found) == 3)
    cluster.saw(
        "who goes", sorted(name for name, pod in left.items() if "deletionTimestamp" in pod["metadata"])
    )


@running_cluster_scenario("a NoExecute taint that is removed before tolerationSeconds evicts no pod")
async def taint_taken_back(cluster: RunningCluster) -> None:
    key = "example.com/broken"
    (node,) = cluster.nodes[:1]
    patience = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 4}
    await cluster.create(PODS, cluster.pod("patient", nodeName=node, tolerations=[patience]))
    await cluster.until_pods(1)
    taint = merge_patch({"spec": {"taints": [{"key": key, "effect": "NoExecute"}]}})
    await cluster.client.patch(NODES, node, taint)
    await asyncio.sleep(2)
    await cluster.client.patch(NODES, node, merge_patch({"spec": {"taints": None}}))
    await asyncio.sleep(4)
    (pod,) = await cluster.until_pods(1)
    cluster.saw("it stays", [pod["metadata"]["name"], is_ready(pod)])


@running_cluster_scenario("a cordoned node is tainted, and keeps its pods")
async def cordoned(cluster: RunningCluster) -> None:
    (node,) = cluster.nodes[:1]
    await cluster.create(PODS, cluster.pod("web", nodeName=node))
    await cluster.until_pods(1)
    await cluster.client.patch(NODES, node, merge_patch({"spec": {"unschedulable": True}}))
    reported = await cluster.until_one(NODES, node, _taints)
    cluster.saw("taints", _taints(reported))
    cluster.saw("pods", len(await cluster.until_pods(1)))
    await cluster.client.patch(NODES, node, merge_patch({"spec": {"unschedulable": False}}))
    cluster.saw("afterwards", _taints(await cluster.until_one(NODES, node, lambda found: not _taints(found))))


@running_cluster_scenario("the pods of a deleted node are deleted, and replaced elsewhere")
async def removed(cluster: RunningCluster) -> None:
    removed_node, other = cluster.nodes
    await cluster.client.patch(NODES, other, merge_patch({"spec": {"unschedulable": True}}))
    await cluster.create(REPLICA_SETS, cluster.workload("web", 1))
    (before,) = await cluster.until_pods(1)
    await cluster.client.patch(NODES, other, merge_patch({"spec": {"unschedulable": None}}))
    cluster.machines.kill(removed_node)
    await cluster.client.delete(NODES, removed_node)
    await cluster.until(PODS, lambda found: before["metadata"]["name"] not in found, within_s=120)
    (after,) = await cluster.until_pods(1)
    cluster.saw("the new one", [after["spec"]["nodeName"], is_ready(after)])


async def _lose(cluster: RunningCluster, node: str) -> None:
    await _beating(cluster, node)
    cluster.machines.kill(node)
    await cluster.until_one(NODES, node, lambda found: condition(found, "Ready")["status"] == "Unknown")


@running_cluster_scenario("a StatefulSet does not replace a pod on a lost node: it may still run", nodes=1)
async def lost_stateful_set(cluster: RunningCluster) -> None:
    (node,) = cluster.nodes
    wanted = cluster.workload("db", 1, serviceName="db", pod={"tolerations": SHORT_TOLERATION})
    await cluster.create(STATEFUL_SETS, wanted)
    (before,) = await cluster.until_pods(1)
    await cluster.add_nodes(NodeShape(f"{cluster.namespace}-other"))
    await _lose(cluster, node)
    await cluster.until_one(PODS, "db-0", lambda pod: "deletionTimestamp" in pod["metadata"])
    reported = await cluster.settled(STATEFUL_SETS, "db", readyReplicas=0, currentReplicas=0)
    cluster.saw("while it is lost", numbers(reported))
    await cluster.client.delete(PODS, cluster.key("db-0"), grace_s=0)
    uid = before["metadata"]["uid"]
    after = await cluster.until_one(PODS, "db-0", lambda pod: pod["metadata"]["uid"] != uid and is_ready(pod))
    cluster.saw("once somebody says that it is gone", after["spec"]["nodeName"])


@running_cluster_scenario("a DaemonSet's pod stays on a lost node, and does not count as ready")
async def lost_daemon_set(cluster: RunningCluster) -> None:
    await cluster.create(DAEMON_SETS, cluster.workload("agent"))
    before = {pod["metadata"]["uid"] for pod in await cluster.until_pods(2)}
    await _lose(cluster, cluster.nodes[0])
    # Whether it counts as one that should be there depends on what its controller hears of first.
    reported = await cluster.settled(DAEMON_SETS, "agent", numberReady=1)
    cluster.saw("ready", reported["status"]["numberReady"])
    cluster.machines.revive(cluster.nodes[0])
    after = await cluster.until_pods(2)
    cluster.saw("the same pods", {pod["metadata"]["uid"] for pod in after} == before)


@running_cluster_scenario("a node's conditions become taints", nodes=1)
async def pressure(cluster: RunningCluster) -> None:
    (node,) = cluster.nodes
    await cluster.create(PODS, cluster.pod("resident", nodeName=node))
    await cluster.until_pods(1)
    for type_ in ("MemoryPressure", "DiskPressure", "PIDPressure"):
        for status in ("True", "False"):
            said = {"type": type_, "status": status, "reason": "Said", "message": "by the scenario"}
            change = strategic_patch({"status": {"conditions": [said]}})
            await cluster.client.patch(NODES.status, node, change)
            reported = await cluster.until_one(
                NODES, node, lambda found, there=status == "True": bool(_taints(found)) == there
            )
            cluster.saw(f"{type_} {status}", _taints(reported))
    cluster.saw("pods", len(await cluster.until_pods(1)))
