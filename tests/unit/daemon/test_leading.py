"""One of several replicas acts, until it stops or crashes; a dry run never acts."""

import asyncio

import pytest

from kubesim.apiserver.fault_injection import InjectedFault
from rescheduler.api.podmigration import MigrationPhase
from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME
from rescheduler.config.policy import UsageSource
from rescheduler.kube import errors
from rescheduler.kube.api_resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, EVENTS, LEASES
from tests.stories.observer import observing

LEASE = "default/rescheduler"
GRACE_S = 30
"""What Kubernetes gives a pod to end."""


async def begun(migrations):
    return [each for each in await migrations() if each.status.phase is MigrationPhase.IN_PROGRESS]


async def test_of_two_replicas_one_acts_and_the_other_knows_the_cluster_already(crowd, start):
    await crowd(pods=1)
    first, second = await start("first"), await start("second")
    await first.until_checked(2)
    assert first.received.led == [True]
    assert second.received.led == []
    assert second.received.checks == []
    assert second.daemon.rescheduler.cluster.is_fresh


async def test_the_other_goes_on_with_a_migration_whose_leader_has_died(
    crowd, start, migrations, client, eventually
):
    moves = await crowd(pods=4)
    moves.sandbox.behave({"startup": "20s"})
    first = await start("first")
    await first.until(lambda: first.received.led)
    second = await start("second")
    async with observing(client, moves.sandbox.namespace) as seen:
        (migration,) = await eventually(lambda: begun(migrations))
        await first.kill()
        await second.until(lambda: second.received.led)
        await eventually(lambda: is_completed(migrations, migration.key))
    assert min(seen.ready) == 4
    assert second.received.led == [True]
    await second.until(lambda: second.received.checks and second.received.moves[-1] == 0)
    await moves.until_nothing_left()


async def is_completed(migrations, key):
    (found,) = [each for each in await migrations() if each.key == key]
    return found.status.phase is MigrationPhase.COMPLETED


async def test_at_the_end_the_lease_is_given_back_and_nothing_new_is_begun(
    crowd, start, migrations, client, server, eventually
):
    moves = await crowd(pods=4)
    moves.sandbox.behave({"startup": "20s"})
    first = await start("first")
    (migration,) = await eventually(lambda: begun(migrations))
    asked_at = server.clock.now()
    await first.end()
    assert (server.clock.now() - asked_at).total_seconds() < GRACE_S
    assert (await client.get(LEASES, LEASE))["spec"]["holderIdentity"] == ""
    known = {each.key for each in await migrations()}
    await asyncio.sleep(120)
    assert {each.key for each in await migrations()} == known
    second = await start("second")
    await eventually(lambda: is_completed(migrations, migration.key))
    await second.until(lambda: second.received.checks and second.received.moves[-1] == 0)


async def test_the_end_comes_in_time_although_the_server_does_not_answer(crowd, start, server, eventually):
    await crowd(pods=1)
    running = await start()
    await running.until_checked(1)
    running.line.is_cut = True
    asked_at = server.clock.now()
    await running.end()
    assert (server.clock.now() - asked_at).total_seconds() < GRACE_S


async def test_the_end_comes_in_time_although_the_start_has_not_come_to_an_end(make_moves, start, server):
    await make_moves(1)
    server.faults.add(
        InjectedFault("slow", verbs=("list",), resource="replicasets.apps", times=None, delay_s=3600)
    )
    running = await start()
    await asyncio.sleep(10)
    assert running.received.led == []
    asked_at = server.clock.now()
    await running.end()
    assert (server.clock.now() - asked_at).total_seconds() < 1
    server.faults.clear()


async def test_who_may_not_read_the_pause_switch_does_not_start(make_moves, start, server):
    await make_moves(1)
    running = await start(forbidden="configmaps")
    with pytest.raises(errors.Forbidden, match="configmaps"):
        await running.task


async def test_without_election_it_acts_alone_and_there_is_no_lease(crowd, start, client):
    await crowd(pods=3)
    running = await start(elect=False)
    await running.until_checked(3)
    assert (await client.list(LEASES, namespace="default")).items == []
    assert running.received.moves[0] > 0
    assert running.received.moves[-1] == 0


async def test_a_read_only_dry_run_plans_and_writes_nothing_at_all(crowd, start, client, migrations, caplog):
    await crowd(pods=4)
    caplog.set_level("INFO", "rescheduler")
    running = await start(dry_run=True, read_only=True)
    await running.until_checked(3)
    await running.end()
    assert min(running.received.moves) > 0
    assert not any(check.is_carried_out for check in running.received.checks)
    assert running.line.writes == []
    assert "not executed: dry run" in caplog.text
    assert "MovePlanned" in {getattr(record, "event", "") for record in caplog.records}
    assert await migrations() == []
    assert [item for item in (await client.list(EVENTS)).items if _is_ours(item)] == []
    assert (
        await client.list(CONFIG_MAPS, namespace="default", fields="metadata.name=rescheduler-state")
    ).items == []


async def test_the_first_check_is_logged_even_if_nothing_is_to_be_moved(make_moves, start, caplog):
    """Whoever starts it for the first time sees that it works; later checks without news are not logged."""
    await make_moves(2)
    caplog.set_level("INFO", "rescheduler")
    running = await start(dry_run=True, read_only=True)
    await running.until_checked(3)
    await running.end()
    assert [record.message for record in caplog.records if getattr(record, "event", "") == "CheckDone"] == [
        "0 moves planned"
    ]


async def test_a_dry_run_says_from_the_first_check_on_what_is_hot(crowd, start, caplog):
    """By usage, pods move only after several checks: until then, silence would look like a broken daemon."""
    await crowd(pods=4)
    caplog.set_level("INFO", "rescheduler")
    running = await start(dry_run=True, read_only=True, usage_source=UsageSource.METRICS, hot_checks=3)
    await running.until_checked(3)
    await running.end()
    said = [
        record.getMessage() for record in caplog.records if getattr(record, "event", "") == "NodesHeating"
    ]
    assert [words.rpartition(" in ")[2] for words in said[:2]] == ["1 of 3 checks", "2 of 3 checks"], said
    assert running.received.moves[:2] == [0, 0]


async def test_a_dry_run_needs_no_place_where_moves_are_recorded(crowd, start, client, caplog):
    await crowd(pods=4)
    await client.delete(CUSTOM_RESOURCE_DEFINITIONS, PODMIGRATION_CRD_NAME)
    await asyncio.sleep(5)
    caplog.set_level("INFO", "rescheduler")
    running = await start(dry_run=True, read_only=True)
    await running.until_checked(2)
    assert running.daemon.not_ready == []
    assert running.daemon.runtime.current.cluster_halts == ()
    await running.end()
    assert min(running.received.moves) > 0
    assert running.line.writes == []
    (listener,) = [each.getMessage() for each in caplog.records if _event(each) == "DefinitionMissing"]
    assert "rescheduler manifests --crd | kubectl apply -f -" in listener


def _event(record):
    return getattr(record, "event", "")


def _is_ours(event):
    return event.get("source", {}).get("component") == "rescheduler"


async def test_a_leader_that_is_cut_off_stops_before_the_other_begins(crowd, start):
    await crowd(pods=1)
    first = await start("first")
    await first.until(lambda: first.received.led)
    second = await start("second")
    await second.until(lambda: second.daemon.rescheduler.lease.holder == "first")
    first.line.is_cut = True
    await second.until(lambda: second.received.led)
    assert first.received.led == [True, False]
