"""The Adopt handover over time: the surplus pod, late adoption, waiting, and rollback."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import Object, strategic_patch
from tests.stories.facts import adopt
from tests.stories.observer import Observer, observing, revisions
from tests.stories.sandbox import MakeSandbox, Sandbox, node_of
from tests.stories.waiting import until, until_gone, until_object

pytestmark = pytest.mark.full


async def extra_pod(sandbox: Sandbox, known: set[str]) -> Object:
    """The pod that the ReplicaSet makes in the place of the evicted one."""

    def found(pods: Mapping[str, Object]) -> Object | None:
        return next((pod for name, pod in pods.items() if name not in known), None)

    extra = await until(sandbox.client, PODS.as_json, sandbox.namespace, found, labels="app=web")
    assert extra is not None
    return extra


def names(*pods: Object) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}


# -- the extra pod


async def test_surplus_pod(make_sandbox: MakeSandbox) -> None:
    """The ReplicaSet creates one pod too many, and deletes it when it adopts the copy."""
    sandbox = await make_sandbox()
    await sandbox.deployment(3)
    await sandbox.budget(maxUnavailable=0)
    pods = await sandbox.pods()
    async with observing(sandbox.client, sandbox.namespace) as seen:
        handover = await adopt.begin(sandbox.client, adopt.key(pods[0]), await sandbox.free_node())
        copy = await adopt.bring_up(sandbox.client, handover)
        sandbox.start_slowly()
        await adopt.evict_source(sandbox.client, handover)
        extra = await extra_pod(sandbox, names(*pods, copy))
        await adopt.offer(sandbox.client, handover, copy)
        await until_gone(sandbox.client, PODS.as_json, adopt.key(extra))
        await adopt.until_adopted(sandbox.client, handover, copy)
    assert seen.created == [copy["metadata"]["name"], extra["metadata"]["name"]]
    assert seen.deleted == [pods[0]["metadata"]["name"], extra["metadata"]["name"]]
    assert extra["metadata"]["name"] not in seen.was_ready
    assert min(seen.ready) == 3


# -- an adoption that comes late


async def adopted_late(sandbox: Sandbox, handover: adopt.Handover, copy: Object) -> tuple[Observer, Object]:
    """The ReplicaSet's own replacement is ready before the copy is offered: all that was seen, and it."""
    known = names(*await sandbox.pods())
    async with observing(sandbox.client, sandbox.namespace) as seen:
        await adopt.evict_source(sandbox.client, handover)
        replacement = await sandbox.until_pod_ready(await extra_pod(sandbox, known))
        await adopt.offer(sandbox.client, handover, copy)
        replicas = handover.replica_set["spec"]["replicas"]
        await sandbox.until_ready(replicas)
    assert min(seen.ready) == replicas, "never below the count"
    assert len(seen.deleted) == 2, "the source, and one too many"
    return seen, replacement


async def ready_since_a_minute(sandbox: Sandbox, pod: Object) -> None:
    """The kubelet would tell so if the test took as long."""
    since = (sandbox.now() - timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": since}
    patch = strategic_patch({"status": {"conditions": [ready]}})
    await sandbox.client.patch(PODS.as_json.status, adopt.key(pod), patch)


async def test_late_adoption_misses_the_target_if_a_sibling_is_there_too(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox(nodes=3)
    *first, last = sandbox.nodes
    await sandbox.cordon(last)
    await sandbox.deployment(2)
    await sandbox.budget(minAvailable=2)
    source, sibling = await sandbox.pods()
    await ready_since_a_minute(sandbox, sibling)
    handover = await adopt.begin(sandbox.client, adopt.key(source), node_of(sibling))
    copy = await adopt.bring_up(sandbox.client, handover)
    await sandbox.cordon(last, on=False)
    await sandbox.cordon(*first)
    seen, _ = await adopted_late(sandbox, handover, copy)
    assert seen.deleted[1] == copy["metadata"]["name"], "of two on one node, the younger goes first"


async def test_late_adoption_removes_the_one_that_became_ready_last(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox(nodes=3)
    await sandbox.deployment(1)
    await sandbox.budget(minAvailable=1)
    (source,) = await sandbox.pods()
    handover = await adopt.begin(sandbox.client, adopt.key(source), await sandbox.free_node())
    copy = await adopt.bring_up(sandbox.client, handover)
    await sandbox.cordon(handover.target)  # else both may be on one node, and that counts more
    await ready_since_a_minute(sandbox, copy)
    seen, replacement = await adopted_late(sandbox, handover, copy)
    assert seen.deleted[1] == replacement["metadata"]["name"]


# -- waiting


async def test_the_copy_is_awaited_until_it_is_available_and_has_settled(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox(nodes=2)
    await sandbox.deployment(1, minReadySeconds=1)
    (source,) = await sandbox.pods()
    handover = await adopt.begin(sandbox.client, adopt.key(source), await sandbox.free_node())
    copy = await adopt.bring_up(sandbox.client, handover, settle_s=1, now=sandbox.now)
    since = adopt.ready_since(copy)
    assert since is not None
    assert sandbox.now() - since >= timedelta(seconds=2)
    await adopt.finish(sandbox.client, handover)


# -- turning back


@pytest.mark.parametrize("step", ["behind its gate", "nominated", "bound and ready"])
async def test_copy_deleted_before_the_eviction(make_sandbox: MakeSandbox, step: str) -> None:
    """Nothing has changed then."""
    sandbox = await make_sandbox(nodes=2)
    await sandbox.deployment(1)
    await sandbox.budget(minAvailable=1)
    before = await revisions(sandbox.client, sandbox.namespace)
    pods = await sandbox.pods()
    handover = await adopt.begin(sandbox.client, adopt.key(pods[0]), await sandbox.free_node())
    async with observing(sandbox.client, sandbox.namespace) as seen:
        if step == "bound and ready":
            copy = await adopt.bring_up(sandbox.client, handover)
        else:
            copy = await adopt.create_copy(sandbox.client, handover)
            if step == "nominated":
                await adopt.nominate(sandbox.client, copy, handover.target)
        await sandbox.client.delete(PODS, adopt.key(copy), uid=copy["metadata"]["uid"])
        await adopt.finish(sandbox.client, handover)
        await until_gone(sandbox.client, PODS.as_json, adopt.key(copy))
    assert seen.created == seen.deleted == [copy["metadata"]["name"]]
    assert min(seen.ready) == 1
    assert [pod["metadata"]["uid"] for pod in await sandbox.pods()] == [pods[0]["metadata"]["uid"]]
    assert await revisions(sandbox.client, sandbox.namespace) == before


async def test_a_gated_copy_waits_for_its_nomination_and_is_not_scheduled(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox(nodes=2)
    await sandbox.deployment(1)
    (source,) = await sandbox.pods()
    handover = await adopt.begin(sandbox.client, adopt.key(source), await sandbox.free_node())
    copy = await adopt.create_copy(sandbox.client, handover)
    gated = await until_object(
        sandbox.client, PODS.as_json, adopt.key(copy), lambda pod: pod["status"].get("conditions")
    )
    (condition,) = gated["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled",
        "False",
        "SchedulingGated",
    )
    assert not node_of(gated)
    await adopt.nominate(sandbox.client, copy, handover.target)
    await adopt.open_gate(sandbox.client, copy)
    bound = await until_object(sandbox.client, PODS.as_json, adopt.key(copy), node_of)
    assert node_of(bound) == handover.target
    await adopt.finish(sandbox.client, handover)
