"""Recent changes by other clients count, even if no watch has reported them yet."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from rescheduler.api.podmigration import ControllerReference, MigrationPhase, PodReference, decode_migration
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS, WatchedObjects
from rescheduler.kube.api_resources import POD_DISRUPTION_BUDGETS, REPLICA_SETS, merge_patch
from rescheduler.migrations import effects, labels_and_names
from rescheduler.migrations.controller.effect_performer import EffectPerformer
from rescheduler.migrations.controller.observation_builder import observe
from tests.stories.migrations.test_crash import evicted_and_crashed
from tests.stories.migrations.workloads import stateful_set
from tests.stories.objects import ready_since
from tests.stories.sandbox import node_of
from tests.stories.waiting import until_gone


class StaleWatch:
    """A transport on which watches of one kind send nothing while `is_current` is cleared."""

    def __init__(self, server, kind="pods"):
        self._server = server
        self._kind = kind
        self.is_current = asyncio.Event()
        self.is_current.set()

    async def __call__(self, method, target, headers, body):
        answer = await self._server.handle(method, target, headers, body)
        if "watch=true" in target and f"/{self._kind}?" in target:
            return answer._replace(chunks=self._held_back(answer.chunks))
        return answer

    async def _held_back(self, chunks):
        async for chunk in chunks:
            await self.is_current.wait()
            yield chunk


async def test_no_source_is_evicted_beside_a_copy_that_just_became_unready(make_moves, connect, server):
    moves = await make_moves(nodes=2, settle_time=timedelta(seconds=5))
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    (source,) = await sandbox.pods()
    target = await sandbox.free_node()
    way = StaleWatch(server)
    key = await moves.create_migration(source, target)
    async with moves.executing(connect(way)):
        await moves.copy_of(key, ready_since)
        await asyncio.sleep(1)
        way.is_current.clear()
        sandbox.behave({"match": {"node": target}, "readiness": "never", "startup": "0s"})
        await moves.copy_of(key, lambda pod: not ready_since(pod))
        await asyncio.sleep(10)
        assert source["metadata"]["uid"] in {pod["metadata"]["uid"] for pod in await sandbox.pods()}
        way.is_current.set()
        sandbox.behave()
        assert (await moves.until_finished(key)).status.phase is MigrationPhase.COMPLETED


async def test_a_pod_that_has_just_changed_is_read_again(make_moves, connect, server):
    moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    (source,) = await sandbox.pods()
    target = await sandbox.free_node()
    way = StaleWatch(server)
    async with moves.executing(connect(way)):
        way.is_current.clear()
        changed = merge_patch({"metadata": {"labels": {"changed": "since"}}})
        await moves.client.patch(PODS, sandbox.key(source["metadata"]["name"]), changed)
        key = await moves.create_migration(source, target)
        await moves.copy_of(key)
        way.is_current.set()
        assert (await moves.until_finished(key)).status.phase is MigrationPhase.COMPLETED


async def test_a_source_that_has_just_changed_costs_its_budget_no_disruption(make_moves, connect, server):
    """The server refuses an eviction that names an older version, but counts it for two minutes."""
    moves = await make_moves(nodes=2, settle_time=timedelta(seconds=5))
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    await sandbox.budget(maxUnavailable=0)
    (source,) = await sandbox.pods()
    way = StaleWatch(server)
    key = await moves.create_migration(source, await sandbox.free_node())
    async with moves.executing(connect(way)):
        await moves.copy_of(key, ready_since)
        await asyncio.sleep(1)
        way.is_current.clear()
        changed = merge_patch({"metadata": {"annotations": {"changed": "since"}}})
        await moves.client.patch(PODS, sandbox.key(source["metadata"]["name"]), changed)
        migration = await moves.until(key, lambda seen: seen.status.handed_over_at, timeout_s=30)
        way.is_current.set()
        await moves.until_finished(key)
    assert migration.status.attempts == 1


async def test_no_eviction_is_given_up_before_its_source_is_read(make_moves, connect, server):
    """Its target node is lost while it is read; and another process has just released the lock."""
    moves = await make_moves(nodes=2, settle_time=timedelta(seconds=5), max_retries=0)
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    (source,) = await sandbox.pods()
    path, target = f"/pods/{source['metadata']['name']}", await sandbox.free_node()
    calls = []

    async def interfered(method, called, headers, body):
        if method == "GET" and called.endswith(f"/nodes/{target}") and "lost" not in calls:
            await moves.client.delete(NODES, target)
            without = merge_patch({"metadata": {"labels": dict.fromkeys(labels_and_names.LABELS)}})
            await moves.client.patch(PODS, sandbox.key(source["metadata"]["name"]), without)
            await asyncio.sleep(0.5)  # in virtual time: the caches know it, too
            calls.append("lost")
        if method == "GET" and called.endswith(path):
            calls.append("source read")
        if method == "PUT" and b"RollingBack" in (body or b""):
            calls.append("rolled back")
        return await server.handle(method, called, headers, body)

    key = await moves.create_migration(source, target)
    async with moves.executing(connect(interfered)):
        migration = await moves.until_finished(key)
    assert migration.status.phase is MigrationPhase.FAILED
    assert "source read" in calls[: calls.index("rolled back")]
    assert [pod["metadata"]["uid"] for pod in await sandbox.pods()] == [source["metadata"]["uid"]]


@pytest.mark.parametrize("handover", ["Adopt", "Copy"])
@pytest.mark.parametrize("watch", ["late", "current"])
async def test_no_source_is_evicted_whose_target_was_replaced(make_moves, connect, server, watch, handover):
    """By another machine of the same name: its kubelet has not reported yet what has become of the copy."""
    moves = await make_moves(nodes=2, settle_time=timedelta(seconds=12), max_retries=0)
    sandbox = moves.sandbox
    if handover == "Adopt":
        await sandbox.deployment(1)
        (source,) = await sandbox.pods()
    else:
        source = await sandbox.until_pod_ready(await sandbox.pod("web"))
    target = await sandbox.free_node()
    way = StaleWatch(server, "nodes")
    key = await moves.create_migration(source, target)
    async with moves.executing(connect(way)):
        await moves.copy_of(key, ready_since)
        await asyncio.sleep(3)
        if watch == "late":
            way.is_current.clear()
        await replace_node(moves, target)
        ended = await moves.until_finished(key)
        way.is_current.set()
    assert (ended.status.phase, ended.status.failure) == (MigrationPhase.FAILED, "TargetLost")
    assert source["metadata"]["uid"] in {pod["metadata"]["uid"] for pod in await sandbox.pods()}


async def replace_node(moves, name):
    before = await moves.client.get(NODES.as_json, name)
    await moves.client.delete(NODES, name)
    kept = {key: before["metadata"].get(key) for key in ("name", "labels", "annotations")}
    made = {"apiVersion": "v1", "kind": "Node", "metadata": kept, "spec": {}, "status": before["status"]}
    await moves.client.create(NODES.as_json, made)


async def background(moves, replica_set):
    await moves.client.delete(REPLICA_SETS, replica_set, propagation="Background")


async def orphaning(moves, replica_set):
    await moves.client.delete(REPLICA_SETS, replica_set, propagation="Orphan")


async def scaled_to_zero(moves, replica_set):
    await moves.client.patch(REPLICA_SETS, replica_set, merge_patch({"spec": {"replicas": 0}}))


async def annotated(moves, replica_set):
    template = {"metadata": {"annotations": {"changed": "since"}}}
    await moves.client.patch(REPLICA_SETS, replica_set, merge_patch({"spec": {"template": template}}))


@pytest.mark.parametrize(
    ("change", "left"),
    [
        pytest.param(background, 0, id="deleted"),
        pytest.param(orphaning, 2, id="deleted without its pods"),
        pytest.param(scaled_to_zero, 0, id="scaled to zero"),
        pytest.param(annotated, 2, id="given another template"),
    ],
)
async def test_a_copy_of_a_replica_set_that_has_just_been(make_moves, connect, server, change, left):
    """No copy is left, and no pod is missing, however late the watch of ReplicaSets reports it."""
    moves = await make_moves(nodes=3, settle_time=timedelta(seconds=5), max_retries=0)
    sandbox = moves.sandbox
    await sandbox.replica_set(2)
    source = (await sandbox.pods())[0]
    sandbox.behave({"startup": "1s", "termination": "0s"})
    way, made = StaleWatch(server, "replicasets"), []

    async def changed_before_the_copy(method, target, headers, body):
        if method == "POST" and target.partition("?")[0].endswith("/pods"):
            made.append(target)
            way.is_current.clear()
            await change(moves, sandbox.key("web"))
        return await way(method, target, headers, body)

    key = await moves.create_migration(source, await sandbox.free_node())
    async with moves.executing(connect(changed_before_the_copy)):
        await asyncio.sleep(20)
        assert made
        way.is_current.set()
        await moves.until_finished(key)
        await moves.until_nothing_left()
        await moves.until_served(left)


async def test_labels_of_a_migration_that_was_not_observed_yet_are_left_alone(make_moves, connect, server):
    moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    (source,) = await sandbox.pods()
    sandbox.behave({"startup": "5s", "termination": "0s"})
    way = StaleWatch(server, "podmigrations")
    async with moves.executing(connect(way)), moves.executing():
        way.is_current.clear()
        key = await moves.create_migration(source, await sandbox.free_node())
        migration = await moves.until_finished(key)
        way.is_current.set()
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert migration.status.attempts == 1


async def test_a_replacement_that_has_found_a_place_after_all_is_left_alone(make_moves, connect):
    """It could not be steered for so long that it is to be created again; and in this moment it is bound."""
    moves = await make_moves(nodes=1)
    sandbox = moves.sandbox
    bound = await sandbox.until_pod_ready(await sandbox.pod("web"))
    key = await moves.create_migration(bound, "elsewhere")
    client = connect()
    seen = WatchedObjects(client)
    observation = observe(
        decode_migration(await client.get(POD_MIGRATIONS, key)), seen, moves.policy, moves.now()
    )
    replacement = PodReference("web", bound["metadata"]["uid"])
    await EffectPerformer(client, seen).perform(observation, effects.DeleteReplacement(replacement))
    assert [pod["metadata"]["uid"] for pod in await sandbox.pods()] == [bound["metadata"]["uid"]]


async def test_a_budget_that_has_just_been_created_is_the_only_one(make_moves, connect, server):
    """A second one would keep its pods from being evicted at all."""
    moves = await make_moves(nodes=4)
    sandbox = moves.sandbox
    await stateful_set(sandbox, 3)
    source = (await sandbox.pods())[-1]
    target = await sandbox.free_node()
    await sandbox.cordon(*(node for node in sandbox.nodes if node != target))
    way = StaleWatch(server, "poddisruptionbudgets")
    async with moves.executing(connect(way)):
        way.is_current.clear()
        await sandbox.budget(maxUnavailable=1)
        key = await moves.create_migration(source, target)
        await moves.until(key, lambda migration: migration.status.handed_over_at)
        budgets = await moves.client.list(POD_DISRUPTION_BUDGETS, namespace=sandbox.namespace)
        assert [each["metadata"]["name"] for each in budgets.items] == ["budget"]
        way.is_current.set()
        assert (await moves.until_finished(key)).status.phase is MigrationPhase.COMPLETED


async def test_only_an_unchanged_pod_is_locked(make_moves, connect):
    """Two that see it free at the same time can't both have it."""
    moves = await make_moves(nodes=1)
    sandbox = moves.sandbox
    free = await sandbox.until_pod_ready(await sandbox.pod("web"))
    key = await moves.create_migration(free, "elsewhere")
    client = connect()
    seen = WatchedObjects(client)
    known = seen.learn_pod(free)
    observation = observe(
        decode_migration(await client.get(POD_MIGRATIONS, key)), seen, moves.policy, moves.now()
    )
    locked = merge_patch(
        {
            "metadata": {
                "labels": {
                    labels_and_names.MIGRATION_ID_LABEL: "other",
                    labels_and_names.STATUS_LABEL: "in-progress",
                }
            }
        }
    )
    await moves.client.patch(PODS, sandbox.key("web"), locked)
    lock = effects.LabelSource(PodReference(known.name, known.uid), known.resource_version)
    await EffectPerformer(client, seen).perform(observation, lock)
    (after,) = await sandbox.pods()
    assert after["metadata"]["labels"][labels_and_names.MIGRATION_ID_LABEL] == "other"
    assert seen.pods.get(known.key).labels[labels_and_names.MIGRATION_ID_LABEL] == "other", (
        "and it is known at once"
    )


