"""Each verb of the client: the request that is sent, and the meaning of each response."""

import asyncio
import random

import pytest

from kubesim.virtual_time import run_virtual
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import DEPLOYMENTS, apply_patch, json_patch, merge_patch, strategic_patch
from rescheduler.kube.client import Client


async def test_get_asks_for_the_one_object(client, server, things):
    made = server.put("a")
    assert await client.get(things, "ns/a") == made
    asked = server.asked[0]
    assert (asked.method, asked.path, asked.query) == ("GET", "/apis/test.dev/v1/namespaces/ns/things/a", {})
    assert asked.headers["user-agent"].startswith("rescheduler/")


async def test_get_or_none_returns_none_only_for_a_missing_object(client, server, things):
    made = server.put("a")
    assert await client.get_or_none(things, "ns/a") == made
    assert await client.get_or_none(things, "ns/b") is None
    with pytest.raises(errors.InvalidName):
        await client.get_or_none(things, "ns/..")


async def test_objects_of_the_core_group_and_of_the_cluster_have_their_own_paths():
    assert PODS.object_path("ns", "a") == "/api/v1/namespaces/ns/pods/a"
    assert NODES.object_path("", "a") == "/api/v1/nodes/a"
    assert DEPLOYMENTS.scale.object_path("ns", "a") == "/apis/apps/v1/namespaces/ns/deployments/a/scale"
    assert PODS.status.object_path("ns", "a") == "/api/v1/namespaces/ns/pods/a/status"


# --- lists ---


async def test_a_list_in_pages_is_one_list_at_one_version(client, server, things):
    for number in range(7):
        server.put(f"thing-{number}")
    page = await client.list(things, page_size=3)
    assert [item["metadata"]["name"] for item in page.items] == [f"thing-{number}" for number in range(7)]
    assert page.resource_version == "107"
    assert [asked.query.get("continue") for asked in server.asked] == [None, "3", "6"]


async def test_pages_that_follow_name_no_version(client, server, things):
    """The token has it; naming both is refused by real servers."""
    for number in range(3):
        server.put(f"thing-{number}")
    await client.list(things, version="50", match="NotOlderThan", labels="a=b", page_size=2)
    first, second = server.asked
    assert first.query["resourceVersionMatch"] == "NotOlderThan"
    assert "resourceVersion" not in second.query
    assert "resourceVersionMatch" not in second.query
    assert second.query["labelSelector"] == "a=b"


async def test_pages_that_expire_on_the_way_are_read_again_all_at_once(client, server, things):
    for number in range(5):
        server.put(f"thing-{number}")
    gone = server.fail

    def expire(asked):
        if asked.query.get("continue") == "4":
            gone(410, reason="Expired")
            return server.answers.pop()(asked)
        return None

    server.answers.append(expire)
    page = await client.list(things, page_size=2)
    assert len(page.items) == 5
    assert "limit" not in server.asked[-1].query


# --- writes ---


async def test_create_posts_to_the_collection_and_names_the_field_manager(client, server, things):
    item = {"metadata": {"namespace": "ns", "generateName": "a-"}, "spec": {"x": 1}}
    assert await client.create(things, item) == item
    asked = server.asked[0]
    assert (asked.method, asked.path) == ("POST", "/apis/test.dev/v1/namespaces/ns/things")
    assert asked.query == {"fieldManager": "rescheduler"}
    assert asked.json == item


async def test_replace_puts_the_whole_object(client, server, things):
    made = server.put("a")
    await client.replace(things, made, dry_run=True)
    asked = server.asked[0]
    assert (asked.method, asked.path) == ("PUT", "/apis/test.dev/v1/namespaces/ns/things/a")
    assert asked.query == {"fieldManager": "rescheduler", "dryRun": "All"}


