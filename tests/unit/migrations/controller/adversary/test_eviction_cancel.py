"""An eviction is cancelled only if the source pod, read live, exists and can't be evicted any more."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace

from rescheduler.kube.api_resources import POD_DISRUPTION_BUDGETS
from tests.stories.observer import observing
from tests.unit.migrations.controller.test_live_reads import StaleWatch


async def test_a_stale_controller_cancels_no_eviction(make_moves, client, connect, server):
    """It observed neither the label nor the copy of another controller."""
    moves = await make_moves(3, settle_time=timedelta(minutes=1), max_retries=0)
    await moves.sandbox.deployment(1)
    budget = await moves.sandbox.budget(minAvailable=2)
    (source,) = await moves.sandbox.pods()
    to_migrations = StaleWatch(server, "podmigrations")
    to_pods = StaleWatch(SimpleNamespace(handle=to_migrations))
    async with (
        observing(client, "moves") as seen,
        moves.executing(),
        moves.executing(connect(to_pods)),
    ):
        to_migrations.is_current.clear()
        to_pods.is_current.clear()
        key = await moves.create_migration(source, await moves.sandbox.free_node())
        await moves.until(key, lambda migration: migration.status.step == "Evicting")
        to_migrations.is_current.set()
        await asyncio.sleep(60)
        await client.delete(POD_DISRUPTION_BUDGETS, budget)
        ended = await moves.until_finished(key, timeout_s=900)
        to_pods.is_current.set()
        await moves.until_nothing_left()
    assert ended.status.phase == "Completed", ended.status
    assert min(seen.ready) >= 1
