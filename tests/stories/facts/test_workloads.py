"""What Deployments make of the ways to steer their pods that the original design had in mind."""

import pytest

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import DEPLOYMENTS, REPLICA_SETS, Object, json_patch, merge_patch
from tests.stories.facts import adopt
from tests.stories.fixtures import Cluster
from tests.stories.objects import prefers
from tests.stories.observer import observing
from tests.stories.stage import SetStage, Stage, node_of
from tests.stories.waiting import until, until_gone, until_object

pytestmark = pytest.mark.full


def template_with(affinity: Object) -> Object:
    return {"spec": {"template": {"spec": {"affinity": affinity}}}}


async def replica_sets(stage: Stage) -> list[Object]:
    return (await stage.client.list(REPLICA_SETS, namespace=stage.namespace)).items


def has_rolled_out(deployment: Object) -> bool:
    status, replicas = deployment["status"], deployment["spec"]["replicas"]
    counts = {status.get(name) for name in ("replicas", "updatedReplicas", "availableReplicas")}
    return status.get("observedGeneration") == deployment["metadata"]["generation"] and counts == {replicas}


async def test_preference_in_a_deployment(set_stage: SetStage) -> None:
    """It replaces every pod, and moves them all."""
    stage = await set_stage()
    await stage.deployment(3)
    before = {pod["metadata"]["uid"] for pod in await stage.pods()}
    target = stage.nodes[0]
    change = merge_patch(template_with(prefers(target)))
    await stage.client.patch(DEPLOYMENTS, stage.key("web"), change)
    await until_object(stage.client, DEPLOYMENTS, stage.key("web"), has_rolled_out)
    after = await stage.until_ready(3)
    assert before.isdisjoint(pod["metadata"]["uid"] for pod in after)
    assert {node_of(pod) for pod in after} == {target}
    assert len(await replica_sets(stage)) == 2


async def test_a_negative_weight_is_refused(set_stage: SetStage) -> None:
    stage = await set_stage(nodes=1)
    await stage.deployment(1)
    change = merge_patch(template_with(prefers(stage.nodes[0], weight=-50)))
    with pytest.raises(errors.Invalid) as refused:
        await stage.client.patch(DEPLOYMENTS, stage.key("web"), change)
    (cause,) = refused.value.causes
    assert cause.field.endswith("preferredDuringSchedulingIgnoredDuringExecution[0].weight")
    assert cause.message == "Invalid value: -50: must be in the range 1-100"


async def test_replica_set_edited_while_paused(set_stage: SetStage) -> None:
    """Its template steers one replacement without a rollout."""
    stage = await set_stage()
    await stage.deployment(3)
    pods, target = await stage.pods(), await stage.free_node()
    (before,) = await replica_sets(stage)
    web, of_set = stage.key("web"), adopt.key(before)

    await stage.client.patch(DEPLOYMENTS, web, merge_patch({"spec": {"paused": True}}))
    await stage.client.patch(REPLICA_SETS, of_set, merge_patch(template_with(prefers(target))))
    await stage.client.delete(PODS, adopt.key(pods[0]))
    await until_gone(stage.client, PODS.as_json, adopt.key(pods[0]))
    replaced = await stage.until_ready(3)
    async with observing(stage.client, stage.namespace) as seen:
        await restore(stage, before)
        resumed = await stage.client.patch(DEPLOYMENTS, web, merge_patch({"spec": {"paused": None}}))
        generation = resumed["metadata"]["generation"]
        await until_object(
            stage.client,
            DEPLOYMENTS,
            web,
            lambda found: found["status"]["observedGeneration"] == generation,
        )
    kept = {pod["metadata"]["uid"] for pod in pods[1:]}
    (new,) = [pod for pod in replaced if pod["metadata"]["uid"] not in kept]
    assert node_of(new) == target
    assert seen.created == seen.deleted == []
    (after,) = await replica_sets(stage)
    assert after["spec"] == before["spec"]
    assert {pod["metadata"]["uid"] for pod in await stage.pods()} == kept | {new["metadata"]["uid"]}


async def restore(stage: Stage, before: Object) -> None:
    """To the byte, in one step, whatever the controllers write meanwhile."""
    operation = {"op": "replace", "path": "/spec/template", "value": before["spec"]["template"]}
    await stage.client.patch(REPLICA_SETS, adopt.key(before), json_patch([operation]))


@pytest.mark.kubectl
async def test_annotations_after_a_rollback(set_stage: SetStage, cluster: Cluster) -> None:
    """A Deployment's annotations are copied to its ReplicaSets, and come back with a rollback."""
    stage = await set_stage(nodes=1)
    await stage.deployment(1)
    web, note = stage.key("web"), "rescheduler.dev/record"

    async def annotate(value: str) -> None:
        change = {"metadata": {"annotations": {note: value}}}
        await stage.client.patch(DEPLOYMENTS, web, merge_patch(change))

    await annotate("old")
    await until(
        stage.client,
        REPLICA_SETS,
        stage.namespace,
        lambda found: [each["metadata"]["annotations"].get(note) for each in found.values()] == ["old"],
    )
    await stage.client.patch(DEPLOYMENTS, web, merge_patch(template_with(prefers(stage.nodes[0]))))
    await until_object(stage.client, DEPLOYMENTS, web, has_rolled_out)
    await annotate("new")
    await until(
        stage.client,
        REPLICA_SETS,
        stage.namespace,
        lambda found: (
            sorted(each["metadata"]["annotations"].get(note) for each in found.values()) == ["new", "old"]
        ),
    )
    await cluster.kubectl("-n", stage.namespace, "rollout", "undo", "deployment/web")
    undone = await stage.client.get(DEPLOYMENTS, web)
    assert undone["metadata"]["annotations"][note] == "old", "stale, and nothing tells"
