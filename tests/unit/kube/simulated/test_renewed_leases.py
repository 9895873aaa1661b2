"""Whether another process is alive, by the Lease that it renews, in virtual time."""

import asyncio
import contextlib
from datetime import UTC, datetime

import pytest

from rescheduler.config.policy import LeaderElection
from rescheduler.kube.api_resources import LEASES
from rescheduler.kube.leader_election import (
    HeldLease,
    LeaderElector,
    claimed_record,
    find_renewed_lease,
    lease_spec_of,
)

KEY = "default/rescheduler"
OTHER = "default/another"


def clock():
    return asyncio.get_running_loop().time()


@pytest.fixture
async def hold(connect):
    """await hold(lease): a process that has it, and an event that ends it in good order."""
    async with contextlib.AsyncExitStack() as stack:

        async def held(key=KEY):
            lease = LeaderElector(connect(), key, "daemon-1", LeaderElection())
            await stack.enter_async_context(lease.running())
            await lease.acquired()

        held.ended = stack.aclose
        yield held


async def test_without_a_lease_no_process_is_at_work(client):
    assert await find_renewed_lease(client, [KEY]) is None


async def test_the_holder_is_named_as_soon_as_it_is_seen(client, hold):
    await hold()
    began = clock()
    assert await find_renewed_lease(client, [KEY]) == HeldLease(KEY, "daemon-1")
    assert clock() - began <= 3, "a renewal comes every two seconds"


async def test_one_that_was_given_back_is_silent_at_once(client, hold):
    await hold()
    await hold.ended()
    began = clock()
    assert await find_renewed_lease(client, [KEY]) is None
    assert clock() - began < 0.1


async def test_a_holder_that_died_is_silent_after_the_duration_of_its_lease(client):
    spec = lease_spec_of(claimed_record(None, "daemon-1", LeaderElection(), datetime(2026, 3, 2, tzinfo=UTC)))
    await client.create(LEASES, {"metadata": {"namespace": "default", "name": "rescheduler"}, "spec": spec})
    began = clock()
    assert await find_renewed_lease(client, [KEY]) is None
    assert 15 <= clock() - began < 16.5


async def test_what_was_asked_to_end_gets_the_time_for_it(client, hold):
    await hold()
    looking = asyncio.create_task(find_renewed_lease(client, [KEY], grace_s=60))
    await asyncio.sleep(30)
    assert not looking.done()
    await hold.ended()
    assert await looking is None


async def test_who_goes_on_after_that_is_at_work(client, hold):
    await hold()
    began = clock()
    assert await find_renewed_lease(client, [KEY], grace_s=60) == HeldLease(KEY, "daemon-1")
    assert 60 <= clock() - began < 63


async def test_one_of_several_is_enough(client, hold):
    await hold(OTHER)
    assert await find_renewed_lease(client, [KEY, OTHER]) == HeldLease(OTHER, "daemon-1")
