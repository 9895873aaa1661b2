"""At whatever moment the target node is deleted, or the source evicted by another client: nothing is lost.

The node goes, or the source does, just before the n-th call of the controller, for every n.
"""

from datetime import timedelta

import pytest

from kubesim.virtual_time import run_virtual
from rescheduler.api.podmigration import MigrationPhase
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.kube import errors
from tests.unit.migrations.controller.crashing_controller import Cluster, Crash, Faulty, at_every_call
from tests.unit.migrations.controller.test_crash_at_every_call import (
    Adopt,
    AdoptOnEviction,
    Copy,
    CopyOnEviction,
    until_crashed,
)
from tests.unit.migrations.controller.test_interference_at_every_call import Disturbed

MOST_CALLS = 60


async def ended(moves, key):
    migration = await moves.until_finished(key, timeout_s=900)
    await moves.until_nothing_left()
    return migration


def others_than(pod, pods):
    return [each for each in pods if each["metadata"]["uid"] != pod["metadata"]["uid"]]


async def target_deleted(play, at):
    """How many calls there were: fewer than `at` if the node was not deleted."""
    cluster = Cluster(migration_timeout=timedelta(seconds=60), max_retries=0)
    try:
        moves = await cluster.moves(nodes=4)
        source = await play.set_up(moves)
        target = await moves.sandbox.free_node()
        key = await play.request(moves, source)
        way = Disturbed(cluster.server, at, None)
        way.disturb = lambda: moves.client.delete(NODES, target)
        async with moves.executing(cluster.connect(way.handle)):
            migration = await ended(moves, key)
        if len(way.calls) < at:
            assert migration.status.phase is MigrationPhase.COMPLETED
            return len(way.calls)
        here = f"deleted before {way.calls[at - 1]}"
        # Two pods and the node are read live at the same time, and then the eviction is asked for.
        is_asked = any(call.endswith("/eviction") for call in way.calls[: at + 2])
        uids = {pod["metadata"]["uid"] for pod in await moves.sandbox.pods()}
        if source["metadata"]["uid"] in uids:
            assert migration.status.phase is MigrationPhase.FAILED, here
            assert migration.status.handed_over_at is None, here
        else:
            assert is_asked, f"evicted beside a copy whose node is gone: {here}"
        return len(way.calls)
    finally:
        await cluster.close()


@at_every_call(8)
@pytest.mark.parametrize(
    "play",
    [
        Adopt,
        Copy,
        pytest.param(AdoptOnEviction, marks=pytest.mark.size),
        pytest.param(CopyOnEviction, marks=pytest.mark.size),
    ],
    ids=lambda play: play.__name__,
)
def test_at_whatever_moment_the_target_node_is_deleted(play, first, apart):
    for at in range(first, MOST_CALLS, apart):
        if run_virtual(target_deleted(play(), at)) < at:
            assert at > 5
            return
    pytest.fail("the migration never came to an end undisturbed")


async def source_evicted(at, *, crash=None):
    """How many calls there were. With `crash`, the controller ends at that call and another takes over."""
    cluster = Cluster(migration_timeout=timedelta(seconds=60), max_retries=0)
    try:
        moves = await cluster.moves(nodes=4)
        source = await Copy().set_up(moves)
        key = await moves.create_migration(source, await moves.sandbox.free_node())
        had_copy = []

        async def evict():
            had_copy.extend(others_than(source, await moves.sandbox.pods()))
            try:
                await moves.client.evict(moves.sandbox.key("web"), grace_s=0)
            except (errors.NotFound, errors.Conflict):
                return

        if crash is None:
            way = Disturbed(cluster.server, at, None)
            way.disturb = evict
            async with moves.executing(cluster.connect(way.handle)):
                migration = await ended(moves, key)
        else:
            way = Faulty(cluster.server, at, crash)
            await until_crashed(moves, cluster, way, key)
            if way.crashed.is_set():
                await evict()
            async with moves.executing(cluster.connect()):
                way.taken_over.set()
                migration = await ended(moves, key)
                if way.late is not None:
                    await way.late
                await moves.until_nothing_left()
        if len(way.calls) < at:
            return len(way.calls)
        here = f"evicted at {way.calls[at - 1]}: {migration.status.message}"
        if had_copy:
            (left,) = await moves.sandbox.until_ready(1)
            assert left["metadata"]["uid"] != source["metadata"]["uid"], here
            assert migration.status.phase is MigrationPhase.COMPLETED, here
        else:
            assert len(await moves.sandbox.pods()) <= 1, here
        return len(way.calls)
    finally:
        await cluster.close()


@at_every_call(3)
@pytest.mark.parametrize("crash", [None, Crash.BEFORE, Crash.AFTER, Crash.LATE], ids=str)
def test_at_whatever_moment_another_client_evicts_a_bare_pod_that_has_a_copy(crash, first, apart):
    for at in range(first, MOST_CALLS, apart):
        if run_virtual(source_evicted(at, crash=crash)) < at:
            assert at > 5
            return
    pytest.fail("the migration never came to an end undisturbed")
