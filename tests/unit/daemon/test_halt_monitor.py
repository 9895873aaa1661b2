"""What halts the daemon, how it reports that, what continues meanwhile, and how the halt ends."""

import asyncio
from datetime import timedelta

import pytest

from kubesim.apiserver.fault_injection import InjectedFault
from rescheduler.api.daemon_status import HaltReason, Pause
from rescheduler.api.podmigration import MigrationPhase
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.daemon.own_objects import write_pause
from rescheduler.kube.api_resources import CONFIG_MAPS, EVENTS, api_resource, strategic_patch
from tests.stories.sandbox import node_of
from tests.unit.daemon.conftest import HOME, INTERVAL_S


async def pause(client, server, **more):
    await write_pause(client, HOME, Pause(paused=True, by="ada", at=server.clock.now(), **more))


async def resume(client, server):
    await write_pause(client, HOME, Pause(at=server.clock.now()))


def reported_in(caplog, event):
    return [record.getMessage() for record in caplog.records if getattr(record, "event", "") == event]


async def events_of(client, reason):
    return [item["message"] for item in (await client.list(EVENTS)).items if item["reason"] == reason]


def halts_are(running, *reasons):
    return lambda: [halt.reason for halt in running.daemon.runtime.current.cluster_halts] == list(reasons)


async def test_nothing_is_begun_during_a_pause_and_resuming_ends_it(
    crowd, start, client, server, migrations, status, caplog
):
    caplog.set_level("INFO", "rescheduler")
    await crowd(pods=4)
    await pause(client, server, why="load test")
    running = await start()
    await running.until_checked(3)
    assert min(running.received.moves) > 0, "what would be moved can be seen all the same"
    assert await migrations() == []
    (halt,) = (await status()).halts
    assert (halt.reason, halt.words) == (HaltReason.PAUSED, "paused by ada: load test")
    assert halt.ends == "when you run `rescheduler resume`"
    (line,) = reported_in(caplog, "Halted")
    assert "load test" in line
    assert "rescheduler resume" in line
    assert any("paused by ada" in message for message in await events_of(client, "Halted"))

    await resume(client, server)
    await running.until(lambda: running.received.moves[-1] == 0)
    assert {each.status.phase for each in await migrations()} == {MigrationPhase.COMPLETED}
    assert await events_of(client, "HaltEnded") == ["Paused has ended"]
    assert (await status()).halts == ()
    assert len(reported_in(caplog, "HaltEnded")) == 1


async def test_what_is_under_way_when_a_pause_begins_comes_to_its_end(
    crowd, start, client, server, migrations, eventually
):
    moves = await crowd(pods=4)
    moves.sandbox.behave({"startup": "20s"})
    running = await start()

    async def begun():
        return [each for each in await migrations() if each.status.phase is MigrationPhase.IN_PROGRESS]

    (migration,) = await eventually(begun)
    await pause(client, server)
    await asyncio.sleep(5 * INTERVAL_S)
    done = await migrations()
    assert [each.key for each in done if each.status.phase is not MigrationPhase.PENDING] == [migration.key]
    assert {each.status.phase for each in done if each.key == migration.key} == {MigrationPhase.COMPLETED}
    assert running.received.moves[-1] > 0


async def test_what_was_asked_for_waits_out_a_pause_and_is_then_made_at_once(
    make_moves, start, client, server, migrations
):
    moves = await make_moves(3)
    await moves.sandbox.deployment(1)
    await pause(client, server)
    running = await start()
    await running.until(lambda: running.received.led)
    (pod,) = await moves.sandbox.pods()
    key = await moves.create_migration(pod, await moves.sandbox.free_node(), strategy="LoadBalancing")
    await asyncio.sleep(5 * INTERVAL_S)
    (waiting,) = await migrations()
    assert waiting.status.phase is MigrationPhase.PENDING
    await resume(client, server)
    await moves.until(
        key, lambda migration: migration.status.phase is MigrationPhase.IN_PROGRESS, timeout_s=2
    )


