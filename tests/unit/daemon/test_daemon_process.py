"""Small parts of the daemon, each on its own."""

import asyncio
import inspect
import threading

import pytest

from rescheduler.cluster.sources.watched_cluster import WatchedCluster
from rescheduler.cluster.sources.watched_objects import WatchedObjects
from rescheduler.daemon.daemon_process import Interrupted, in_background, interrupted_by
from rescheduler.daemon.listeners import DaemonListener, ListenerFanout

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
        assert len(known.present().pods) == len(before.pods) + 1
