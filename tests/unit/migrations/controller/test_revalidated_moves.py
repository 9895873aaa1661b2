"""Moves as the program makes them, on the simulator as on the real control plane."""

from rescheduler.api.podmigration import MigrationPhase
from tests.e2e.facts.adopt import ready_since
from tests.e2e.facts.stage import node_of
from tests.e2e.migrations.test_judged import *  # noqa: F403
from tests.e2e.migrations.test_judged import executing
from tests.e2e.migrations.workloads import stateful_set


async def test_a_stateful_set_pod_waits_for_those_before_it(set_moves):
    """Its successor would not be made before they are ready: it would be missing for as long."""
    moves = await set_moves()
    stage = moves.stage
    await stateful_set(stage, 3)
    first, _, last = await stage.pods()
    target = await stage.free_node()
    stage.behave({"match": {"node": node_of(first)}, "readiness": "never", "startup": "0s"})
    await moves.until_pods(lambda pods: not ready_since(pods["web-0"]))
    await stage.cordon(*(node for node in stage.nodes if node != target))
    async with executing(moves):
        key = await moves.wish(last, target)
        waiting = await moves.until(key, lambda migration: migration.status.retry_at)
        assert waiting.status.phase is MigrationPhase.PENDING
        assert "web-0" in waiting.status.message
        stage.behave()
        assert (await moves.until_finished(key)).status.phase is MigrationPhase.COMPLETED
