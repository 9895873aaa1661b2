"""A cache that can't be trusted says so."""

import asyncio
import math

import pytest

from rescheduler.kube.contact import SETTLE_S, Contact
from rescheduler.kube.informer import Informer, Pace

PACE = Pace(silence_s=90, stale_after_s=120)


@pytest.fixture
async def informer(client, things, server, until):
    made = Informer(client, things, pace=PACE)
    async with made.running():
        await made.synced()
        await until(lambda: server.open_streams)
        yield made


async def test_before_the_first_list_it_is_infinitely_stale(client, things):
    informer = Informer(client, things)
    assert informer.staleness() == math.inf
    assert not informer.is_fresh


async def test_with_a_bookmark_a_minute_a_quiet_cache_stays_fresh(informer, server):
    for _ in range(10):
        await asyncio.sleep(60)
        server.bookmark()
        assert informer.is_fresh
        assert informer.staleness() <= 60
    assert informer.counts.relists == 0


async def test_a_silent_connection_is_begun_anew(informer, server, until):
    await until(lambda: informer.counts.watches == 2, within_s=100)
    assert asyncio.get_running_loop().time() >= 90
    assert len(server.open_streams) == 1, "the dead connection is closed"
    server.put("late")
    await until(lambda: informer.get("ns/late"))
    assert informer.staleness() < 1


async def test_a_trickle_of_bytes_is_no_sign_of_life(informer, server, until):
    async def trickle():
        while True:
            server.say(b" ")
            await asyncio.sleep(10)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(trickle())
        await until(lambda: informer.counts.watches == 2, within_s=100)
        task.cancel()


async def test_a_server_that_is_let_in_but_never_speaks_makes_the_cache_stale(informer, server, until):
    server.mute = True
    await until(lambda: not informer.is_fresh, within_s=130)
    assert informer.staleness() >= 120
    assert informer.counts.watches >= 2, "it was let in again, and does not take that for a sign of life"
    await until(lambda: informer.counts.relists == 1, within_s=100)
    assert informer.is_fresh


async def test_while_the_server_is_away_staleness_grows_and_then_falls(informer, server, until):
    server.fail(503, times=15)
    server.drop()
    await asyncio.sleep(110)
    assert informer.is_fresh
    await asyncio.sleep(20)
    assert not informer.is_fresh
    assert informer.staleness() == pytest.approx(130, abs=2)
    await until(lambda: informer.is_fresh, within_s=400)


async def test_a_server_that_lets_in_and_drops_at_once_does_not_count_as_there(informer, server):
    def let_in_and_drop(asked):
        answer = server._watch(asked)
        server.drop()
        return answer

    server.answers = [let_in_and_drop] * 100
    server.drop()
    await asyncio.sleep(200)
    assert informer.staleness() > 190


def test_a_watch_counts_once_it_has_held_for_a_moment():
    contact = Contact()
    contact.heard(0.0)
    contact.opened(100.0)
    assert contact.staleness(100.0) == 100.0, "what was missed is still on its way"
    assert contact.staleness(100.0 + SETTLE_S) == SETTLE_S
    contact.closed(100.0 + SETTLE_S)
    assert contact.staleness(110.0) == 10.0


def test_a_watch_that_did_not_hold_does_not_count():
    contact = Contact()
    contact.heard(0.0)
    contact.opened(100.0)
    contact.closed(100.5)
    assert contact.staleness(110.0) == 110.0


async def test_watches_that_are_cut_before_they_tell_anything_never_pass_for_contact(informer, server):
    """A proxy that buffers, and gives up after a while: each watch is accepted, and none tells a thing."""
    server.mute = True
    for _ in range(20):
        server.put("unheard")
        put_at = asyncio.get_running_loop().time()
        await asyncio.sleep(55)
        server.mute = False
        server.drop()
        server.mute = True
        known = informer.get("ns/unheard")
        missing = known is None or known["metadata"]["resourceVersion"] != str(server.version)
        age = asyncio.get_running_loop().time() - put_at
        assert not missing or informer.staleness() >= age - SETTLE_S
    assert informer.counts.relists


async def test_a_server_that_ends_every_watch_at_once_is_a_failure(informer, server, until):
    server.end()
    server.answers += [lambda asked: server.ended() if "watch" in asked.query else None] * 5
    await until(lambda: informer.failure)
    assert "ended the watch at once" in str(informer.failure)
    assert informer.counts.failures
