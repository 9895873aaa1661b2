"""The Adopt handover with interference: evictions at the worst moment, unready siblings, placement rules."""

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
from tests.stories.sandbox import MakeSandbox, Sandbox, node_of
from tests.stories.waiting import until_gone, until_object

pytestmark = pytest.mark.full

REPLICAS = 3
BUDGETS = [
    pytest.param({"minAvailable": REPLICAS}, id="minAvailable equal to the replicas"),
    pytest.param({"maxUnavailable": 0}, id="maxUnavailable 0"),
]


async def evict_when_allowed(sandbox: Sandbox, pod: Object) -> None:
    """Evict like a third party that retries."""
    while True:
        with contextlib.suppress(errors.BudgetRefused):
            return await sandbox.client.evict(adopt.key(pod), uid=pod["metadata"]["uid"])
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("budget", BUDGETS)
async def test_sibling_evicted_before_the_source(make_sandbox: MakeSandbox, budget: Object) -> None:
    """Another eviction, between the copy's readiness and ours, makes the budget refuse ours."""
    sandbox = await make_sandbox()
    await sandbox.deployment(REPLICAS)
    await sandbox.budget(**budget)
    source, sibling, _ = await sandbox.pods()
    async with observing(sandbox.client, sandbox.namespace) as seen:
        handover = await adopt.begin(sandbox.client, adopt.key(source), await sandbox.free_node())
        copy = await adopt.bring_up(sandbox.client, handover)
        sandbox.start_slowly()
        await evict_when_allowed(sandbox, sibling)
        with pytest.raises(errors.BudgetRefused):
            await sandbox.client.evict(adopt.key(source), uid=source["metadata"]["uid"])
        sandbox.behave()  # the sibling's replacement becomes ready: there is room again
        await sandbox.until_ready(REPLICAS + 1)
        sandbox.start_slowly()
        await adopt.hand_over(sandbox.client, handover, copy)
        await adopt.finish(sandbox.client, handover)
        await sandbox.until_ready(REPLICAS)
    assert min(seen.ready) == REPLICAS


@pytest.mark.parametrize("budget", BUDGETS)
async def test_right_after_our_eviction_no_sibling_can_be_evicted(
    make_sandbox: MakeSandbox, budget: Object
) -> None:
    sandbox = await make_sandbox()
    await sandbox.deployment(REPLICAS)
    await sandbox.budget(**budget)
    source, *siblings = await sandbox.pods()
    async with observing(sandbox.client, sandbox.namespace) as seen:
        handover = await adopt.begin(sandbox.client, adopt.key(source), await sandbox.free_node())
        copy = await adopt.bring_up(sandbox.client, handover)
        sandbox.start_slowly()
        await adopt.evict_source(sandbox.client, handover)
        for pod in (*siblings, copy):
            with pytest.raises(errors.BudgetRefused):
                await sandbox.client.evict(adopt.key(pod))
        await adopt.offer(sandbox.client, handover, copy)
        for pod in (*siblings, copy):
            with pytest.raises(errors.BudgetRefused):
                await sandbox.client.evict(adopt.key(pod))
        await adopt.until_adopted(sandbox.client, handover, copy)
        await sandbox.until_ready(REPLICAS)
    assert min(seen.ready) == REPLICAS


async def test_client_that_never_stops_evicting_siblings(make_sandbox: MakeSandbox) -> None:
    """The number of ready pods never falls below the count."""
    sandbox = await make_sandbox()
    await sandbox.deployment(REPLICAS)
    await sandbox.budget(minAvailable=REPLICAS)
    source, *siblings = await sandbox.pods()
    sandbox.behave({"startup": "2s"})
    async with observing(sandbox.client, sandbox.namespace) as seen:
        evicting = [asyncio.create_task(evict_when_allowed(sandbox, sibling)) for sibling in siblings]
        moved = await adopt.move(sandbox.client, adopt.key(source), await sandbox.free_node())
        for task in evicting:
            task.cancel()
        await asyncio.gather(*evicting, return_exceptions=True)
        sandbox.behave()
        await until_gone(sandbox.client, PODS.as_json, adopt.key(source))
        await sandbox.until_ready(REPLICAS)
    assert min(seen.ready) == REPLICAS
    assert moved in {adopt.key(pod) for pod in await sandbox.pods()}


