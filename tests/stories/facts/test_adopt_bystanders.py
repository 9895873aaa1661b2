"""The Adopt handover among others: evictions at the worst moment, unready siblings, rules of placement."""

import asyncio
import contextlib

import pytest

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import Object
from tests.stories.facts import adopt
from tests.stories.facts.podmigrations import PODMIGRATIONS
from tests.stories.objects import anti_affinity
from tests.stories.observer import observing
from tests.stories.stage import SetStage, Stage, node_of
from tests.stories.waiting import until_gone, until_object

pytestmark = pytest.mark.full

REPLICAS = 3
BUDGETS = [
    pytest.param({"minAvailable": REPLICAS}, id="minAvailable equal to the replicas"),
    pytest.param({"maxUnavailable": 0}, id="maxUnavailable 0"),
]


async def evict_when_allowed(stage: Stage, pod: Object) -> None:
    """As a third party would, who asks again and again."""
    while True:
        with contextlib.suppress(errors.BudgetRefused):
            return await stage.client.evict(adopt.key(pod), uid=pod["metadata"]["uid"])
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("budget", BUDGETS)
async def test_sibling_evicted_before_the_source(set_stage: SetStage, budget: Object) -> None:
    """Another eviction, between the copy's readiness and ours, makes the budget refuse ours."""
    stage = await set_stage()
    await stage.deployment(REPLICAS)
    await stage.budget(**budget)
    source, sibling, _ = await stage.pods()
    async with observing(stage.client, stage.namespace) as seen:
        handover = await adopt.begin(stage.client, adopt.key(source), await stage.free_node())
        copy = await adopt.bring_up(stage.client, handover)
        stage.start_slowly()
        await evict_when_allowed(stage, sibling)
        with pytest.raises(errors.BudgetRefused):
            await stage.client.evict(adopt.key(source), uid=source["metadata"]["uid"])
        stage.behave()  # the sibling's replacement becomes ready: there is room again
        await stage.until_ready(REPLICAS + 1)
        stage.start_slowly()
        await adopt.hand_over(stage.client, handover, copy)
        await adopt.finish(stage.client, handover)
        await stage.until_ready(REPLICAS)
    assert min(seen.ready) == REPLICAS


@pytest.mark.parametrize("budget", BUDGETS)
async def test_right_after_our_eviction_no_sibling_can_be_evicted(
    set_stage: SetStage, budget: Object
) -> None:
    stage = await set_stage()
    await stage.deployment(REPLICAS)
    await stage.budget(**budget)
    source, *siblings = await stage.pods()
    async with observing(stage.client, stage.namespace) as seen:
        handover = await adopt.begin(stage.client, adopt.key(source), await stage.free_node())
        copy = await adopt.bring_up(stage.client, handover)
        stage.start_slowly()
        await adopt.evict_source(stage.client, handover)
        for pod in (*siblings, copy):
            with pytest.raises(errors.BudgetRefused):
                await stage.client.evict(adopt.key(pod))
        await adopt.offer(stage.client, handover, copy)
        for pod in (*siblings, copy):
            with pytest.raises(errors.BudgetRefused):
                await stage.client.evict(adopt.key(pod))
        await adopt.until_adopted(stage.client, handover, copy)
        await stage.until_ready(REPLICAS)
    assert min(seen.ready) == REPLICAS


async def test_client_that_never_stops_evicting_siblings(set_stage: SetStage) -> None:
    """The number of ready pods never falls below the count."""
    stage = await set_stage()
    await stage.deployment(REPLICAS)
    await stage.budget(minAvailable=REPLICAS)
    source, *siblings = await stage.pods()
    stage.behave({"startup": "2s"})
    async with observing(stage.client, stage.namespace) as seen:
        evicting = [asyncio.create_task(evict_when_allowed(stage, sibling)) for sibling in siblings]
        moved = await adopt.move(stage.client, adopt.key(source), await stage.free_node())
        for task in evicting:
            task.cancel()
        await asyncio.gather(*evicting, return_exceptions=True)
        stage.behave()
        await until_gone(stage.client, PODS.as_json, adopt.key(source))
        await stage.until_ready(REPLICAS)
    assert min(seen.ready) == REPLICAS
    assert moved in {adopt.key(pod) for pod in await stage.pods()}


async def test_when_the_copy_is_evicted_the_source_stays(set_stage: SetStage) -> None:
    stage = await set_stage(nodes=2)
    await stage.deployment(1)
    await stage.budget(minAvailable=1)
    (source,) = await stage.pods()
    async with observing(stage.client, stage.namespace) as seen:
        handover = await adopt.begin(stage.client, adopt.key(source), await stage.free_node())
        copy = await adopt.bring_up(stage.client, handover)
        await evict_when_allowed(stage, copy)
        with pytest.raises(errors.BudgetRefused):
            await stage.client.evict(adopt.key(source))
        await until_gone(stage.client, PODS.as_json, adopt.key(copy))
    assert min(seen.ready) == 1
    assert seen.created == [copy["metadata"]["name"]], "nobody replaces the copy"


# -- siblings that are not ready


