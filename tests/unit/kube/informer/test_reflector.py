"""How a reflector keeps its cache current in spite of errors and lost connections."""

import asyncio
import json
import random

import pytest

from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.informer import Informer, ListOptions, ReflectorPhase, ReflectorTiming


@pytest.fixture
def informer(client: Client, things) -> Informer:
    return Informer(client, things, rng=random.Random(7))


def names(informer: Informer) -> list[str]:
    return sorted(item["metadata"]["name"] for item in informer)


def in_step(informer: Informer, server) -> bool:
    """Holds exactly what the server has."""
    held = {item["metadata"]["name"]: item for item in informer}
    return held == server.objects


@pytest.fixture
async def running(informer, server, until):
    """Synced and watching, with one object."""
    server.put("first")
    async with informer.running():
        await informer.synced()
        await until(lambda: server.open_streams)
        yield informer


# --- the ordinary course ---


async def test_it_lists_then_watches_from_there(informer, server, until):
    server.put("a")
    server.put("b")
    async with informer.running():
        await informer.synced()
        assert names(informer) == ["a", "b"]
        server.put("c")
        server.remove("a")
        await until(lambda: names(informer) == ["b", "c"])
    first_list, first_watch = server.asks(watch=False)[0], server.asks(watch=True)[0]
    assert first_list.query["resourceVersion"] == "0"
    assert first_watch.query["resourceVersion"] == "102"
    assert first_watch.query["allowWatchBookmarks"] == "true"
    assert 300 <= int(first_watch.query["timeoutSeconds"]) <= 600
    assert informer.counts.lists == 1
    assert informer.counts.relists == 0


async def test_the_first_list_reads_the_newest_state_if_asked_to(client, things, server):
    informer = Informer(client, things, ListOptions(start_from_cache=False))
    async with informer.running():
        await informer.synced()
    assert "resourceVersion" not in server.asks(watch=False)[0].query


async def test_selectors_and_namespace_go_into_list_and_watch(client, things, server, until):
    informer = Informer(client, things, ListOptions(namespace="ns", labels="a=b", fields="metadata.name=x"))
    async with informer.running():
        await until(lambda: server.open_streams)
    for asked in server.asked:
        assert asked.path == "/apis/test.dev/v1/namespaces/ns/things"
        assert asked.query["labelSelector"] == "a=b"
        assert asked.query["fieldSelector"] == "metadata.name=x"


async def test_a_list_of_many_pages_is_swapped_in_as_one(client, things, server):
    for number in range(10):
        server.put(f"thing-{number}")
    informer = Informer(client, things, ListOptions(page_size=3))
    sizes = []
    informer.subscribe(lambda old, new: sizes.append(len(informer)))
    async with informer.running():
        await informer.synced()
    assert len(server.asks(watch=False)) == 4
    assert sizes == [10] * 10


async def test_events_cut_anywhere_are_put_together_again(running, server, until):
    server.silent = True
    made = server.put("second")
    server.silent = False
    line = json.dumps({"type": "ADDED", "object": made}).encode() + b"\n"
    for start in range(0, len(line), 7):
        server.say(line[start : start + 7])
    await until(lambda: in_step(running, server))


# --- losing the connection ---


async def test_after_a_broken_connection_it_resumes_where_it_was(running, server, until):
    server.put("second")
    await until(lambda: in_step(running, server))
    server.drop()
    await until(lambda: not server.open_streams)
    server.put("third")
    server.remove("first")
    await until(lambda: in_step(running, server))
    assert server.asks(watch=True)[1].query["resourceVersion"] == "102"
    assert running.counts.relists == 0
    assert running.counts.failures == 1


async def test_half_an_event_at_the_end_of_a_connection_changes_nothing(running, server, until):
    line = json.dumps({"type": "DELETED", "object": server.objects["first"]}).encode()
    server.say(line[:-10])
    server.drop()
    await until(lambda: running.counts.watches == 2)
    assert names(running) == ["first"]


async def test_a_watch_that_the_server_ends_is_resumed_at_once(running, server, until):
    await asyncio.sleep(400)
    before = asyncio.get_running_loop().time()
    server.end()
    await until(lambda: running.counts.watches > 1)
    assert asyncio.get_running_loop().time() - before < 0.1


async def test_a_bookmark_moves_the_point_to_resume_at(running, server, until):
    server.version = 500
    server.bookmark()
    server.drop()
    await until(lambda: running.counts.watches == 2)
    assert server.asks(watch=True)[1].query["resourceVersion"] == "500"


