"""Leader election on a simulated API server, in virtual time."""

import asyncio
import contextlib
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.apiserver.fault_injection import InjectedFault
from rescheduler.config.policy import LeaderElection
from rescheduler.kube.api_resources import LEASES
from rescheduler.kube.client import Client
from rescheduler.kube.leader_election import (
    LeaderElector,
    LeaseObservation,
    LeaseRecord,
    claimed_record,
    is_vacant,
    lease_record_of,
    lease_spec_of,
)
from rescheduler.kube.transport import InProcessTransport

KEY = "default/rescheduler"
TERMS = LeaderElection()
NOW = datetime(2026, 3, 2, 12, 0, 0, 123456, tzinfo=UTC)


class Line:
    """A client's connection, which can be cut."""

    def __init__(self, server):
        self._server = server
        self.is_cut = False
        self.calls = []

    async def handle(self, method, target, headers, body):
        await asyncio.sleep(0.005)
        if self.is_cut:
            raise ConnectionError("the line is cut")
        self.calls.append((method, asyncio.get_running_loop().time()))
        return await self._server.handle(method, target, headers, body)


@pytest.fixture
def candidate(server):
    """candidate(name): a lease, and its transport."""

    def made(name, terms=TERMS, **more):
        line = Line(server)
        return LeaderElector(
            Client(InProcessTransport(line.handle)), KEY, name, terms, rng=random.Random(name), **more
        ), line  # fmt: skip

    return made


class Watcher:
    """Notes when each of several contenders may act."""

    def __init__(self, *leases):
        self.leases = leases
        self.turns = []

    async def run(self, seconds):
        loop = asyncio.get_running_loop()
        end_s, before = loop.time() + seconds, None
        while loop.time() < end_s:
            acting = [lease.identity for lease in self.leases if lease.is_held]
            assert len(acting) <= 1, f"{acting} act at the same time"
            if acting != before:
                self.turns.append((loop.time(), acting))
                before = acting
            await asyncio.sleep(0.05)


async def stored(client):
    return (await client.get(LEASES, KEY))["spec"]


async def test_who_comes_first_leads_and_the_record_is_as_kubernetes_has_it(server, candidate, client):
    first, _ = candidate("first", now=lambda: NOW)
    async with first.running():
        await first.acquired()
        assert first.is_held
        assert await stored(client) == {
            "holderIdentity": "first",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-03-02T12:00:00.123456Z",
            "renewTime": "2026-03-02T12:00:00.123456Z",
            "leaseTransitions": 0,
        }


async def test_the_second_waits_as_long_as_the_first_renews(server, candidate):
    first, _ = candidate("first")
    second, _ = candidate("second")
    async with first.running():
        await first.acquired()
        async with second.running():
            await second.tried()
            assert second.holder == "first"
            assert second.is_held_by_another
            await Watcher(first, second).run(120)
            assert first.is_held


async def test_who_waits_says_once_for_whom(server, candidate, caplog):
    """A replica that stands by would otherwise log nothing after its start."""
    caplog.set_level("INFO", "rescheduler")
    (first, _), (second, _) = candidate("first"), candidate("second")
    async with first.running():
        await first.acquired()
        async with second.running():
            await asyncio.sleep(60)
    waiting = [each.facts["holder"] for each in caplog.records if each.event == "LeaseHeld"]
    assert waiting == ["first"]


async def test_a_lease_that_is_given_back_is_taken_at_the_next_try(server, candidate, client):
    first, _ = candidate("first")
    second, _ = candidate("second")
    async with second.running():
        async with first.running():
            await Watcher(first, second).run(10)
            holder = first if first.is_held else second
        if holder is first:
            began_s = asyncio.get_running_loop().time()
            await second.acquired()
            waited_s = asyncio.get_running_loop().time() - began_s
            assert waited_s < 3, "no need to wait until it expires"
    assert (await stored(client))["holderIdentity"] == ""


async def test_one_that_crashes_is_followed_after_its_lease_has_run_out(server, candidate, client):
    first, _ = candidate("first")
    second, _ = candidate("second")
    crashing = asyncio.create_task(first._acquire_and_renew())
    await first.acquired()
    await asyncio.sleep(10)
    crashing.cancel()  # without a word
    with contextlib.suppress(asyncio.CancelledError):
        await crashing
    died_s = asyncio.get_running_loop().time()
    async with second.running():
        await second.acquired()
        waited_s = asyncio.get_running_loop().time() - died_s
        assert TERMS.lease_duration.total_seconds() <= waited_s + TERMS.retry_period.total_seconds()
        assert waited_s < 20
        assert (await stored(client))["leaseTransitions"] == 1


