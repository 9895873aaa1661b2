"""The Adopt handover: every pod moves to its node, and no moment has fewer ready pods than replicas."""

import pytest

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import POD_DISRUPTION_BUDGETS, REPLICA_SETS, Object
from tests.stories.facts import adopt
from tests.stories.facts.podmigrations import PODMIGRATIONS
from tests.stories.observer import observing, revisions
from tests.stories.sandbox import MakeSandbox, Sandbox, node_of
from tests.stories.waiting import until_gone, until_object

BUDGETS = [
    pytest.param({"minAvailable": "replicas"}, id="minAvailable equal to the replicas"),
    pytest.param({"minAvailable": "100%"}, id="minAvailable 100 %"),
    pytest.param({"maxUnavailable": 0}, id="maxUnavailable 0"),
    pytest.param({"maxUnavailable": "0%"}, id="maxUnavailable 0 %"),
]


async def move_without_downtime(sandbox: Sandbox, replicas: int, source: str, target: str) -> None:
    client = sandbox.client
    before = await revisions(client, sandbox.namespace)
    others = {pod["metadata"]["name"] for pod in await sandbox.pods()} - {source}

    async def images_must_be_pulled(copy: Object) -> None:
        sandbox.start_slowly()

    async with observing(client, sandbox.namespace) as seen:
        moved = await adopt.move(client, sandbox.key(source), target, before_eviction=images_must_be_pulled)
        await sandbox.until_ready(replicas)
    sandbox.behave()
    assert min(seen.ready) == min(seen.serving) == replicas
    assert max(seen.ready) == replicas + 1
    assert len(seen.created) <= 2, "the copy, and at most one that the ReplicaSet made too many"
    assert await revisions(client, sandbox.namespace) == before, "no rollout, no scaling"
    after = {pod["metadata"]["name"]: pod for pod in await sandbox.pods()}
    copy = after.pop(moved.split("/")[1])
    assert set(after) == others, "only the source has gone"
    assert node_of(copy) == target
    assert len(copy["metadata"]["ownerReferences"]) == 1
    assert adopt.controller_of(copy) is not None


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("replicas", [1, 3], ids=["one replica", "three replicas"])
async def test_moves_under_any_budget(make_sandbox: MakeSandbox, replicas: int, budget: Object) -> None:
    """A pod of a Deployment moves although every ordinary eviction is refused."""
    sandbox = await make_sandbox()
    await sandbox.deployment(replicas)
    allowed: Object = {name: replicas if value == "replicas" else value for name, value in budget.items()}
    await sandbox.budget(**allowed)
    source = (await sandbox.pods())[0]
    with pytest.raises(errors.BudgetRefused):
        await sandbox.client.evict(adopt.key(source))
    await move_without_downtime(sandbox, replicas, source["metadata"]["name"], await sandbox.free_node())


async def test_each_pod_of_a_plain_replica_set_moves_in_turn(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox()
    await sandbox.replica_set(3)
    await sandbox.budget(maxUnavailable=0)
    for source in await sandbox.pods():
        await move_without_downtime(sandbox, 3, source["metadata"]["name"], await sandbox.free_node())


async def test_a_pod_without_a_budget_moves_as_well(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox(nodes=2)
    await sandbox.deployment(1)
    (source,) = await sandbox.pods()
    await move_without_downtime(sandbox, 1, source["metadata"]["name"], await sandbox.free_node())
    await until_gone(sandbox.client, PODMIGRATIONS, sandbox.key(f"move-{source['metadata']['name']}"))
    assert len(await sandbox.until_ready(1)) == 1, "the moved pod outlives its PodMigration"
    await until_gone(sandbox.client, PODS.as_json, adopt.key(source))


async def test_what_counts_the_copy(make_sandbox: MakeSandbox) -> None:
    """Services and budgets count the copy; its ReplicaSet does not."""
    sandbox = await make_sandbox(nodes=2)
    await sandbox.deployment(1)
    guard = await sandbox.budget(minAvailable=1)
    (source,) = await sandbox.pods()
    async with observing(sandbox.client, sandbox.namespace) as seen:
        handover = await adopt.begin(sandbox.client, adopt.key(source), await sandbox.free_node())
        copy = await adopt.bring_up(sandbox.client, handover)
        budget = await until_object(
            sandbox.client,
            POD_DISRUPTION_BUDGETS,
            guard,
            lambda found: found["status"]["currentHealthy"] == 2,
        )
    assert seen.serving[-1] == 2
    assert budget["status"]["disruptionsAllowed"] == 1
    assert budget["status"]["expectedPods"] == 2
    replica_set = await sandbox.client.get(REPLICA_SETS, adopt.key(handover.replica_set))
    assert replica_set["status"]["replicas"] == replica_set["status"]["readyReplicas"] == 1
    assert seen.created == [copy["metadata"]["name"]]
    assert seen.deleted == []
    await adopt.finish(sandbox.client, handover)
