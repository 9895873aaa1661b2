"""A pod that only stops on its way is taken on by whoever leads, also if another has made the plan."""

import asyncio
from dataclasses import replace

import pytest

from rescheduler.api.podmigration import Handover, MigrationPhase
from rescheduler.api.well_known_names import NEXT_HOP_ANNOTATION
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS, WatchedObjects
from rescheduler.migrations.controller.plan_execution import PlanExecution, podmigration_for
from rescheduler.planner.plan import Move, Plan
from tests.stories.sandbox import node_of

MINUTE_S = 60


@pytest.fixture
async def journey(make_moves, client, server):
    """A pod on its first leg, and nobody who knows of a second but by what is on record."""
    moves = await make_moves(3)
    await moves.sandbox.deployment(1)
    (pod,) = await moves.sandbox.pods()
    stop, end = (node for node in moves.sandbox.nodes if node != node_of(pod))
    leg = Move(
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
    moves.leg, moves.asked_s = leg, server.clock.now().timestamp()
    item = podmigration_for(leg, moves.asked_s, next_hop=end)
    assert item["metadata"]["annotations"] == {NEXT_HOP_ANNOTATION: end}
    await client.create(POD_MIGRATIONS, item)
    moves.first_hop, moves.end = moves.sandbox.key(item["metadata"]["name"]), end
    return moves


def both_are_over(migrations):
    async def are_over():
        return [each.is_finished for each in await migrations()] == [True, True]

    return are_over


async def test_who_has_made_the_plan_and_who_leads_now_ask_for_one_thing(journey, start, migrations, connect):
    """A command that only asks and follows, while the daemon that executes is restarted."""
    leg = journey.leg
    further = replace(leg, source=leg.target, target=journey.end, wave=1, hop=False)
    client = connect()
    watched = WatchedObjects(client)
    async with watched.running():
        await start(enabled_strategies=())
        run = PlanExecution(client, watched, Plan(taken_at_s=journey.asked_s, moves=(leg, further)))
        await run.run()
    assert [errand.is_completed for errand in run.moves] == [True, True], run.moves
    assert len(await migrations()) == 2


@pytest.mark.parametrize("leader_died", ["before the stop was reached", "at the stop"])
async def test_the_next_leader_takes_it_on(journey, start, migrations, eventually, leader_died):
    if leader_died == "at the stop":
        async with journey.executing():
            await journey.until_finished(journey.first_hop)
    await start(enabled_strategies=())
    await eventually(both_are_over(migrations))
    assert {each.status.phase for each in await migrations()} == {MigrationPhase.COMPLETED}
    (pod,) = await journey.sandbox.until_ready(1)
    assert node_of(pod) == journey.end
    await journey.until_nothing_left()


async def test_what_was_taken_on_already_is_not_taken_on_again(journey, start, migrations, eventually):
    first = await start("first", enabled_strategies=())

    async def both_are_asked_for():
        return len(await migrations()) == 2

    await eventually(both_are_asked_for)
    await first.kill()
    await start("second", enabled_strategies=())
    await eventually(both_are_over(migrations))
    assert [each.status.phase for each in await migrations()] == [MigrationPhase.COMPLETED] * 2


async def test_what_has_stopped_long_ago_is_planned_anew_like_any_other_pod(journey, start, migrations):
    async with journey.executing():
        await journey.until_finished(journey.first_hop)
    await asyncio.sleep(11 * MINUTE_S)
    running = await start(enabled_strategies=())
    await running.until_checked(3)
    assert len(await migrations()) == 1


async def test_a_dry_run_takes_nobody_on(journey, start, migrations):
    running = await start(enabled_strategies=(), dry_run=True)
    await running.until_checked(3)
    assert running.line.writes == []
