"""Pods of a group: none is handed over while the copy of another is not ready."""

import asyncio
from datetime import timedelta

from tests.stories.objects import ready_since
from tests.stories.sandbox import node_of

AT_ONCE = {"startup": "0s", "termination": "0s"}
SLOWER = {"startup": "20s", "termination": "0s"}


async def test_a_copy_that_ceases_to_serve_keeps_the_others_of_its_group_from_going(make_moves):
    moves = await make_moves(4, migration_timeout=timedelta(minutes=3), max_retries=0)
    sandbox = moves.sandbox
    await sandbox.deployment(1, app="first")
    await sandbox.deployment(1, app="second")
    (first,), (second,) = await sandbox.pods("first"), await sandbox.pods("second")
    here, there = (each for each in sandbox.nodes if each not in {node_of(first), node_of(second)})
    later = {"match": {"node": there}, **SLOWER}
    sandbox.behave(later)
    group = {"group": "both", "groupSize": 2}
    keys = [
        await moves.create_migration(first, here, **group),
        await moves.create_migration(second, there, **group),
    ]
    async with moves.executing():
        await moves.copy_of(keys[0], ready_since)
        await asyncio.sleep(3)
        sandbox.behave({"match": {"node": here}, "readiness": "never", **AT_ONCE}, later)
        ended = [await moves.until_finished(key, timeout_s=600) for key in keys]
    assert [each.status.phase for each in ended] == ["Failed", "Failed"]
    assert [pod["metadata"]["uid"] for app in ("first", "second") for pod in await sandbox.pods(app)] == [
        first["metadata"]["uid"],
        second["metadata"]["uid"],
    ]
