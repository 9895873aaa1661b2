"""The journal in the ConfigMap `rescheduler-history`: it outlives the PodMigrations."""

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta

import msgspec
import pytest

from rescheduler.api.migration_journal import HISTORY_CONFIG_MAP, MAX_JOURNAL_ENTRIES, decode_journal
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.daemon.journal_writer import JournalWriter, read_history
from rescheduler.kube import errors
from rescheduler.kube.api_resources import CONFIG_MAPS
from rescheduler.migrations.transition_table import MigrationStep
from tests.unit.daemon.conftest import HOME
from tests.unit.migrations.observations import migration

TTL = timedelta(minutes=2)


async def test_moves_are_known_after_their_migrations_are_deleted(
    crowd, start, client, migrations, eventually, server
):
    await crowd(pods=4)
    await start(migration_ttl=TTL, pod_cooldown=timedelta(minutes=1))

    async def has_moves():
        return [each for each in await migrations() if each.is_finished]

    moved = {each.uid for each in await eventually(has_moves)}

    async def is_forgotten():
        return (await client.list(POD_MIGRATIONS)).items == []

    await eventually(is_forgotten, 7200)
    entries, note = await read_history(client, HOME, server.clock.now())
    assert note == ""
    assert moved <= {entry.uid for entry in entries}
    assert all(entry.plan and entry.spreads[0].resource == "cpu" for entry in entries)


async def test_moves_without_a_leader_are_recorded_by_the_next(
    crowd, start, client, migrations, eventually, server
):
    """The first leader is cut off before it writes; the next one reads the PodMigrations that are there."""
    await crowd(pods=4)
    first = await start("first", forbidden="rescheduler-history")

    async def has_moves():
        return [each for each in await migrations() if each.is_finished]

    moved = {each.uid for each in await eventually(has_moves)}
    await first.end()
    await start("second")

    async def is_recorded():
        try:
            item = await client.get(CONFIG_MAPS, f"{HOME}/{HISTORY_CONFIG_MAP}")
        except errors.NotFound:
            return False
        return moved <= {entry.uid for entry in decode_journal(item["data"], server.clock.now())}

    await eventually(is_recorded)


@pytest.fixture
def finished(server):
    """finished(uid): a migration that has just finished."""

    def make(uid):
        status = {"finished_at": server.clock.now()}
        made = migration(MigrationStep.COMPLETED, status=status, finalizers=())
        return msgspec.structs.replace(made, uid=uid)

    return make


@pytest.fixture
def recorded(client, server):
    async def read():
        entries, _ = await read_history(client, HOME, server.clock.now())
        return {entry.uid for entry in entries}

    return read


async def test_two_writers_lose_no_entry(client, server, finished, recorded, eventually):
    """A process that has just lost the Lease writes at the same moment as the next one."""
    writers = [JournalWriter(client, HOME, server.clock.now) for _ in range(3)]
    async with AsyncExitStack() as stack:
        for writer in writers:
            await stack.enter_async_context(writer.running())
        for turn in range(4):
            for number, writer in enumerate(writers):
                writer.migration_changed(None, finished(f"{turn}-{number}"))
            await asyncio.sleep(5)
        expected = {f"{turn}-{number}" for turn in range(4) for number in range(3)}

        async def has_all():
            return await recorded() == expected

        await eventually(has_all)


async def test_what_others_write_into_the_journal_is_replaced(client, server, finished, recorded, eventually):
    """A megabyte of anything leaves no room: it goes, and the entries stay."""
    about = {"namespace": HOME, "name": HISTORY_CONFIG_MAP}
    data = {"notes": "x" * 1_000_000, "2026-03-02": "{\n\x85"}
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": data}
    await client.create(CONFIG_MAPS, item)
    writer = JournalWriter(client, HOME, server.clock.now)
    async with writer.running():
        writer.migration_changed(None, finished("a"))

        async def is_recorded():
            return await recorded() == {"a"}

        await eventually(is_recorded)
    stored = await client.get(CONFIG_MAPS, f"{HOME}/{HISTORY_CONFIG_MAP}")
    assert len(str(stored["data"])) < 1_000


async def test_a_journal_that_is_deleted_is_created_again(client, server, finished, recorded, eventually):
    writer = JournalWriter(client, HOME, server.clock.now)
    async with writer.running():
        for uid in ("a", "b"):
            writer.migration_changed(None, finished(uid))

            async def is_recorded(uid=uid):
                return await recorded() == {uid}

            await eventually(is_recorded)
            await client.delete(CONFIG_MAPS, f"{HOME}/{HISTORY_CONFIG_MAP}")


async def test_a_process_that_does_not_lead_remembers_a_bounded_number(client, server, finished):
    writer = JournalWriter(client, HOME, server.clock.now)
    one = finished("0")
    for number in range(MAX_JOURNAL_ENTRIES + 10):
        writer.migration_changed(None, msgspec.structs.replace(one, uid=str(number)))
    assert len(writer._unwritten) == MAX_JOURNAL_ENTRIES
    assert "0" not in writer._unwritten
