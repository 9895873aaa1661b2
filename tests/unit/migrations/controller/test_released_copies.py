"""The patch that offers and releases a copy after the eviction: refused, or too late because its ReplicaSet
has just been deleted."""

import asyncio
from datetime import timedelta

import pytest

from rescheduler.api.podmigration import ConditionType, MigrationPhase
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube.api_resources import REPLICA_SETS, merge_patch, strategic_patch
from rescheduler.migrations import labels_and_names
from tests.stories.migrations.test_crash import owner_kinds
from tests.stories.migrations.workloads import stateful_set
from tests.stories.objects import ready_since
from tests.stories.observer import observing
from tests.stories.sandbox import node_of
from tests.stories.waiting import until_gone
from tests.unit.migrations.controller.test_live_reads import StaleWatch
from tests.unit.migrations.controller.test_refused_writes import refusal


def is_of_pod(method, target):
    return method == "PATCH" and "/pods/" in target


@pytest.mark.parametrize("code", [403, 422])
@pytest.mark.parametrize("times", [1, 2])
async def test_a_copy_is_adopted_although_a_policy_refuses(make_moves, connect, server, code, times):
    """What it refuses first are annotations and labels: the ReplicaSet must not wait for them."""
    moves = await make_moves(nodes=3)
    sandbox = moves.sandbox
    await sandbox.deployment(2)
    await sandbox.budget(maxUnavailable=0)
    source = (await sandbox.pods())[0]
    node = await sandbox.free_node()
    refused = []

    async def refusing(method, target, headers, body):
        if is_of_pod(method, target) and b"completed" in body and len(refused) < times:
            refused.append(body)
            return await refusal(server, code)
        return await server.handle(method, target, headers, body)

    key = await moves.create_migration(source, node)
    async with observing(moves.client, sandbox.namespace) as seen, moves.executing(connect(refusing)):
        migration = await moves.until_finished(key)
        await moves.until_nothing_left()
    assert len(refused) == times
    assert migration.status.phase is MigrationPhase.COMPLETED
    assert min(seen.ready) == 2
    assert node in {node_of(pod) for pod in await sandbox.until_ready(2)}


def refuses_nothing(_body):
    return False


def refuses_completed(body):
    return b"completed" in body


def refuses_labels_of_pods_that_run(body):
    return b'"labels"' in body and b"in-progress" not in body


@pytest.mark.parametrize("code", [403, 422])
@pytest.mark.parametrize("refuses", [refuses_completed, refuses_labels_of_pods_that_run])
@pytest.mark.parametrize("kind", ["Deployment", "Pod", "StatefulSet"])
async def test_a_policy_that_refuses_the_labels_for_good_holds_no_turn(
    make_moves, connect, server, kind, refuses, code
):
    moves = await make_moves(nodes=3)
    sandbox = moves.sandbox
    source = await source_of_kind(sandbox, kind)
    refused = []

    async def refusing(method, target, headers, body):
        if is_of_pod(method, target) and refuses(body):
            refused.append(body)
            return await refusal(server, code)
        return await server.handle(method, target, headers, body)

    node = await sandbox.free_node()
    await sandbox.cordon(*(each for each in sandbox.nodes if each != node))
    key = await moves.create_migration(source, node)
    async with moves.executing(connect(refusing)):
        migration = await moves.until_finished(key)
        await asyncio.sleep(600)
    assert migration.status.phase is MigrationPhase.COMPLETED
    assert "not today" in migration.status.message
    marked = migration.status.condition(ConditionType.MARKED)
    assert (marked.status, marked.reason) == ("False", "MarkRefused")
    assert len(refused) <= 5
    (pod,) = await sandbox.until_ready(1)
    if refuses is refuses_completed:
        assert labels_and_names.MIGRATION_ID_LABEL not in pod["metadata"]["labels"]
        assert await moves.leftovers() == []


