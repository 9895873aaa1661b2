"""Workers process all keys, whatever fails, in virtual time."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from rescheduler.kube import errors
from rescheduler.kube.api_resources import ApiCall
from rescheduler.kube.work_queue import WorkerPool, WorkQueue

START = datetime(2026, 3, 2, 12, tzinfo=UTC)


def now():
    return START + timedelta(seconds=asyncio.get_running_loop().time())


@pytest.fixture
def looked_at():
    """await looked_at(answer, for_s): when a key was looked at, in seconds. An answer may be raised."""

    async def run(answer, for_s):
        queue, times = WorkQueue(), []
        began = asyncio.get_running_loop().time()

        async def look(_key):
            times.append(asyncio.get_running_loop().time() - began)
            found = answer if len(times) == 1 else None
            if isinstance(found, Exception):
                raise found
            return found

        async with WorkerPool(queue, look, now, count=2, task="look at").working():
            queue.add("a")
            await asyncio.sleep(for_s)
        return times

    return run


async def test_a_key_is_looked_at_once_if_nothing_happens(looked_at):
    assert await looked_at(None, 1000) == [0]


async def test_it_is_looked_at_again_when_the_last_look_said_so(looked_at):
    assert await looked_at(now() + timedelta(seconds=40), 1000) == [0, pytest.approx(40)]


async def test_a_call_that_failed_is_tried_again_not_before_the_server_wants_it(looked_at, caplog):
    caplog.set_level("INFO", "rescheduler")
    first, again = await looked_at(errors.Overloaded(ApiCall("get", "pods"), "busy", delay_s=7), 1000)
    assert (first, again) == (0, pytest.approx(7))
    assert "look at a: " in caplog.text


async def test_a_fault_of_the_program_ends_no_worker(looked_at, caplog):
    assert len(await looked_at(ZeroDivisionError(), 1000)) == 2
    assert "look at a: a bug in rescheduler" in caplog.text


async def test_before_the_end_nothing_is_begun_and_what_is_begun_may_finish():
    queue, done = WorkQueue(), []

    async def look(key):
        await asyncio.sleep(5)
        done.append(key)

    workers = WorkerPool(queue, look, now, count=1, task="look at")
    async with workers.working():
        queue.add("a")
        queue.add("b")
        await asyncio.sleep(1)
        await workers.finish(10)
        assert done == ["a"]
