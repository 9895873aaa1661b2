"""Several migrations, several controllers, wishes made by hand, and what becomes of the history."""

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
from tests.stories.migrations.moving import Moves, SetMoves
from tests.stories.observer import observing
from tests.stories.stage import node_of
from tests.stories.waiting import until, until_gone


async def test_two_controllers_at_once_move_each_pod_once(set_moves: SetMoves) -> None:
    moves = await set_moves()
    await moves.stage.deployment(3)
    await moves.stage.budget(maxUnavailable=0)
    sources = await moves.stage.pods()
    target = await moves.stage.free_node()
    # Slower than the adoption: else the ReplicaSet may keep its own replacement.
    moves.stage.behave({"startup": "1s", "termination": "0s"})
    async with observing(moves.client, moves.stage.namespace) as seen:
        keys = [await moves.wish(source, target) for source in sources]
        async with moves.executing(max_concurrent_per_node=9), moves.executing(max_concurrent_per_node=9):
            finished = await asyncio.gather(*(moves.until_finished(key, timeout_s=240) for key in keys))
            await moves.until_nothing_left()
        pods = await moves.stage.until_ready(3)
    assert [each.status.phase for each in finished] == [MigrationPhase.COMPLETED] * 3
    assert min(seen.ready) == 3
    assert {node_of(pod) for pod in pods} == {target}
    assert [each.status.attempts for each in finished] == [1, 1, 1]


async def test_one_pod_is_moved_by_one_migration_only(set_moves: SetMoves) -> None:
    moves = await set_moves(nodes=2)
    await moves.stage.deployment(1)
    (source,) = await moves.stage.pods()
    target = await moves.stage.free_node()
    keys = [await moves.wish(source, target) for _ in range(2)]
    async with moves.executing(max_concurrent_per_workload=2):
        finished = await asyncio.gather(*(moves.until_finished(key) for key in keys))
        await moves.until_nothing_left()
    assert sorted(each.status.phase for each in finished) == [MigrationPhase.COMPLETED, MigrationPhase.FAILED]
    (failed,) = [each for each in finished if each.status.phase is MigrationPhase.FAILED]
    assert failed.status.failure in {"Locked", "SourceGone"}
    await moves.stage.until_ready(1)


async def test_a_wish_made_by_hand_is_held_until_it_is_over(set_moves: SetMoves) -> None:
    moves = await set_moves(nodes=2)
    await moves.stage.deployment(1)
    (source,) = await moves.stage.pods()
    moves.stage.behave({"startup": "2s", "termination": "0s"})
    key = await moves.wish(source, await moves.stage.free_node(), held=False)
    async with moves.executing():
        await moves.copy_of(key)
        under_way = await moves.until(key, lambda migration: migration.status.step)
        assert under_way.finalizers == (FINALIZER,)
        assert (await moves.until_finished(key)).status.phase is MigrationPhase.COMPLETED


async def test_what_is_finished_is_forgotten_after_a_while(set_moves: SetMoves) -> None:
    moves = await set_moves(nodes=2)
    await moves.stage.deployment(1)
    (source,) = await moves.stage.pods()
    key = await moves.wish(source, await moves.stage.free_node())
    async with moves.executing(migration_ttl=timedelta(seconds=3)):
        await moves.until_finished(key)
        await until_gone(moves.client, POD_MIGRATIONS, key)
    assert len(await moves.stage.until_ready(1)) == 1, "the moved pod outlives its migration"


async def test_earlier_migration_of_the_same_name(set_moves: SetMoves) -> None:
    """The pod that it moved is not taken for a copy."""
    moves = await set_moves(nodes=3, migration_timeout=timedelta(seconds=3), max_retries=0)
    stage = moves.stage
    await stage.deployment(2)
    first, second = await stage.pods()
    moved = await moves.move(first, await stage.free_node())
    await moves.client.delete(POD_MIGRATIONS, moved.key)
    before = await stage.until_ready(2)
    moves.wishes = 0
    stage.behave({"match": {"node": node_of(first)}, "readiness": "never", "startup": "0s"})
    again = await moves.move(second, node_of(first))
    assert again.name == moved.name
    assert again.status.failure == "TimedOut"
    after = await stage.until_ready(2)
    assert {pod["metadata"]["uid"] for pod in after} == {pod["metadata"]["uid"] for pod in before}


@pytest.mark.parametrize("is_bare", [False, True], ids=["of a Deployment", "of nobody, and moved before"])
async def test_a_migration_removed_by_force_leaves_no_lock_behind_on_a_pod(
    set_moves: SetMoves, is_bare: bool
) -> None:
    moves = await set_moves(nodes=2)
    stage = moves.stage
    if is_bare:
        first = await stage.until_pod_ready(await stage.pod("web"))
        await moves.move(first, next(node for node in stage.nodes if node != node_of(first)))
    else:
        await stage.deployment(1)
    (source,) = await stage.until_ready(1)
    stage.behave({"startup": "10m", "termination": "0s"})
    key = await moves.wish(source, await stage.free_node(), held=False)
    async with moves.executing():
        await moves.copy_of(key, node_of)
        # Whatever the controller writes at the same time.
        await moves.client.patch(POD_MIGRATIONS, key, merge_patch({"metadata": {"finalizers": None}}))
        await moves.client.delete(POD_MIGRATIONS, key)
        await moves.until_nothing_left()
        (after,) = await stage.until_ready(1)
    assert after["metadata"]["uid"] == source["metadata"]["uid"]
    labels = source["metadata"]["labels"].items()
    assert after["metadata"]["labels"] == {
        key: value for key, value in labels if key not in labels_and_names.LABELS
    }


