"""How Deployments react to the ways of steering that the original design proposed."""

import pytest

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import DEPLOYMENTS, REPLICA_SETS, Object, json_patch, merge_patch
from tests.stories.facts import adopt
from tests.stories.fixtures import Cluster
from tests.stories.objects import prefers
from tests.stories.observer import observing
from tests.stories.sandbox import MakeSandbox, Sandbox, node_of
from tests.stories.waiting import until, until_gone, until_object

pytestmark = pytest.mark.full


def template_with(affinity: Object) -> Object:
    return {"spec": {"template": {"spec": {"affinity": affinity}}}}


async def replica_sets(sandbox: Sandbox) -> list[Object]:
    return (await sandbox.client.list(REPLICA_SETS, namespace=sandbox.namespace)).items


def has_rolled_out(deployment: Object) -> bool:
    status, replicas = deployment["status"], deployment["spec"]["replicas"]
    counts = {status.get(name) for name in ("replicas", "updatedReplicas", "availableReplicas")}
    return status.get("observedGeneration") == deployment["metadata"]["generation"] and counts == {replicas}


async def test_preference_in_a_deployment(make_sandbox: MakeSandbox) -> None:
    """It replaces every pod, and moves them all."""
    sandbox = await make_sandbox()
    await sandbox.deployment(3)
    before = {pod["metadata"]["uid"] for pod in await sandbox.pods()}
    target = sandbox.nodes[0]
    change = merge_patch(template_with(prefers(target)))
    await sandbox.client.patch(DEPLOYMENTS, sandbox.key("web"), change)
    await until_object(sandbox.client, DEPLOYMENTS, sandbox.key("web"), has_rolled_out)
    after = await sandbox.until_ready(3)
    assert before.isdisjoint(pod["metadata"]["uid"] for pod in after)
    assert {node_of(pod) for pod in after} == {target}
    assert len(await replica_sets(sandbox)) == 2


async def test_a_negative_weight_is_refused(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox(nodes=1)
    await sandbox.deployment(1)
    change = merge_patch(template_with(prefers(sandbox.nodes[0], weight=-50)))
    with pytest.raises(errors.Invalid) as refused:
        await sandbox.client.patch(DEPLOYMENTS, sandbox.key("web"), change)
    (cause,) = refused.value.causes
    assert cause.field.endswith("preferredDuringSchedulingIgnoredDuringExecution[0].weight")
    assert cause.message == "Invalid value: -50: must be in the range 1-100"


async def test_replica_set_edited_while_paused(make_sandbox: MakeSandbox) -> None:
    """Its template steers one replacement without a rollout."""
    sandbox = await make_sandbox()
    await sandbox.deployment(3)
    pods, target = await sandbox.pods(), await sandbox.free_node()
    (before,) = await replica_sets(sandbox)
    web, of_set = sandbox.key("web"), adopt.key(before)

    await sandbox.client.patch(DEPLOYMENTS, web, merge_patch({"spec": {"paused": True}}))
    await sandbox.client.patch(REPLICA_SETS, of_set, merge_patch(template_with(prefers(target))))
    await sandbox.client.delete(PODS, adopt.key(pods[0]))
    await until_gone(sandbox.client, PODS.as_json, adopt.key(pods[0]))
    replaced = await sandbox.until_ready(3)
    async with observing(sandbox.client, sandbox.namespace) as seen:
        await restore(sandbox, before)
        resumed = await sandbox.client.patch(DEPLOYMENTS, web, merge_patch({"spec": {"paused": None}}))
        generation = resumed["metadata"]["generation"]
        await until_object(
            sandbox.client,
            DEPLOYMENTS,
            web,
            lambda found: found["status"]["observedGeneration"] == generation,
        )
    kept = {pod["metadata"]["uid"] for pod in pods[1:]}
    (new,) = [pod for pod in replaced if pod["metadata"]["uid"] not in kept]
    assert node_of(new) == target
    assert seen.created == seen.deleted == []
    (after,) = await replica_sets(sandbox)
    assert after["spec"] == before["spec"]
    assert {pod["metadata"]["uid"] for pod in await sandbox.pods()} == kept | {new["metadata"]["uid"]}


async def restore(sandbox: Sandbox, before: Object) -> None:
    """Restore it exactly, in one step, whatever the controllers write meanwhile."""
    operation = {"op": "replace", "path": "/spec/template", "value": before["spec"]["template"]}
    await sandbox.client.patch(REPLICA_SETS, adopt.key(before), json_patch([operation]))


@pytest.mark.kubectl
async def test_annotations_after_a_rollback(make_sandbox: MakeSandbox, cluster: Cluster) -> None:
    """A Deployment's annotations are copied to its ReplicaSets, and come back with a rollback."""
    sandbox = await make_sandbox(nodes=1)
    await sandbox.deployment(1)
    web, note = sandbox.key("web"), "rescheduler.dev/record"

    async def annotate(value: str) -> None:
        change = {"metadata": {"annotations": {note: value}}}
        await sandbox.client.patch(DEPLOYMENTS, web, merge_patch(change))

    await annotate("old")
    await until(
        sandbox.client,
        REPLICA_SETS,
        sandbox.namespace,
        lambda found: [each["metadata"]["annotations"].get(note) for each in found.values()] == ["old"],
    )
    await sandbox.client.patch(DEPLOYMENTS, web, merge_patch(template_with(prefers(sandbox.nodes[0]))))
    await until_object(sandbox.client, DEPLOYMENTS, web, has_rolled_out)
    await annotate("new")
    await until(
        sandbox.client,
        REPLICA_SETS,
        sandbox.namespace,
        lambda found: (
            sorted(each["metadata"]["annotations"].get(note) for each in found.values()) == ["new", "old"]
        ),
    )
    await cluster.kubectl("-n", sandbox.namespace, "rollout", "undo", "deployment/web")
    undone = await sandbox.client.get(DEPLOYMENTS, web)
    assert undone["metadata"]["annotations"][note] == "old", "stale, and nothing tells"