async def test_a_leader_that_is_cut_off_stops_before_the_other_may_start(server, candidate):
    first, line = candidate("first")
    second, _ = candidate("second")
    watcher = Watcher(first, second)
    async with first.running():
        await first.acquired()
        async with second.running():
            await watcher.run(7)
            line.is_cut = True
            cut_s = asyncio.get_running_loop().time()
            await watcher.run(30)
            (stopped_s, no_leader), (started_s, then) = watcher.turns[-2:]
            assert (no_leader, then) == ([], ["second"])
            assert stopped_s - cut_s <= TERMS.renew_deadline.total_seconds() + 0.1
            assert started_s > stopped_s
            line.is_cut = False
            await watcher.run(30)
            assert second.is_held, "who comes back does not take it away again"


async def test_a_short_interruption_does_not_cost_the_lease(server, candidate):
    first, line = candidate("first")
    second, _ = candidate("second")
    async with first.running():
        await first.acquired()
        async with second.running():
            await asyncio.sleep(5)
            line.is_cut = True
            await asyncio.sleep(6)
            line.is_cut = False
            await asyncio.sleep(30)
            assert first.is_held
            assert second.holder == "first"


@pytest.mark.parametrize("hours", [-5, 5], ids=["clock hours behind", "clock hours ahead"])
async def test_the_clock_of_the_holder_does_not_matter(server, candidate, hours):
    def clock():
        return NOW + timedelta(seconds=asyncio.get_running_loop().time())

    first, _ = candidate("first", now=lambda: clock() + timedelta(hours=hours))
    second, _ = candidate("second", now=clock)
    async with first.running():
        await first.acquired()
        async with second.running():
            watcher = Watcher(first, second)
            await watcher.run(60)
            assert [acting for _, acting in watcher.turns] == [["first"]]


async def test_a_lost_answer_is_no_lost_lease(server, candidate):
    """The write happened; the next one finds another version than it thought, and its own name in it."""
    first, _ = candidate("first")
    async with first.running():
        await first.acquired()
        server.faults.add(InjectedFault("lose-response", verbs=("update",), resource="leases.*", times=1))
        await asyncio.sleep(30)
        assert first.is_held


async def test_a_deleted_lease_is_made_again(server, candidate, client):
    first, _ = candidate("first")
    async with first.running():
        await first.acquired()
        await client.delete(LEASES, KEY)
        await asyncio.sleep(5)
        assert first.is_held
        assert (await stored(client))["holderIdentity"] == "first"


async def test_renewing_reads_nothing(server, candidate):
    first, line = candidate("first")
    async with first.running():
        await first.acquired()
        line.calls.clear()
        await asyncio.sleep(20)
        assert {method for method, _ in line.calls} == {"PUT"}


# -- the decision by itself

NAMES = st.sampled_from(["", "me", "other"])
RECORDS = st.builds(
    LeaseRecord,
    holder=NAMES,
    lasts_s=st.integers(0, 60),
    acquired=st.none() | st.just(NOW),
    renewed=st.none() | st.just(NOW),
    transitions=st.integers(0, 9),
)


@given(RECORDS, st.floats(0, 1000), st.floats(0, 1000))
def test_a_lease_that_is_renewed_is_not_taken(record, seen_s, later_s):
    seen = LeaseObservation(record, seen_s)
    vacant = is_vacant(seen, "me", seen_s + later_s)
    assert vacant == (record.holder != "other" or seen_s + later_s >= seen_s + record.lasts_s)


@given(RECORDS, st.floats(0, 1000))
def test_only_a_change_of_the_record_is_a_sign_of_life(record, later_s):
    seen = LeaseObservation(record, 0.0)
    assert seen.then(record, later_s).changed_s == 0.0
    assert seen.then(replace(record, transitions=99), later_s).changed_s == later_s


@given(RECORDS)
def test_transitions_count_changes_of_the_holder(record):
    after = claimed_record(record, "me", TERMS, NOW)
    assert after.transitions - record.transitions == (record.holder != "me")
    assert after.holder == "me"


@given(RECORDS)
def test_what_is_written_is_what_is_read(record):
    assert lease_record_of(lease_spec_of(record)) == record
