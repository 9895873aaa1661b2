"""A cache that may be out of date reports its staleness."""

import asyncio
import math

import pytest

from rescheduler.kube.informer import Informer, ReflectorTiming
from rescheduler.kube.watch_cache import SETTLE_S, WatchHealth

PACE = ReflectorTiming(silence_s=90, stale_after_s=120)


@pytest.fixture
async def informer(client, things, server, until):
    made = Informer(client, things, timing=PACE)
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


async def test_a_silent_connection_is_begun_again(informer, server, until):
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


async def test_an_hour_without_a_word_on_a_quiet_kind_never_makes_the_cache_stale(informer, server, caplog):
    """No event, no bookmark: the watch is opened again and again, and that it is accepted is enough."""
    server.silent = True
    for _ in range(3600):
        await asyncio.sleep(1)
        assert informer.is_fresh
    assert informer.counts.watches > 30
    assert informer.counts.relists <= 4, "only if there was no event for a quarter of an hour"
    assert informer.counts.failures == 0
    assert not caplog.records


async def test_what_a_connection_held_back_is_known_as_soon_as_the_watch_is_opened_again(
    informer, server, until
):
    server.silent = True
    server.put("unheard")
    await asyncio.sleep(80)
    assert informer.get("ns/unheard") is None
    server.silent = False
    await until(lambda: informer.get("ns/unheard"), within_s=15)
    assert informer.counts.relists == 0


async def test_while_the_server_is_away_staleness_grows_and_then_falls(informer, server, until):
    server.fail(503, times=15)
    server.drop()
    await asyncio.sleep(4)
    assert informer.is_fresh, "a server that restarts is back in a moment"
    await asyncio.sleep(2)
    assert not informer.is_fresh
    await asyncio.sleep(124)
    assert informer.staleness() == pytest.approx(130, abs=2)
    await until(lambda: informer.is_fresh, within_s=400)


# --- requests without an answer ---


async def test_a_request_without_an_answer_makes_a_quiet_watch_be_opened_again(
    informer, server, client, until
):
    await asyncio.sleep(10)
    loop = asyncio.get_running_loop()
    client.liveness.unanswered(loop.time() - 3)
    await until(lambda: informer.counts.watches == 2, within_s=1)
    assert informer.is_fresh, "the server accepted the new one"
    assert informer.counts.failures == informer.counts.relists == 0


async def test_a_watch_that_has_reported_something_since_is_not_suspect(informer, server, client):
    sent_at = asyncio.get_running_loop().time()
    await asyncio.sleep(1)
    server.put("late")
    await asyncio.sleep(1)
    client.liveness.unanswered(sent_at)
    await asyncio.sleep(10)
    assert informer.counts.watches == 1


@pytest.mark.parametrize("stalled_s", [20, 200])
async def test_a_server_that_stops_answering_is_noticed_within_seconds(
    informer, server, client, transport, until, stalled_s
):
    """Connections stay open, and nothing comes: a stopped process, or a proxy that forwards nothing."""
    handle, released = transport._handle, asyncio.Event()

    async def stalled(*asked):
        await released.wait()
        return await handle(*asked)

    async with client.probing():
        await asyncio.sleep(100)
        assert informer.is_fresh
        server.silent = True
        transport._handle = stalled
        await until(lambda: not informer.is_fresh, within_s=10)
        await asyncio.sleep(stalled_s)
        assert not informer.is_fresh
        server.silent, transport._handle = False, handle
        released.set()
        server.put("late")
        await until(lambda: informer.is_fresh, within_s=45)
        await until(lambda: informer.get("ns/late"), within_s=1)


async def test_a_server_that_is_asked_often_enough_is_not_probed(client, things, server):
    asked = len(server.asked)
    async with client.probing():
        for _ in range(100):
            await asyncio.sleep(2)
            await client.list(things)
    assert len(server.asked) == asked + 101, "once before the first list"


async def test_a_server_that_nothing_asks_is_probed_every_few_seconds(client, server):
    async with client.probing():
        await asyncio.sleep(60)
    assert 15 <= len(server.asked) <= 21


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
    contact = WatchHealth()
    contact.received(0.0)
    contact.opened(100.0)
    assert contact.staleness(100.0) == 100.0, "what was missed is still on its way"
    assert contact.staleness(100.0 + SETTLE_S) == SETTLE_S
    contact.closed(100.0 + SETTLE_S)
    assert contact.staleness(110.0) == 10.0


def test_a_watch_that_did_not_hold_does_not_count():
    contact = WatchHealth()
    contact.received(0.0)
    contact.opened(100.0)
    contact.closed(100.5)
    assert contact.staleness(110.0) == 110.0


async def test_watches_that_are_cut_before_their_first_event_never_pass_for_contact(informer, server):
    """A proxy that buffers, and gives up after a while: each watch is accepted, and none tells a thing."""
    server.silent = True
    for _ in range(20):
        server.put("unheard")
        put_at = asyncio.get_running_loop().time()
        await asyncio.sleep(55)
        server.silent = False
        server.drop()
        server.silent = True
        known = informer.get("ns/unheard")
        missing = known is None or known["metadata"]["resourceVersion"] != str(server.version)
        age = asyncio.get_running_loop().time() - put_at
        assert not missing or informer.staleness() >= age - SETTLE_S
    assert informer.counts.relists


async def test_a_server_that_ends_every_watch_at_once_is_a_failure(informer, server, until):
    server.end()
    server.answers += [lambda asked: server.ended() if "watch" in asked.query else None] * 5
    await until(lambda: informer.failure)
    assert "ended the watch immediately" in str(informer.failure)
    assert informer.counts.failures
