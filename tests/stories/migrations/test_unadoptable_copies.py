"""Copies that a ReplicaSet can't adopt: the source pod is not evicted, and nothing waits forever."""

from datetime import timedelta

import pytest

from rescheduler.api.podmigration import MigrationPhase
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube.api_resources import Object, merge_patch
from tests.stories.migrations.moves import MakeMoves, Moves
from tests.stories.objects import ready_since
from tests.stories.observer import observing


async def relabel(moves: Moves, copy: Object) -> None:
    labels = {"app": None, "was": "web"}
    await moves.client.patch(
        PODS, moves.sandbox.key(copy["metadata"]["name"]), merge_patch({"metadata": {"labels": labels}})
    )


@pytest.mark.parametrize("step", ["Settling", "Evicting"])
async def test_a_source_is_not_evicted_beside_a_copy_that_was_relabelled_at(
    step: str, make_moves: MakeMoves
) -> None:
    moves: Moves = await make_moves(nodes=2, settle_time=timedelta(seconds=5), max_retries=0)
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    guard = await sandbox.budget(minAvailable=5 if step == "Evicting" else 0)
    (source,) = await sandbox.pods()
    key = await moves.create_migration(source, await sandbox.free_node())
    async with observing(moves.client, sandbox.namespace) as seen, moves.executing():
        copy = await moves.copy_of(key, ready_since)
        if step == "Evicting":
            await moves.until(key, lambda migration: migration.status.step == step)
        await relabel(moves, copy)
        await moves.allow_all(guard)
        migration = await moves.until_finished(key)
        await moves.until_nothing_left()
    assert (migration.status.phase, migration.status.failure) == (MigrationPhase.FAILED, "CopyRelabelled")
    assert source["metadata"]["name"] not in seen.deleted
    assert [pod["metadata"]["uid"] for pod in await sandbox.pods()] == [source["metadata"]["uid"]]


@pytest.mark.parametrize("is_failed", [False, True], ids=["relabelled", "failed"])
async def test_once_the_source_is_evicted_the_copy_is(is_failed: bool, make_moves: MakeMoves) -> None:
    """and the process that moves it ended in between: the migration ends, and its slot is free."""
    moves: Moves = await make_moves(nodes=3, max_retries=0)
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    await sandbox.budget(minAvailable=5)
    (source,) = await sandbox.pods()
    key = await moves.create_migration(source, await sandbox.free_node())
    async with moves.executing():
        await moves.until(key, lambda migration: migration.status.step == "Evicting")
        copy = await moves.copy_of(key)
    name = copy["metadata"]["name"]
    if is_failed:
        failed = merge_patch({"status": {"phase": "Failed", "reason": "Evicted"}})
        await moves.client.patch(PODS.as_json.status, sandbox.key(name), failed)
    else:
        await relabel(moves, copy)
    # A delete by another client, which no budget prevents: at this step it counts like the eviction.
    await moves.client.delete(PODS, sandbox.key(source["metadata"]["name"]))
    async with moves.executing():
        migration = await moves.until_finished(key)
        await moves.until_nothing_left()
    assert (migration.status.phase, migration.status.failure) == (MigrationPhase.FAILED, "NotAdopted")
    assert name in migration.status.message
    assert await moves.client.get(POD_MIGRATIONS, key)
    # Its ReplicaSet has created another pod, and the copy has no owner.
    served = await moves.until_pods(
        lambda pods: [
            each
            for each in pods.values()
            if each["metadata"]["name"] not in {name, source["metadata"]["name"]}
        ]
    )
    assert len(served) == 1