async def test_a_workload_that_was_created_again_under_the_same_name_is_another_one(make_moves, connect):
    moves = await make_moves(nodes=1)
    await moves.sandbox.replica_set(1)
    (pod,) = await moves.sandbox.pods()
    (owner,) = pod["metadata"]["ownerReferences"]
    key = await moves.create_migration(pod, "elsewhere")
    client = connect()
    seen = WatchedObjects(client)
    async with seen.running():
        migration = decode_migration(await client.get(POD_MIGRATIONS, key))
        for uid in (owner["uid"], "that-of-long-ago"):
            reference = ControllerReference(owner["apiVersion"], owner["kind"], owner["name"], uid)
            status = msgspec.structs.replace(migration.status, owner=reference)
            begun = msgspec.structs.replace(migration, status=status)
            observation = observe(begun, seen, moves.policy, moves.now())
            assert observation.owner_is_gone is (uid != owner["uid"])


async def test_what_another_controller_has_put_on_record_is_gone_by_at_once(make_moves, connect, server):
    """It has called the attempt off, just as we take the lock: then no copy is made any more."""
    moves = await make_moves(nodes=2)
    await moves.sandbox.deployment(1)
    (source,) = await moves.sandbox.pods()
    key = await moves.create_migration(source, await moves.sandbox.free_node())
    made = []

    async def interfered(method, target, headers, body):
        if method == "PATCH" and f"/pods/{source['metadata']['name']}" in target and not made:
            status = {"step": "RollingBack", "failure": "EvictionCancelled", "failureIsFinal": True}
            await moves.client.patch(POD_MIGRATIONS.status, key, merge_patch({"status": status}))
            # As long as it takes until the watch reports it.
            await asyncio.sleep(1)
        if method == "POST" and target.partition("?")[0].endswith("/pods"):
            made.append(target)
        return await server.handle(method, target, headers, body)

    async with moves.executing(connect(interfered)):
        migration = await moves.until_finished(key)
        await moves.until_nothing_left()
    assert migration.status.failure == "EvictionCancelled"
    assert made == []