async def test_when_the_copy_is_evicted_the_source_stays(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox(nodes=2)
    await sandbox.deployment(1)
    await sandbox.budget(minAvailable=1)
    (source,) = await sandbox.pods()
    async with observing(sandbox.client, sandbox.namespace) as seen:
        handover = await adopt.begin(sandbox.client, adopt.key(source), await sandbox.free_node())
        copy = await adopt.bring_up(sandbox.client, handover)
        await evict_when_allowed(sandbox, copy)
        with pytest.raises(errors.BudgetRefused):
            await sandbox.client.evict(adopt.key(source))
        await until_gone(sandbox.client, PODS.as_json, adopt.key(copy))
    assert min(seen.ready) == 1
    assert seen.created == [copy["metadata"]["name"]], "no controller replaces the copy"


# -- siblings that are not ready


async def unready_sibling(sandbox: Sandbox) -> tuple[Object, Object]:
    """Three replicas, each on its node: one that is ready, and one that no longer is."""
    await sandbox.deployment(REPLICAS, pod={"affinity": anti_affinity("web")})
    source, sibling, _ = await sandbox.pods()
    sandbox.behave({"match": {"node": node_of(sibling)}, "readiness": "never"})
    await until_object(
        sandbox.client, PODS.as_json, adopt.key(sibling), lambda pod: not adopt.ready_since(pod)
    )
    return source, sibling


async def test_an_unready_sibling_is_left_alone_when_a_ready_pod_moves(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox()
    await sandbox.budget(minAvailable=REPLICAS - 1)
    source, sibling = await unready_sibling(sandbox)
    async with observing(sandbox.client, sandbox.namespace) as seen:
        handover = await adopt.begin(sandbox.client, adopt.key(source), await sandbox.free_node())
        copy = await adopt.bring_up(sandbox.client, handover)
        sandbox.behave({"match": {"node": node_of(sibling)}, "readiness": "never"}, {"startup": "60s"})
        await adopt.hand_over(sandbox.client, handover, copy)
        await until_gone(sandbox.client, PODS.as_json, adopt.key(source))
    assert min(seen.ready) == REPLICAS - 1
    assert sibling["metadata"]["name"] not in seen.deleted


async def test_unready_sibling(make_sandbox: MakeSandbox) -> None:
    """While a sibling is not ready, a budget of all replicas refuses the eviction of the source."""
    sandbox = await make_sandbox()
    await sandbox.budget(minAvailable=REPLICAS)
    source, _ = await unready_sibling(sandbox)
    async with observing(sandbox.client, sandbox.namespace) as seen:
        handover = await adopt.begin(sandbox.client, adopt.key(source), await sandbox.free_node())
        copy = await adopt.bring_up(sandbox.client, handover)
        evicting = asyncio.create_task(adopt.evict_source(sandbox.client, handover))
        with pytest.raises(errors.BudgetRefused):
            await sandbox.client.evict(adopt.key(source))
        sandbox.behave()  # the sibling recovers: now there is one to spare
        await evicting
        await adopt.offer(sandbox.client, handover, copy)
        await adopt.until_adopted(sandbox.client, handover, copy)
    assert min(seen.ready) == REPLICAS - 1
    assert seen.ready[-1] >= REPLICAS


# -- placement


async def test_required_anti_affinity_by_revision_holds_for_the_copy(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox()
    await sandbox.deployment(REPLICAS, pod={"affinity": anti_affinity("web")})
    await sandbox.budget(maxUnavailable=0)
    source, sibling, _ = await sandbox.pods()
    free = await sandbox.free_node()
    handover = await adopt.begin(sandbox.client, adopt.key(source), node_of(sibling))
    with pytest.raises(adopt.BoundElsewhere, match=free):
        await adopt.bring_up(sandbox.client, handover)
    await adopt.finish(sandbox.client, handover)
    await until_gone(sandbox.client, PODMIGRATIONS, adopt.key(handover.migration))
    async with observing(sandbox.client, sandbox.namespace) as seen:
        handover = await adopt.begin(sandbox.client, adopt.key(source), free)
        copy = await adopt.bring_up(sandbox.client, handover)
        sandbox.start_slowly()
        await adopt.hand_over(sandbox.client, handover, copy)
        await sandbox.until_ready(REPLICAS)
    assert min(seen.ready) == REPLICAS
    assert node_of(copy) == free
    (term,) = copy["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (by_revision,) = term["labelSelector"]["matchExpressions"]
    assert by_revision["values"] == [source["metadata"]["labels"]["pod-template-hash"]]


async def test_a_copy_whose_target_is_full_is_bound_elsewhere(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox(nodes=3)
    await sandbox.deployment(1)
    (source,) = await sandbox.pods()
    target, other = (node for node in sandbox.nodes if node != node_of(source))
    await sandbox.pod("filler", cpu="7950m", nodeSelector={"kubernetes.io/hostname": target})
    await until_object(sandbox.client, PODS.as_json, sandbox.key("filler"), adopt.ready_since)
    await sandbox.cordon(node_of(source))
    async with observing(sandbox.client, sandbox.namespace) as seen:
        handover = await adopt.begin(sandbox.client, adopt.key(source), target)
        with pytest.raises(adopt.BoundElsewhere, match=other):
            await adopt.bring_up(sandbox.client, handover)
        await sandbox.until_ready(1)
    assert min(seen.ready) == 1
    assert seen.deleted == seen.created, "only the copy came and went"


async def test_a_target_that_fits_is_taken_although_others_score_better(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox()
    await sandbox.deployment(1)
    (source,) = await sandbox.pods()
    target = await sandbox.free_node()
    crowd = [await sandbox.pod(f"crowd-{n}", cpu="3500m", nodeName=target) for n in range(2)]
    for each in crowd:
        await sandbox.until_pod_ready(each)
    handover = await adopt.begin(sandbox.client, adopt.key(source), target)
    assert node_of(await adopt.bring_up(sandbox.client, handover)) == target
    await adopt.finish(sandbox.client, handover)