@pytest.mark.parametrize(
    ("patch", "content_type"),
    [
        pytest.param(json_patch([{"op": "remove", "path": "/a"}]), "application/json-patch+json", id="JSON"),
        pytest.param(merge_patch({"a": None}), "application/merge-patch+json", id="merge"),
        pytest.param(
            strategic_patch({"a": 1}), "application/strategic-merge-patch+json", id="strategic merge"
        ),
        pytest.param(apply_patch({"a": 1}), "application/apply-patch+yaml", id="server-side apply"),
    ],
)
async def test_each_patch_says_what_it_is(patch, content_type, client, server, things):
    server.put("a")
    await client.patch(things, "ns/a", patch)
    asked = server.asked[0]
    assert asked.method == "PATCH"
    assert asked.headers["content-type"] == content_type
    assert asked.body == patch.body


async def test_apply_names_its_manager_and_may_take_fields_over(client, server, things):
    server.put("a")
    await client.patch(things, "ns/a", apply_patch({}, field_manager="me", force=True), dry_run=True)
    assert server.asked[0].query == {"fieldManager": "me", "force": "true", "dryRun": "All"}


async def test_a_status_patch_goes_to_the_status_only(client, server, things):
    await client.patch(things.status, "ns/a", merge_patch({"status": {"x": 1}}))
    assert server.asked[0].path == "/apis/test.dev/v1/namespaces/ns/things/a/status"


async def test_delete_sends_its_preconditions(client, server, things):
    server.put("a")
    await client.delete(
        things, "ns/a", uid="u", version="7", grace_s=0, propagation="Foreground", dry_run=True
    )
    asked = server.asked[0]
    assert asked.method == "DELETE"
    assert asked.json == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Foreground",
        "dryRun": ["All"],
    }


async def test_an_eviction_names_the_pod_it_means(client, server):
    await client.evict("shop/web-1", uid="u", grace_s=5, dry_run=True)
    asked = server.asked[0]
    assert (asked.method, asked.path) == ("POST", "/api/v1/namespaces/shop/pods/web-1/eviction")
    assert asked.json == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": "shop", "name": "web-1"},
        "deleteOptions": {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": "u"},
            "gracePeriodSeconds": 5,
            "dryRun": ["All"],
        },
    }


async def test_a_write_that_was_refused_for_overload_is_not_repeated(client, server, things):
    server.fail(503, retry_after=1)
    with pytest.raises(errors.Overloaded):
        await client.create(things, {"metadata": {"namespace": "ns", "name": "a"}})
    assert len(server.asked) == 1


async def test_a_write_whose_answer_was_lost_may_have_happened(client, server, things):
    server.break_next()
    with pytest.raises(errors.Unreachable, match="write may have succeeded") as lost:
        await client.delete(things, "ns/a")
    assert lost.value.may_have_happened
    assert len(server.asked) == 1


async def test_a_read_whose_answer_was_lost_changed_nothing(client, server, things):
    server.break_next()
    with pytest.raises(errors.Unreachable) as lost:
        await client.get(things, "ns/a")
    assert not lost.value.may_have_happened


async def test_a_read_that_is_put_off_is_repeated_after_the_delay(client, server, things, monkeypatch):
    waits = []

    async def note(seconds):
        waits.append(seconds)

    monkeypatch.setattr("rescheduler.kube.request_sender.asyncio.sleep", note)
    server.put("a")
    server.fail(429, retry_after=2)
    server.fail(503)
    assert (await client.get(things, "ns/a"))["metadata"]["name"] == "a"
    assert waits == [2, 1]


async def test_a_read_fails_if_the_server_asks_for_a_long_delay(client, server, things):
    server.fail(429, retry_after=600)
    with pytest.raises(errors.Overloaded) as refused:
        await client.get(things, "ns/a")
    assert refused.value.delay_s == 600


