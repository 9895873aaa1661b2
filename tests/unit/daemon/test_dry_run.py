"""A dry run by configuration: it moves nothing, and reports what it would have moved."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.api.daemon_status import DaemonStatus, DryRunEvidence, SpreadChange
from rescheduler.api.podmigration import Handover, MigrationPhase
from rescheduler.daemon.metrics import Metrics
from rescheduler.daemon.periodic_checks import DryRunTally
from rescheduler.kube.api_resources import LEASES
from rescheduler.planner.plan import Move, NodeLoadChange, Plan
from tests.building import cluster as built
from tests.stories.sandbox import node_of
from tests.unit.cli.live_cluster import write_config
from tests.unit.daemon.test_metrics import check, value

NOW = datetime(2026, 3, 2, tzinfo=UTC)


def plan_of(*moves, loads=()):
    """Each move is the pod's uid and its node, such as `a@n-1`."""
    made = tuple(
        Move(
            pod=f"shop/{uid}", uid=uid, source=source, target="b", strategy="LoadBalancing",
            handover=Handover.ADOPT, reason="", gain=1.0,
        )
        for uid, _, source in (move.partition("@") for move in moves)
    )  # fmt: skip
    return Plan(taken_at_s=0.0, moves=made, nodes=tuple(loads))


def noted(tally, *moves, now=NOW):
    return tally.note(plan_of(*moves), built().node("a").snapshot(), (), now)


def is_report(target):
    """Whether a request writes the state or the Lease of dry runs; a Lease is created without a name."""
    path = target.partition("?")[0]
    return path.endswith(("/leases/rescheduler-dry-run", "/leases")) or "/configmaps" in path


async def test_it_reports_what_it_would_have_moved_and_moves_nothing(crowd, start, status, migrations):
    """The status shows how many pods, and the spread before and after."""
    await crowd(pods=4)
    running = await start(dry_run=True)
    await running.until_checked(3)
    await running.until(lambda: running.received.checks[-1].dry_run)
    found = (await status()).dry_run
    assert found.moves >= len(running.received.checks[0].plan.moves) > 0
    cpu = next(each for each in found.spreads if each.resource == "cpu")
    assert cpu.before > cpu.after
    assert await migrations() == []
    assert {target for _, target in running.line.writes if not is_report(target)} == set()


async def test_the_lease_of_those_who_execute_stays_free(crowd, start, client):
    """So that `rescheduler move` and `drain` can execute while the daemon only reports."""
    await crowd(pods=4)
    running = await start(dry_run=True)
    await running.until_checked(1)
    names = {item["metadata"]["name"] for item in (await client.list(LEASES, namespace="default")).items}
    assert names == {"rescheduler-dry-run"}


async def test_one_of_two_replicas_reports_and_the_other_continues_its_count(crowd, start, status):
    await crowd(pods=4)
    first = await start("first", dry_run=True)
    await first.until_checked(2)
    second = await start("second", dry_run=True)
    await asyncio.sleep(90)
    assert second.received.checks == []
    before = (await status()).dry_run
    await first.end()
    await second.until_checked(1)
    assert second.received.checks[-1].dry_run.since == before.since
    assert second.received.checks[-1].dry_run.moves == before.moves


async def test_it_finishes_what_an_earlier_daemon_has_begun_and_releases_the_lease(
    make_moves, start, client, eventually
):
    """An upgrade installs a dry run: a pod that is being moved must not keep its copy for ever."""
    moves = await make_moves(3)
    await moves.sandbox.deployment(2)
    moves.sandbox.behave({"startup": "60s"})
    earlier = await start("earlier")
    first, second = await moves.sandbox.pods()
    target = await moves.sandbox.free_node()
    begun = await moves.create_migration(first, target)
    await moves.until(begun, lambda migration: migration.status.phase is MigrationPhase.IN_PROGRESS)
    await earlier.end()
    later = await start("later", dry_run=True)
    waiting = await moves.create_migration(second, target)
    migration = await moves.until_finished(begun)
    assert migration.status.phase is MigrationPhase.COMPLETED

    async def is_released():
        return not (await client.get(LEASES, "default/rescheduler"))["spec"]["holderIdentity"]

    await eventually(is_released)
    await later.until_checked(3)
    left = await moves.until(waiting, lambda migration: True)
    assert left.status.phase is MigrationPhase.PENDING, "nothing new is begun"
    assert left.finalizers == ()


