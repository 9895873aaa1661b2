"""Several migrations, several controllers, manual migrations, and the removal of finished ones."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from rescheduler.api.podmigration import MigrationPhase
from rescheduler.api.well_known_names import FINALIZER
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube.api_resources import EVENTS, Object, merge_patch
from rescheduler.migrations import labels_and_names
from tests.stories.migrations.moves import MakeMoves, Moves
from tests.stories.observer import observing
from tests.stories.sandbox import node_of
from tests.stories.waiting import until, until_gone


async def test_two_controllers_at_once_move_each_pod_once(make_moves: MakeMoves) -> None:
    moves = await make_moves()
    await moves.sandbox.deployment(3)
    await moves.sandbox.budget(maxUnavailable=0)
    sources = await moves.sandbox.pods()
    target = await moves.sandbox.free_node()
    # Slower than the adoption: else the ReplicaSet may keep its own replacement.
    moves.sandbox.behave({"startup": "1s", "termination": "0s"})
    async with observing(moves.client, moves.sandbox.namespace) as seen:
        keys = [await moves.create_migration(source, target) for source in sources]
        async with moves.executing(max_concurrent_per_node=9), moves.executing(max_concurrent_per_node=9):
            finished = await asyncio.gather(*(moves.until_finished(key, timeout_s=240) for key in keys))
            await moves.until_nothing_left()
        pods = await moves.sandbox.until_ready(3)
    assert [each.status.phase for each in finished] == [MigrationPhase.COMPLETED] * 3
    assert min(seen.ready) == 3
    assert {node_of(pod) for pod in pods} == {target}
    assert [each.status.attempts for each in finished] == [1, 1, 1]


async def test_one_pod_is_moved_by_one_migration_only(make_moves: MakeMoves) -> None:
    moves = await make_moves(nodes=2)
    await moves.sandbox.deployment(1)
    (source,) = await moves.sandbox.pods()
    target = await moves.sandbox.free_node()
    keys = [await moves.create_migration(source, target) for _ in range(2)]
    async with moves.executing(max_concurrent_per_workload=2):
        finished = await asyncio.gather(*(moves.until_finished(key) for key in keys))
        await moves.until_nothing_left()
    assert sorted(each.status.phase for each in finished) == [MigrationPhase.COMPLETED, MigrationPhase.FAILED]
    (failed,) = [each for each in finished if each.status.phase is MigrationPhase.FAILED]
    assert failed.status.failure in {"Locked", "SourceGone"}
    await moves.sandbox.until_ready(1)


async def test_a_manual_migration_has_a_finalizer_until_it_ends(make_moves: MakeMoves) -> None:
    moves = await make_moves(nodes=2)
    await moves.sandbox.deployment(1)
    (source,) = await moves.sandbox.pods()
    moves.sandbox.behave({"startup": "2s", "termination": "0s"})
    key = await moves.create_migration(source, await moves.sandbox.free_node(), held=False)
    async with moves.executing():
        await moves.copy_of(key)
        under_way = await moves.until(key, lambda migration: migration.status.step)
        assert under_way.finalizers == (FINALIZER,)
        assert (await moves.until_finished(key)).status.phase is MigrationPhase.COMPLETED


async def test_what_is_finished_is_forgotten_after_a_while(make_moves: MakeMoves) -> None:
    moves = await make_moves(nodes=2)
    await moves.sandbox.deployment(1)
    (source,) = await moves.sandbox.pods()
    key = await moves.create_migration(source, await moves.sandbox.free_node())
    async with moves.executing(migration_ttl=timedelta(seconds=3)):
        await moves.until_finished(key)
        await until_gone(moves.client, POD_MIGRATIONS, key)
    assert len(await moves.sandbox.until_ready(1)) == 1, "the moved pod outlives its migration"


async def test_earlier_migration_of_the_same_name(make_moves: MakeMoves) -> None:
    """The pod that it moved is not taken for a copy."""
    moves = await make_moves(nodes=3, migration_timeout=timedelta(seconds=3), max_retries=0)
    sandbox = moves.sandbox
    await sandbox.deployment(2)
    first, second = await sandbox.pods()
    moved = await moves.move(first, await sandbox.free_node())
    await moves.client.delete(POD_MIGRATIONS, moved.key)
    before = await sandbox.until_ready(2)
    moves.created = 0
    sandbox.behave({"match": {"node": node_of(first)}, "readiness": "never", "startup": "0s"})
    again = await moves.move(second, node_of(first))
    assert again.name == moved.name
    assert again.status.failure == "TimedOut"
    after = await sandbox.until_ready(2)
    assert {pod["metadata"]["uid"] for pod in after} == {pod["metadata"]["uid"] for pod in before}


@pytest.mark.parametrize("is_bare", [False, True], ids=["of a Deployment", "bare, and moved before"])
async def test_a_migration_removed_by_force_leaves_no_lock_behind_on_a_pod(
    make_moves: MakeMoves, is_bare: bool
) -> None:
    moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    if is_bare:
        first = await sandbox.until_pod_ready(await sandbox.pod("web"))
        await moves.move(first, next(node for node in sandbox.nodes if node != node_of(first)))
    else:
        await sandbox.deployment(1)
    (source,) = await sandbox.until_ready(1)
    sandbox.behave({"startup": "10m", "termination": "0s"})
    key = await moves.create_migration(source, await sandbox.free_node(), held=False)
    async with moves.executing():
        await moves.copy_of(key, node_of)
        # Whatever the controller writes at the same time.
        await moves.client.patch(POD_MIGRATIONS, key, merge_patch({"metadata": {"finalizers": None}}))
        await moves.client.delete(POD_MIGRATIONS, key)
        await moves.until_nothing_left()
        (after,) = await sandbox.until_ready(1)
    assert after["metadata"]["uid"] == source["metadata"]["uid"]
    labels = source["metadata"]["labels"].items()
    assert after["metadata"]["labels"] == {
        key: value for key, value in labels if key not in labels_and_names.LABELS
    }


async def test_events_are_written_on_migration_pod_workload_and_nodes(make_moves: MakeMoves) -> None:
    moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    (source,) = await sandbox.pods()
    target = await sandbox.free_node()
    key = await moves.create_migration(source, target, strategy="LoadBalancing", reason="85.0% to 45.0%")
    async with moves.executing():
        await moves.until_finished(key)
        events = await until(
            moves.client,
            EVENTS,
            sandbox.namespace,
            lambda seen: (
                [
                    (each["involvedObject"]["kind"], each["reason"])
                    for each in seen.values()
                    if each["source"].get("component") == "rescheduler"
                ]
                if sum(each["reason"] == "MigrationCompleted" for each in seen.values()) == 3
                else None
            ),
        )
    assert sorted(events) == [
        ("Deployment", "MigrationCompleted"),
        ("Deployment", "MigrationHandedOver"),
        ("Deployment", "MigrationStarted"),
        ("Pod", "MigrationCompleted"),
        ("Pod", "MigrationHandedOver"),
        ("Pod", "MigrationStarted"),
        ("PodMigration", "MigrationCompleted"),
        ("PodMigration", "MigrationHandedOver"),
        ("PodMigration", "MigrationStarted"),
    ]


async def declare_group(moves: Moves, *pods: Object) -> dict[str, Any]:
    """The pods say themselves that they belong together; what their migrations say of it."""
    label = {"metadata": {"labels": {moves.policy.pod_group_label: "ring"}}}
    for pod in pods:
        await moves.client.patch(PODS, moves.sandbox.key(pod["metadata"]["name"]), merge_patch(label))
    return {"group": "ring", "groupSize": len(pods)}


async def test_pods_of_one_group_are_handed_over_together(make_moves: MakeMoves) -> None:
    moves = await make_moves()
    sandbox = moves.sandbox
    await sandbox.deployment(2)
    first, second = await sandbox.pods()
    target = await sandbox.free_node()
    sandbox.behave({"startup": "2s", "termination": "0s"})
    group = await declare_group(moves, first, second)
    async with moves.executing():
        one = await moves.create_migration(first, target, **group)
        other = await moves.create_migration(second, target, **group)
        ends = await asyncio.gather(moves.until_finished(one), moves.until_finished(other))
    assert [end.status.phase for end in ends] == [MigrationPhase.COMPLETED] * 2
    starts = [end.status.started_at for end in ends]
    handed_over = [end.status.handed_over_at for end in ends]
    assert min(each for each in handed_over if each) > max(each for each in starts if each)
    await moves.until_nothing_left()


async def test_a_group_that_is_never_complete_touches_nothing_and_says_so(make_moves: MakeMoves) -> None:
    moves = await make_moves()
    await moves.sandbox.deployment(2)
    first, second = await moves.sandbox.pods()
    group = await declare_group(moves, first, second)
    async with moves.executing(migration_timeout=timedelta(seconds=3)):
        ended = await moves.until_finished(
            await moves.create_migration(first, await moves.sandbox.free_node(), **group)
        )
    assert (ended.status.failure, ended.status.started_at) == ("GroupIncomplete", None)
    assert "group ring has 1 of 2 members" in ended.status.message


async def test_the_name_of_a_group_does_not_bypass_the_limits(make_moves: MakeMoves) -> None:
    """Pods that don't declare the group count one by one; a pod that comes after its members is refused."""
    moves = await make_moves()
    sandbox = moves.sandbox
    await sandbox.deployment(3)
    pods = await sandbox.pods()
    target = await sandbox.free_node()
    by_hand = {"group": "by-hand", "groupSize": 2}
    async with moves.executing(max_concurrent_per_node=9):
        keys = [await moves.create_migration(pod, target, **by_hand) for pod in pods[:2]]
        ends = [await moves.until_finished(key) for key in keys]
        assert [(end.status.failure, end.status.started_at) for end in ends] == [("GroupTooLarge", None)] * 2
        assert "maxConcurrentPerWorkload allows 1" in ends[0].status.message
        late = await moves.until_finished(await moves.create_migration(pods[2], target, **by_hand))
    assert late.status.failure == "GroupFull"
    assert {pod["metadata"]["uid"] for pod in await sandbox.until_ready(3)} == {
        pod["metadata"]["uid"] for pod in pods
    }


async def test_if_one_of_a_group_fails_all_stay(make_moves: MakeMoves) -> None:
    moves = await make_moves()
    sandbox = moves.sandbox
    await sandbox.deployment(2)
    first, second = before = await sandbox.pods()
    target = await sandbox.free_node()
    await sandbox.cordon(node_of(first))
    group = await declare_group(moves, first, second)
    keys = [
        await moves.create_migration(first, target, **group),
        await moves.create_migration(second, node_of(first), **group),
    ]
    async with moves.executing(max_retries=0):
        ends = await asyncio.gather(*(moves.until_finished(key) for key in keys))
        await moves.until_nothing_left()
    assert [end.status.failure for end in ends] == ["PartnerFailed", "TargetDidNotFit"]
    assert {pod["metadata"]["uid"] for pod in await sandbox.until_ready(2)} == {
        pod["metadata"]["uid"] for pod in before
    }
