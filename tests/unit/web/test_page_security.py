"""Which users get access, and what other sites and faulty clients can't do."""

import asyncio
import contextlib

import pytest

from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.transport import InProcessTransport
from rescheduler.web.web_authorization import LinkAuthorizer, TokenAuthorizer
from rescheduler.web.web_server import PageOptions
from rescheduler.web.web_sessions import RequestRates, SessionStore
from tests.unit.web.conftest import Cluster, browsing, saved_page, token_page
from tests.unit.web.test_live_page import listening


@pytest.fixture
async def stranger():
    """A browser without a session."""
    page = saved_page()
    async with browsing(page, LinkAuthorizer(page, read_only=True)) as browser:
        yield browser


@pytest.mark.parametrize(
    "path", ["cluster", "plan", "pods", "migrations", "events", "status", "nodes/worker-0"]
)
async def test_nothing_is_shown_without_a_session(stranger, path):
    status, body, _ = await stranger.call(path)
    assert (status, body["reason"]) == (401, "Unauthorized")


async def test_a_wrong_secret_does_not_log_in(stranger):
    assert (await stranger.login("guess"))[0] == 401
    assert not (await stranger.get("session"))["authenticated"]
    assert "csrfToken" in await stranger.get("session")
    assert (await stranger.get("session"))["clusterName"] == ""


async def test_logins_can_not_be_guessed_in_bulk(stranger):
    seen = [(await stranger.login(f"guess {number}"))[0] for number in range(12)]
    assert seen[:10] == [401] * 10
    assert set(seen[10:]) == {429}


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example:80"])
async def test_other_host_names_are_refused(shop, host):
    """A site that points its name at loopback must not read the page."""
    status, body, _ = await shop.call("cluster", headers={"Host": host})
    assert (status, body["reason"]) == (421, "WrongHost")


async def test_the_cookie_is_for_this_site_and_no_script(stranger):
    page = saved_page()
    authorizer = LinkAuthorizer(page, read_only=True)
    async with browsing(page, authorizer) as browser:
        _, _, headers = await browser.call("login", {"token": authorizer.secret})
        cookie = headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert authorizer.secret not in cookie


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"X-Rescheduler-CSRF": "wrong"}, id="a wrong token"),
        pytest.param({"X-Rescheduler-CSRF": ""}, id="no token"),
        pytest.param({"Origin": "https://evil.example"}, id="another origin"),
        pytest.param({"Sec-Fetch-Site": "cross-site"}, id="another site"),
    ],
)
async def test_other_sites_can_not_change_anything(shop, headers):
    assert (await shop.call("what-if", {}))[0] == 200
    assert (await shop.call("what-if", {}, headers=headers))[0] == 403


async def test_only_json_is_read(shop):
    """A form of another site can't send JSON."""
    url, headers = f"{shop.base}/api/v1/what-if", {"X-Rescheduler-CSRF": shop.csrf}
    async with shop.http.post(url, data="{}", headers=headers) as answer:
        assert answer.status == 415
    async with shop.http.post(
        url, data=b"{" * 300_000, headers={**headers, "Content-Type": "application/json"}
    ) as answer:
        assert answer.status == 413


async def test_no_script_but_our_own_runs_in_the_page(shop):
    for path in ("/", "/api/v1/session", "/nothing"):
        _, _, headers = await shop.call(path)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy


async def test_only_files_of_the_page_are_served(shop):
    for path in ("/../api_types.py", "/%2e%2e/api_types.py", "/static/index.html", "/etc/passwd"):
        assert (await shop.call(path))[0] == 404
    status, body, headers = await shop.call("/")
    assert status == 200
    assert "<!doctype html>" in body
    assert headers["Cache-Control"] == "no-cache"
    assert (await shop.call("/", headers={"If-None-Match": headers["ETag"]}))[0] == 304


async def test_logout_ends_the_session(shop):
    await shop.post("logout", {})
    assert (await shop.call("cluster"))[0] == 401


