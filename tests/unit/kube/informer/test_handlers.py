"""Handlers receive every change of the cache once, in order, with the old and the new object."""

import asyncio

import pytest

from rescheduler.kube.informer import Informer


@pytest.fixture
async def informer(client, things, server, until):
    made = Informer(client, things, indices={"colour": lambda item: item.get("colours", [])})
    server.put("first", colours=["red"])
    async with made.running():
        await made.synced()
        await until(lambda: server.open_streams)
        yield made


def words(old, new) -> str:
    if old is None:
        return f"added {new['metadata']['name']}"
    if new is None:
        return f"deleted {old['metadata']['name']}"
    return f"{old['metadata']['name']}: {old.get('size')} to {new.get('size')}"


async def test_added_changed_and_deleted_are_reported_with_old_and_new(informer, server, until):
    received = []
    informer.subscribe(lambda old, new: received.append(words(old, new)))
    server.put("second", size=1)
    server.put("second", size=2)
    server.remove("second")
    await until(lambda: len(received) == 4)
    assert received == ["added first", "added second", "second: 1 to 2", "deleted second"]


async def test_what_was_missed_is_reported_after_a_new_list_deletions_first(informer, server, until):
    server.put("changes", size=1)
    server.put("stays", size=1)
    await until(lambda: len(informer) == 3)
    received = []
    informer.subscribe(lambda old, new: received.append(words(old, new)))
    received.clear()
    server.drop()
    server.silent = True
    server.put("changes", size=2)
    server.remove("first")
    server.put("comes")
    server.silent = False
    server.compact()
    await until(lambda: informer.counts.relists)
    assert received == ["deleted first", "changes: 1 to 2", "added comes"]


async def test_an_object_that_is_created_again_is_reported_as_deleted_and_added(informer, server, until):
    received = []
    informer.subscribe(lambda old, new: received.append(words(old, new)))
    received.clear()
    server.drop()
    server.remove("first")
    server.put("first", size=9)
    server.compact()
    await until(lambda: informer.counts.relists)
    assert received == ["deleted first", "added first"]


async def test_the_cache_has_a_change_before_a_handler_receives_it(informer, server, until):
    seen = []
    informer.subscribe(lambda old, new: seen.append(informer.get("ns/second")))
    server.put("second", size=1)
    server.remove("second")
    await until(lambda: len(seen) == 3)
    assert [item and item["size"] for item in seen] == [None, 1, None]


async def test_a_handler_that_raises_harms_neither_the_others_nor_itself(informer, server, until, caplog):
    received, broken = [], []

    def raises(old, new):
        broken.append(new)
        raise ValueError("no")

    informer.subscribe(raises)
    informer.subscribe(lambda old, new: received.append(words(old, new)))
    server.put("second")
    server.put("third")
    await until(lambda: len(informer) == 3)
    assert received == ["added first", "added second", "added third"]
    assert len(broken) == 3
    assert informer.counts.handler_failures == 3
    assert "a handler of things.test.dev failed for ns/second" in caplog.text
    assert informer.counts.relists == 0


async def test_a_slow_handler_shows_as_lag(informer, server, until):
    loop = asyncio.get_running_loop()

    def slow(old, new):
        loop.jump(3)

    informer.subscribe(slow)
    server.put("second")
    await until(lambda: len(informer) == 2)
    assert informer.counts.lag_s == pytest.approx(3)
    server.bookmark()
    await until(lambda: informer.counts.bookmarks)
    assert informer.counts.lag_s == 0
    assert informer.counts.worst_lag_s == pytest.approx(3)


async def test_a_handler_receives_nothing_after_it_unsubscribed(informer, server, until):
    received = []
    leave = informer.subscribe(lambda old, new: received.append(new))
    leave()
    server.put("second")
    await until(lambda: len(informer) == 2)
    assert len(received) == 1


async def test_a_subscriber_from_within_a_handler_receives_everything_once(informer, server, until):
    late = []

    def invite(old, new):
        if not late:
            late.append("subscribed")
            informer.subscribe(lambda old, new: late.append(words(old, new)))

    server.drop()
    server.silent = True
    server.put("second")
    server.put("third")
    server.silent = False
    server.compact()
    informer._handlers[object()] = invite
    await until(lambda: informer.counts.relists)
    assert sorted(late) == ["added first", "added second", "added third", "subscribed"]


async def test_indices_follow_every_change(informer, server, until):
    def found(colour):
        return sorted(item["metadata"]["name"] for item in informer.find("colour", colour))

    assert found("red") == ["first"]
    server.put("second", colours=["red", "blue", "red"])
    server.put("first", colours=["green"])
    await until(lambda: found("green"))
    assert found("red") == found("blue") == ["second"]
    server.remove("second")
    await until(lambda: len(informer) == 1)
    assert found("red") == found("blue") == []
    with pytest.raises(KeyError):
        informer.find("shape", "round")


async def test_a_handler_that_goes_and_comes_again_meanwhile_receives_everything_once(
    informer, server, until
):
    received = []

    def listen(old, new):
        received.append(words(old, new))

    def change_places(old, new):
        if new["metadata"]["name"] == "second":
            leave()
            received.clear()
            informer.subscribe(listen)

    informer.subscribe(change_places)
    leave = informer.subscribe(listen)
    server.put("second")
    server.put("third")
    await until(lambda: len(informer) == 3)
    assert received == ["added first", "added second", "added third"]
