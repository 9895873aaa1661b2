"""Finished migrations are kept for a while, then deleted."""

from datetime import timedelta

from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from tests.stories.migrations.moves import MakeMoves
from tests.stories.waiting import until_gone


async def test_a_finished_migration_is_forgotten_when_its_time_is_over(make_moves: MakeMoves) -> None:
    moves = await make_moves(migration_ttl=timedelta(seconds=3))
    await moves.sandbox.deployment(1)
    (source,) = await moves.sandbox.pods()
    key = await moves.create_migration(source, await moves.sandbox.free_node())
    async with moves.executing():
        await moves.until_finished(key)
        await until_gone(moves.client, POD_MIGRATIONS, key)