async def unready_sibling(stage: Stage) -> tuple[Object, Object]:
    """Three replicas, each on its node: one that is ready, and one that no longer is."""
    await stage.deployment(REPLICAS, pod={"affinity": anti_affinity("web")})
    source, sibling, _ = await stage.pods()
    stage.behave({"match": {"node": node_of(sibling)}, "readiness": "never"})
    await until_object(stage.client, PODS.as_json, adopt.key(sibling), lambda pod: not adopt.ready_since(pod))
    return source, sibling


async def test_an_unready_sibling_is_left_alone_when_a_ready_pod_moves(set_stage: SetStage) -> None:
    stage = await set_stage()
    await stage.budget(minAvailable=REPLICAS - 1)
    source, sibling = await unready_sibling(stage)
    async with observing(stage.client, stage.namespace) as seen:
        handover = await adopt.begin(stage.client, adopt.key(source), await stage.free_node())
        copy = await adopt.bring_up(stage.client, handover)
        stage.behave({"match": {"node": node_of(sibling)}, "readiness": "never"}, {"startup": "60s"})
        await adopt.hand_over(stage.client, handover, copy)
        await until_gone(stage.client, PODS.as_json, adopt.key(source))
    assert min(seen.ready) == REPLICAS - 1
    assert sibling["metadata"]["name"] not in seen.deleted


async def test_unready_sibling(set_stage: SetStage) -> None:
    """While a sibling is not ready, a budget of all replicas refuses the eviction of the source."""
    stage = await set_stage()
    await stage.budget(minAvailable=REPLICAS)
    source, _ = await unready_sibling(stage)
    async with observing(stage.client, stage.namespace) as seen:
        handover = await adopt.begin(stage.client, adopt.key(source), await stage.free_node())
        copy = await adopt.bring_up(stage.client, handover)
        evicting = asyncio.create_task(adopt.evict_source(stage.client, handover))
        with pytest.raises(errors.BudgetRefused):
            await stage.client.evict(adopt.key(source))
        stage.behave()  # the sibling recovers: now there is one to spare
        await evicting
        await adopt.offer(stage.client, handover, copy)
        await adopt.until_adopted(stage.client, handover, copy)
    assert min(seen.ready) == REPLICAS - 1
    assert seen.ready[-1] >= REPLICAS


# -- placement


async def test_required_anti_affinity_by_revision_holds_for_the_copy(set_stage: SetStage) -> None:
    stage = await set_stage()
    await stage.deployment(REPLICAS, pod={"affinity": anti_affinity("web")})
    await stage.budget(maxUnavailable=0)
    source, sibling, _ = await stage.pods()
    free = await stage.free_node()
    handover = await adopt.begin(stage.client, adopt.key(source), node_of(sibling))
    with pytest.raises(adopt.BoundElsewhere, match=free):
        await adopt.bring_up(stage.client, handover)
    await adopt.finish(stage.client, handover)
    await until_gone(stage.client, PODMIGRATIONS, adopt.key(handover.migration))
    async with observing(stage.client, stage.namespace) as seen:
        handover = await adopt.begin(stage.client, adopt.key(source), free)
        copy = await adopt.bring_up(stage.client, handover)
        stage.start_slowly()
        await adopt.hand_over(stage.client, handover, copy)
        await stage.until_ready(REPLICAS)
    assert min(seen.ready) == REPLICAS
    assert node_of(copy) == free
    (term,) = copy["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (by_revision,) = term["labelSelector"]["matchExpressions"]
    assert by_revision["values"] == [source["metadata"]["labels"]["pod-template-hash"]]


async def test_a_copy_whose_target_is_full_is_bound_elsewhere(set_stage: SetStage) -> None:
    stage = await set_stage(nodes=3)
    await stage.deployment(1)
    (source,) = await stage.pods()
    target, other = (node for node in stage.nodes if node != node_of(source))
    await stage.pod("filler", cpu="7950m", nodeSelector={"kubernetes.io/hostname": target})
    await until_object(stage.client, PODS.as_json, stage.key("filler"), adopt.ready_since)
    await stage.cordon(node_of(source))
    async with observing(stage.client, stage.namespace) as seen:
        handover = await adopt.begin(stage.client, adopt.key(source), target)
        with pytest.raises(adopt.BoundElsewhere, match=other):
            await adopt.bring_up(stage.client, handover)
        await stage.until_ready(1)
    assert min(seen.ready) == 1
    assert seen.deleted == seen.created, "only the copy came and went"


async def test_a_target_that_fits_is_taken_although_others_score_better(set_stage: SetStage) -> None:
    stage = await set_stage()
    await stage.deployment(1)
    (source,) = await stage.pods()
    target = await stage.free_node()
    crowd = [await stage.pod(f"crowd-{n}", cpu="3500m", nodeName=target) for n in range(2)]
    for each in crowd:
        await stage.until_pod_ready(each)
    handover = await adopt.begin(stage.client, adopt.key(source), target)
    assert node_of(await adopt.bring_up(stage.client, handover)) == target
    await adopt.finish(stage.client, handover)
