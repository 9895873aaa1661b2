"""A migration costs the API server eleven writes, three live reads, and no polling."""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from rescheduler.api.podmigration import MigrationPhase


class Counted:
    """Counts what one client asks for, by method and path; but for Events, watches and signs of life."""

    def __init__(self, handle):
        self._handle = handle
        self.writes = []
        self.reads = Counter()

    async def __call__(self, method, target, headers, body):
        path = target.partition("?")[0]
        if method != "GET":
            if not path.endswith("/events"):
                self.writes.append((method, path))
        elif "watch=true" not in target and target != "/livez" and not target.endswith("limit=1"):
            self.reads[path] += 1
        return await self._handle(method, target, headers, body)


@pytest.fixture
def counted(server):
    return Counted(server.handle)


async def test_an_adopt_migration_takes_eleven_writes_with_its_creation(make_moves, connect, counted):
    moves = await make_moves()
    await moves.sandbox.deployment(2)
    source = (await moves.sandbox.pods())[0]
    key = await moves.create_migration(source, await moves.sandbox.free_node())
    async with moves.executing(connect(counted)):
        migration = await moves.until_finished(key)
    assert migration.status.phase is MigrationPhase.COMPLETED
    assert 1 + len(counted.writes) == 11, counted.writes
    reads = Counter(path.split("/")[-2] for path in counted.reads.elements())
    assert {kind: reads[kind] for kind in ("nodes", "pods", "replicasets")} == {
        "nodes": 1,
        "pods": 2,
        "replicasets": 0,
    }, "both pods and the node of the copy are read before the eviction"


async def test_waiting_costs_nothing(make_moves, connect, counted):
    """Ten minutes in which a copy starts: not one more request but what puts the step on record."""
    moves = await make_moves(migration_timeout=timedelta(hours=1))
    await moves.sandbox.deployment(1)
    (source,) = await moves.sandbox.pods()
    moves.sandbox.behave({"startup": "10m"})
    key = await moves.create_migration(source, await moves.sandbox.free_node())
    async with moves.executing(connect(counted)):
        await moves.copy_of(key, lambda pod: pod["spec"].get("nodeName"))
        await asyncio.sleep(60)
        before = len(counted.writes), sum(counted.reads.values())
        await asyncio.sleep(400)
        assert (len(counted.writes), sum(counted.reads.values())) == before
        assert (await moves.until(key, lambda migration: migration.status.step)).status.step == "Starting"