async def test_events_tell_the_story_on_pod_workload_and_nodes(set_moves: SetMoves) -> None:
    moves = await set_moves(nodes=2)
    stage = moves.stage
    await stage.deployment(1)
    (source,) = await stage.pods()
    target = await stage.free_node()
    key = await moves.wish(source, target, strategy="LoadBalancing", reason="85.0% to 45.0%")
    async with moves.executing():
        await moves.until_finished(key)
        events = await until(
            moves.client,
            EVENTS,
            stage.namespace,
            lambda seen: (
                [
                    (each["involvedObject"]["kind"], each["reason"])
                    for each in seen.values()
                    if each["source"].get("component") == "rescheduler"
                ]
                if sum(each["reason"] == "MigrationCompleted" for each in seen.values()) == 2
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
    ]


async def declare_group(moves: Moves, *pods: Object) -> dict[str, Any]:
    """The pods say themselves that they belong together; what their migrations say of it."""
    label = {"metadata": {"labels": {moves.policy.pod_group_label: "ring"}}}
    for pod in pods:
        await moves.client.patch(PODS, moves.stage.key(pod["metadata"]["name"]), merge_patch(label))
    return {"group": "ring", "groupSize": len(pods)}


async def test_pods_of_one_group_are_handed_over_together(set_moves: SetMoves) -> None:
    moves = await set_moves()
    stage = moves.stage
    await stage.deployment(2)
    first, second = await stage.pods()
    target = await stage.free_node()
    stage.behave({"startup": "2s", "termination": "0s"})
    group = await declare_group(moves, first, second)
    async with moves.executing():
        one = await moves.wish(first, target, **group)
        other = await moves.wish(second, target, **group)
        ends = await asyncio.gather(moves.until_finished(one), moves.until_finished(other))
    assert [end.status.phase for end in ends] == [MigrationPhase.COMPLETED] * 2
    starts = [end.status.started_at for end in ends]
    handed_over = [end.status.handed_over_at for end in ends]
    assert min(each for each in handed_over if each) > max(each for each in starts if each)
    await moves.until_nothing_left()


async def test_a_group_that_is_never_complete_touches_nothing_and_says_so(set_moves: SetMoves) -> None:
    moves = await set_moves()
    await moves.stage.deployment(2)
    first, second = await moves.stage.pods()
    group = await declare_group(moves, first, second)
    async with moves.executing(migration_timeout=timedelta(seconds=3)):
        ended = await moves.until_finished(await moves.wish(first, await moves.stage.free_node(), **group))
    assert (ended.status.failure, ended.status.started_at) == ("GroupIncomplete", None)
    assert "group ring has 1 of 2 members" in ended.status.message


async def test_the_name_of_a_group_lets_nobody_past_the_limits(set_moves: SetMoves) -> None:
    """Pods that don't declare the group count one by one; whoever comes after its members is refused."""
    moves = await set_moves()
    stage = moves.stage
    await stage.deployment(3)
    pods = await stage.pods()
    target = await stage.free_node()
    by_hand = {"group": "by-hand", "groupSize": 2}
    async with moves.executing(max_concurrent_per_node=9):
        keys = [await moves.wish(pod, target, **by_hand) for pod in pods[:2]]
        ends = [await moves.until_finished(key) for key in keys]
        assert [(end.status.failure, end.status.started_at) for end in ends] == [("GroupTooLarge", None)] * 2
        assert "maxConcurrentPerWorkload allows 1" in ends[0].status.message
        late = await moves.until_finished(await moves.wish(pods[2], target, **by_hand))
    assert late.status.failure == "GroupFull"
    assert {pod["metadata"]["uid"] for pod in await stage.until_ready(3)} == {
        pod["metadata"]["uid"] for pod in pods
    }


async def test_if_one_of_a_group_fails_all_stay(set_moves: SetMoves) -> None:
    moves = await set_moves()
    stage = moves.stage
    await stage.deployment(2)
    first, second = before = await stage.pods()
    target = await stage.free_node()
    await stage.cordon(node_of(first))
    group = await declare_group(moves, first, second)
    keys = [await moves.wish(first, target, **group), await moves.wish(second, node_of(first), **group)]
    async with moves.executing(max_retries=0):
        ends = await asyncio.gather(*(moves.until_finished(key) for key in keys))
        await moves.until_nothing_left()
    assert [end.status.failure for end in ends] == ["PartnerFailed", "TargetDidNotFit"]
    assert {pod["metadata"]["uid"] for pod in await stage.until_ready(2)} == {
        pod["metadata"]["uid"] for pod in before
    }
