"""Ways to move a pod that look simpler than Adopt, and how each goes wrong."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

import pytest

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import POD_DISRUPTION_BUDGETS, REPLICA_SETS, Object, merge_patch
from rescheduler.kube.client import Client
from tests.stories import objects
from tests.stories.facts import adopt
from tests.stories.fixtures import Cluster
from tests.stories.objects import HOSTNAME, PRIORITY_CLASSES, anti_affinity, requires
from tests.stories.observer import Observer, observing
from tests.stories.stage import SetStage, Stage, node_of
from tests.stories.waiting import until, until_gone, until_object

pytestmark = pytest.mark.full

REPLICAS = 3
HASH = "pod-template-hash"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


# -- a false pod-template-hash, put right when the copy is ready: the ReplicaSet adopts it and deletes one


async def unowned_copy(stage: Stage, source: Object, target: str) -> Object:
    """With a hash that no ReplicaSet selects."""
    owner = adopt.controller_of(source)
    assert owner is not None
    replica_set = await stage.client.get(REPLICA_SETS, stage.key(owner["name"]))
    template = replica_set["spec"]["template"]
    wanted = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": stage.namespace,
            "generateName": f"{owner['name']}-",
            "labels": template["metadata"]["labels"] | {HASH: "false"},
        },
        "spec": template["spec"] | {"schedulingGates": [{"name": adopt.GATE}]},
    }
    copy = await stage.client.create(PODS.as_json, wanted)
    await adopt.nominate(stage.client, copy, target)
    await adopt.open_gate(stage.client, copy)
    return await stage.until_pod_ready(copy)


async def mark(stage: Stage, pod: Object, cost: int) -> None:
    change = {"metadata": {"annotations": {DELETION_COST: str(cost)}}}
    await stage.client.patch(PODS, adopt.key(pod), merge_patch(change))


async def put_right(stage: Stage, copy: Object, source: Object) -> None:
    """The true hash: the ReplicaSet takes the copy, has one too many, and deletes the cheapest."""
    labels = {HASH: source["metadata"]["labels"][HASH]}
    await stage.client.patch(PODS, adopt.key(copy), merge_patch({"metadata": {"labels": labels}}))


async def swapped(stage: Stage, source: Object, copy: Object) -> Observer:
    """What was seen until there were as many pods as replicas again."""
    async with observing(stage.client, stage.namespace) as seen:
        await mark(stage, source, -100)
        await put_right(stage, copy, source)
        await until_left(stage, REPLICAS)
    return seen


async def until_left(stage: Stage, count: int, app: str = "web") -> None:
    def so_many(pods: Mapping[str, Object]) -> bool:
        return sum("deletionTimestamp" not in pod["metadata"] for pod in pods.values()) == count

    await until(stage.client, PODS.as_json, stage.namespace, so_many, labels=f"app={app}")


async def test_the_hash_trick_ignores_budgets(set_stage: SetStage) -> None:
    """The source is deleted although its budget allows nothing."""
    stage = await set_stage()
    await stage.deployment(REPLICAS)
    source = (await stage.pods())[0]
    copy = await unowned_copy(stage, source, await stage.free_node())
    await stage.budget(minAvailable=REPLICAS + 1)
    with pytest.raises(errors.BudgetRefused):
        await stage.client.evict(adopt.key(source))
    seen = await swapped(stage, source, copy)
    assert seen.deleted == [source["metadata"]["name"]]


async def test_the_hash_trick_deletes_an_unready_sibling_instead(set_stage: SetStage) -> None:
    stage = await set_stage()
    await stage.deployment(REPLICAS, pod={"affinity": anti_affinity("web")})
    source, sibling, _ = await stage.pods()
    copy = await unowned_copy(stage, source, await stage.free_node())
    stage.behave({"match": {"node": node_of(sibling)}, "readiness": "never"})
    await until_object(stage.client, PODS.as_json, adopt.key(sibling), lambda pod: not adopt.ready_since(pod))
    seen = await swapped(stage, source, copy)
    assert seen.deleted == [sibling["metadata"]["name"]]


async def test_the_hash_trick_deletes_a_pod_that_the_user_marked_as_cheaper(set_stage: SetStage) -> None:
    stage = await set_stage()
    await stage.deployment(REPLICAS)
    source, sibling, _ = await stage.pods()
    copy = await unowned_copy(stage, source, await stage.free_node())
    await mark(stage, sibling, -1000)
    seen = await swapped(stage, source, copy)
    assert seen.deleted == [sibling["metadata"]["name"]]


async def test_the_hash_trick_evades_anti_affinity_by_revision(set_stage: SetStage) -> None:
    stage = await set_stage()
    await stage.deployment(REPLICAS, pod={"affinity": anti_affinity("web")})
    source, sibling, _ = await stage.pods()
    copy = await unowned_copy(stage, source, node_of(sibling))
    assert node_of(copy) == node_of(sibling)


@pytest.mark.kubectl
async def test_the_unowned_copy_blocks_kubectl_drain(set_stage: SetStage, cluster: Cluster) -> None:
    stage = await set_stage(nodes=2)
    await stage.deployment(1)
    (source,) = await stage.pods()
    copy = await unowned_copy(stage, source, await stage.free_node())
    with pytest.raises(RuntimeError, match="declare no controller"):
        await cluster.kubectl("drain", node_of(copy), "--timeout=10s")


async def test_the_hash_trick_during_an_eviction(set_stage: SetStage) -> None:
    """Fewer pods are ready than the count.

    A race that it loses nearly always; a few tries, so that this test does not.
    """
    stage = await set_stage()
    for number in range(10):
        if await least_ready_in_the_race(stage, f"web-{number}") < REPLICAS:
            return
    pytest.fail("it kept to the budget ten times in a row")


async def least_ready_in_the_race(stage: Stage, app: str) -> int:
    stage.behave()
    await stage.deployment(REPLICAS, app=app)
    budget = await stage.budget(app, app=app, minAvailable=REPLICAS)
    source, sibling, _ = await stage.pods(app)
    copy = await unowned_copy(stage, source, await stage.free_node(app))
    await until_object(
        stage.client, POD_DISRUPTION_BUDGETS, budget, lambda found: found["status"]["disruptionsAllowed"]
    )
    await mark(stage, source, -100)
    stage.start_slowly()

    async def third_party() -> None:
        with contextlib.suppress(errors.BudgetRefused):
            await stage.client.evict(adopt.key(sibling))

    async with observing(stage.client, stage.namespace, app) as seen:
        await asyncio.gather(put_right(stage, copy, source), third_party())
        await until_object(stage.client, PODS.as_json, adopt.key(copy), adopt.controller_of)
        await until_left(stage, REPLICAS, app)
    return min(seen.ready)


# -- required affinity to the target


@pytest.fixture
async def priorities(client: Client, namespace: str) -> AsyncIterator[str]:
    """The name of a high priority."""
    name = f"high-in-{namespace}"
    wanted = {
        "apiVersion": PRIORITY_CLASSES.api_version,
        "kind": PRIORITY_CLASSES.kind,
        "metadata": {"name": name},
        "value": 1000,
    }
    await client.create(PRIORITY_CLASSES, wanted)
    yield name
    await client.delete(PRIORITY_CLASSES, name)


async def full_target(stage: Stage, priority: str) -> tuple[Object, str, Object]:
    """A pod of high priority, a node that has no room for it, and the guarded pod that fills that node."""
    await stage.deployment(1, pod={"priorityClassName": priority})
    (source,) = await stage.pods()
    target = await stage.free_node()
    guarded = await stage.pod("guarded", cpu="7950m", nodeSelector={HOSTNAME: target})
    await stage.until_pod_ready(guarded)
    await stage.budget(app="guarded", minAvailable=1)
    return source, target, guarded


async def test_a_pinned_copy_preempts(set_stage: SetStage, priorities: str) -> None:
    """Pods on its target are preempted against their budget."""
    stage = await set_stage(nodes=3)
    _, target, guarded = await full_target(stage, priorities)
    with pytest.raises(errors.BudgetRefused):
        await stage.client.evict(adopt.key(guarded))
    spec = objects.pod_spec(stage.kubelet.name, affinity=requires(target), priorityClassName=priorities)
    pinned = await stage.client.create(PODS.as_json, objects.pod(stage.namespace, "pinned", spec))
    await until_gone(stage.client, PODS.as_json, adopt.key(guarded))
    assert node_of(await stage.until_pod_ready(pinned)) == target


async def test_a_nominated_copy_goes_elsewhere_and_preempts_nobody(
    set_stage: SetStage, priorities: str
) -> None:
    stage = await set_stage(nodes=3)
    source, target, guarded = await full_target(stage, priorities)
    handover = await adopt.begin(stage.client, adopt.key(source), target)
    with pytest.raises(adopt.BoundElsewhere):
        await adopt.bring_up(stage.client, handover)
    assert adopt.ready_since(await stage.client.get(PODS.as_json, adopt.key(guarded)))
    await adopt.finish(stage.client, handover)


async def test_the_pin_stays_for_the_pods_life(set_stage: SetStage) -> None:
    stage = await set_stage(nodes=1)
    pinned = await stage.pod("pinned", affinity=requires(stage.nodes[0]))
    await stage.until_pod_ready(pinned)
    with pytest.raises(errors.Invalid, match="pod updates may not change fields"):
        await stage.client.patch(PODS, adopt.key(pinned), merge_patch({"spec": {"affinity": None}}))


# -- the node's name in the pod


async def test_a_pod_that_names_its_node_is_bound_whatever_speaks_against_it(set_stage: SetStage) -> None:
    stage = await set_stage(nodes=2)
    node, other = stage.nodes
    taint = {"key": "example.com/reserved", "effect": "NoSchedule"}
    await stage.client.patch(NODES, node, merge_patch({"spec": {"taints": [taint], "unschedulable": True}}))
    forced = await stage.pod("forced", cpu="64", affinity=requires(other), nodeName=node)
    assert node_of(await stage.until_pod_ready(forced)) == node, "only a real kubelet would refuse it"
