"""To call an eviction off rests on a source that stands and that nobody can evict any more: as it is now."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace

from rescheduler.kube.api_resources import POD_DISRUPTION_BUDGETS
from tests.stories.observer import observing
from tests.unit.migrations.controller.test_live_reads import Deaf


async def test_a_controller_that_has_heard_of_neither_mark_nor_copy_does_not_call_off_what_another_does(
    make_moves, client, connect, server
):
    moves = await make_moves(3, settle_time=timedelta(minutes=1), max_retries=0)
    await moves.sandbox.deployment(1)
    budget = await moves.sandbox.budget(minAvailable=2)
    (source,) = await moves.sandbox.pods()
    to_migrations = Deaf(server, "podmigrations")
    to_pods = Deaf(SimpleNamespace(handle=to_migrations))
    async with (
        observing(client, "moves") as seen,
        moves.executing(),
        moves.executing(connect(to_pods)),
    ):
        to_migrations.hears.clear()
        to_pods.hears.clear()
        key = await moves.create_migration(source, await moves.sandbox.free_node())
        await moves.until(key, lambda migration: migration.status.step == "Evicting")
        to_migrations.hears.set()
        await asyncio.sleep(60)
        await client.delete(POD_DISRUPTION_BUDGETS, budget)
        ended = await moves.until_finished(key, timeout_s=900)
        to_pods.hears.set()
        await moves.until_nothing_left()
    assert ended.status.phase == "Completed", ended.status
    assert min(seen.ready) >= 1
