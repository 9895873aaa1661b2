"""Alternatives to Adopt that look simpler, and how each fails."""

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
from tests.stories.sandbox import MakeSandbox, Sandbox, node_of
from tests.stories.waiting import until, until_gone, until_object

pytestmark = pytest.mark.full

REPLICAS = 3
HASH = "pod-template-hash"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


# -- a false pod-template-hash, put right when the copy is ready: the ReplicaSet adopts it and deletes one


async def unowned_copy(sandbox: Sandbox, source: Object, target: str) -> Object:
    """Create a copy with a hash that no ReplicaSet selects."""
    owner = adopt.controller_of(source)
    assert owner is not None
    replica_set = await sandbox.client.get(REPLICA_SETS, sandbox.key(owner["name"]))
    template = replica_set["spec"]["template"]
    wanted = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": sandbox.namespace,
            "generateName": f"{owner['name']}-",
            "labels": template["metadata"]["labels"] | {HASH: "false"},
        },
        "spec": template["spec"] | {"schedulingGates": [{"name": adopt.GATE}]},
    }
    copy = await sandbox.client.create(PODS.as_json, wanted)
    await adopt.nominate(sandbox.client, copy, target)
    await adopt.open_gate(sandbox.client, copy)
    return await sandbox.until_pod_ready(copy)


async def mark(sandbox: Sandbox, pod: Object, cost: int) -> None:
    change = {"metadata": {"annotations": {DELETION_COST: str(cost)}}}
    await sandbox.client.patch(PODS, adopt.key(pod), merge_patch(change))


async def put_right(sandbox: Sandbox, copy: Object, source: Object) -> None:
    """The true hash: the ReplicaSet takes the copy, has one too many, and deletes the cheapest."""
    labels = {HASH: source["metadata"]["labels"][HASH]}
    await sandbox.client.patch(PODS, adopt.key(copy), merge_patch({"metadata": {"labels": labels}}))


async def swapped(sandbox: Sandbox, source: Object, copy: Object) -> Observer:
    """What was seen until there were as many pods as replicas again."""
    async with observing(sandbox.client, sandbox.namespace) as seen:
        await mark(sandbox, source, -100)
        await put_right(sandbox, copy, source)
        await until_left(sandbox, REPLICAS)
    return seen


async def until_left(sandbox: Sandbox, count: int, app: str = "web") -> None:
    def so_many(pods: Mapping[str, Object]) -> bool:
        return sum("deletionTimestamp" not in pod["metadata"] for pod in pods.values()) == count

    await until(sandbox.client, PODS.as_json, sandbox.namespace, so_many, labels=f"app={app}")


async def test_the_hash_trick_ignores_budgets(make_sandbox: MakeSandbox) -> None:
    """The source is deleted although its budget allows nothing."""
    sandbox = await make_sandbox()
    await sandbox.deployment(REPLICAS)
    source = (await sandbox.pods())[0]
    copy = await unowned_copy(sandbox, source, await sandbox.free_node())
    await sandbox.budget(minAvailable=REPLICAS + 1)
    with pytest.raises(errors.BudgetRefused):
        await sandbox.client.evict(adopt.key(source))
    seen = await swapped(sandbox, source, copy)
    assert seen.deleted == [source["metadata"]["name"]]


