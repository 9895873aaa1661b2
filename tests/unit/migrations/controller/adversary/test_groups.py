"""Pods that are of no use one by one: none is handed over while the copy of another does not serve."""

import asyncio
from datetime import timedelta

from tests.stories.objects import ready_since
from tests.stories.stage import node_of

AT_ONCE = {"startup": "0s", "termination": "0s"}
SLOWER = {"startup": "20s", "termination": "0s"}


async def test_a_copy_that_ceases_to_serve_keeps_the_others_of_its_group_from_going(set_moves):
    moves = await set_moves(4, migration_timeout=timedelta(minutes=3), max_retries=0)
    stage = moves.stage
    await stage.deployment(1, app="first")
    await stage.deployment(1, app="second")
    (first,), (second,) = await stage.pods("first"), await stage.pods("second")
    here, there = (each for each in stage.nodes if each not in {node_of(first), node_of(second)})
    later = {"match": {"node": there}, **SLOWER}
    stage.behave(later)
    group = {"group": "both", "groupSize": 2}
    keys = [await moves.wish(first, here, **group), await moves.wish(second, there, **group)]
    async with moves.executing():
        await moves.copy_of(keys[0], ready_since)
        await asyncio.sleep(3)
        stage.behave({"match": {"node": here}, "readiness": "never", **AT_ONCE}, later)
        ended = [await moves.until_finished(key, timeout_s=600) for key in keys]
    assert [each.status.phase for each in ended] == ["Failed", "Failed"]
    assert [pod["metadata"]["uid"] for app in ("first", "second") for pod in await stage.pods(app)] == [
        first["metadata"]["uid"],
        second["metadata"]["uid"],
    ]