async def test_a_login_gives_a_new_cookie_and_ends_the_session_of_the_old_one():
    """A cookie that another user planted, or has kept, leads to no session after the login."""
    page = saved_page()
    authorizer = LinkAuthorizer(page, read_only=True)
    async with browsing(page, authorizer) as browser:
        await browser.login(authorizer.secret)
        (before,) = browser.http.cookie_jar
        planted = {"Cookie": f"{before.key}={before.value}"}
        await browser.login(authorizer.secret)
        (after,) = browser.http.cookie_jar
        assert after.value != before.value
        browser.http.cookie_jar.clear()
        assert (await browser.call("cluster", headers=planted))[0] == 401


@pytest.mark.parametrize("planted", ["0" * 43, "../../etc", "%00", "a" * 4000])
async def test_the_cookie_of_a_client_never_becomes_a_session(planted):
    page = saved_page()
    authorizer = LinkAuthorizer(page, read_only=True)
    async with browsing(page, authorizer) as browser:
        headers = {"Cookie": f"{authorizer.cookie}={planted}; rescheduler-session={planted}"}
        status, _, answer = await browser.call("login", {"token": authorizer.secret}, headers=headers)
        assert status == 200
        assert planted not in answer["Set-Cookie"]
        browser.http.cookie_jar.clear()
        assert (await browser.call("cluster", headers=headers))[0] == 401


def test_rates_are_bounded_and_recover():
    now = [0.0]
    rates = RequestRates(per_second=1, burst=2, clock=lambda: now[0], most=2)
    assert [rates.allows("a") for _ in range(3)] == [True, True, False]
    now[0] = 1.0
    assert rates.allows("a")
    assert rates.allows("b")
    assert rates.allows("c")


async def test_a_client_that_asks_too_often_waits():
    """Five seconds' worth of requests may come at once; then there are as many as the rate allows."""
    page = saved_page()
    authorizer = LinkAuthorizer(page, read_only=True)
    async with browsing(page, authorizer, PageOptions(requests_per_second=2.0)) as browser:
        await browser.login(authorizer.secret)
        seen = [(await browser.call("session"))[0] for _ in range(12)]
        assert seen[:8] == [200] * 8
        assert seen[-1] == 429
        assert (await browser.call("/"))[0] == 200, "the page itself still loads, to say so"


async def test_not_too_many_plans_are_made_at_once(shop):
    """Two are computed, sixteen may wait; the rest gets an error to try again."""
    found = await asyncio.gather(*(shop.call("what-if", {"maxMoves": number}) for number in range(1, 41)))
    statuses = [status for status, _, _ in found]
    assert statuses.count(200) >= 16
    assert 429 in statuses
    assert set(statuses) == {200, 429}


async def test_a_session_has_a_limited_number_of_open_pages(shop):
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(10):
            await stack.enter_async_context(listening(shop))
        status, body, _ = await shop.call("events")
        assert (status, body["message"]) == (429, "too many open pages")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param("login", {"token": "x" * 20_000}, id="a token"),
        pytest.param("what-if", {"drain": ["x" * 300]}, id="a name"),
        pytest.param("what-if", {"drain": ["x"] * 10_000}, id="a list"),
        pytest.param("what-if", {"maxMoves": 10_000}, id="a plan, which would take a quarter of a minute"),
        pytest.param(
            "what-if",
            {"pin": [{"pod": f"shop/web-{each}", "node": "worker-0"} for each in range(100)]},
            id="pinned pods, each of which is explained",
        ),
        pytest.param("actions/preview", {"kind": "pause", "why": "x" * 100_000}, id="a reason"),
    ],
)
async def test_what_is_too_long_is_refused(shop, path, body):
    assert (await shop.call(path, body))[0] in {403, 422}


# --- in the cluster