async def test_the_hash_trick_deletes_an_unready_sibling_instead(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox()
    await sandbox.deployment(REPLICAS, pod={"affinity": anti_affinity("web")})
    source, sibling, _ = await sandbox.pods()
    copy = await unowned_copy(sandbox, source, await sandbox.free_node())
    sandbox.behave({"match": {"node": node_of(sibling)}, "readiness": "never"})
    await until_object(
        sandbox.client, PODS.as_json, adopt.key(sibling), lambda pod: not adopt.ready_since(pod)
    )
    seen = await swapped(sandbox, source, copy)
    assert seen.deleted == [sibling["metadata"]["name"]]


async def test_the_hash_trick_deletes_a_pod_that_the_user_marked_as_cheaper(
    make_sandbox: MakeSandbox,
) -> None:
    sandbox = await make_sandbox()
    await sandbox.deployment(REPLICAS)
    source, sibling, _ = await sandbox.pods()
    copy = await unowned_copy(sandbox, source, await sandbox.free_node())
    await mark(sandbox, sibling, -1000)
    seen = await swapped(sandbox, source, copy)
    assert seen.deleted == [sibling["metadata"]["name"]]


async def test_the_hash_trick_evades_anti_affinity_by_revision(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox()
    await sandbox.deployment(REPLICAS, pod={"affinity": anti_affinity("web")})
    source, sibling, _ = await sandbox.pods()
    copy = await unowned_copy(sandbox, source, node_of(sibling))
    assert node_of(copy) == node_of(sibling)


@pytest.mark.kubectl
async def test_the_unowned_copy_blocks_kubectl_drain(make_sandbox: MakeSandbox, cluster: Cluster) -> None:
    sandbox = await make_sandbox(nodes=2)
    await sandbox.deployment(1)
    (source,) = await sandbox.pods()
    copy = await unowned_copy(sandbox, source, await sandbox.free_node())
    with pytest.raises(RuntimeError, match="declare no controller"):
        await cluster.kubectl("drain", node_of(copy), "--timeout=10s")


async def test_the_hash_trick_during_an_eviction(make_sandbox: MakeSandbox) -> None:
    """Fewer pods are ready than the count.

    A race that it loses nearly always; a few tries, so that this test does not.
    """
    sandbox = await make_sandbox()
    for number in range(10):
        if await least_ready_in_the_race(sandbox, f"web-{number}") < REPLICAS:
            return
    pytest.fail("it kept to the budget ten times in a row")


async def least_ready_in_the_race(sandbox: Sandbox, app: str) -> int:
    sandbox.behave()
    await sandbox.deployment(REPLICAS, app=app)
    budget = await sandbox.budget(app, app=app, minAvailable=REPLICAS)
    source, sibling, _ = await sandbox.pods(app)
    copy = await unowned_copy(sandbox, source, await sandbox.free_node(app))
    await until_object(
        sandbox.client, POD_DISRUPTION_BUDGETS, budget, lambda found: found["status"]["disruptionsAllowed"]
    )
    await mark(sandbox, source, -100)
    sandbox.start_slowly()

    async def third_party() -> None:
        with contextlib.suppress(errors.BudgetRefused):
            await sandbox.client.evict(adopt.key(sibling))

    async with observing(sandbox.client, sandbox.namespace, app) as seen:
        await asyncio.gather(put_right(sandbox, copy, source), third_party())
        await until_object(sandbox.client, PODS.as_json, adopt.key(copy), adopt.controller_of)
        await until_left(sandbox, REPLICAS, app)
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


async def full_target(sandbox: Sandbox, priority: str) -> tuple[Object, str, Object]:
    """A pod of high priority, a node that has no room for it, and the guarded pod that fills that node."""
    await sandbox.deployment(1, pod={"priorityClassName": priority})
    (source,) = await sandbox.pods()
    target = await sandbox.free_node()
    guarded = await sandbox.pod("guarded", cpu="7950m", nodeSelector={HOSTNAME: target})
    await sandbox.until_pod_ready(guarded)
    await sandbox.budget(app="guarded", minAvailable=1)
    return source, target, guarded


async def test_a_pinned_copy_preempts(make_sandbox: MakeSandbox, priorities: str) -> None:
    """Pods on its target are preempted against their budget."""
    sandbox = await make_sandbox(nodes=3)
    _, target, guarded = await full_target(sandbox, priorities)
    with pytest.raises(errors.BudgetRefused):
        await sandbox.client.evict(adopt.key(guarded))
    spec = objects.pod_spec(sandbox.kubelet.name, affinity=requires(target), priorityClassName=priorities)
    pinned = await sandbox.client.create(PODS.as_json, objects.pod(sandbox.namespace, "pinned", spec))
    await until_gone(sandbox.client, PODS.as_json, adopt.key(guarded))
    assert node_of(await sandbox.until_pod_ready(pinned)) == target


async def test_a_nominated_copy_goes_elsewhere_and_preempts_no_pod(
    make_sandbox: MakeSandbox, priorities: str
) -> None:
    sandbox = await make_sandbox(nodes=3)
    source, target, guarded = await full_target(sandbox, priorities)
    handover = await adopt.begin(sandbox.client, adopt.key(source), target)
    with pytest.raises(adopt.BoundElsewhere):
        await adopt.bring_up(sandbox.client, handover)
    assert adopt.ready_since(await sandbox.client.get(PODS.as_json, adopt.key(guarded)))
    await adopt.finish(sandbox.client, handover)


async def test_the_pin_stays_for_the_pods_life(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox(nodes=1)
    pinned = await sandbox.pod("pinned", affinity=requires(sandbox.nodes[0]))
    await sandbox.until_pod_ready(pinned)
    with pytest.raises(errors.Invalid, match="pod updates may not change fields"):
        await sandbox.client.patch(PODS, adopt.key(pinned), merge_patch({"spec": {"affinity": None}}))


# -- the node's name in the pod


async def test_a_pod_that_names_its_node_is_bound_whatever_speaks_against_it(
    make_sandbox: MakeSandbox,
) -> None:
    sandbox = await make_sandbox(nodes=2)
    node, other = sandbox.nodes
    taint = {"key": "example.com/reserved", "effect": "NoSchedule"}
    await sandbox.client.patch(NODES, node, merge_patch({"spec": {"taints": [taint], "unschedulable": True}}))
    forced = await sandbox.pod("forced", cpu="64", affinity=requires(other), nodeName=node)
    assert node_of(await sandbox.until_pod_ready(forced)) == node, "only a real kubelet would refuse it"
