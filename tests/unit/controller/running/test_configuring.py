"""A configuration file that changes while the daemon runs."""

import asyncio
import json

import pytest

from rescheduler.kube.resources import EVENTS, LEASES
from rescheduler.model.migrations import Phase
from tests.unit.cli.living import write_config

RESTLESS = {"reschedulingInterval": "30s", "settleTime": "1s"}


@pytest.fixture
def file(tmp_path):
    return write_config(tmp_path / "config.json", **RESTLESS, imbalanceThreshold=100, cpuThreshold=100)


async def test_a_valid_change_is_used_at_the_next_check(crowd, start, file):
    await crowd(pods=4)
    running = await start(file=file, imbalance_threshold=100.0, cpu_threshold=100.0)
    await running.until_checked(2)
    assert running.heard.moves == [0, 0]
    write_config(file, **RESTLESS, imbalanceThreshold=20)
    await running.until_checked(3)
    assert running.heard.moves[2] > 0
    assert running.heard.checks[2].is_carried_out


async def test_an_invalid_change_is_kept_out_and_said_until_it_is_mended(
    crowd, start, file, status, client, caplog, eventually
):
    await crowd(pods=4)
    running = await start(file=file, imbalance_threshold=100.0, cpu_threshold=100.0)
    await running.until_checked(1)
    write_config(file, imbalanceThreshold="a lot", maxReschedulePods=-1)
    await running.until(lambda: running.heard.refused)
    await running.until_checked(3)
    assert set(running.heard.moves) == {0}, "what held before still does"
    (why,) = running.heard.refused
    assert "imbalanceThreshold" in why
    assert "maxReschedulePods" in why
    assert (await status()).configuration == why
    assert "ConfigurationRefused" in {getattr(record, "event", "") for record in caplog.records}
    assert "ConfigurationRefused" in {item["reason"] for item in (await client.list(EVENTS)).items}
    write_config(file, **RESTLESS, imbalanceThreshold=20)
    await running.until(lambda: running.heard.moves[-1] > 0)

    async def is_mended():
        return (await status()).configuration == ""

    await eventually(is_mended)


async def test_a_file_that_goes_away_changes_nothing(crowd, start, file):
    await crowd(pods=4)
    running = await start(file=file, imbalance_threshold=100.0, cpu_threshold=100.0)
    await running.until_checked(1)
    file.unlink()
    await running.until(lambda: running.heard.refused)
    await running.until_checked(3)
    assert set(running.heard.moves) == {0}


async def test_a_dry_run_can_be_made_of_it_and_undone(crowd, start, file, client, migrations):
    await crowd(pods=4)
    write_config(file, **RESTLESS, dryRun=True)
    running = await start(file=file, dry_run=True)
    await running.until_checked(2)
    assert running.line.writes == []
    write_config(file, **RESTLESS)
    await running.until(lambda: running.heard.checks[-1].is_carried_out)
    assert (await client.get(LEASES, "default/rescheduler"))["spec"]["holderIdentity"] == "me"
    write_config(file, **RESTLESS, dryRun=True)
    await running.until(lambda: running.heard.led[-1:] == [False])
    assert all(each.is_finished for each in await migrations() if each.status.started_at)
    writes = len(running.line.writes)
    await asyncio.sleep(90)
    assert len(running.line.writes) == writes, "not even the lease is renewed"
    assert (await client.get(LEASES, "default/rescheduler"))["spec"]["holderIdentity"] == ""


async def test_a_dry_run_finishes_what_is_under_way_and_begins_nothing_else(set_moves, start, file, client):
    moves = await set_moves(3)
    await moves.stage.deployment(2)
    moves.stage.behave({"startup": "60s"})
    running = await start(file=file)
    await running.until(lambda: running.heard.led)
    first, second = await moves.stage.pods()
    target = await moves.stage.free_node()
    begun = await moves.wish(first, target)
    await moves.until(begun, lambda migration: migration.status.phase is Phase.IN_PROGRESS)
    write_config(file, **RESTLESS, dryRun=True)
    await asyncio.sleep(5)
    waiting = await moves.wish(second, target)
    migration = await moves.until_finished(begun)
    assert migration.status.phase is Phase.COMPLETED
    await running.until(lambda: running.heard.led[-1:] == [False])
    left = await moves.until(waiting, lambda migration: True)
    assert left.status.phase is Phase.PENDING


async def test_what_needs_a_new_start_is_said(crowd, start, file, caplog):
    await crowd(pods=1)
    running = await start(file=file)
    await running.until_checked(1)
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "leaderElection": {"retryPeriod": "3s"}}))
    await asyncio.sleep(5)
    assert "leaderElection and clientConnection take effect with the next start" in caplog.text