async def test_a_person_may_move_a_pod_during_a_pause(make_moves, start, client, server):
    moves = await make_moves(3)
    await moves.sandbox.deployment(1)
    await pause(client, server)
    running = await start()
    await running.until_checked(1)
    (pod,) = await moves.sandbox.pods()
    target = await moves.sandbox.free_node()
    migration = await moves.until_finished(await moves.create_migration(pod, target))
    assert migration.status.phase is MigrationPhase.COMPLETED
    (moved,) = await moves.sandbox.until_ready(1)
    assert node_of(moved) == target


async def test_a_switch_that_cannot_be_read_counts_as_a_pause(crowd, start, client):
    await crowd(pods=4)
    item = {
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": HOME, "name": "rescheduler-state"}, "data": {"pause": "yes"},
    }  # fmt: skip
    await client.create(CONFIG_MAPS, item)
    running = await start()
    await running.until(halts_are(running, HaltReason.PAUSED))
    assert "can't be read" in running.daemon.runtime.current.cluster_halts[0].words


async def test_many_nodes_that_are_not_ready_halt_it_until_they_are_back(crowd, start, migrations, status):
    moves = await crowd(pods=6, nodes=4)
    lost = moves.sandbox.nodes[2:]
    running = await start(dry_run=False, hot_checks=1)
    await running.until(lambda: running.received.led)
    for name in lost:
        await moves.lose_node(name)
    await running.until(halts_are(running, HaltReason.NODES_NOT_READY))
    (halt,) = running.daemon.runtime.current.cluster_halts
    assert "2 of 4 nodes are not Ready" in halt.words
    assert "at most 1 of them" in halt.ends
    begun_before = len(await migrations())
    await asyncio.sleep(3 * INTERVAL_S)
    assert len(await migrations()) == begun_before
    assert HaltReason.NODES_NOT_READY in {halt.reason for halt in (await status()).halts}
    moves.sandbox.behave()
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    for name in lost:
        await moves.client.patch(
            NODES.as_json.status, name, strategic_patch({"status": {"conditions": [ready]}})
        )
    await running.until(halts_are(running))


async def failed(moves, count, now, *, namespace="moves"):
    """Return so many migrations that started and failed just now."""
    for number in range(count):
        name = f"failed-{number}"
        await moves.client.create(
            POD_MIGRATIONS,
            {
                "apiVersion": POD_MIGRATIONS.api_version,
                "kind": POD_MIGRATIONS.kind,
                "metadata": {"namespace": namespace, "name": name},
                "spec": {
                    "pod": {"name": "gone", "uid": "gone"},
                    "sourceNode": "n",
                    "strategy": "LoadBalancing",
                },
            },
        )
        item = await moves.client.get(POD_MIGRATIONS, f"{namespace}/{name}")
        item["status"] = {
            "phase": "Failed", "step": "Failed", "startedAt": now.isoformat(), "finishedAt": now.isoformat(),
            "failure": "CopyNotReady", "message": "the copy was not ready in time", "attempts": 1,
        }  # fmt: skip
        await moves.client.replace(POD_MIGRATIONS.status, item)


@pytest.mark.parametrize("ended_by", ["time", "a user"])
async def test_failing_migrations_halt_it_until_they_are_long_ago_or_forgiven(
    crowd, start, client, server, migrations, ended_by
):
    moves = await crowd(pods=4)
    for namespace in ("moves", "default"):
        await failed(moves, 2, server.clock.now(), namespace=namespace)
    running = await start()
    await running.until_checked(2)
    (halt,) = running.daemon.runtime.current.cluster_halts
    assert halt.reason is HaltReason.FAILURE_RATIO
    assert "4 of the 4 migrations" in halt.words
    assert "the copy was not ready in time" in halt.words
    assert len(await migrations()) == 4
    if ended_by == "time":
        await asyncio.sleep(timedelta(minutes=15).total_seconds())
    else:
        await resume(client, server)
    await running.until(halts_are(running), timeout_s=10)
    await running.until(lambda: running.received.moves[-1] == 0)
    assert len(await migrations()) > 4


