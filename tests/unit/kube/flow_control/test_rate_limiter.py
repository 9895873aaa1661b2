"""The client's own rate limit: a burst at once, then a steady pace, first come first served."""

import asyncio

import pytest

from kubesim.virtual_time import run_virtual
from rescheduler.kube.client import Client
from rescheduler.kube.request_sender import RateLimiter


async def test_without_a_rate_no_request_waits():
    limit = RateLimiter(0)
    assert [await limit.wait() for _ in range(1000)] == [0.0] * 1000


def test_a_burst_goes_through_at_once_and_the_next_one_waits():
    async def waits():
        limit = RateLimiter(per_second=20, burst=3)
        return [await limit.wait() for _ in range(5)]

    assert run_virtual(waits()) == pytest.approx([0, 0, 0, 0.05, 0.05])


async def test_who_comes_first_is_served_first():
    limit = RateLimiter(per_second=200, burst=1)
    order = []

    async def caller(number):
        await limit.wait()
        order.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(6):
            group.create_task(caller(number))
    assert order == list(range(6))


async def test_time_without_requests_fills_the_burst_but_no_more():
    limit = RateLimiter(per_second=100, burst=2)
    await limit.wait()
    await limit.wait()
    await asyncio.sleep(0.1)
    assert [await limit.wait() == 0 for _ in range(3)] == [True, True, False]


async def test_the_client_keeps_to_its_limit(transport, server, things):
    client = Client(transport, rate_limit=RateLimiter(per_second=50, burst=1))
    server.put("a")
    began = asyncio.get_running_loop().time()
    await asyncio.gather(*(client.get(things, "ns/a") for _ in range(4)))
    assert asyncio.get_running_loop().time() - began >= 0.055


@pytest.mark.parametrize(("rate", "burst"), [(-1, 1), (1, 0)])
def test_a_limit_that_is_invalid_is_refused(rate, burst):
    with pytest.raises(ValueError, match="use"):
        RateLimiter(rate, burst)
