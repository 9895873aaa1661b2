"""A configuration file that changes while the daemon runs."""

import asyncio
import json

import pytest

from kubesim.apiserver.fault_injection import InjectedFault
from rescheduler.api.podmigration import MigrationPhase
from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.config.move_limits import Window
from rescheduler.kube.api_resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    LEASES,
    NAMESPACES,
    merge_patch,
)
from tests.stories.waiting import until_gone
from tests.unit.cli.live_cluster import write_config
from tests.unit.daemon.test_dry_run import is_report

RESTLESS = {"reschedulingInterval": "30s", "settleTime": "1s"}


@pytest.fixture
def file(tmp_path):
    return write_config(tmp_path / "config.json", **RESTLESS, imbalanceThreshold=100, cpuThreshold=100)


async def test_a_valid_change_is_used_at_the_next_check(crowd, start, file):
    await crowd(pods=4)
    running = await start(file=file, imbalance_threshold=100.0, cpu_threshold=100.0)
    await running.until_checked(2)
    assert running.received.moves == [0, 0]
    write_config(file, **RESTLESS, imbalanceThreshold=20)
    await running.until_checked(3)
    assert running.received.moves[2] > 0
    assert running.received.checks[2].is_carried_out


async def test_an_invalid_change_is_rejected_and_reported_until_it_is_fixed(
    crowd, start, file, status, client, caplog, eventually
):
    await crowd(pods=4)
    running = await start(file=file, imbalance_threshold=100.0, cpu_threshold=100.0)
    await running.until_checked(1)
    write_config(file, imbalanceThreshold="a lot", maxReschedulePods=-1)
    await running.until(lambda: running.received.refused)
    await running.until_checked(3)
    assert set(running.received.moves) == {0}, "what held before still does"
    (why,) = running.received.refused
    assert "imbalanceThreshold" in why
    assert "maxReschedulePods" in why
    assert (await status()).configuration == why
    assert "ConfigurationRefused" in {getattr(record, "event", "") for record in caplog.records}
    assert "ConfigurationRefused" in {item["reason"] for item in (await client.list(EVENTS)).items}
    write_config(file, **RESTLESS, imbalanceThreshold=20)
    await running.until(lambda: running.received.moves[-1] > 0)

    async def is_fixed():
        return (await status()).configuration == ""

    await eventually(is_fixed)


async def test_a_file_that_goes_away_changes_nothing(crowd, start, file):
    await crowd(pods=4)
    running = await start(file=file, imbalance_threshold=100.0, cpu_threshold=100.0)
    await running.until_checked(1)
    file.unlink()
    await running.until(lambda: running.received.refused)
    await running.until_checked(3)
    assert set(running.received.moves) == {0}


async def test_a_dry_run_can_be_made_of_it_and_undone(crowd, start, file, client, migrations):
    await crowd(pods=4)
    write_config(file, **RESTLESS, dryRun=True)
    running = await start(file=file, dry_run=True)
    await running.until_checked(2)
    assert running.line.writes
    assert {target for _, target in running.line.writes if not is_report(target)} == set()
    write_config(file, **RESTLESS)
    await running.until(lambda: running.received.checks[-1].is_carried_out)
    assert (await client.get(LEASES, "default/rescheduler"))["spec"]["holderIdentity"] == "me"
    write_config(file, **RESTLESS, dryRun=True)
    await running.until(lambda: running.received.led[-1:] == [False])
    assert all(each.is_finished for each in await migrations() if each.status.started_at)
    await running.until(lambda: not running.daemon.rescheduler.lease.holder)
    writes = len(running.line.writes)
    await asyncio.sleep(90)
    assert all(is_report(target) for _, target in running.line.writes[writes:]), (
        "only the report of the dry run"
    )
    assert (await client.get(LEASES, "default/rescheduler"))["spec"]["holderIdentity"] == ""


async def test_a_dry_run_finishes_what_is_under_way_and_begins_nothing_else(make_moves, start, file, client):
    moves = await make_moves(3)
    await moves.sandbox.deployment(2)
    moves.sandbox.behave({"startup": "60s"})
    running = await start(file=file)
    await running.until(lambda: running.received.led)
    first, second = await moves.sandbox.pods()
    target = await moves.sandbox.free_node()
    begun = await moves.create_migration(first, target)
    await moves.until(begun, lambda migration: migration.status.phase is MigrationPhase.IN_PROGRESS)
    write_config(file, **RESTLESS, dryRun=True)
    await asyncio.sleep(5)
    waiting = await moves.create_migration(second, target)
    migration = await moves.until_finished(begun)
    assert migration.status.phase is MigrationPhase.COMPLETED
    await running.until(lambda: running.received.led[-1:] == [False])
    left = await moves.until(waiting, lambda migration: True)
    assert left.status.phase is MigrationPhase.PENDING, "a user's request is not cancelled"
    assert left.finalizers == (), "nobody is left who would let it go"