@pytest.mark.parametrize("refuses", [refuses_nothing, refuses_completed])
async def test_a_copy_that_is_adopted_while_no_process_runs(make_moves, connect, server, refuses):
    """A deletion in the foreground removes its reference to the migration, and no status names the copy. It
    keeps no labels of a running move."""
    moves = await make_moves(nodes=3, settle_time=timedelta(minutes=5))
    await moves.sandbox.deployment(1)
    (source,) = await moves.sandbox.until_ready(1)

    async def refusing(method, target, headers, body):
        if is_of_pod(method, target) and refuses(body):
            return await refusal(server, 422)
        return await server.handle(method, target, headers, body)

    key = await moves.create_migration(source, await moves.sandbox.free_node())
    async with moves.executing(connect(refusing)):
        await moves.copy_of(key, ready_since)
    expendable = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}}
    await moves.client.patch(PODS, f"moves/{source['metadata']['name']}", merge_patch(expendable))
    await moves.client.delete(POD_MIGRATIONS, key, propagation="Foreground")
    await moves.copy_of(key, lambda pod: owner_kinds(pod) == ["ReplicaSet"])
    async with moves.executing(connect(refusing)):
        await until_gone(moves.client, POD_MIGRATIONS, key)
        await moves.until_served(1)
        assert await moves.leftovers() == []


async def source_of_kind(sandbox, kind):
    if kind == "Pod":
        return await sandbox.until_pod_ready(await sandbox.pod("web"))
    await (sandbox.deployment(1) if kind == "Deployment" else stateful_set(sandbox, 1))
    (source,) = await sandbox.until_ready(1)
    return source


@pytest.mark.parametrize(
    ("propagation", "stays"),
    [
        pytest.param("Background", False, id="with its pods"),
        pytest.param("Orphan", True, id="without its pods"),
    ],
)
async def test_a_replica_set_deleted_right_after_the_eviction(
    make_moves, connect, server, propagation, stays
):
    """No watch has reported that when the copy is released, but the garbage collector knows it.

    The copy must keep an owner: our own admission policy lets no owner be added to a pod that is no copy.
    """
    moves = await make_moves(nodes=3)
    sandbox = moves.sandbox
    await sandbox.replica_set(2)
    source = (await sandbox.pods())[0]
    way, refused = StaleWatch(server, "replicasets"), []

    async def behind(method, target, headers, body):
        if is_of_pod(method, target) and b'"kind":"ReplicaSet"' in body:
            path = target.partition("?")[0].split("/")
            pod = await moves.client.get(PODS.as_json, f"{path[-3]}/{path[-1]}")
            if "PodMigration" not in owner_kinds(pod):
                refused.append(body)
                return await refusal(server, 403)
        answer = await way(method, target, headers, body)
        if target.endswith("/eviction") and way.is_current.is_set():
            way.is_current.clear()
            await moves.client.delete(REPLICA_SETS, sandbox.key("web"), propagation=propagation)
            await until_gone(moves.client, REPLICA_SETS, sandbox.key("web"))
            await moves.copy_of(key, lambda pod: owner_kinds(pod) == ["PodMigration"])
        return answer

    key = await moves.create_migration(source, await sandbox.free_node())
    async with moves.executing(connect(behind)):
        await asyncio.sleep(20)
        way.is_current.set()
        migration = await moves.until_finished(key)
        await moves.until_nothing_left()
        copy = migration.status.target_pod
        await moves.until_pods(lambda pods: copy.name in pods if stays else not pods)
    assert not refused


async def test_a_copy_that_no_longer_names_its_replica_set_is_adopted(make_moves):
    moves = await make_moves(nodes=3)
    sandbox = moves.sandbox
    await sandbox.replica_set(2)
    source = (await sandbox.pods())[0]
    (owner,) = source["metadata"]["ownerReferences"]
    sandbox.behave({"startup": "5s", "termination": "0s"})
    node = await sandbox.free_node()
    key = await moves.create_migration(source, node)
    async with observing(moves.client, sandbox.namespace) as seen, moves.executing():
        copy = await moves.copy_of(key)
        gone = [{"$patch": "delete", "uid": owner["uid"]}]
        name = sandbox.key(copy["metadata"]["name"])
        await moves.client.patch(PODS, name, strategic_patch({"metadata": {"ownerReferences": gone}}))
        migration = await moves.until_finished(key)
        await moves.until_nothing_left()
    assert migration.status.phase is MigrationPhase.COMPLETED
    assert min(seen.ready) == 2
    after = await moves.client.get(PODS.as_json, name)
    assert (node_of(after), owner_kinds(after)) == (node, ["ReplicaSet"])
