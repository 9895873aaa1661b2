"""A ready copy serves traffic: it is deleted only as a serving pod may be."""

import asyncio
from datetime import timedelta

from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube.api_resources import merge_patch
from tests.stories.objects import ready_since
from tests.stories.observer import observing
from tests.stories.sandbox import node_of
from tests.unit.migrations.controller.test_live_reads import StaleWatch

REPLICAS = 3
LET_GO = merge_patch({"metadata": {"finalizers": None}})


async def make_sandbox(make_moves):
    """Moves under a budget that wants every pod, and a pod to move beside one that others evict."""
    moves = await make_moves(5, settle_time=timedelta(minutes=5))
    await moves.sandbox.deployment(REPLICAS)
    await moves.sandbox.budget(minAvailable=REPLICAS)
    source, sibling, _ = await moves.sandbox.pods()
    return moves, source, moves.sandbox.key(sibling["metadata"]["name"])


async def test_a_migration_removed_by_force_does_not_take_its_copy_below_a_budget(make_moves, client):
    moves, source, sibling = await make_sandbox(make_moves)
    key = await moves.create_migration(source, await moves.sandbox.free_node())
    async with observing(client, "moves") as seen, moves.executing():
        await moves.copy_of(key, ready_since)
        await asyncio.sleep(3)
        moves.sandbox.start_slowly()
        await client.evict(sibling)
        await client.patch(POD_MIGRATIONS, key, LET_GO)
        await client.delete(POD_MIGRATIONS, key)
        await asyncio.sleep(30)
        assert await moves.leftovers() == []
    assert min(seen.ready) >= REPLICAS


async def test_a_copy_that_became_ready_unseen_is_deleted_as_a_serving_one(
    make_moves, client, connect, server
):
    moves, source, sibling = await make_sandbox(make_moves)
    moves.sandbox.behave({"startup": "20s", "termination": "0s"})
    key = await moves.create_migration(source, await moves.sandbox.free_node())
    way = StaleWatch(server)
    async with observing(client, "moves") as seen, moves.executing(connect(way)):
        await moves.copy_of(key, node_of)
        await asyncio.sleep(5)
        way.is_current.clear()
        await moves.copy_of(key, ready_since)
        await asyncio.sleep(3)
        await client.evict(sibling)
        await client.delete(POD_MIGRATIONS, key)
        await asyncio.sleep(20)
        way.is_current.set()
        await moves.until_over(key)
        await moves.until_nothing_left()
        await moves.sandbox.until_ready(REPLICAS)
    assert min(seen.ready) >= REPLICAS