async def test_a_dry_run_calls_off_what_waits_and_holds_nothing(
    crowd, start, file, client, migrations, eventually
):
    moves = await crowd(pods=6)
    moves.sandbox.behave({"startup": "60s"})
    running = await start(file=file, max_concurrent_migrations=1)

    async def some_wait():
        found = await migrations()
        phases = {each.status.phase for each in found}
        return found if {MigrationPhase.PENDING, MigrationPhase.IN_PROGRESS} <= phases else []

    before = await eventually(some_wait)
    waiting = {each.key for each in before if each.status.phase is MigrationPhase.PENDING}
    write_config(file, **RESTLESS, dryRun=True)
    await running.until(lambda: running.received.led[-1:] == [False])
    left = await migrations()
    assert waiting.isdisjoint(each.key for each in left)
    assert [each.status.phase for each in left] == [MigrationPhase.COMPLETED], (
        "what was under way came to its end"
    )
    assert [each.finalizers for each in left] == [()]
    await client.delete(NAMESPACES, moves.sandbox.namespace)
    await until_gone(client, NAMESPACES, moves.sandbox.namespace)


async def test_a_dry_run_calls_off_what_others_have_left_before_the_lease_is_given_back(
    make_moves, start, file, server, migrations
):
    moves = await make_moves(3)
    await moves.sandbox.deployment(1)
    (pod,) = await moves.sandbox.pods()
    key = await moves.create_migration(pod, await moves.sandbox.free_node(), strategy="LoadBalancing")
    server.faults.add(
        InjectedFault("slow", verbs=("delete",), resource="podmigrations.rescheduler.dev", delay_s=10)
    )
    running = await start(file=file, windows=(Window(from_=23 * 60, to=24 * 60),))
    await running.until_checked(2)
    assert [each.key for each in await migrations()] == [key]
    write_config(file, **RESTLESS, dryRun=True)
    await running.until(lambda: running.received.led[-1:] == [False])
    assert await migrations() == []


async def test_a_dry_run_does_not_wait_for_a_migration_that_makes_no_sense(make_moves, start, file, client):
    moves = await make_moves(3)
    await moves.sandbox.deployment(1)
    moves.sandbox.behave({"startup": "1h"})
    running = await start(file=file)
    (pod,) = await moves.sandbox.pods()
    key = await moves.create_migration(pod, await moves.sandbox.free_node())
    await moves.until(key, lambda migration: migration.status.phase is MigrationPhase.IN_PROGRESS)
    await client.patch(POD_MIGRATIONS.status, key, merge_patch({"status": {"step": "Teleporting"}}))
    await moves.until(key, lambda migration: migration.status.step == "Teleporting")
    write_config(file, **RESTLESS, dryRun=True)
    await running.until(lambda: running.received.led[-1:] == [False])


async def test_what_has_no_place_to_record_moves_stays_a_dry_run_and_says_why(
    crowd, start, file, client, caplog
):
    await crowd(pods=4)
    await client.delete(CUSTOM_RESOURCE_DEFINITIONS, PODMIGRATION_CRD_NAME)
    await asyncio.sleep(5)
    caplog.set_level("ERROR", "rescheduler")
    running = await start(file=file, dry_run=True, imbalance_threshold=100.0, cpu_threshold=100.0)
    await running.until_checked(1)
    assert caplog.text == "", "a dry run is what was wanted"
    write_config(file, **RESTLESS, imbalanceThreshold=20, dryRun=False)
    await running.until(lambda: running.received.moves[-1] > 0)
    assert "does not know PodMigration" in caplog.text
    assert not any(check.is_carried_out for check in running.received.checks)
    assert all(is_report(target) for _, target in running.line.writes)


async def test_what_needs_a_new_start_is_said(crowd, start, file, caplog):
    caplog.set_level("WARNING", "rescheduler")
    await crowd(pods=1)
    running = await start(file=file)
    await running.until_checked(1)
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "leaderElection": {"retryPeriod": "3s"}}))
    words = "leaderElection and clientConnection take effect after a restart"
    await running.until(lambda: words in caplog.text)
