"""Small parts of the daemon, each on its own."""

import asyncio
import inspect
import threading

import pytest

from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.cluster.sources.watched_cluster import WatchedCluster
from rescheduler.cluster.sources.watched_objects import WatchedObjects
from rescheduler.daemon.daemon_process import Interrupted, in_background, interrupted_by
from rescheduler.daemon.listeners import DaemonListener, ListenerFanout
from rescheduler.kube.api_resources import merge_patch

REPORTED = [
    name for name, _ in inspect.getmembers(DaemonListener, inspect.isfunction) if not name.startswith("_")
]


@pytest.mark.parametrize("name", REPORTED)
def test_what_is_reported_is_reported_to_all(name):
    received = []

    class Listener(DaemonListener):
        pass

    setattr(Listener, name, lambda self, *listener: received.append(listener))
    arguments = range(len(inspect.signature(getattr(DaemonListener, name)).parameters) - 1)
    getattr(ListenerFanout([Listener(), DaemonListener(), Listener()]), name)(*arguments)
    assert received == [tuple(arguments)] * 2


async def test_work_in_the_background_that_fails_ends_everything_and_is_raised():
    ended = asyncio.Event()

    async def broken():
        raise RuntimeError("out of order")

    async def all_of_it():
        async with in_background(ended) as start:
            start(broken(), "broken")
            start(asyncio.Event().wait(), "forever")
            await ended.wait()

    with pytest.raises(RuntimeError, match="out of order"):
        await all_of_it()


async def test_what_the_end_breaks_off_is_not_waited_for():
    ended = asyncio.Event()
    asyncio.get_running_loop().call_later(1, ended.set)
    with pytest.raises(Interrupted):
        async with interrupted_by(ended):
            await asyncio.Event().wait()
    async with interrupted_by(asyncio.Event()):
        await asyncio.sleep(1)


async def test_a_time_out_within_is_not_taken_for_the_end():
    with pytest.raises(TimeoutError):
        async with interrupted_by(asyncio.Event()):
            raise TimeoutError


async def test_while_a_check_freezes_the_loop_has_the_latest_snapshot_and_misses_nothing(
    make_moves, client, server
):
    moves = await make_moves(2)
    known = WatchedCluster(client, WatchedObjects(client), server.clock.now)
    async with known.running():
        before = known.present()
        held, done = threading.Event(), threading.Event()

        def freeze():
            with known._lock:
                held.set()
                assert done.wait(30)

        check = threading.Thread(target=freeze)
        check.start()
        assert held.wait(30)
        await moves.sandbox.deployment(1)
        assert len(known.present().pods) == len(before.pods), "without waiting"
        done.set()
        check.join()
        await known.refresh()
        assert len(known.present().pods) == len(before.pods) + 1


async def test_a_snapshot_for_a_move_is_frozen_off_the_event_loop_once_for_all_who_ask(
    make_moves, client, server, monkeypatch
):
    """Freezing 65,000 nodes takes half a second, in which no Lease would be renewed and no move continued."""
    moves = await make_moves(2)
    known = WatchedCluster(client, WatchedObjects(client), server.clock.now)
    handed_to_threads: list[object] = []
    freezes: list[int] = []
    freeze, to_thread = known._state.freeze, asyncio.to_thread

    def counted(*arguments, **settings):
        freezes.append(len(handed_to_threads))
        return freeze(*arguments, **settings)

    async def noted(function, *arguments):
        handed_to_threads.append(function)
        return await to_thread(function, *arguments)  # which virtual time runs in the loop

    async with known.running():
        before = known.present()
        monkeypatch.setattr(known._state, "freeze", counted)
        monkeypatch.setattr(asyncio, "to_thread", noted)
        await moves.sandbox.deployment(1)
        await asyncio.gather(*(known.refresh() for _ in range(20)))
        assert len(known.present().pods) == len(before.pods) + 1
        await known.refresh()
        known.present()
    assert freezes == [1], "one, by the first thread"
    assert handed_to_threads == [known.snapshot]


async def test_who_shares_a_snapshot_that_is_not_made_has_its_own_made(
    make_moves, client, server, monkeypatch
):
    """Else a move would be checked against a cluster as it was long ago."""
    moves = await make_moves(2)
    known = WatchedCluster(client, WatchedObjects(client), server.clock.now)
    freeze, failures = known._state.freeze, [MemoryError()]

    def failing(*arguments, **settings):
        if failures:
            raise failures.pop()
        return freeze(*arguments, **settings)

    async with known.running():
        before = known.present()
        await moves.sandbox.deployment(1)
        async with known._refreshing:
            both = [asyncio.ensure_future(known.refresh()) for _ in range(2)]
            await asyncio.sleep(0)
            monkeypatch.setattr(known._state, "freeze", failing)
        failed, shared = await asyncio.gather(*both, return_exceptions=True)
        assert (type(failed), shared) == (MemoryError, None)
        assert len(known.present().pods) == len(before.pods) + 1


async def test_a_snapshot_is_the_latest_before_it_is_said_to_be_current(make_moves, client, server):
    """The thread of a check may be interrupted between the two, and the event loop looks at both."""

    class Observed(WatchedCluster):
        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            if name == "_snapshot" and value is not None:
                assert self.present().pods is value.pods

    node = (await make_moves(2)).sandbox.nodes[0]
    known = Observed(client, WatchedObjects(client), server.clock.now)
    async with known.running():
        known.snapshot()
        await client.patch(NODES, node, merge_patch({"metadata": {"labels": {"a": "b"}}}))
        await asyncio.sleep(1)
        known.snapshot()
