"""The web page over real HTTP: of a saved cluster, or of a running simulated one."""

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest

from kubesim import simulated_server
from rescheduler.cluster.sources.cluster_kinds import WebhookProbeResult, snapshot_of
from rescheduler.cluster.sources.saved_source import read_saved, saved_usage
from rescheduler.config.policy import Configuration, Policy, UsageSource
from rescheduler.daemon.components import Rescheduler
from rescheduler.install.cluster_installation import install_definition
from rescheduler.kube.api_resources import NAMESPACES
from rescheduler.kube.client import Client
from rescheduler.kube.transport import InProcessTransport
from rescheduler.web.page_model import LivePage, SavedPage
from rescheduler.web.web_authorization import LinkAuthorizer, TokenAuthorizer
from rescheduler.web.web_server import PageOptions, serve_page
from tests.unit.cli.conftest import SAVED_AT, lopsided
from tests.unit.cli.live_cluster import living_objects, scenario
from tests.unit.cluster.sources.rich_cluster import complete, saved

POLICY = Policy(
    settle_time=timedelta(),
    min_pod_age=timedelta(),
    usage_source=UsageSource.REQUESTS,
    rescheduling_interval=timedelta(seconds=5),
    enabled_strategies=("NodeMaintenance", "LoadBalancing"),
)


@dataclass
class Browser:
    """A client with cookies, that sends what the page would send."""

    http: aiohttp.ClientSession
    base: str
    csrf: str = ""
    headers: dict = field(default_factory=dict)

    async def call(self, path, body=None, *, headers=None, method=None):
        """Return status, decoded body and headers."""
        url = self.base + (path if path.startswith("/") else f"/api/v1/{path}")
        method = method or ("GET" if body is None else "POST")
        sent = {"X-Rescheduler-CSRF": self.csrf} if method == "POST" and self.csrf else {}
        sent |= self.headers | (headers or {})
        async with self.http.request(method, url, json=body, headers=sent) as answer:
            raw = await answer.read()
            is_json = answer.content_type == "application/json"
            return answer.status, json.loads(raw) if is_json else raw.decode(), answer.headers

    async def get(self, path, **more):
        status, body, _ = await self.call(path, **more)
        assert status == 200, body
        return body

    async def post(self, path, body, **more):
        status, found, _ = await self.call(path, body, **more)
        assert status == 200, found
        return found

    async def login(self, token):
        status, body, _ = await self.call("login", {"token": token})
        if status == 200:
            self.csrf = body["csrfToken"]
        return status, body


@contextlib.asynccontextmanager
async def browsing(page, authorizer, options=None):
    """A browser that has not logged in."""
    async with (
        serve_page(page, authorizer, options or PageOptions()) as port,
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http,
    ):
        yield Browser(http, f"http://127.0.0.1:{port}")


def saved_page(objects=None, policy=POLICY) -> SavedPage:
    raw = json.dumps(saved(complete(objects or lopsided().objects), saved_at=SAVED_AT)).encode()
    reading = read_saved(raw, source="shop.json")
    reading.usage = saved_usage(reading, policy)
    return SavedPage(snapshot_of(reading, policy), policy, WebhookProbeResult(), "shop.json")


@pytest.fixture
async def shop():
    """The saved shop, logged in."""
    page = saved_page()
    authorizer = LinkAuthorizer(page, read_only=True, user="me")
    async with browsing(page, authorizer) as browser:
        assert (await browser.login(authorizer.secret))[0] == 200
        yield browser


@contextlib.asynccontextmanager
async def living(*workloads, handle=None):
    """A simulated cluster and a page that watches it: yields the page and the client."""
    objects = await asyncio.to_thread(living_objects, scenario(*workloads))
    server = simulated_server(objects, start=datetime.now(UTC))
    client = Client(InProcessTransport((handle or (lambda inner: inner))(server.handle)))
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rescheduler"}}
    await client.create(NAMESPACES, home)
    await install_definition(client)
    rescheduler = Rescheduler(client, Configuration(policy=POLICY), lease_at="rescheduler/rescheduler")
    async with rescheduler.watching():
        page = LivePage("cluster", "test", rescheduler)
        try:
            yield page, client
        finally:
            await page.close()


@pytest.fixture
async def live():
    """A page of a living cluster that may act, logged in, and its client."""
    async with living() as (page, client):
        authorizer = LinkAuthorizer(page, read_only=False, client=client, user="me")
        async with browsing(page, authorizer, PageOptions(executes_actions=True)) as browser:
            assert (await browser.login(authorizer.secret))[0] == 200
            yield browser, client


USERS = {
    "token-of-admin": {"username": "admin", "groups": ["system:masters"]},
    "token-of-dev": {"username": "dev", "groups": ["shop"]},
    "token-of-tester": {"username": "tester", "groups": []},
    "token-of-nobody": {"username": "nobody", "groups": []},
}


class Cluster:
    """Answers reviews as an API server would, from these tables."""

    def __init__(self):
        self.revoked = set()
        self.reviews = 0
        self.is_broken = False
        """Whether the reviews of tokens fail."""

    def __call__(self, inner):
        async def handle(method, target, headers, body):
            if method == "POST" and "/tokenreviews" in target:
                if self.is_broken:
                    return Answer(
                        {"kind": "Status", "message": "no", "reason": "Forbidden", "code": 403}, 403
                    )
                return Answer(self._token(json.loads(body)))
            if method == "POST" and "/subjectaccessreviews" in target:
                self.reviews += 1
                await asyncio.sleep(0)  # as over a network
                return Answer(self._access(json.loads(body)))
            return await inner(method, target, headers, body)

        return handle

    def _token(self, review):
        spec = review["spec"]
        token, audience = spec["token"], (spec.get("audiences") or [""])[0]
        is_bound = token.startswith("bound-")
        user = USERS.get(token.removeprefix("bound-"))
        if user is None or token in self.revoked or is_bound != (audience == "rescheduler"):
            return {**review, "status": {"authenticated": False}}
        return {**review, "status": {"authenticated": True, "user": user, "audiences": [audience]}}

    def _access(self, review):
        asked, user = review["spec"]["resourceAttributes"], review["spec"]["user"]
        if user == "admin":
            is_allowed = True
        elif user == "dev":
            is_allowed = asked.get("namespace") == "shop" and (
                asked["verb"] == "list" or asked["resource"] == "podmigrations"
            )
            is_allowed = is_allowed or (asked["verb"] == "list" and asked["resource"] == "nodes")
        elif user == "tester":
            is_allowed = (asked["verb"], asked["resource"], asked.get("namespace")) == (
                "list",
                "pods",
                "shop",
            )
        else:
            is_allowed = False
        return {**review, "status": {"allowed": is_allowed}}


class Answer:
    def __init__(self, content, status=201):
        self.status, self.headers = status, {"content-type": "application/json"}
        self._body = json.dumps(content).encode()

    @property
    async def chunks(self):
        yield self._body


@contextlib.asynccontextmanager
async def token_page(*, read_only=False):
    """A page like the daemon's: yields a function that opens a browser, and the cluster's tables."""
    tables = Cluster()
    other = {"namespace": "secret", "name": "vault", "cpu": "900m", "memory": "256Mi", "on": {"node-1": 1}}
    async with living(other, handle=tables) as (page, client):
        authorizer = TokenAuthorizer(page, client, read_only=read_only)
        async with browsing(page, authorizer) as browser:
            yield browser, tables