async def test_a_rollback_does_not_end_before_a_copy_that_no_watch_has_reported(make_moves, connect, server):
    """Its creation was not answered, and the attempt is given up: nothing is left when the migration ends."""
    moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    (source,) = await sandbox.pods()
    way = StaleWatch(server)
    made = []

    async def unanswered(method, target, headers, body):
        answer = await way(method, target, headers, body)
        if method == "POST" and target.partition("?")[0].endswith("/pods"):
            made.append(target)
            status = {"step": "RollingBack", "failure": "TimedOut", "failureIsFinal": True}
            await moves.client.patch(POD_MIGRATIONS.status, key, merge_patch({"status": status}))
            raise ConnectionError("the answer was lost")
        return answer

    key = await moves.create_migration(source, await sandbox.free_node())
    async with moves.executing(connect(unanswered)):
        way.is_current.clear()
        migration = await moves.until_finished(key)
        left = await sandbox.pods()
        way.is_current.set()
        await moves.until_nothing_left()
    assert migration.status.phase is MigrationPhase.FAILED
    assert len(made) == 1
    assert [pod["metadata"]["uid"] for pod in left] == [source["metadata"]["uid"]]


@pytest.mark.parametrize("is_orphaned", [True, False], ids=["orphaned", "deleted"])
async def test_a_copy_is_given_up_only_if_no_sibling_was_left_behind(make_moves, connect, is_orphaned):
    """Asked of the server: what is known here is empty."""
    moves = await make_moves(nodes=3)
    sandbox = moves.sandbox
    await sandbox.replica_set(2)
    key = await evicted_and_crashed(moves)
    copy = await moves.copy_of(key)
    propagation = "Orphan" if is_orphaned else "Background"
    await moves.client.delete(REPLICA_SETS, sandbox.key("web"), propagation=propagation)
    await until_gone(moves.client, REPLICA_SETS, sandbox.key("web"))
    await moves.until_pods(lambda pods: is_orphaned or len(pods) == 1)
    client = connect()
    seen = WatchedObjects(client)
    seen.learn_pod(copy)
    migration = decode_migration(await client.get(POD_MIGRATIONS, key))
    observation = observe(migration, seen, moves.policy, moves.now())
    assert not observation.pods_are_orphaned, "nothing is known that says so"
    reference = PodReference(copy["metadata"]["name"], copy["metadata"]["uid"])
    await EffectPerformer(client, seen).perform(
        observation, effects.RestoreCopyOwner(reference, migration.status.owner)
    )
    if not is_orphaned:
        await moves.until_pods(lambda pods: not pods)
        return
    after = await client.get(PODS.as_json, sandbox.key(copy["metadata"]["name"]))
    assert [owner["kind"] for owner in after["metadata"]["ownerReferences"]] == ["PodMigration"]
    assert node_of(after) == node_of(copy)
