"""DaemonSets: a pod on each node that may have one."""

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.api_resources import DAEMON_SETS, Object, merge_patch
from tests.conformance.living import LivingWorld, numbers
from tests.conformance.scenario import living
from tests.testbed.fake_kubelet.nodes import NodeShape

NEW = "example.com/app:2"
RESERVED = {"key": "example.com/reserved", "effect": "NoSchedule"}
GENERATION = "deprecated.daemonset.template.generation"


def _nodes(pods: list[Object]) -> list[str]:
    return sorted(pod["spec"].get("nodeName", "") for pod in pods)


@living("each node has one, also those that come later and those that are cordoned")
async def one_per_node(world: LivingWorld) -> None:
    await world.client.patch(NODES, world.nodes[1], merge_patch({"spec": {"unschedulable": True}}))
    await world.create(DAEMON_SETS, world.workload("agent"))
    pods = await world.until_pods(2)
    world.saw("nodes", _nodes(pods))
    world.saw("status", numbers(await world.settled(DAEMON_SETS, "agent", numberAvailable=2)))
    (pod,) = (each for each in pods if each["spec"]["nodeName"] == world.nodes[0])
    world.saw("tolerations", sorted(pod["spec"]["tolerations"], key=str))
    world.saw("affinity", pod["spec"]["affinity"]["nodeAffinity"])
    labels = pod["metadata"]["labels"]
    world.saw("labels", sorted(key for key in labels if "topology" not in key))
    world.saw("generation", labels["pod-template-generation"])
    await world.add_nodes(NodeShape(f"{world.namespace}-late"))
    world.saw("nodes after it", _nodes(await world.until_pods(3)))
    world.saw("status after it", numbers(await world.settled(DAEMON_SETS, "agent", numberAvailable=3)))


@living("a node whose taint the pods do not tolerate has none, and loses the one it has to NoExecute")
async def taints(world: LivingWorld) -> None:
    await world.add_nodes(NodeShape(f"{world.namespace}-reserved", taints=(RESERVED,)))
    await world.create(DAEMON_SETS, world.workload("agent"))
    world.saw("nodes", _nodes(await world.until_pods(2)))
    world.saw("status", numbers(await world.settled(DAEMON_SETS, "agent", numberAvailable=2)))
    change = {"template": {"spec": {"tolerations": [{"key": "example.com/reserved", "operator": "Exists"}]}}}
    await world.client.patch(DAEMON_SETS, world.key("agent"), merge_patch({"spec": change}))
    await world.settled(DAEMON_SETS, "agent", numberAvailable=3, updatedNumberScheduled=3)
    world.saw("with a toleration", _nodes(await world.until_pods(3)))
    keep_off = {"key": "example.com/broken", "effect": "NoExecute"}
    await world.client.patch(NODES, world.nodes[0], merge_patch({"spec": {"taints": [keep_off]}}))
    world.saw("after NoExecute", _nodes(await world.until_pods(2)))
    world.saw(
        "status after it",
        numbers(
            await world.settled(
                DAEMON_SETS, "agent", desiredNumberScheduled=2, numberAvailable=2, numberMisscheduled=0
            )
        ),
    )


@living("nodes that its selector does not match have none, and those that match no more lose theirs")
async def selected_nodes(world: LivingWorld) -> None:
    chosen = merge_patch({"metadata": {"labels": {"disk": "fast"}}})
    await world.client.patch(NODES, world.nodes[0], chosen)
    wanted = world.workload("agent")
    wanted["spec"]["template"]["spec"]["nodeSelector"]["disk"] = "fast"
    await world.create(DAEMON_SETS, wanted)
    world.saw("nodes", _nodes(await world.until_pods(1)))
    world.saw("status", numbers(await world.settled(DAEMON_SETS, "agent", numberAvailable=1)))
    await world.client.patch(NODES, world.nodes[1], chosen)
    await world.client.patch(NODES, world.nodes[0], merge_patch({"metadata": {"labels": {"disk": None}}}))
    await world.until(PODS, lambda found: _nodes(list(found.values())) == [world.nodes[1]])
    after = await world.settled(
        DAEMON_SETS, "agent", desiredNumberScheduled=1, numberAvailable=1, numberMisscheduled=0
    )
    world.saw("status after it", numbers(after))


@living("a new template is brought to one node at a time, and no further if it does not become ready")
async def rolling_update(world: LivingWorld) -> None:
    made = await world.create(DAEMON_SETS, world.workload("agent"))
    world.saw("generation", [made["metadata"]["generation"], made["metadata"]["annotations"][GENERATION]])
    await world.until_pods(2)
    world.behave({"match": {"image": NEW}, "readiness": "never"})
    change = {"template": {"spec": {"containers": world.pod_spec(image=NEW)["containers"]}}}
    changed = await world.client.patch(DAEMON_SETS, world.key("agent"), merge_patch({"spec": change}))
    world.saw(
        "generation after it",
        [changed["metadata"]["generation"], changed["metadata"]["annotations"][GENERATION]],
    )
    stuck = await world.settled(DAEMON_SETS, "agent", updatedNumberScheduled=1, numberAvailable=1)
    world.saw("stuck", numbers(stuck))
    world.behave()
    world.saw(
        "healed",
        numbers(await world.settled(DAEMON_SETS, "agent", updatedNumberScheduled=2, numberAvailable=2)),
    )
    pods = await world.until_pods(2)
    world.saw("template generations", [pod["metadata"]["labels"]["pod-template-generation"] for pod in pods])
    other = merge_patch({"spec": {"minReadySeconds": 1}})
    unchanged = await world.client.patch(DAEMON_SETS, world.key("agent"), other)
    world.saw(
        "generation after another change",
        [unchanged["metadata"]["generation"], unchanged["metadata"]["annotations"][GENERATION]],
    )


@living("with OnDelete a new template waits until somebody deletes the pod")
async def on_delete(world: LivingWorld) -> None:
    await world.create(DAEMON_SETS, world.workload("agent", updateStrategy={"type": "OnDelete"}))
    pods = await world.until_pods(2)
    change = {"template": {"spec": {"containers": world.pod_spec(image=NEW)["containers"]}}}
    await world.client.patch(DAEMON_SETS, world.key("agent"), merge_patch({"spec": change}))
    world.saw(
        "status",
        numbers(await world.settled(DAEMON_SETS, "agent", updatedNumberScheduled=0, numberAvailable=2)),
    )
    await world.client.delete(PODS, world.key(pods[0]["metadata"]["name"]))
    world.saw(
        "one deleted",
        numbers(await world.settled(DAEMON_SETS, "agent", updatedNumberScheduled=1, numberAvailable=2)),
    )
