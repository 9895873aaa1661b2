"""A dry run by configuration: it moves nothing, and reports what it would have moved."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.api.daemon_status import DaemonStatus, DryRunEvidence, SpreadChange
from rescheduler.api.podmigration import Handover
from rescheduler.daemon.metrics import Metrics
from rescheduler.daemon.periodic_checks import DryRunTally
from rescheduler.kube.api_resources import LEASES
from rescheduler.planner.plan import Move, NodeLoadChange, Plan
from tests.building import cluster as built
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
