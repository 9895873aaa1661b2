"""What a viewer with a valid token can't do: everyone who has any token of the cluster can log in."""

import asyncio
import contextlib
import threading

import aiohttp
import pytest

from rescheduler.http.request_limits import ConnectionLimits
from rescheduler.kube.api_resources import EVENTS
from rescheduler.web import web_api, web_server
from rescheduler.web.migration_page import read_events
from rescheduler.web.web_authorization import Identity, LinkAuthorizer
from rescheduler.web.web_events import EventHub
from rescheduler.web.web_sessions import SessionStore
from tests.unit.web.conftest import Browser, browsing, living, saved_page, token_page
from tests.unit.web.test_live_page import listening


async def test_requests_at_once_cost_one_look_at_permissions():
    """A cluster has thousands of namespaces, and each is a review."""
    async with token_page() as (browser, tables):
        await browser.login("token-of-dev")
        once = tables.reviews
    async with token_page() as (browser, tables):
        await asyncio.gather(*(browser.login("token-of-dev") for _ in range(8)))
        assert tables.reviews == once


async def test_a_viewer_who_may_list_nothing_has_no_plans_made():
    async with token_page() as (browser, _):
        await browser.login("token-of-nobody")
        status, body, _ = await browser.call("what-if", {})
        assert (status, body["message"]) == (403, "you may list neither nodes nor pods")


async def test_many_plans_of_one_viewer_hold_up_no_other(monkeypatch):
    """The plans of the admin take very long: those of another viewer are made meanwhile."""
    gate, plan = threading.Event(), web_api.plan_what_if

    def slow_for_admins(*given, **more):
        if given[-1].sees_all:
            gate.wait(20)
        return plan(*given, **more)

    monkeypatch.setattr(web_api, "plan_what_if", slow_for_admins)
    async with (
        token_page() as (admin, _),
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http,
    ):
        dev = Browser(http, admin.base)
        await admin.login("token-of-admin")
        await dev.login("token-of-dev")
        many = [asyncio.create_task(admin.post("what-if", {"maxMoves": each})) for each in range(1, 9)]
        try:
            await asyncio.sleep(0.1)
            async with asyncio.timeout(10):
                await dev.post("what-if", {})
            assert not any(each.done() for each in many)
        finally:
            gate.set()
        await asyncio.gather(*many)


async def test_what_ifs_of_others_hold_up_no_view(monkeypatch):
    """Two users fill both places for what-ifs with the most expensive ones: pods are found and explained."""
    gate, plan = threading.Event(), web_api.plan_what_if

    def slow(*given, **more):
        gate.wait(20)
        return plan(*given, **more)

    monkeypatch.setattr(web_api, "plan_what_if", slow)
    async with token_page() as (dev, _), contextlib.AsyncExitStack() as stack:
        await dev.login("token-of-dev")
        many = []
        for user in ("admin", "tester"):
            jar = aiohttp.CookieJar(unsafe=True)
            http = await stack.enter_async_context(aiohttp.ClientSession(cookie_jar=jar))
            other = Browser(http, dev.base)
            await other.login(f"token-of-{user}")
            many.append(asyncio.create_task(other.post("what-if", {})))
        try:
            await asyncio.sleep(0.1)
            async with asyncio.timeout(10):
                assert (await dev.get("pods"))["total"]
                await dev.get("nodes/node-1")
            assert not any(each.done() for each in many)
        finally:
            gate.set()
        await asyncio.gather(*many)


async def test_requests_without_a_session_hold_up_no_viewer():
    """Behind a proxy or a port-forward, all clients have the same address."""
    async with (
        token_page() as (viewer, _),
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http,
    ):
        stranger = Browser(http, viewer.base)
        await viewer.login("token-of-dev")
        while (await stranger.call("session"))[0] == 200:
            pass
        assert (await viewer.call("session"))[0] == 200