async def test_without_the_bookmark_an_old_version_is_compacted_and_it_lists_again(running, server, until):
    """A quiet resource in a busy cluster: the bookmark that would have saved the version was lost."""
    server.version = 500
    server.compact()
    server.drop()
    await until(lambda: running.counts.relists == 1)
    server.put("second")
    await until(lambda: in_step(running, server))


async def test_waits_grow_while_the_server_is_away_and_are_never_alike(running, server, until):
    began = asyncio.get_running_loop().time()
    server.fail(500, times=8)
    server.drop()
    await until(lambda: running.counts.watches == 2, within_s=300)
    took = asyncio.get_running_loop().time() - began
    # 0.5 s doubling up to 30 s, nine times; each between half and all of it.
    assert 60 < took < 122
    assert running.counts.failures == 9


async def test_the_servers_own_delay_is_kept(running, server, until):
    began = asyncio.get_running_loop().time()
    server.fail(429, retry_after=42)
    server.drop()
    await until(lambda: running.counts.watches == 2, within_s=300)
    assert asyncio.get_running_loop().time() - began >= 42


async def test_a_server_that_ends_every_watch_at_once_is_not_hammered(running, server, until):
    def refuse(asked):
        return server._watch(asked)._replace(chunks=nothing())

    async def nothing():
        return
        yield b""

    server.answers = [refuse] * 1000
    server.end()
    began = asyncio.get_running_loop().time()
    await asyncio.sleep(60)
    assert running.counts.watches < 15
    assert asyncio.get_running_loop().time() - began >= 60


# --- losing the thread ---


async def test_gone_at_the_start_of_a_watch_leads_to_a_new_list(running, server, until):
    received = []
    running.subscribe(lambda old, new: received.append((old, new)))
    received.clear()
    server.drop()
    await until(lambda: not server.open_streams)
    server.put("first", colour="red")
    server.put("second")
    server.put("brief")
    server.remove("brief")
    server.compact()
    await until(lambda: in_step(running, server))
    assert running.counts.relists == 1
    assert [(old and old.get("colour"), new["metadata"]["name"]) for old, new in received] == [
        (None, "first"),
        (None, "second"),
    ]
    assert "resourceVersion" not in server.asks(watch=False)[-1].query, "a relist reads with a quorum"


async def test_gone_in_the_middle_of_a_watch_leads_to_a_new_list(running, server, until):
    server.silent = True
    server.remove("first")
    server.silent = False
    server.say({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}})
    await until(lambda: in_step(running, server))
    assert running.counts.relists == 1
    assert len(running) == 0


