"""Requests that our page never sends: from other sites, under other names, and for files of others.

They are written byte by byte where a client library would tidy them up first.
"""

import asyncio
import logging

import pytest

from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube.api_resources import CONFIG_MAPS
from rescheduler.web.web_openapi import API_PREFIX, ENDPOINTS
from rescheduler.web.web_viewer import ACTION_KINDS
from tests.unit.web.conftest import token_page


async def answer_to(browser, target, *, method="GET", host=None, headers=()):
    """Return status and body of the answer to exactly this request, with the session of the browser."""
    port = int(browser.base.rpartition(":")[2])
    cookies = "; ".join(f"{each.key}={each.value}" for each in browser.http.cookie_jar)
    lines = [f"{method} {target} HTTP/1.1", *([f"Host: {host}"] if host is not None else [])]
    lines += [f"Cookie: {cookies}", "Connection: close", *headers]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    async with asyncio.timeout(10):
        raw = await reader.read()
    writer.close()
    return int(raw.split(b" ")[1]), raw.partition(b"\r\n\r\n")[2]


# --- other host names: a site that points its own name at loopback


PATHS = [f"{API_PREFIX}{each.path}".replace("{", "").replace("}", "") for each in ENDPOINTS]


@pytest.mark.parametrize("path", ["/", "/index.html", f"{API_PREFIX}/openapi.json", *PATHS])
async def test_no_path_is_served_under_another_name(shop, path):
    method = (
        "POST" if any(path.endswith(each.path) and each.method == "POST" for each in ENDPOINTS) else "GET"
    )
    status, body = await answer_to(
        shop, path, method=method, host="evil.example", headers=["Content-Length: 0"]
    )
    assert (status, b"WrongHost" in body) == (421, True)


@pytest.mark.parametrize(
    "host",
    [
        pytest.param("localhost@evil.example", id="loopback as a user name"),
        pytest.param("evil.example:80#localhost", id="loopback as a fragment"),
        pytest.param("localhost.", id="loopback with a trailing dot"),
        pytest.param("127.0.0.1.nip.io", id="a name that begins with loopback"),
        pytest.param("0.0.0.0", id="the address of all interfaces"),
        pytest.param("[::ffff:127.0.0.1]", id="loopback mapped to IPv6"),
        pytest.param("[", id="no name at all"),
        pytest.param("", id="an empty name"),
    ],
)
async def test_names_that_look_like_loopback_are_refused(shop, host):
    assert (await answer_to(shop, f"{API_PREFIX}/cluster", host=host))[0] == 421


async def test_requests_without_a_name_are_refused(shop):
    assert (await answer_to(shop, f"{API_PREFIX}/cluster"))[0] in {400, 421}


async def test_a_name_in_the_target_does_not_replace_the_header(shop):
    """As a proxy would send it."""
    status, _ = await answer_to(shop, f"http://127.0.0.1{API_PREFIX}/cluster", host="evil.example")
    assert status == 421


# --- other origins: what another site makes the browser of a viewer send


FOREIGN = [
    pytest.param({"Origin": "https://evil.example"}, id="another origin"),
    pytest.param({"Origin": "null"}, id="a sandboxed frame"),
    pytest.param({"Origin": "http://127.0.0.1:1"}, id="another port of loopback"),
    pytest.param({"Sec-Fetch-Site": "cross-site"}, id="another site"),
    pytest.param({"Sec-Fetch-Site": "same-site"}, id="another port or subdomain"),
    pytest.param({"X-Rescheduler-CSRF": ""}, id="no CSRF token"),
    pytest.param({"X-Rescheduler-CSRF": "guess"}, id="a wrong CSRF token"),
]


def test_all_that_changes_something_needs_the_token_of_the_session():
    """A login has none yet: it is protected by its origin, and by the secret itself."""
    posts = {each.handler for each in ENDPOINTS if each.method == "POST"}
    assert posts - {each.handler for each in ENDPOINTS if each.needs_csrf} == {"login"}


@pytest.mark.parametrize("headers", FOREIGN)
async def test_no_action_is_done_for_another_site(live, headers):
    """Neither previewed, nor confirmed with a preview of the viewer; and no session ends."""
    browser, client = live
    pod = (await browser.get("pods?q=shop/web&limit=1"))["pods"][0]["pod"]
    actions = {
        "move": {"pod": pod, "node": "node-2"},
        "apply": {},
        "cancel": {"migration": "shop/any"},
        "pause": {},
        "resume": {},
        "drain": {"node": "node-3"},
        "undrain": {"node": "node-3"},
    }
    assert set(actions) == set(ACTION_KINDS)
    for kind, more in actions.items():
        status, body, _ = await browser.call("actions/preview", {"kind": kind, **more}, headers=headers)
        assert (status, body["reason"]) in {(403, "CSRF"), (403, "CrossOrigin")}, kind
    for action in (
        {"kind": "move", **actions["move"]},
        {"kind": "drain", "node": "node-3"},
        {"kind": "pause"},
    ):
        seen = await browser.post("actions/preview", action)
        status, _, _ = await browser.call(
            "actions/confirm", {"confirmation": seen["confirmation"]}, headers=headers
        )
        assert status == 403, action
    assert (await browser.call("logout", {}, headers=headers))[0] == 403
    assert (await browser.get("session"))["authenticated"]
    assert (await client.list(POD_MIGRATIONS)).items == []
    assert (await client.list(CONFIG_MAPS, namespace="rescheduler")).items == []
    assert not (await client.get(NODES, "node-3")).labels.get("scheduler.alpha.kubernetes.io/maintenance")


