"""Small parts of the daemon, each on its own."""

import asyncio
import inspect
import threading

import pytest

from rescheduler.controller.followed import Followed
from rescheduler.controller.known_cluster import KnownCluster
from rescheduler.controller.telling import Several, Told
from rescheduler.daemon.background import BrokenOff, broken_off_by, in_background

TOLD = [name for name, _ in inspect.getmembers(Told, inspect.isfunction) if not name.startswith("_")]


@pytest.mark.parametrize("name", TOLD)
def test_what_is_told_is_told_to_all(name):
    heard = []

    class Listener(Told):
        pass

    setattr(Listener, name, lambda self, *told: heard.append(told))
    arguments = range(len(inspect.signature(getattr(Told, name)).parameters) - 1)
    getattr(Several([Listener(), Told(), Listener()]), name)(*arguments)
    assert heard == [tuple(arguments)] * 2


async def test_work_in_the_background_that_fails_ends_everything_and_is_raised():
    ended = asyncio.Event()

    async def broken():
        raise RuntimeError("out of order")

    async def all_of_it():
        async with in_background(ended) as start:
            start(broken(), "broken")
            start(asyncio.Event().wait(), "for ever")
            await ended.wait()

    with pytest.raises(RuntimeError, match="out of order"):
        await all_of_it()


async def test_what_the_end_breaks_off_is_not_waited_for():
    ended = asyncio.Event()
    asyncio.get_running_loop().call_later(1, ended.set)
    with pytest.raises(BrokenOff):
        async with broken_off_by(ended):
            await asyncio.Event().wait()
    async with broken_off_by(asyncio.Event()):
        await asyncio.sleep(1)


async def test_a_time_out_within_is_not_taken_for_the_end():
    with pytest.raises(TimeoutError):
        async with broken_off_by(asyncio.Event()):
            raise TimeoutError


async def test_while_a_check_freezes_the_loop_has_the_latest_snapshot_and_misses_nothing(
    set_moves, client, server
):
    moves = await set_moves(2)
    known = KnownCluster(client, Followed(client), server.clock.now)
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
        await moves.stage.deployment(1)
        assert len(known.present().pods) == len(before.pods), "without waiting"
        done.set()
        check.join()
        assert len(known.present().pods) == len(before.pods) + 1
