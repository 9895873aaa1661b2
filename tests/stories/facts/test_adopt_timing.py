"""The Adopt handover in time: the extra pod, an adoption that comes late, waiting, turning back."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import Object, strategic_patch
from tests.stories.facts import adopt
from tests.stories.observer import Observer, observing, revisions
from tests.stories.stage import SetStage, Stage, node_of
from tests.stories.waiting import until, until_gone, until_object

pytestmark = pytest.mark.full


async def extra_pod(stage: Stage, known: set[str]) -> Object:
    """The pod that the ReplicaSet makes in the place of the evicted one."""

    def found(pods: Mapping[str, Object]) -> Object | None:
        return next((pod for name, pod in pods.items() if name not in known), None)

    extra = await until(stage.client, PODS.as_json, stage.namespace, found, labels="app=web")
    assert extra is not None
    return extra


def names(*pods: Object) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}


# -- the extra pod


async def test_surplus_pod(set_stage: SetStage) -> None:
    """The ReplicaSet creates one pod too many, and deletes it when it adopts the copy."""
    stage = await set_stage()
    await stage.deployment(3)
    await stage.budget(maxUnavailable=0)
    pods = await stage.pods()
    async with observing(stage.client, stage.namespace) as seen:
        handover = await adopt.begin(stage.client, adopt.key(pods[0]), await stage.free_node())
        copy = await adopt.bring_up(stage.client, handover)
        stage.start_slowly()
        await adopt.evict_source(stage.client, handover)
        extra = await extra_pod(stage, names(*pods, copy))
        await adopt.offer(stage.client, handover, copy)
        await until_gone(stage.client, PODS.as_json, adopt.key(extra))
        await adopt.until_adopted(stage.client, handover, copy)
    assert seen.created == [copy["metadata"]["name"], extra["metadata"]["name"]]
    assert seen.deleted == [pods[0]["metadata"]["name"], extra["metadata"]["name"]]
    assert extra["metadata"]["name"] not in seen.was_ready
    assert min(seen.ready) == 3


# -- an adoption that comes late


async def adopted_late(stage: Stage, handover: adopt.Handover, copy: Object) -> tuple[Observer, Object]:
    """The ReplicaSet's own replacement is ready before the copy is offered: all that was seen, and it."""
    known = names(*await stage.pods())
    async with observing(stage.client, stage.namespace) as seen:
        await adopt.evict_source(stage.client, handover)
        replacement = await stage.until_pod_ready(await extra_pod(stage, known))
        await adopt.offer(stage.client, handover, copy)
        replicas = handover.replica_set["spec"]["replicas"]
        await stage.until_ready(replicas)
    assert min(seen.ready) == replicas, "never below the count"
    assert len(seen.deleted) == 2, "the source, and one too many"
    return seen, replacement


async def ready_since_a_minute(stage: Stage, pod: Object) -> None:
    """The kubelet would tell so if the test took as long."""
    since = (stage.now() - timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": since}
    patch = strategic_patch({"status": {"conditions": [ready]}})
    await stage.client.patch(PODS.as_json.status, adopt.key(pod), patch)


async def test_late_adoption_misses_the_target_if_a_sibling_is_there_too(set_stage: SetStage) -> None:
    stage = await set_stage(nodes=3)
    *first, last = stage.nodes
    await stage.cordon(last)
    await stage.deployment(2)
    await stage.budget(minAvailable=2)
    source, sibling = await stage.pods()
    await ready_since_a_minute(stage, sibling)
    handover = await adopt.begin(stage.client, adopt.key(source), node_of(sibling))
    copy = await adopt.bring_up(stage.client, handover)
    await stage.cordon(last, on=False)
    await stage.cordon(*first)
    seen, _ = await adopted_late(stage, handover, copy)
    assert seen.deleted[1] == copy["metadata"]["name"], "of two on one node, the younger goes first"


async def test_late_adoption_removes_the_one_that_became_ready_last(set_stage: SetStage) -> None:
    stage = await set_stage(nodes=3)
    await stage.deployment(1)
    await stage.budget(minAvailable=1)
    (source,) = await stage.pods()
    handover = await adopt.begin(stage.client, adopt.key(source), await stage.free_node())
    copy = await adopt.bring_up(stage.client, handover)
    await stage.cordon(handover.target)  # else both may be on one node, and that counts more
    await ready_since_a_minute(stage, copy)
    seen, replacement = await adopted_late(stage, handover, copy)
    assert seen.deleted[1] == replacement["metadata"]["name"]


# -- waiting


async def test_the_copy_is_awaited_until_it_is_available_and_has_settled(set_stage: SetStage) -> None:
    stage = await set_stage(nodes=2)
    await stage.deployment(1, minReadySeconds=1)
    (source,) = await stage.pods()
    handover = await adopt.begin(stage.client, adopt.key(source), await stage.free_node())
    copy = await adopt.bring_up(stage.client, handover, settle_s=1, now=stage.now)
    since = adopt.ready_since(copy)
    assert since is not None
    assert stage.now() - since >= timedelta(seconds=2)
    await adopt.finish(stage.client, handover)


# -- turning back


@pytest.mark.parametrize("step", ["behind its gate", "nominated", "bound and ready"])
async def test_copy_deleted_before_the_eviction(set_stage: SetStage, step: str) -> None:
    """Nothing has changed then."""
    stage = await set_stage(nodes=2)
    await stage.deployment(1)
    await stage.budget(minAvailable=1)
    before = await revisions(stage.client, stage.namespace)
    pods = await stage.pods()
    handover = await adopt.begin(stage.client, adopt.key(pods[0]), await stage.free_node())
    async with observing(stage.client, stage.namespace) as seen:
        if step == "bound and ready":
            copy = await adopt.bring_up(stage.client, handover)
        else:
            copy = await adopt.create_copy(stage.client, handover)
            if step == "nominated":
                await adopt.nominate(stage.client, copy, handover.target)
        await stage.client.delete(PODS, adopt.key(copy), uid=copy["metadata"]["uid"])
        await adopt.finish(stage.client, handover)
        await until_gone(stage.client, PODS.as_json, adopt.key(copy))
    assert seen.created == seen.deleted == [copy["metadata"]["name"]]
    assert min(seen.ready) == 1
    assert [pod["metadata"]["uid"] for pod in await stage.pods()] == [pods[0]["metadata"]["uid"]]
    assert await revisions(stage.client, stage.namespace) == before


async def test_a_gated_copy_waits_for_its_nomination_and_is_not_scheduled(set_stage: SetStage) -> None:
    stage = await set_stage(nodes=2)
    await stage.deployment(1)
    (source,) = await stage.pods()
    handover = await adopt.begin(stage.client, adopt.key(source), await stage.free_node())
    copy = await adopt.create_copy(stage.client, handover)
    gated = await until_object(
        stage.client, PODS.as_json, adopt.key(copy), lambda pod: pod["status"].get("conditions")
    )
    (condition,) = gated["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled",
        "False",
        "SchedulingGated",
    )
    assert not node_of(gated)
    await adopt.nominate(stage.client, copy, handover.target)
    await adopt.open_gate(stage.client, copy)
    bound = await until_object(stage.client, PODS.as_json, adopt.key(copy), node_of)
    assert node_of(bound) == handover.target
    await adopt.finish(stage.client, handover)
