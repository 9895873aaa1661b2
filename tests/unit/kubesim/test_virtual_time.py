"""Virtual time: hours of simulation take seconds, and every run is the same."""

import asyncio
import time

import pytest

from kubesim.virtual_time import LoopClock, NoPendingTimers, VirtualLoop, run_virtual


def test_a_day_of_waiting_takes_no_time():
    async def main():
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(86_400)
        return asyncio.get_running_loop().time() - began

    began = time.monotonic()
    assert run_virtual(main()) == 86_400
    assert time.monotonic() - began < 60, "a day can't have been waited for"


def test_alarms_ring_in_their_order_and_at_their_time():
    async def main():
        fired = []
        loop = asyncio.get_running_loop()
        for delay in (3, 1, 2, 1):
            loop.call_later(delay, lambda delay=delay: fired.append((delay, loop.time())))
        await asyncio.sleep(10)
        return fired

    assert run_virtual(main()) == [(1, 1), (1, 1), (2, 2), (3, 3)]


def test_time_stands_still_while_there_is_work():
    async def main():
        for _ in range(1000):
            await asyncio.sleep(0)
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == 0


def test_a_time_out_strikes_at_its_time():
    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == 30


def test_a_simulation_that_can_never_go_on_says_so():
    async def main():
        await asyncio.Event().wait()

    with pytest.raises(NoPendingTimers, match="no timer is set"):
        run_virtual(main())


def test_the_simulators_clock_follows_the_loop():
    async def main():
        clock = LoopClock()
        began = clock.now()
        await asyncio.sleep(90)
        return (clock.now() - began).total_seconds()

    assert run_virtual(main()) == 90


def test_a_loop_may_begin_at_any_time():
    loop = VirtualLoop(start_s=1000)
    try:
        loop.run_until_complete(asyncio.sleep(5))
        assert loop.time() == 1005
    finally:
        loop.close()