async def test_another_error_in_the_middle_of_a_watch_leads_to_a_new_try_from_there(running, server, until):
    server.say({"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "etcd is away"}})
    await until(lambda: running.counts.watches == 2)
    assert running.counts.relists == 0


async def test_nonsense_in_the_stream_leads_to_a_new_list(running, server, until):
    server.say(b'{"type": "ADDED", "object": }\n')
    await until(lambda: running.counts.relists == 1)
    assert in_step(running, server)


async def test_repeated_events_are_reported_once(running, server, until):
    received = []
    made = server.put("second")
    running.subscribe(lambda old, new: received.append(new))
    server.send_event("ADDED", made)
    server.send_event("MODIFIED", made)
    server.put("third")
    await until(lambda: in_step(running, server))
    assert [item["metadata"]["name"] for item in received] == ["first", "second", "third"]
    assert running.counts.repeated == 2
    assert running.counts.relists == 0


async def test_an_older_state_never_takes_the_place_of_a_newer_one(running, server, until):
    old = server.objects["first"]
    server.put("first", colour="red")
    await until(lambda: in_step(running, server))
    seen = []
    running.subscribe(lambda was, now: seen.append(now.get("colour")))
    server.send_event("MODIFIED", old)
    await until(lambda: running.counts.relists == 1)
    assert in_step(running, server)
    assert seen == ["red"]


async def test_a_late_deletion_does_not_remove_what_was_created_again(running, server, until):
    gone = server.objects["first"]
    server.remove("first")
    server.put("first", colour="new")
    await until(lambda: in_step(running, server))
    server.send_event("DELETED", gone)
    await until(lambda: running.counts.relists == 1)
    assert in_step(running, server)


async def test_a_server_whose_bookmark_is_behind_us_was_restored_and_is_followed(running, server, until):
    """Versions start over after a backup was restored: ours means nothing there any more."""
    server.put("second")
    server.put("first", colour="red")
    await until(lambda: in_step(running, server))
    server.restore({"first": server.objects["first"] | {"colour": "blue"}}, version=40)
    server.bookmark()
    await until(lambda: in_step(running, server))
    assert running.counts.rewinds == 1
    assert running.get("ns/first")["colour"] == "blue", "the same version can be another state now"


async def test_a_restored_server_that_never_speaks_again_is_found_out(running, server, until):
    """A real API server accepts a watch from its future, and then is silent."""
    server.put("second")
    await until(lambda: in_step(running, server))
    server.silent = True
    server.restore({}, version=40)
    await until(lambda: in_step(running, server), within_s=100)
    assert running.counts.rewinds == 1


# --- refusals ---


async def test_a_kind_that_is_not_installed_yet_is_waited_for(informer, server, until):
    server.fail(404, times=3, reason="NotFound", message="the server could not find the requested resource")
    server.put("a")
    async with informer.running():
        await until(lambda: informer.failure)
        assert not informer.is_synced
        assert not informer.is_fresh
        assert "CustomResourceDefinition installed?" in str(informer.failure)
        await informer.synced()
        await until(lambda: informer.failure is None)
        assert names(informer) == ["a"]


async def test_while_reading_is_forbidden_the_cache_stays_and_says_so(running, server, until):
    message = 'things.test.dev is forbidden: User "x" cannot watch resource "things" in API group "test.dev"'
    server.fail(403, times=100, message=message)
    server.drop()
    await asyncio.sleep(300)
    assert names(running) == ["first"]
    assert not running.is_fresh
    assert isinstance(running.failure, errors.Forbidden)
    assert running.staleness() > 290


async def test_trouble_is_logged_once_not_at_every_try(running, server, until, caplog):
    server.fail(500, times=20, message="etcd is away")
    server.drop()
    await asyncio.sleep(200)
    warnings = [record for record in caplog.records if "etcd is away" in record.getMessage()]
    assert len([record for record in warnings if record.levelname == "WARNING"]) == 1


async def test_a_server_that_lets_in_and_drops_every_time_is_complained_of_once(running, server, caplog):
    def let_in_and_drop(asked):
        answer = server._watch(asked)
        server.drop()
        return answer

    server.answers = [let_in_and_drop] * 100
    server.drop()
    await asyncio.sleep(200)
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1


# --- stopping ---


@pytest.mark.parametrize("moment", ["listing", "watching", "waiting"])
async def test_cancelling_leaves_no_task_and_no_connection(moment, informer, server, transport, until):
    if moment == "listing":

        async def stuck(*asked):
            await asyncio.get_running_loop().create_future()

        transport._handle = stuck
    if moment == "waiting":
        server.fail(500, times=50)
    async with informer.running():
        await until(lambda: informer.phase is ReflectorPhase(moment))
        await asyncio.sleep(0.1)
    assert informer.phase is ReflectorPhase.STOPPED
    assert not server.open_streams
    assert len(transport._open) == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_pace_can_be_changed(client, things, server, until):
    pace = ReflectorTiming(watch_s=(10, 10), silence_s=2, stale_after_s=3)
    informer = Informer(client, things, timing=pace)
    async with informer.running():
        await until(lambda: informer.counts.watches == 2)
    assert server.asks(watch=True)[0].query["timeoutSeconds"] == "10"


# --- nonsense ---


@pytest.mark.parametrize(
    "item",
    [
        {},
        {"metadata": None},
        {"metadata": {"name": "a"}},
        {"metadata": {"name": "a", "resourceVersion": 7}},
        {"metadata": {"name": "a", "resourceVersion": "9" * 5000}},
    ],
    ids=["nothing", "null metadata", "no version", "a number as version", "an endless version"],
)
async def test_objects_that_can_not_be_kept_are_a_failure_and_not_the_end(running, server, until, item):
    server.objects["bad"] = item
    server.say({"type": "ADDED", "object": item})
    await until(lambda: running.failure)
    assert names(running) == ["first"]
    del server.objects["bad"]
    server.put("second")
    await until(lambda: in_step(running, server), within_s=200)


async def test_a_server_that_has_not_come_as_far_as_we_have_is_listed_again(running, server, until):
    server.drop()
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    server.fail(
        504, times=2, watch=True, reason="Timeout", message="Too large resource version", causes=causes
    )
    await until(lambda: running.counts.relists)


async def test_waiting_for_an_informer_that_stops_first_fails(client, things, server):
    server.fail(403, times=100)
    informer = Informer(client, things)
    async with informer.running():
        waiting = asyncio.create_task(informer.synced())
        await asyncio.sleep(1)
    with pytest.raises(RuntimeError, match="stopped before its first list"):
        await waiting


async def test_closing_the_transport_under_a_watch_breaks_the_watch(running, client, server, until):
    await client.close()
    await until(lambda: running.failure)
    assert "the connection was closed" in str(running.failure)
    server.put("second")
    await until(lambda: in_step(running, server))
