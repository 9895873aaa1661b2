"""A write that the API server refuses permanently ends the attempt with its reason, without a retry loop."""

import pytest

from rescheduler.api.podmigration import MigrationPhase
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import merge_patch
from rescheduler.kube.client import Client
from rescheduler.migrations import labels_and_names
from tests.stories.migrations.moves import MakeMoves, Moves
from tests.stories.sandbox import node_of

MOST_ANNOTATION_BYTES = 256 * 1024


async def test_annotations_leave_no_room_for_marks(make_moves: MakeMoves) -> None:
    """The pod stays where it is."""
    moves: Moves = await make_moves(nodes=2)
    note = {"note": "x" * (MOST_ANNOTATION_BYTES - 60)}
    source = await moves.sandbox.until_pod_ready(
        await moves.sandbox.pod("web", metadata={"annotations": note})
    )
    migration = await moves.move(source, await moves.sandbox.free_node())
    assert migration.status.phase is MigrationPhase.FAILED, migration.status
    assert migration.status.failure == "MarkRefused"
    assert migration.status.failure_is_final
    assert migration.status.attempts == 1
    assert "annotations" in migration.status.message
    after = await moves.client.get(PODS.as_json, moves.sandbox.key("web"))
    assert after["metadata"]["labels"] == source["metadata"]["labels"]
    assert after["metadata"]["annotations"] == source["metadata"]["annotations"]


@pytest.mark.parametrize("kind", ["pod", "deployment"])
async def test_annotations_that_a_tenant_fills_meanwhile_hold_up_no_turn(
    make_moves: MakeMoves, kind: str
) -> None:
    """Everyone who may change pods can leave no room for the annotations of the release. The migration ends
    all the same, or it would hold its turn forever."""
    moves: Moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    if kind == "pod":
        source = await sandbox.until_pod_ready(await sandbox.pod("web"))
    else:
        await sandbox.deployment(1)
        (source,) = await sandbox.until_ready(1)
    target = next(node for node in sandbox.nodes if node != node_of(source))
    await sandbox.budget(minAvailable="100%")  # the copy is ready, and the eviction waits
    key = await moves.create_migration(source, target)
    async with moves.executing():
        migration = await moves.until(key, lambda each: each.status.step == "Evicting")
        assert migration.status.target_pod is not None
        copy = sandbox.key(migration.status.target_pod.name)
        note = {"note": "x" * (MOST_ANNOTATION_BYTES - 4)}
        full = {"metadata": {"annotations": dict.fromkeys(labels_and_names.ANNOTATIONS) | note}}
        await moves.client.patch(PODS.as_json, copy, merge_patch(full))
        await moves.allow_all(sandbox.key("budget"))
        finished = await moves.until_finished(key, timeout_s=60.0)
    assert finished.status.phase is MigrationPhase.COMPLETED, finished.status
    left = await moves.client.get(PODS.as_json, copy)
    assert left["metadata"]["labels"][labels_and_names.STATUS_LABEL] == "completed"


async def test_labels_that_fill_a_running_migration_hold_no_turn(make_moves: MakeMoves) -> None:
    """Everyone who may change PodMigrations can leave no room for their status, up to the limit of etcd. Then
    its end could not be recorded, and it would hold its turn forever."""
    moves: Moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    (source,) = await sandbox.until_ready(1)
    await sandbox.budget(minAvailable=3)  # the copy is ready, and the eviction waits
    key = await moves.create_migration(source, await sandbox.free_node())
    async with moves.executing():
        await moves.until(key, lambda each: each.status.step == "Evicting")
        await _fill_with_labels(moves.client, key)
        await moves.allow_all(sandbox.key("budget"))
        finished = await moves.until_finished(key, timeout_s=60.0)
    assert finished.status.phase is MigrationPhase.COMPLETED, finished.status
    await moves.until_nothing_left()


async def _fill_with_labels(client: Client, key: str) -> None:
    """Add labels as long as the server takes them."""
    made, batch = 0, 2_048
    while batch:
        labels = {f"tenant.example/{number:05}-{'x' * 50}": "y" * 63 for number in range(made, made + batch)}
        try:
            await client.patch(POD_MIGRATIONS, key, merge_patch({"metadata": {"labels": labels}}))
        except errors.KubeError:
            batch //= 2
        else:
            made += batch
    assert made > 1_000