async def test_a_review_that_failed_is_made_again():
    """A token that is revoked while no review can be made ends its session with the first review that can."""
    tables, now = Cluster(), [0.0]

    async def nothing_else(*_):
        raise AssertionError

    client = Client(InProcessTransport(tables(nothing_else)))
    store = SessionStore(TokenAuthorizer(saved_page(), client, read_only=True), clock=lambda: now[0])
    secret, session = await store.begin("token-of-dev")
    now[0] = 61.0
    tables.is_broken = True
    for _ in range(2):
        with pytest.raises(errors.KubeError):
            await store.find(secret)
    tables.revoked.add("token-of-dev")
    tables.is_broken = False
    assert await store.find(secret) is None
    assert not store.is_open(session)


async def test_a_valid_token_is_reviewed_once_a_minute():
    tables, now = Cluster(), [0.0]

    async def nothing_else(*_):
        raise AssertionError

    client = Client(InProcessTransport(tables(nothing_else)))
    store = SessionStore(TokenAuthorizer(saved_page(), client, read_only=True), clock=lambda: now[0])
    secret, session = await store.begin("token-of-dev")
    tables.revoked.add("token-of-dev")
    now[0] = 59.0
    assert await store.find(secret) is session
    now[0] = 61.0
    assert await store.find(secret) is None


async def test_a_viewer_sees_only_namespaces_whose_pods_they_may_list():
    """dev may list pods of shop and nodes: nothing of the namespace secret has a name for them."""
    async with token_page() as (browser, _):
        assert (await browser.login("token-of-dev"))[0] == 200
        session = await browser.get("session")
        assert (session["user"], session["namespaces"], session["seesNodes"]) == ("dev", ["shop"], True)
        assert {pod["pod"].partition("/")[0] for pod in (await browser.get("pods?limit=500"))["pods"]} == {
            "shop"
        }
        node = await browser.get("nodes/node-1")
        assert node["hiddenPods"] == 1
        plan = await browser.get("plan")
        text = "".join(map(str, (node, plan, await browser.get("status"), await browser.get("migrations"))))
        assert "vault" not in text
        assert (await browser.call("pods/secret/vault-x/explain"))[0] == 404


async def test_an_admin_sees_all():
    async with token_page() as (browser, tables):
        await browser.login("token-of-admin")
        assert {"shop", "secret"} <= {
            pod["pod"].partition("/")[0] for pod in (await browser.get("pods?limit=500"))["pods"]
        }
        asked = tables.reviews
        await browser.get("plan")
        await browser.get("session")
        assert tables.reviews == asked, "permissions are not asked for again at once"


async def test_a_viewer_who_may_list_nothing_sees_nothing():
    async with token_page() as (browser, _):
        await browser.login("token-of-nobody")
        assert (await browser.get("pods"))["total"] == 0
        assert (await browser.call("cluster"))[0] == 403
        assert (await browser.get("plan"))["waves"] == []


async def test_an_unknown_token_does_not_log_in():
    async with token_page() as (browser, _):
        assert (await browser.login("token-of-a-thief"))[0] == 401


async def test_a_token_for_our_audience_can_look_but_not_act():
    """The API server does not accept it: nothing can be done with it, whatever other tokens the user has."""
    async with token_page() as (browser, _):
        _, acting = await browser.login("token-of-admin")
        assert acting["actions"]["pause"]
        status, session = await browser.login("bound-token-of-admin")
        assert status == 200
        assert session["actions"] == {}
        status, body, _ = await browser.call("actions/preview", {"kind": "pause"})
        assert status == 403
        assert "audience" in body["message"]


async def test_actions_are_offered_as_far_as_permissions_go():
    async with token_page() as (browser, _):
        _, session = await browser.login("token-of-dev")
        assert session["actions"]["move"]
        assert not session["actions"]["drain"]
        status, body, _ = await browser.call("actions/preview", {"kind": "drain", "node": "node-1"})
        assert (status, body["message"]) == (403, "you may not drain")


async def test_a_read_only_page_offers_no_action():
    async with token_page(read_only=True) as (browser, _):
        _, session = await browser.login("token-of-admin")
        assert session["actions"] == {}
        assert session["readOnly"]
        assert (await browser.call("actions/preview", {"kind": "pause"}))[0] == 403