async def test_failures_of_one_namespace_hold_back_that_one_and_nothing_else(
    crowd, start, client, server, migrations, status, caplog
):
    caplog.set_level("INFO", "rescheduler")
    moves = await crowd(pods=4)
    await failed(moves, 9, server.clock.now(), namespace="default")
    running = await start()
    await running.until(lambda: running.received.moves and running.received.moves[-1] == 0)
    assert running.daemon.runtime.current.cluster_halts == ()
    done = [each for each in await migrations() if each.namespace == "moves"]
    assert {each.status.phase for each in done} == {MigrationPhase.COMPLETED}
    (halt,) = (await status()).halts
    assert (halt.reason, halt.namespace) == (HaltReason.NAMESPACE_FAILING, "default")
    assert halt.words.startswith("only namespace default is halted: 9 of the 9 migrations")
    (line,) = reported_in(caplog, "Halted")
    assert "No move of namespace default starts" in line


async def test_pods_of_a_namespace_that_is_held_back_are_moved_when_that_is_over(
    crowd, start, client, server, migrations, status
):
    moves = await crowd(pods=4)
    await failed(moves, 3, server.clock.now())
    running = await start()
    await running.until_checked(3)
    assert set(running.received.moves) == {0}
    assert running.received.checks[-1].plan.refused_counts["NamespaceHeld"] > 0
    assert len(await migrations()) == 3
    await resume(client, server)
    await running.until(lambda: max(running.received.moves) > 0 and running.received.moves[-1] == 0)
    assert MigrationPhase.COMPLETED in {each.status.phase for each in await migrations()}
    assert (await status()).halts == ()


async def test_a_quota_that_is_full_halts_nothing(crowd, start, client, server, migrations, eventually):
    """Every copy is refused, which counts as no failure of a workload: the next pods, and others, go on."""
    await crowd(pods=6)
    quota = {"metadata": {"namespace": "moves", "name": "full"}, "spec": {"hard": {"pods": "6"}}}
    await client.create(api_resource("", "v1", "resourcequotas", "ResourceQuota"), quota)
    running = await start(pod_cooldown=timedelta(), max_concurrent_per_workload=3)

    async def refused():
        return [each for each in await migrations() if each.status.failure == "CopyRefused"]

    await eventually(lambda: _at_least(refused, 4))
    await running.until_checked(len(running.received.checks) + 2)
    assert running.daemon.runtime.current.halts == ()


async def _at_least(look, count):
    return len(await look()) >= count


async def test_nothing_is_begun_while_the_api_server_errs(crowd, start, server, migrations, eventually):
    await crowd(pods=4)
    running = await start(elect=False)
    await running.until(lambda: running.received.led)
    server.faults.add(InjectedFault("internal-error", times=None))
    server.faults.add(InjectedFault("drop-watches"))
    await running.until(lambda: running.daemon.runtime.current.no_plan_reason)
    assert running.daemon.runtime.current.no_plan_reason.reason is HaltReason.API_FAILING
    skipped = len(running.received.skipped)
    await running.until(lambda: len(running.received.skipped) > skipped)
    assert "requests to the API server failed" in running.received.skipped[-1][1]
    server.faults.clear()
    await running.until(halts_are(running))

    async def are_all_completed():
        return {each.status.phase for each in await migrations()} == {MigrationPhase.COMPLETED}

    await eventually(are_all_completed)


async def test_nothing_is_planned_with_caches_that_are_stale(crowd, start):
    """The connection is dead without notice: requests get no answer, but none fails."""
    await crowd(pods=1)
    running = await start(elect=False)
    await running.until_checked(2)
    informer = running.daemon.rescheduler.watched.nodes
    informer.staleness, before = (lambda now=None: 999.0), informer.staleness
    await running.until(halts_are(running, HaltReason.CACHES_STALE))
    (halt,) = running.daemon.runtime.current.cluster_halts
    assert halt.words == "no watch of nodes is open; the API server last sent something 999 s ago"
    checks = len(running.received.checks)
    await asyncio.sleep(2 * INTERVAL_S)
    assert len(running.received.checks) == checks
    informer.staleness = before
    await running.until_checked(checks + 1)