async def test_no_link_acts(live):
    """Browsers follow links of other sites with GET."""
    browser, _ = live
    for each in ENDPOINTS:
        if each.method == "POST":
            status, _, headers = await browser.call(f"{API_PREFIX}{each.path}", method="GET")
            assert (status, headers.get("Allow")) in {(405, "POST"), (404, None)}, each.path


async def test_a_login_of_another_site_is_refused(shop):
    """Otherwise the viewer would act in a session of the attacker."""
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert (await shop.call("login", {"token": "any"}, headers=headers))[0] == 403


# --- files


@pytest.mark.parametrize(
    "target",
    [
        "/../web_server.py",
        "/assets/../../web_server.py",
        "/assets/../../../../../../../../etc/passwd",
        "/%2e%2e/web_server.py",
        "/..%2fweb_server.py",
        "/%2e%2e%2f%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/%252e%252e%252fweb_server.py",
        "/..%5cweb_server.py",
        "/%5c..%5cweb_server.py",
        "/%c0%ae%c0%ae/web_server.py",
        "//etc/passwd",
        "/assets/",
        "/static/index.html",
        "/index.html%00.js",
        "/index.html/",
        "/web_server.py",
        "/api/../../web_server.py",
        "/api/v1/../../web_server.py",
    ],
)
async def test_only_files_of_the_page_are_read(shop, target):
    status, body = await answer_to(shop, target, host="127.0.0.1")
    assert status in {400, 404}, body[:100]
    assert b"root:" not in body
    assert b"import" not in body


@pytest.mark.parametrize(
    "path",
    [
        "pods/shop%2F..%2Fsecret/vault/explain",
        "pods/shop/..%2F..%2Fsecret%2Fvault/explain",
        "pods/secret%2Fvault/x/explain",
        "pods/%2e%2e/secret/explain",
        "migrations/shop%2F..%2Fsecret/any",
        "migrations/shop/..%2F..%2Fsecret%2Fany",
    ],
)
async def test_no_encoded_slash_leads_to_another_namespace(path):
    """dev may list the pods of shop only."""
    async with token_page() as (browser, _):
        await browser.login("token-of-dev")
        status, body = await answer_to(browser, f"{API_PREFIX}/{path}", host="127.0.0.1")
        assert status == 404, body
        for action in (
            {"kind": "cancel", "migration": "shop/.."},
            {"kind": "move", "pod": "shop/../../secret/vault"},
            {"kind": "move", "pod": "shop/.."},
        ):
            assert (await browser.call("actions/preview", action))[0] in {404, 422}


# --- secrets


async def test_no_secret_is_logged(caplog):
    """Logins that fail and succeed, views, an action, and an error: none of it leaves a token in the log."""
    with caplog.at_level(logging.DEBUG):
        async with token_page() as (browser, _):
            await browser.login("token-of-a-thief")
            await browser.login("token-of-admin")
            secrets = {each.value for each in browser.http.cookie_jar} | {browser.csrf}
            await browser.get("cluster")
            preview = await browser.post("actions/preview", {"kind": "pause"})
            await browser.call("actions/confirm", {"confirmation": preview["confirmation"]})
            await browser.call("actions/confirm", {"confirmation": preview["confirmation"]})
            await browser.call("migrations/shop/none")
            await answer_to(browser, f"{API_PREFIX}/session?token=token-of-admin", host="127.0.0.1")
            await answer_to(browser, "/token-of-admin", host="127.0.0.1")
            await browser.post("logout", {})
    assert "LoggedIn" in {getattr(record, "event", "") for record in caplog.records}
    told = "\n".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    for secret in ("token-of-a", preview["confirmation"], *secrets):
        assert secret not in told


async def test_no_token_in_the_address_logs_in():
    """Addresses are in histories, proxies and logs."""
    async with token_page() as (browser, _):
        for target in ("session?token=token-of-admin", "session?access_token=token-of-admin"):
            assert not (await browser.get(target))["authenticated"]
        status, body, _ = await browser.call("session", headers={"Authorization": "Bearer token-of-admin"})
        assert (status, body["authenticated"]) == (200, False)