async def test_one_user_can_not_open_all_pages_there_may_be():
    async with token_page() as (other, _), contextlib.AsyncExitStack() as stack:
        await other.login("token-of-admin")
        found = []
        for _ in range(5):
            jar = aiohttp.CookieJar(unsafe=True)
            browser = Browser(
                await stack.enter_async_context(aiohttp.ClientSession(cookie_jar=jar)), other.base
            )
            await browser.login("token-of-dev")
            opened = [browser.http.get(f"{browser.base}/api/v1/events") for _ in range(10)]
            found += [(await stack.enter_async_context(each)).status for each in opened]
        assert found == [200] * 40 + [429] * 10
        async with listening(other):
            pass


async def test_a_client_that_reads_no_events_is_disconnected(monkeypatch):
    """It opens a stream and reads nothing: when the buffers are full, it has as long as any request."""
    hubs = []

    class Hub(EventHub):
        def __init__(self, page):
            super().__init__(page)
            hubs.append(self)

    monkeypatch.setattr(web_server, "EventHub", Hub)
    monkeypatch.setattr(web_server, "_LIMITS", ConnectionLimits(request_s=1.0))
    page = saved_page()
    authorizer = LinkAuthorizer(page, read_only=True)
    async with browsing(page, authorizer) as browser:
        await browser.login(authorizer.secret)
        (hub,), (cookie,) = hubs, browser.http.cookie_jar
        host, port = browser.base.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port), limit=1024)
        writer.write(f"GET /api/v1/events HTTP/1.1\r\nHost: {host}\r\n".encode())
        writer.write(f"Cookie: {cookie.key}={cookie.value}\r\n\r\n".encode())
        async with asyncio.timeout(20):
            while not hub.viewers:  # noqa: ASYNC110 - nothing tells when
                await asyncio.sleep(0.01)
            for number in range(12):
                hub._emit_shared("resync", {"number": number, "filler": "x" * 1_000_000})
            while hub.viewers:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        async with listening(browser) as stream:  # others are served
            assert await stream.next("resync")
        writer.close()


@pytest.mark.parametrize("action", [{"kind": "drain"}, {"kind": "undrain"}])
async def test_no_answer_says_whether_a_node_exists(action):
    async with token_page() as (browser, _):
        await browser.login("token-of-nobody")
        answers = [
            (await browser.call("actions/preview", action | {"node": name}))[:2]
            for name in ("node-1", "node-that-is-not")
        ]
        assert answers[0] == answers[1]
        assert answers[0][0] == 403


class Known:
    """Authenticates a token as the user of its first word."""

    def __init__(self):
        self.meanwhile = lambda: None

    async def authenticate(self, token):
        self.meanwhile()
        return Identity(token.split()[0])


async def test_one_user_ends_no_session_of_others():
    store = SessionStore(Known())
    secret, _ = await store.begin("victim")
    for number in range(1_100):
        latest, _ = await store.begin(f"attacker {number}")
    assert await store.find(secret) is not None
    assert await store.find(latest) is not None


async def test_a_logout_during_a_review_ends_the_session():
    now, known = [0.0], Known()
    store = SessionStore(known, clock=lambda: now[0])
    secret, session = await store.begin("me")
    now[0], known.meanwhile = 61.0, lambda: store.end(session)
    assert await store.find(secret) is None


async def test_many_events_of_others_are_read_in_small_pages():
    """Tenants with the role edit can create them, each as large as an object can be."""
    limits = set()

    def counting(inner):
        async def handle(method, target, headers, body):
            if method == "GET" and "/events" in target and "watch" not in target:
                limits.add("limit=20" in target)
            return await inner(method, target, headers, body)

        return handle

    async with living(handle=counting) as (_, client):
        for number in range(70):
            ours = number in {0, 69}
            await client.create(
                EVENTS,
                {
                    "metadata": {"namespace": "shop", "name": f"event-{number:03}"},
                    "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "web"},
                    "source": {"component": "rescheduler" if ours else "tenant"},
                    "message": "move-1 begins",
                },
            )
        found, notes = await read_events(client, "shop", "move-1")
    assert [each["metadata"]["name"] for each in found] == ["event-000", "event-069"]
    assert notes == []
    assert limits == {True}