async def test_it_leaves_to_others_what_they_execute(make_moves, start, client):
    """A command such as `drain` may execute beside a dry run for hours."""
    moves = await make_moves(3)
    await moves.sandbox.deployment(1)
    moves.sandbox.behave({"startup": "60s"})
    other = await start("other")
    (pod,) = await moves.sandbox.pods()
    begun = await moves.create_migration(pod, await moves.sandbox.free_node())
    await moves.until(begun, lambda migration: migration.status.phase is MigrationPhase.IN_PROGRESS)
    reporting = await start("reporting", dry_run=True)
    await reporting.until_checked(2)
    assert (await moves.until_finished(begun)).status.phase is MigrationPhase.COMPLETED
    assert {target for _, target in reporting.line.writes if not is_report(target)} == set()
    await other.end()


async def test_a_drain_that_starts_while_it_finishes_a_move_is_not_cancelled(
    make_moves, start, draining, migrations
):
    """The dry run holds the Lease until the pod that an earlier daemon moved has arrived. The drain waits for
    its turn, and then makes its moves itself."""
    moves = await make_moves(3)
    await moves.sandbox.deployment(2)
    first, second = await moves.sandbox.pods()
    moves.sandbox.behave({"startup": "90s"})
    earlier = await start("earlier")
    begun = await moves.create_migration(first, await moves.sandbox.free_node())
    await moves.until(begun, lambda migration: migration.status.phase is MigrationPhase.IN_PROGRESS)
    await earlier.end()
    finishing = await start("finishing", dry_run=True)
    await finishing.until(lambda: finishing.daemon.rescheduler.lease.is_held)
    async with draining(node_of(second)) as it:
        assert it.rescheduler.lease.holder == "finishing"
        (state,) = [states async for states in it.states(wait=False)][-1]
    assert state.left == 0
    assert [each.status.phase for each in await migrations()] == [MigrationPhase.COMPLETED] * 2
    assert not [target for method, target in finishing.line.writes if method == "DELETE"]


async def test_a_dry_run_that_ends_while_it_finishes_a_move_leads_at_once(make_moves, start, tmp_path):
    """Else failing pods, evictions and signals of nodes would wait for the move, and for every later one."""
    moves = await make_moves(3)
    await moves.sandbox.deployment(1)
    (pod,) = await moves.sandbox.pods()
    moves.sandbox.behave({"startup": "100s"})
    earlier = await start("earlier")
    begun = await moves.create_migration(pod, await moves.sandbox.free_node())
    await moves.until(begun, lambda migration: migration.status.phase is MigrationPhase.IN_PROGRESS)
    await earlier.end()
    file = write_config(tmp_path / "config.yaml", dryRun=True)
    later = await start("later", dry_run=True, file=file)
    await later.until(lambda: later.daemon.rescheduler.lease.is_held)
    write_config(file, dryRun=False)
    await later.until(lambda: later.received.led == [True], 60)
    assert (await moves.until_finished(begun)).status.phase is MigrationPhase.COMPLETED


async def test_the_evidence_ends_when_pods_are_moved(crowd, start, status, tmp_path, eventually):
    await crowd(pods=4)
    file = tmp_path / "config.yaml"
    write_config(file, settleTime="1s", dryRun=True)
    running = await start(dry_run=True, file=file)
    await running.until_checked(1)
    write_config(file, settleTime="1s", dryRun=False)
    await running.until(lambda: running.received.checks[-1].is_carried_out)

    async def has_none():
        return (await status()).dry_run is None

    await eventually(has_none)


def after(**span):
    return NOW + timedelta(**span)


