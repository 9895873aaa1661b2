"""Each key is processed once, by one worker at a time, in order of arrival."""

import asyncio
import random

import pytest

from kubesim.virtual_time import run_virtual
from rescheduler.kube.work_queue import QueueClosed, WorkQueue


def virtually(test):
    """Run in virtual time: waiting costs nothing, and times are exact."""

    def run():
        run_virtual(test())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def now():
    return asyncio.get_running_loop().time()


@virtually
async def test_a_key_that_is_added_twice_comes_once():
    queue = WorkQueue()
    for key in ("a", "b", "a"):
        queue.add(key)
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


@virtually
async def test_a_key_that_is_added_while_at_work_comes_again_and_never_to_two_workers():
    queue = WorkQueue()
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    assert len(queue) == 0
    queue.done(key)
    assert await queue.get() == "a"


@virtually
async def test_one_that_keeps_coming_back_queues_up_behind_the_others():
    queue = WorkQueue()
    queue.add("noisy")
    queue.add("quiet")
    first = await queue.get()
    queue.add("noisy")
    queue.done(first)
    assert [await queue.get(), await queue.get()] == ["quiet", "noisy"]


@virtually
async def test_a_delayed_key_comes_when_its_time_has_come():
    queue = WorkQueue()
    began = now()
    queue.add_after("late", 5)
    queue.add_after("early", 2)
    assert await queue.get() == "early"
    assert now() - began == pytest.approx(2)
    assert await queue.get() == "late"
    assert now() - began == pytest.approx(5)


@pytest.mark.parametrize("delays", [(5, 2), (2, 5)], ids=["the later first", "the earlier first"])
def test_of_several_times_the_earliest_counts(delays):
    @virtually
    async def events():
        queue = WorkQueue()
        began = now()
        for delay in delays:
            queue.add_after("a", delay)
        assert await queue.get() == "a"
        assert now() - began == pytest.approx(2)
        queue.done("a")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(queue.get(), 100)

    events()


@virtually
async def test_a_key_that_comes_sooner_does_not_come_again_at_its_later_time():
    queue = WorkQueue()
    queue.add_after("a", 5)
    queue.add("a")
    queue.done(await queue.get())
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(queue.get(), 100)


@virtually
async def test_pauses_double_with_every_failure_until_it_went_well():
    queue = WorkQueue(first_retry_s=1, longest_retry_s=10, rng=random.Random(1))
    pauses = [queue.retry("a") for _ in range(6)]
    for pause, ceiling in zip(pauses, (1, 2, 4, 8, 10, 10), strict=True):
        assert ceiling / 2 <= pause <= ceiling
    queue.forget("a")
    assert queue.retry("a") <= 1
    assert queue.retry("b", at_least_s=30) == 30


@virtually
async def test_every_worker_gets_a_key_as_soon_as_there_is_one():
    queue = WorkQueue()
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(1)
    for key in "abc":
        queue.add(key)
    assert sorted(await asyncio.gather(*workers)) == ["a", "b", "c"]


@virtually
async def test_a_worker_that_is_cancelled_as_its_turn_comes_leaves_the_key_to_another():
    queue = WorkQueue()
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await second == "a"


@virtually
async def test_a_closed_queue_sends_its_workers_home():
    queue = WorkQueue()
    queue.add_after("a", 1)
    worker = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.close()
    with pytest.raises(QueueClosed):
        await worker
    queue.add("b")
    with pytest.raises(QueueClosed):
        await queue.get()
