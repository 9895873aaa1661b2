"""The Evict handover, on the simulator as on the real control plane; and others who scale meanwhile."""

from datetime import timedelta

from rescheduler.api.podmigration import MigrationPhase
from rescheduler.kube.api_resources import STATEFUL_SETS, merge_patch
from tests.e2e.migrations.test_evict import *  # noqa: F403
from tests.e2e.migrations.workloads import stateful_set


async def test_a_stateful_set_that_is_scaled_below_the_moving_pod_keeps_nobody_waiting(set_moves):
    moves = await set_moves(nodes=4)
    await stateful_set(moves.stage, 3)
    source = (await moves.stage.pods())[-1]
    assert source["metadata"]["name"] == "web-2"
    moves.stage.behave({"startup": "1h", "termination": "0s"})
    key = await moves.wish(source, await moves.stage.free_node())
    async with moves.executing():
        await moves.until(key, lambda migration: migration.status.step == "Replacing")
        scaled_at = moves.now()
        scaled = merge_patch({"spec": {"replicas": 2}})
        await moves.client.patch(STATEFUL_SETS, moves.stage.key("web"), scaled)
        migration = await moves.until_finished(key)
    assert (migration.status.phase, migration.status.failure) == (MigrationPhase.FAILED, "ScaledDown")
    assert migration.status.finished_at - scaled_at < timedelta(seconds=10)
    await moves.until_nothing_left()