def test_moves_that_are_planned_again_count_once():
    """Also if another pod of the node is chosen: loads vary from check to check."""
    tally = DryRunTally()
    assert noted(tally, "a@n-1", "b@n-1").moves == 2
    assert noted(tally, "a@n-1", "b@n-1", now=after(minutes=1)).moves == 2
    assert noted(tally, "a@n-1", "c@n-1", now=after(minutes=2)).moves == 2
    assert noted(tally, "a@n-1", now=after(minutes=3)).moves == 2
    assert noted(tally, "a@n-1", "c@n-1", "d@n-1", now=after(minutes=4)).moves == 3


def test_moves_off_another_node_count():
    tally = DryRunTally()
    noted(tally, "a@n-1")
    assert noted(tally, "a@n-1", "b@n-2", now=after(minutes=1)).moves == 2


def test_moves_count_again_after_their_cause_was_gone():
    tally = DryRunTally()
    noted(tally, "a@n-1")
    noted(tally, now=after(minutes=20))
    assert noted(tally, "a@n-1", now=after(minutes=25)).moves == 1
    assert noted(tally, "a@n-1", now=after(minutes=60)).moves == 2


def test_the_evidence_reaches_back_a_week():
    tally = DryRunTally()
    noted(tally, "a@n-1")
    noted(tally, "a@n-1", now=after(days=3))
    later = noted(tally, now=after(days=8))
    assert (later.moves, later.since) == (1, after(days=1))


def test_a_restart_counts_nothing_twice():
    tally, next_one = DryRunTally(), DryRunTally()
    noted(tally, "a@n-1", "b@n-2")
    next_one.restore(tally.encoded())
    found = noted(next_one, "a@n-1", "b@n-2", now=after(minutes=1))
    assert (found.moves, found.since) == (2, NOW)


def test_only_ready_nodes_count_for_the_spread():
    loads = (
        NodeLoadChange("a", {"cpu": 80.0}, {"cpu": 50.0}),
        NodeLoadChange("b", {"cpu": 20.0}, {"cpu": 45.0}),
        NodeLoadChange("lost", {"cpu": 0.0}, {"cpu": 0.0}),
    )
    cluster = built().nodes("a", "b").node("lost", ready=False).snapshot()
    evidence = DryRunTally().note(plan_of(loads=loads), cluster, ("cpu", "memory"), NOW)
    assert evidence.spreads == (SpreadChange("cpu", 60.0, 5.0),)


@given(
    st.text()
    | st.sampled_from(
        [
            '{"since":1}',
            '{"since":"2026-03-02T00:00:00"}',
            '{"counted":{"1772409600":-1}}',
            '{"counted":{"99999999999":5}}',
            '{"counted":{"1772409601":5}}',
            '{"pending":{"LoadBalancing n-1":{"pods":1,"planned_s":99999999999}}}',
            "[" * 100_000,
        ]
    )
)
def test_a_record_that_is_damaged_or_of_the_future_counts_nothing(text):
    tally = DryRunTally()
    tally.restore(text)
    assert noted(tally, "a@n-1").moves == 1


def test_a_record_from_the_future_starts_now():
    tally = DryRunTally()
    tally.restore('{"since":"2030-01-01T00:00:00+00:00"}')
    assert noted(tally, "a@n-1").since == NOW


def test_what_is_remembered_is_bounded():
    tally = DryRunTally()
    noted(tally, *(f"{number:036}@node-{number}" for number in range(5_000)))
    assert len(tally.encoded()) < 100_000


@pytest.mark.parametrize("evidence", [DryRunEvidence(NOW, 12, (SpreadChange("cpu", 41.0, 17.0),))])
def test_the_metric_shows_the_evidence(evidence):
    meters = Metrics()
    meters.checked(check(Plan(taken_at_s=0), dry_run=evidence, is_carried_out=False))
    assert value(meters, "dry_run_moves") == 12
    assert value(meters, "dry_run_spread_ratio", resource="cpu", state="before") == 0.41
    meters.checked(check(Plan(taken_at_s=0)))
    assert value(meters, "dry_run_moves") == 0
    assert value(meters, "dry_run_spread_ratio", resource="cpu", state="before") is None


def test_an_older_status_has_no_evidence():
    assert DaemonStatus().dry_run is None