async def test_a_server_that_does_not_answer_times_out(server, transport, things):
    async def never(*asked):
        await asyncio.sleep(60)

    transport._handle = never
    with pytest.raises(errors.Unreachable, match=r"can't list things.test.dev: no answer within 0.05 s"):
        await Client(transport, timeout_s=0.05).list(things)


@pytest.mark.parametrize("code", [200, 500], ids=["a good answer", "a refusal"])
async def test_a_list_that_stops_halfway_times_out(server, transport, things, code):
    server.answers.append(slowly(server, code, [0.0, 60.0]))
    with pytest.raises(errors.Unreachable, match=r"no data for 0.05 s"):
        await Client(transport, timeout_s=0.05).list(things)


def test_a_list_may_take_longer_than_the_time_out_as_long_as_it_goes_on(server, transport, things):
    server.put("a")
    server.answers.append(slowly(server, 200, [0.2] * 20))
    # In virtual time: on a busy machine, a delay may be longer than the time-out.
    page = run_virtual(Client(transport, timeout_s=0.25).list(things))
    assert [item["metadata"]["name"] for item in page.items] == ["a"]


def slowly(server, code, delays):
    """An answer in as many parts as there are delays."""

    def answer(asked):
        whole = server._list({})

        async def chunks():
            body = b"".join([chunk async for chunk in whole.chunks])
            size = -(-len(body) // len(delays))
            for number, delay in enumerate(delays):
                await asyncio.sleep(delay)
                yield body[number * size : (number + 1) * size]

        return whole._replace(status=code, chunks=chunks())

    return answer


async def test_an_answer_that_is_no_json_is_unreadable(client, server, things):
    def html(asked):
        answer = server._list({})

        async def chunks():
            yield b"<html>"

        return answer._replace(chunks=chunks())

    server.answers.append(html)
    with pytest.raises(errors.InvalidResponse):
        await client.list(things)


async def test_every_request_is_observed_with_its_verb_and_code(transport, server, things):
    seen = []
    client = Client(
        transport, observer=lambda call, code, seconds: seen.append((call.verb, code, seconds >= 0))
    )
    server.put("a")
    await client.list(things)
    with pytest.raises(errors.NotFound):
        await client.get(things, "ns/b")
    server.break_next()
    with pytest.raises(errors.Unreachable):
        await client.delete(things, "ns/a")
    assert seen == [("list", 200, True), ("get", 404, True), ("delete", 0, True)]


# --- watches ---


async def test_a_watch_gives_events_and_ends_when_the_server_ends_it(client, server, things):
    async with client.watch(things, version="100") as watch:
        server.put("a")
        server.remove("a")
        server.end()
        assert [event.type async for event in watch] == ["ADDED", "DELETED"]


async def test_leaving_a_watch_closes_it(client, server, things, transport):
    async with client.watch(things, version="100") as watch:
        server.put("a")
        await anext(watch)
    assert not server.open_streams
    assert len(transport._open) == 0


async def test_a_watch_from_too_old_a_version_is_gone(client, server, things):
    server.compact()
    with pytest.raises(errors.Gone):
        async with client.watch(things, version="5"):
            pass


async def test_a_silent_watch_is_given_up_if_asked_for(client, server, things):
    async with client.watch(things, version="100", silence_s=0.05) as watch:
        with pytest.raises(errors.WatchStalled, match=r"no event for 0\.05 s"):
            await anext(watch)
    assert not server.open_streams


async def test_any_cut_of_the_stream_gives_the_same_events(client, server, things):
    rng = random.Random(3)
    for _ in range(5):
        async with client.watch(things, version="100") as watch:
            lines = b"".join(
                b'{"type":"ADDED","object":{"metadata":{"name":"%d","resourceVersion":"%d"}}}\n'
                % (n, 101 + n)
                for n in range(9)
            )
            while lines:
                size = rng.randint(1, 60)
                server.say(lines[:size])
                lines = lines[size:]
            server.end()
            assert [event.resource_version async for event in watch] == [str(101 + n) for n in range(9)]
