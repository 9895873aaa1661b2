"""DaemonSets: a pod on each node that may have one."""

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.api_resources import DAEMON_SETS, Object, merge_patch
from tests.conformance.running_cluster import RunningCluster, numbers
from tests.conformance.scenario import running_cluster_scenario
from tests.testbed.fake_kubelet.nodes import NodeShape

NEW = "example.com/app:2"
RESERVED = {"key": "example.com/reserved", "effect": "NoSchedule"}
GENERATION = "deprecated.daemonset.template.generation"


def _nodes(pods: list[Object]) -> list[str]:
    return sorted(pod["spec"].get("nodeName", "") for pod in pods)


@running_cluster_scenario("each node has one, also those that come later and those that are cordoned")
async def one_per_node(cluster: RunningCluster) -> None:
    await cluster.client.patch(NODES, cluster.nodes[1], merge_patch({"spec": {"unschedulable": True}}))
    await cluster.create(DAEMON_SETS, cluster.workload("agent"))
    pods = await cluster.until_pods(2)
    cluster.saw("nodes", _nodes(pods))
    cluster.saw("status", numbers(await cluster.settled(DAEMON_SETS, "agent", numberAvailable=2)))
    (pod,) = (each for each in pods if each["spec"]["nodeName"] == cluster.nodes[0])
    cluster.saw("tolerations", sorted(pod["spec"]["tolerations"], key=str))
    cluster.saw("affinity", pod["spec"]["affinity"]["nodeAffinity"])
    labels = pod["metadata"]["labels"]
    cluster.saw("labels", sorted(key for key in labels if "topology" not in key))
    cluster.saw("generation", labels["pod-template-generation"])
    await cluster.add_nodes(NodeShape(f"{cluster.namespace}-late"))
    cluster.saw("nodes after it", _nodes(await cluster.until_pods(3)))
    cluster.saw("status after it", numbers(await cluster.settled(DAEMON_SETS, "agent", numberAvailable=3)))


@running_cluster_scenario(
    "a node with an untolerated taint gets no pod, and NoExecute removes the existing one"
)
async def taints(cluster: RunningCluster) -> None:
    await cluster.add_nodes(NodeShape(f"{cluster.namespace}-reserved", taints=(RESERVED,)))
    await cluster.create(DAEMON_SETS, cluster.workload("agent"))
    cluster.saw("nodes", _nodes(await cluster.until_pods(2)))
    cluster.saw("status", numbers(await cluster.settled(DAEMON_SETS, "agent", numberAvailable=2)))
    change = {"template": {"spec": {"tolerations": [{"key": "example.com/reserved", "operator": "Exists"}]}}}
    await cluster.client.patch(DAEMON_SETS, cluster.key("agent"), merge_patch({"spec": change}))
    await cluster.settled(DAEMON_SETS, "agent", numberAvailable=3, updatedNumberScheduled=3)
    cluster.saw("with a toleration", _nodes(await cluster.until_pods(3)))
    keep_off = {"key": "example.com/broken", "effect": "NoExecute"}
    await cluster.client.patch(NODES, cluster.nodes[0], merge_patch({"spec": {"taints": [keep_off]}}))
    cluster.saw("after NoExecute", _nodes(await cluster.until_pods(2)))
    cluster.saw(
        "status after it",
        numbers(
            await cluster.settled(
                DAEMON_SETS, "agent", desiredNumberScheduled=2, numberAvailable=2, numberMisscheduled=0
            )
        ),
    )


@running_cluster_scenario(
    "nodes that its selector does not match have no pod, and those that no longer match lose theirs"
)
async def selected_nodes(cluster: RunningCluster) -> None:
    chosen = merge_patch({"metadata": {"labels": {"disk": "fast"}}})
    await cluster.client.patch(NODES, cluster.nodes[0], chosen)
    wanted = cluster.workload("agent")
    wanted["spec"]["template"]["spec"]["nodeSelector"]["disk"] = "fast"
    await cluster.create(DAEMON_SETS, wanted)
    cluster.saw("nodes", _nodes(await cluster.until_pods(1)))
    cluster.saw("status", numbers(await cluster.settled(DAEMON_SETS, "agent", numberAvailable=1)))
    await cluster.client.patch(NODES, cluster.nodes[1], chosen)
    await cluster.client.patch(NODES, cluster.nodes[0], merge_patch({"metadata": {"labels": {"disk": None}}}))
    await cluster.until(PODS, lambda found: _nodes(list(found.values())) == [cluster.nodes[1]])
    after = await cluster.settled(
        DAEMON_SETS, "agent", desiredNumberScheduled=1, numberAvailable=1, numberMisscheduled=0
    )
    cluster.saw("status after it", numbers(after))


@running_cluster_scenario(
    "a new template is brought to one node at a time, and no further if it does not become ready"
)
async def rolling_update(cluster: RunningCluster) -> None:
    made = await cluster.create(DAEMON_SETS, cluster.workload("agent"))
    cluster.saw("generation", [made["metadata"]["generation"], made["metadata"]["annotations"][GENERATION]])
    await cluster.until_pods(2)
    cluster.behave({"match": {"image": NEW}, "readiness": "never"})
    change = {"template": {"spec": {"containers": cluster.pod_spec(image=NEW)["containers"]}}}
    changed = await cluster.client.patch(DAEMON_SETS, cluster.key("agent"), merge_patch({"spec": change}))
    cluster.saw(
        "generation after it",
        [changed["metadata"]["generation"], changed["metadata"]["annotations"][GENERATION]],
    )
    stuck = await cluster.settled(DAEMON_SETS, "agent", updatedNumberScheduled=1, numberAvailable=1)
    cluster.saw("stuck", numbers(stuck))
    cluster.behave()
    cluster.saw(
        "healed",
        numbers(await cluster.settled(DAEMON_SETS, "agent", updatedNumberScheduled=2, numberAvailable=2)),
    )
    pods = await cluster.until_pods(2)
    cluster.saw(
        "template generations", [pod["metadata"]["labels"]["pod-template-generation"] for pod in pods]
    )
    other = merge_patch({"spec": {"minReadySeconds": 1}})
    unchanged = await cluster.client.patch(DAEMON_SETS, cluster.key("agent"), other)
    cluster.saw(
        "generation after another change",
        [unchanged["metadata"]["generation"], unchanged["metadata"]["annotations"][GENERATION]],
    )


@running_cluster_scenario("with OnDelete a new template waits until the pod is deleted")
async def on_delete(cluster: RunningCluster) -> None:
    await cluster.create(DAEMON_SETS, cluster.workload("agent", updateStrategy={"type": "OnDelete"}))
    pods = await cluster.until_pods(2)
    change = {"template": {"spec": {"containers": cluster.pod_spec(image=NEW)["containers"]}}}
    await cluster.client.patch(DAEMON_SETS, cluster.key("agent"), merge_patch({"spec": change}))
    cluster.saw(
        "status",
        numbers(await cluster.settled(DAEMON_SETS, "agent", updatedNumberScheduled=0, numberAvailable=2)),
    )
    await cluster.client.delete(PODS, cluster.key(pods[0]["metadata"]["name"]))
    cluster.saw(
        "one deleted",
        numbers(await cluster.settled(DAEMON_SETS, "agent", updatedNumberScheduled=1, numberAvailable=2)),
    )
