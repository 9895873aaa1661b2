"""Workloads that fail on every node don't keep others from being moved."""

from rescheduler.api.podmigration import MigrationPhase
from rescheduler.daemon.node_drain import start_maintenance
from tests.stories.recovery.recovery_sandbox import CRASH
from tests.stories.sandbox import AT_ONCE

BROKEN = [f"broken-{number}" for number in range(4)]


async def test_pods_that_crash_everywhere_cause_no_halt(make_recovery, start, client, migrations, eventually):
    """Their node is emptied for maintenance."""
    recovery = await make_recovery(3)
    node = recovery.sandbox.nodes[0]
    recovery.sandbox.behave({**AT_ONCE, **CRASH})
    for name in BROKEN:
        await recovery.workload_on(node, "Deployment", name=name, retries=None)
    running = await start(enabled_strategies=("NodeMaintenance",), max_retries=0)
    await start_maintenance(client, [node])

    async def all_have_failed():
        found = await migrations()
        return len(found) == len(BROKEN) and all(each.is_finished for each in found)

    await eventually(all_have_failed)
    assert {(each.status.phase, each.status.failure) for each in await migrations()} == {
        (MigrationPhase.FAILED, "CopyFailing")
    }
    running.daemon.halt_monitor.evaluate()
    assert running.daemon.runtime.current.cluster_halts == ()
