"""A write that the API server refuses permanently ends the attempt with its reason, without a retry loop."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from rescheduler.api.podmigration import MigrationPhase
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import Object, merge_patch
from rescheduler.kube.client import Client
from rescheduler.migrations import labels_and_names
from rescheduler.migrations.controller.migration_removal import cancel_all_migrations
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


FILLINGS: dict[str, Callable[[int], Object]] = {
    "labels": lambda size: {f"tenant.example/{each:05}-{'x' * 50}": "y" * 63 for each in range(size // 150)},
    "annotations": lambda size: {"note": "\x01" * (size // 6)},  # six bytes each in JSON
    "managedFields": lambda size: [
        {
            "manager": "tenant",
            "operation": "Apply",
            "apiVersion": POD_MIGRATIONS.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {f"f:{'x' * size}": {}}}},
        }
    ],
}
"""What every client may write into the metadata of an object, with about so many bytes."""

_LARGE_REQUESTS = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
"""Those of the tenant."""


@_LARGE_REQUESTS
@pytest.mark.parametrize(
    "field",
    # Only the real server removes managedFields by itself.
    [pytest.param(each, marks=() if each == "managedFields" else pytest.mark.full) for each in FILLINGS],
)
async def test_metadata_that_fills_a_running_migration_holds_no_turn(
    make_moves: MakeMoves, field: str
) -> None:
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
        await _fill(moves.client, key, field)
        await moves.allow_all(sandbox.key("budget"))
        finished = await moves.until_finished(key, timeout_s=60.0)
    assert finished.status.phase is MigrationPhase.COMPLETED, finished.status
    await moves.until_nothing_left()


@_LARGE_REQUESTS
@pytest.mark.full
async def test_a_migration_that_is_full_before_it_starts_is_carried_out(make_moves: MakeMoves) -> None:
    """It has no room for the finalizer that would hold it."""
    moves: Moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    (source,) = await sandbox.until_ready(1)
    key = await moves.create_migration(source, await sandbox.free_node(), held=False)
    await _fill(moves.client, key, "annotations")
    async with moves.executing():
        finished = await moves.until_finished(key, timeout_s=60.0)
    assert finished.status.phase is MigrationPhase.COMPLETED, finished.status
    await moves.until_nothing_left()


@_LARGE_REQUESTS
@pytest.mark.full
async def test_a_full_migration_can_be_cancelled(make_moves: MakeMoves) -> None:
    """`uninstall` cancels all migrations. A deletion that a finalizer holds writes its time, and one full
    PodMigration must not keep rescheduler installed."""
    moves: Moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    (source,) = await sandbox.until_ready(1)
    key = await moves.create_migration(source, await sandbox.free_node())
    async with moves.executing(settle_time=timedelta(hours=1)) as controller:
        await moves.copy_of(key)
        await _fill(moves.client, key, "managedFields")
        async with asyncio.timeout(60):
            await cancel_all_migrations(moves.client, controller.watched)
    await moves.until_nothing_left()


async def test_conditions_do_not_fill_a_migration(make_moves: MakeMoves) -> None:
    """Everything else that a PodMigration can hold, six bytes for each character, leaves room for them."""
    moves: Moves = await make_moves(nodes=2)
    source = await moves.sandbox.until_pod_ready(await moves.sandbox.pod("web"))
    key = await moves.create_migration(source, await moves.sandbox.free_node())
    condition = {"status": "True", "reason": "Mine", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    long = [condition | {"type": "Mine", "message": "\x01" * 30_000}]
    many = [condition | {"type": f"Mine-{number}", "message": ""} for number in range(100)]
    for conditions in (long, many):
        patch = merge_patch({"status": {"conditions": conditions}})
        with pytest.raises(errors.Invalid, match=r"status\.conditions"):
            await moves.client.patch(POD_MIGRATIONS.status, key, patch)


async def _fill(client: Client, key: str, field: str) -> None:
    """Write as much into the field as the server keeps. It drops managedFields of an object that is too
    large, instead of refusing the object."""

    async def is_kept(size: int) -> bool:
        patch = merge_patch({"metadata": {field: FILLINGS[field](size)}})
        try:
            return field in (await client.patch(POD_MIGRATIONS, key, patch))["metadata"]
        except (errors.TooLarge, errors.Invalid):
            return False

    size, step = 0, 1 << 20
    while step > 10:
        size += step if await is_kept(size + step) else 0
        step //= 2
    while not await is_kept(size):
        size -= 100  # the status has grown meanwhile
    assert size > 1 << 20
