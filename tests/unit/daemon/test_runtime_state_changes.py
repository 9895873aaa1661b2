"""The runtime state changes at the worst moments: in the middle of a check, and when the Lease is lost."""

from dataclasses import replace
from datetime import timedelta

from rescheduler.api.daemon_status import HaltReason
from rescheduler.daemon import halt_monitor
from tests.unit.daemon.conftest import INTERVAL_S, POLICY
from tests.unit.daemon.test_periodic_checks import SlowUsage


async def test_a_policy_that_changes_during_a_check_counts_before_its_plan_is_executed(
    crowd, start, migrations
):
    await crowd()
    running = await start(usage=SlowUsage(0.5 * INTERVAL_S))
    await running.until(lambda: running.received.led)
    running.daemon.runtime.update(policy=replace(POLICY, dry_run=True))
    await running.until_checked(1)
    first = running.received.checks[0]
    assert first.plan.moves, "the check that had started uses one policy to its end"
    assert not first.is_carried_out
    assert await migrations() == []


async def test_a_process_that_loses_the_lease_leaves_no_subscribers_behind(crowd, start):
    await crowd(pods=1)
    first = await start("first")
    await first.until_checked(1)
    assert first.daemon.runtime._handlers
    second = await start("second")
    await second.until(lambda: second.daemon.rescheduler.lease.holder == "first")
    first.line.is_cut = True
    await second.until(lambda: second.received.led)
    await first.until(lambda: first.received.led == [True, False])
    await first.until(lambda: not first.daemon.runtime._handlers)


async def test_a_halt_is_known_as_soon_as_its_cause_is(crowd, start, monkeypatch):
    """Recovery reads the halts of the runtime state: it must not act on lost nodes before those are there."""
    monkeypatch.setattr(halt_monitor, "HALT_CHECK_INTERVAL_S", 86_400.0)
    moves = await crowd(pods=1, nodes=4)
    running = await start(rescheduling_interval=timedelta(hours=12))
    await running.until_checked(1)
    for name in moves.sandbox.nodes[2:]:
        await moves.lose_node(name)
    nodes = running.daemon.rescheduler.watched.nodes
    await running.until(lambda: sum(not node.is_ready for node in nodes) == 2)
    assert [halt.reason for halt in running.daemon.runtime.current.halts] == [HaltReason.NODES_NOT_READY]
    assert not running.daemon.runtime.current.may_act
