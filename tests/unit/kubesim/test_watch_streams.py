"""Watches: where they start, which events they send, and how they end."""

import asyncio

import pytest

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def make(api, name, **labels):
    return (await api.post(MAPS, {"metadata": {"name": name, "labels": labels}})).body


class TestBeginning:
    @pytest.mark.parametrize("query", ["", "?resourceVersion=0"])
    async def test_without_a_version_all_there_is_comes_first(self, api, query):
        await make(api, "a")
        await make(api, "b")
        async with api.watch(MAPS + query) as events:
            assert await events.take(2) == [("ADDED", "a"), ("ADDED", "b")]
            await make(api, "c")
            assert await events.take(1) == [("ADDED", "c")]

    async def test_from_a_version_only_what_came_after_it(self, api):
        version = (await make(api, "a"))["metadata"]["resourceVersion"]
        await make(api, "b")
        async with api.watch(f"{MAPS}?resourceVersion={version}") as events:
            assert await events.take(1) == [("ADDED", "b")]

    async def test_a_compacted_version_is_an_error_within_the_stream(self, api):
        version = (await make(api, "a"))["metadata"]["resourceVersion"]
        await make(api, "b")
        api.server.store.compact()
        async with api.watch(f"{MAPS}?resourceVersion={version}") as events:
            (event,) = await events.rest()
        assert event["type"] == "ERROR"
        assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
        newest = api.server.store.version
        assert event["object"]["message"] == f"too old resource version: {version} ({newest})"

    async def test_initial_events_end_with_a_marked_bookmark(self, api):
        await make(api, "a")
        query = "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
        async with api.watch(f"{MAPS}?{query}") as events:
            assert await events.take(1) == [("ADDED", "a")]
            bookmark = await events.next()
            assert bookmark["type"] == "BOOKMARK"
            assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
            assert bookmark["object"]["metadata"]["resourceVersion"] == str(api.server.store.version)

    async def test_initial_events_survive_that_the_history_after_them_is_forgotten(self, api):
        await make(api, "a")
        query = "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
        async with api.watch(f"{MAPS}?{query}") as events:
            await make(api, "b")
            api.server.store.compact()
            assert [event["type"] for event in await events.rest()] == ["ADDED", "BOOKMARK"]


class TestReportedChanges:
    async def test_an_object_that_begins_or_ceases_to_match_comes_and_goes(self, api):
        version = (await make(api, "a", color="red"))["metadata"]["resourceVersion"]
        async with api.watch(f"{MAPS}?labelSelector=color%3Dred&resourceVersion={version}") as events:
            await api.patch(MAPS + "/a", {"metadata": {"labels": {"color": "blue"}}})
            gone = await events.next()
            assert gone["type"] == "DELETED"
            assert gone["object"]["metadata"]["labels"] == {"color": "red"}
            assert gone["object"]["metadata"]["resourceVersion"] == str(api.server.store.version)
            await api.patch(MAPS + "/a", {"metadata": {"labels": {"color": "red"}}})
            assert await events.take(1) == [("ADDED", "a")]

    async def test_one_object_alone(self, api):
        async with api.watch(MAPS + "?fieldSelector=metadata.name%3Db") as events:
            await make(api, "a")
            await make(api, "b")
            assert await events.take(1) == [("ADDED", "b")]

    async def test_as_tables_with_the_columns_in_the_first(self, api):
        await make(api, "a")
        async with api.watch(MAPS, accept=TABLE) as events:
            await make(api, "b")
            first, second = (await events.next())["object"], (await events.next())["object"]
        assert first["columnDefinitions"]
        assert not second["columnDefinitions"]
        assert second["rows"][0]["cells"][0] == "b"

    async def test_the_ages_in_tables_are_those_of_their_moment(self, api, clock):
        async with api.watch(MAPS, accept=TABLE) as events:
            clock.advance(100)
            await make(api, "late")
            table = (await events.next())["object"]
        assert table["rows"][0]["cells"] == ["late", 0, "0s"]

    async def test_what_does_not_change_is_not_reported(self, api):
        version = (await make(api, "a"))["metadata"]["resourceVersion"]
        async with api.watch(f"{MAPS}?resourceVersion={version}") as events:
            await api.patch(MAPS + "/a", {"metadata": {"labels": {}}})
            await make(api, "b")
            assert await events.take(1) == [("ADDED", "b")]


class TestBookmarks:
    async def test_come_every_minute_with_the_newest_version(self, api, clock):
        version = (await make(api, "a"))["metadata"]["resourceVersion"]
        async with api.watch(f"{MAPS}?resourceVersion={version}&allowWatchBookmarks=true") as events:
            reading = asyncio.ensure_future(events.next())
            await asyncio.sleep(0)
            await api.post("/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}})
            clock.advance(60)
            bookmark = await reading
        assert bookmark["type"] == "BOOKMARK"
        assert bookmark["object"]["kind"] == "ConfigMap"
        assert bookmark["object"]["metadata"]["resourceVersion"] == str(api.server.store.version)

    async def test_come_once_more_just_before_the_end(self, api, clock):
        async with api.watch(MAPS + "?allowWatchBookmarks=true&timeoutSeconds=30") as events:
            reading = asyncio.ensure_future(events.rest())
            for _ in range(30):
                await asyncio.sleep(0)
                clock.advance(1)
            assert [event["type"] for event in await reading] == ["BOOKMARK"]

    async def test_never_run_ahead_of_what_a_slow_reader_received(self, api, clock):
        version = (await make(api, "a"))["metadata"]["resourceVersion"]
        async with api.watch(f"{MAPS}?resourceVersion={version}&allowWatchBookmarks=true") as events:
            reported = await make(api, "b")
            assert await events.take(1) == [("ADDED", "b")]
            clock.advance(61)
            await make(api, "c")
            bookmark = await events.next()
            assert (
                bookmark["object"]["metadata"]["resourceVersion"] == reported["metadata"]["resourceVersion"]
            )
            assert await events.take(1) == [("ADDED", "c")]

    async def test_do_not_come_unasked(self, api, clock):
        async with api.watch(MAPS + "?timeoutSeconds=300") as events:
            reading = asyncio.ensure_future(events.rest())
            await asyncio.sleep(0)
            clock.advance(301)
            assert await reading == []


class TestEnding:
    async def test_closing_the_answer_ends_the_watch(self, api):
        async with api.watch(MAPS) as events:
            await make(api, "a")
            await events.next()
            assert len(api.server.watches) == 1
        assert len(api.server.watches) == 0

    async def test_the_server_may_drop_it(self, api):
        async with api.watch(MAPS) as events:
            await make(api, "a")
            await events.next()
            reading = asyncio.ensure_future(events.rest())
            await asyncio.sleep(0)
            assert api.server.watches.drop() == 1
            assert await reading == []


async def test_watches_are_told_of_a_change_in_the_order_in_which_they_were_opened(api):
    """In the order of a set, a seed would have another history in each run."""
    told = []

    async def follow(number):
        async with api.watch(MAPS) as events:
            await events.take(2)
            told.append(number)

    await make(api, "a")
    async with asyncio.TaskGroup() as tasks:
        for number in range(40):
            tasks.create_task(follow(number))
        for _ in range(5):
            await asyncio.sleep(0)
        await make(api, "b")
    assert told == list(range(40))
