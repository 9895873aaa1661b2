"""The leader continues a two-hop move, even if another process made the plan."""

import asyncio
from dataclasses import replace

import pytest

from rescheduler.api.podmigration import Handover, MigrationPhase
from rescheduler.api.well_known_names import NEXT_HOP_ANNOTATION
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS, WatchedObjects
from rescheduler.config.move_limits import MovesPerHour
from rescheduler.migrations.controller.plan_execution import PlanExecution, podmigration_for
from rescheduler.planner.plan import Move, Plan
from tests.stories.sandbox import node_of

MINUTE_S = 60


@pytest.fixture
async def two_hops(make_moves, client, server):
    """A pod before its first hop; only the annotation of the PodMigration names the second."""
    moves = await make_moves(3)
    await moves.sandbox.deployment(1)
    (pod,) = await moves.sandbox.pods()
    stop, end = (node for node in moves.sandbox.nodes if node != node_of(pod))
    move = Move(
        pod=moves.sandbox.key(pod["metadata"]["name"]),
        uid=pod["metadata"]["uid"],
        source=node_of(pod),
        target=stop,
        strategy="LoadBalancing",
        handover=Handover.ADOPT,
        reason="cpu: source 85.0%, target 45.0%",
        gain=0.0,
        hop=True,
    )
    moves.move, moves.asked_s = move, server.clock.now().timestamp()
    item = podmigration_for(move, moves.asked_s, next_hop=end)
    assert item["metadata"]["annotations"] == {NEXT_HOP_ANNOTATION: end}
    await client.create(POD_MIGRATIONS, item)
    moves.first_hop, moves.end = moves.sandbox.key(item["metadata"]["name"]), end
    return moves


def both_are_over(migrations):
    async def are_over():
        return [each.is_finished for each in await migrations()] == [True, True]

    return are_over


async def test_the_planner_and_the_leader_create_one_podmigration(two_hops, start, migrations, connect):
    """A command that only asks and follows, while the daemon that executes is restarted."""
    move = two_hops.move
    further = replace(move, source=move.target, target=two_hops.end, wave=1, hop=False)
    client = connect()
    watched = WatchedObjects(client)
    async with watched.running():
        await start(enabled_strategies=())
        run = PlanExecution(client, watched, Plan(taken_at_s=two_hops.asked_s, moves=(move, further)))
        await run.run()
    assert [progress.is_completed for progress in run.moves] == [True, True], run.moves
    assert len(await migrations()) == 2


@pytest.mark.parametrize("leader_died", ["before the stop was reached", "at the stop"])
async def test_the_next_leader_takes_it_on(two_hops, start, migrations, eventually, leader_died):
    if leader_died == "at the stop":
        async with two_hops.executing():
            await two_hops.until_finished(two_hops.first_hop)
    await start(enabled_strategies=())
    await eventually(both_are_over(migrations))
    assert {each.status.phase for each in await migrations()} == {MigrationPhase.COMPLETED}
    (pod,) = await two_hops.sandbox.until_ready(1)
    assert node_of(pod) == two_hops.end
    await two_hops.until_nothing_left()


async def test_moves_per_hour_do_not_leave_a_pod_at_its_stop(two_hops, start, migrations, eventually):
    """The plan has counted both steps; what has started since must not keep it from the second."""
    await start(enabled_strategies=(), max_moves_per_hour=MovesPerHour(per_workload=1))
    await eventually(both_are_over(migrations), timeout_s=3 * MINUTE_S)
    assert {each.status.phase for each in await migrations()} == {MigrationPhase.COMPLETED}


async def test_what_was_taken_on_already_is_not_taken_on_again(two_hops, start, migrations, eventually):
    first = await start("first", enabled_strategies=())

    async def both_are_asked_for():
        return len(await migrations()) == 2

    await eventually(both_are_asked_for)
    await first.kill()
    await start("second", enabled_strategies=())
    await eventually(both_are_over(migrations))
    assert [each.status.phase for each in await migrations()] == [MigrationPhase.COMPLETED] * 2


async def test_what_has_stopped_long_ago_is_planned_again_like_any_other_pod(two_hops, start, migrations):
    async with two_hops.executing():
        await two_hops.until_finished(two_hops.first_hop)
    await asyncio.sleep(11 * MINUTE_S)
    running = await start(enabled_strategies=())
    await running.until_checked(3)
    assert len(await migrations()) == 1


async def test_a_dry_run_continues_no_second_hop(two_hops, start, migrations):
    """It cancels the first hop, which waits for its turn."""
    running = await start(enabled_strategies=(), dry_run=True)
    await running.until_checked(3)
    assert await migrations() == []
    assert not [
        target for verb, target in running.line.writes if verb == "POST" and "/podmigrations" in target
    ]
