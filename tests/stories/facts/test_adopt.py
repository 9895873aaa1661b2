"""The Adopt handover: every pod moves to its node, and no moment has fewer ready pods than replicas."""

import pytest

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import POD_DISRUPTION_BUDGETS, REPLICA_SETS, Object
from tests.stories.facts import adopt
from tests.stories.facts.podmigrations import PODMIGRATIONS
from tests.stories.observer import observing, revisions
from tests.stories.stage import SetStage, Stage, node_of
from tests.stories.waiting import until_gone, until_object

BUDGETS = [
    pytest.param({"minAvailable": "replicas"}, id="minAvailable equal to the replicas"),
    pytest.param({"minAvailable": "100%"}, id="minAvailable 100 %"),
    pytest.param({"maxUnavailable": 0}, id="maxUnavailable 0"),
    pytest.param({"maxUnavailable": "0%"}, id="maxUnavailable 0 %"),
]


async def move_without_downtime(stage: Stage, replicas: int, source: str, target: str) -> None:
    client = stage.client
    before = await revisions(client, stage.namespace)
    others = {pod["metadata"]["name"] for pod in await stage.pods()} - {source}

    async def images_must_be_pulled(copy: Object) -> None:
        stage.start_slowly()

    async with observing(client, stage.namespace) as seen:
        moved = await adopt.move(client, stage.key(source), target, before_eviction=images_must_be_pulled)
        await stage.until_ready(replicas)
    stage.behave()
    assert min(seen.ready) == min(seen.serving) == replicas
    assert max(seen.ready) == replicas + 1
    assert len(seen.created) <= 2, "the copy, and at most one that the ReplicaSet made too many"
    assert await revisions(client, stage.namespace) == before, "no rollout, no scaling"
    after = {pod["metadata"]["name"]: pod for pod in await stage.pods()}
    copy = after.pop(moved.split("/")[1])
    assert set(after) == others, "only the source has gone"
    assert node_of(copy) == target
    assert len(copy["metadata"]["ownerReferences"]) == 1
    assert adopt.controller_of(copy) is not None


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("replicas", [1, 3], ids=["one replica", "three replicas"])
async def test_moves_under_any_budget(set_stage: SetStage, replicas: int, budget: Object) -> None:
    """A pod of a Deployment moves although every ordinary eviction is refused."""
    stage = await set_stage()
    await stage.deployment(replicas)
    allowed: Object = {name: replicas if value == "replicas" else value for name, value in budget.items()}
    await stage.budget(**allowed)
    source = (await stage.pods())[0]
    with pytest.raises(errors.BudgetRefused):
        await stage.client.evict(adopt.key(source))
    await move_without_downtime(stage, replicas, source["metadata"]["name"], await stage.free_node())


async def test_each_pod_of_a_plain_replica_set_moves_in_turn(set_stage: SetStage) -> None:
    stage = await set_stage()
    await stage.replica_set(3)
    await stage.budget(maxUnavailable=0)
    for source in await stage.pods():
        await move_without_downtime(stage, 3, source["metadata"]["name"], await stage.free_node())


async def test_a_pod_without_a_budget_moves_as_well(set_stage: SetStage) -> None:
    stage = await set_stage(nodes=2)
    await stage.deployment(1)
    (source,) = await stage.pods()
    await move_without_downtime(stage, 1, source["metadata"]["name"], await stage.free_node())
    await until_gone(stage.client, PODMIGRATIONS, stage.key(f"move-{source['metadata']['name']}"))
    assert len(await stage.until_ready(1)) == 1, "the moved pod outlives its PodMigration"
    await until_gone(stage.client, PODS.as_json, adopt.key(source))


async def test_what_counts_the_copy(set_stage: SetStage) -> None:
    """Services and budgets count the copy; its ReplicaSet does not."""
    stage = await set_stage(nodes=2)
    await stage.deployment(1)
    guard = await stage.budget(minAvailable=1)
    (source,) = await stage.pods()
    async with observing(stage.client, stage.namespace) as seen:
        handover = await adopt.begin(stage.client, adopt.key(source), await stage.free_node())
        copy = await adopt.bring_up(stage.client, handover)
        budget = await until_object(
            stage.client, POD_DISRUPTION_BUDGETS, guard, lambda found: found["status"]["currentHealthy"] == 2
        )
    assert seen.serving[-1] == 2
    assert budget["status"]["disruptionsAllowed"] == 1
    assert budget["status"]["expectedPods"] == 2
    replica_set = await stage.client.get(REPLICA_SETS, adopt.key(handover.replica_set))
    assert replica_set["status"]["replicas"] == replica_set["status"]["readyReplicas"] == 1
    assert seen.created == [copy["metadata"]["name"]]
    assert seen.deleted == []
    await adopt.finish(stage.client, handover)
