"""Drains of nodes whose pods don't terminate."""

import asyncio

from rescheduler.api.daemon_status import Pause
from rescheduler.api.podmigration import MigrationPhase
from rescheduler.cli.execution import report_other_executor
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.daemon.own_objects import write_pause
from tests.stories.recovery.recovery_sandbox import CRASH
from tests.stories.sandbox import AT_ONCE, node_of
from tests.unit.daemon.conftest import HOME

HOUR_S = 3600


async def drained(draining):
    """How the nodes are in the end."""
    async with asyncio.timeout(HOUR_S):
        return [states async for states in draining.states(wait=False)][-1]


async def test_a_pod_that_never_ends_because_its_node_is_dead_is_named_and_not_waited_for(
    make_moves, draining, migrations
):
    moves = await make_moves(3)
    await moves.sandbox.deployment(2)
    source, _ = await moves.sandbox.pods()
    await moves.lose_node(node_of(source))
    async with draining(node_of(source)) as it:
        (state,) = await drained(it)
    assert [each.status.phase for each in await migrations()] == [MigrationPhase.COMPLETED]
    assert state.left == 1
    name = source["metadata"]["name"]
    assert state.blocked == (f"moves/{name}: Terminating, it is being deleted",)


async def test_a_pod_whose_copies_all_fail_is_not_said_to_have_been_moved(make_moves, draining, migrations):
    moves = await make_moves(3)
    await moves.sandbox.deployment(1)
    (source,) = await moves.sandbox.pods()
    moves.sandbox.behave({**AT_ONCE, **CRASH})
    async with draining(node_of(source)) as it:
        (state,) = await drained(it)
    assert [each.status.failure for each in await migrations()] == ["CopyFailing"]
    (why,) = state.blocked
    assert why.endswith("CoolingDown, its migration failed 0s ago; podCooldown is 30m")
    assert await moves.leftovers() == []


async def test_two_nodes_that_could_only_take_each_other_s_pods_keep_them_and_say_so(
    make_moves, start, draining, client, migrations
):
    moves = await make_moves(2)
    await moves.sandbox.deployment(2)
    running = await start(enabled_strategies=("NodeMaintenance",))
    await running.until_checked(1)
    async with draining(*moves.sandbox.nodes) as it:
        states = await drained(it)
        await asyncio.sleep(HOUR_S)
    assert await migrations() == []
    assert all("NoTarget" in why for state in states for why in state.blocked)
    for name in moves.sandbox.nodes:
        conditions = (await client.get(NODES.as_json, name))["status"]["conditions"]
        (reported,) = [each for each in conditions if each["type"] == "rescheduler.dev/Empty"]
        assert (reported["status"], reported["reason"]) == ("False", "Blocked")


async def test_a_drain_during_a_pause_says_why_nothing_happens(
    make_moves, start, draining, client, server, migrations, capsys
):
    await make_moves(2)
    await write_pause(client, HOME, Pause(paused=True, by="ada", why="load test", at=server.clock.now()))
    running = await start(enabled_strategies=("NodeMaintenance",))
    await running.until_checked(2)
    async with draining() as it:
        await report_other_executor(it.rescheduler, is_manual=True)
        assert "load test" not in capsys.readouterr().err, "such moves are made all the same"
        await report_other_executor(it.rescheduler, is_manual=False)
    reported = capsys.readouterr().err
    assert " starts no moves now: paused by ada: load test" in reported
    assert "rescheduler resume" in reported
