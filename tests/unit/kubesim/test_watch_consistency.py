"""A client that lists and watches always ends with the server's state.

A machine makes random changes to config maps in two namespaces and drives several clients of a kind:
each lists (whole, in pages, at an old version), watches with its own selector from where it stands, is
cut off, resumes, or finds its version compacted and lists again. Each replays the events it gets. After
every step each client that is up to date has exactly the objects that a list with its selector gives.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from kubesim import ApiServer
from kubesim.virtual_time import ManualClock

Object = dict[str, Any]

NAMESPACES = ("alpha", "beta")
NAMES = ("a", "b", "c", "d")
COLORS = ("red", "green", "blue")
VIEWS = (
    "/api/v1/configmaps?",
    "/api/v1/configmaps?labelSelector=color%3Dred&",
    "/api/v1/configmaps?labelSelector=color+notin+(red,blue)&",
    "/api/v1/namespaces/alpha/configmaps?",
    "/api/v1/namespaces/beta/configmaps?labelSelector=color!%3Dgreen&",
    "/api/v1/configmaps?fieldSelector=metadata.name%3Da&",
    "/api/v1/namespaces/alpha/configmaps?fieldSelector=metadata.name!%3Db&",
)


class TooOld(Exception):  # noqa: N818 - what the client has to face
    """The server has forgotten what happened since; the client has to list again."""


class Client:
    """Lists and watches as an informer does, with nothing but what the API promises."""

    def __init__(self, served: "ServedStore", view: str) -> None:
        self.view = view
        self.version = ""
        self.objects: dict[tuple[str, str], Object] = {}
        self._served = served
        self._initial = False
        self._chunks: Any = None
        self._next: asyncio.Future[bytes] | None = None

    def list(self, limit: int, between_pages: Callable[[], None]) -> None:
        self.disconnect()
        expected = self._served.truth(self.view)
        found: dict[tuple[str, str], Object] = {}
        token = ""
        while True:
            status, page = self._served.ask("GET", f"{self.view}limit={limit}&continue={token}")
            if status == 410:  # the pages' version was compacted meanwhile: from the beginning, in one go
                return self.list(0, between_pages)
            assert status == 200, page
            for item in page["items"]:
                assert _key(item) not in found, "no object is on two pages"
                found[_key(item)] = item
            token = page["metadata"].get("continue", "")
            if not token:
                break
            between_pages()
        assert found == expected, "all pages together are one moment"
        self._initial = False
        self.objects = found
        self.version = page["metadata"]["resourceVersion"]
        return None

    def connect(self, *, bookmarks: bool = True) -> None:
        self.disconnect()
        target = f"{self.view}watch=true&resourceVersion={self.version}&timeoutSeconds=3600"
        target += f"&allowWatchBookmarks={str(bookmarks).lower()}"
        answer = self._served.run(self._served.server.handle("GET", target, {}, b""))
        assert answer.status == 200
        self._chunks = answer.chunks

    def stream_from_scratch(self) -> None:
        """The other way to begin: everything as events, then a bookmark that says: that was all."""
        self.disconnect()
        self.objects, self.version, self._initial = {}, "", True
        target = f"{self.view}watch=true&sendInitialEvents=true&allowWatchBookmarks=true"
        target += "&resourceVersionMatch=NotOlderThan&timeoutSeconds=3600"
        self._chunks = self._served.run(self._served.server.handle("GET", target, {}, b"")).chunks
        self.read()
        assert self.version, "the end of the initial events is marked with a version"

    def read(self) -> None:
        """Takes in everything that has arrived."""
        while (chunk := self._served.run(self._arrived())) is not None:
            for line in chunk.splitlines():
                self._replay(json.loads(line))

    async def _arrived(self) -> bytes | None:
        if self._chunks is None:
            return None
        if self._next is None:
            self._next = asyncio.ensure_future(anext(self._chunks, b""))
        for _ in range(10):  # what is there comes without waiting: the clock stands still
            await asyncio.sleep(0)
        if not self._next.done():
            return None
        chunk, self._next = self._next.result(), None
        if not chunk:
            self._chunks = None  # the server has ended it
        return chunk or None

    def _replay(self, event: Object) -> None:
        content = event["object"]
        if event["type"] == "ERROR":
            assert content["code"] == 410, content
            raise TooOld
        self._note_version(event)
        match event["type"]:
            case "BOOKMARK":
                pass
            case "ADDED":
                assert _key(content) not in self.objects, "what is known is not added"
                self.objects[_key(content)] = _as_listed(content)
            case "MODIFIED":
                assert _key(content) in self.objects, "only what is known is modified"
                self.objects[_key(content)] = _as_listed(content)
            case "DELETED":
                del self.objects[_key(content)]

    def _note_version(self, event: Object) -> None:
        metadata = event["object"]["metadata"]
        if "k8s.io/initial-events-end" in metadata.get("annotations", {}):
            self._initial = False
        if self._initial:  # in no order; there is no version to come back to before the end is marked
            return
        version = metadata["resourceVersion"]
        assert int(version) >= int(self.version or 0), "versions never go back"
        assert int(version) <= self._served.server.store.version, "no version is from the future"
        self.version = version

    def disconnect(self) -> None:
        if self._next is not None:
            self._next.cancel()
            self._served.run(asyncio.wait([self._next]))
            self._next = None
        if self._chunks is not None:
            self._served.run(self._chunks.aclose())
            self._chunks = None

    def catch_up(self, **options: bool) -> None:
        """Connects where it stands; lists again if that is too long ago."""
        try:
            self.connect(**options)
            self.read()
        except TooOld:
            self.list(0, lambda: None)


def _key(content: Object) -> tuple[str, str]:
    return content["metadata"]["namespace"], content["metadata"]["name"]


def _as_listed(content: Object) -> Object:
    return {name: value for name, value in content.items() if name not in {"kind", "apiVersion"}}


class ServedStore:
    def __init__(self, history_limit: int) -> None:
        self.clock = ManualClock()
        self.server = ApiServer(clock=self.clock, seed=0, history_limit=history_limit)
        self._loop = asyncio.new_event_loop()
        for name in NAMESPACES:
            assert self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})[0] == 201

    def run(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)

    def ask(
        self, method: str, target: str, body: Object | None = None, kind: str = "json"
    ) -> tuple[int, Object]:
        async def exchange() -> tuple[int, Object]:
            raw = json.dumps(body).encode() if body is not None else b""
            content_type = "application/merge-patch+json" if kind == "merge" else "application/json"
            answer = await self.server.handle(method, target, {"content-type": content_type}, raw)
            return answer.status, json.loads(b"".join([chunk async for chunk in answer.chunks]))

        return self.run(exchange())

    def truth(self, view: str) -> dict[tuple[str, str], Object]:
        _, content = self.ask("GET", view)
        return {_key(item): item for item in content["items"]}

    def close(self) -> None:
        if open_watches := asyncio.all_tasks(self._loop):
            for task in open_watches:
                task.cancel()
            self._loop.run_until_complete(asyncio.wait(open_watches))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


namespaces, names, colors = st.sampled_from(NAMESPACES), st.sampled_from(NAMES), st.sampled_from(COLORS)


class WatchConsistency(RuleBasedStateMachine):
    clients = Bundle("clients")
    HISTORY_LIMIT = 1000

    def __init__(self) -> None:
        super().__init__()
        self.served = ServedStore(self.HISTORY_LIMIT)

    def teardown(self) -> None:
        self.served.close()

    @initialize(target=clients)
    def a_client_for_each_view(self) -> Any:
        started = [Client(self.served, view) for view in VIEWS]
        for client in started:
            client.list(0, lambda: None)
        return multiple(*started)

    # What happens in the cluster.

    @rule(namespace=namespaces, name=names, color=colors)
    def create(self, namespace: str, name: str, color: str) -> None:
        content = {"metadata": {"name": name, "labels": {"color": color}}}
        status, _ = self.served.ask("POST", f"/api/v1/namespaces/{namespace}/configmaps", content)
        assert status in {201, 409}

    @rule(namespace=namespaces, name=names, color=colors)
    def recolor(self, namespace: str, name: str, color: str) -> None:
        self._patch(namespace, name, {"metadata": {"labels": {"color": color}}})

    @rule(namespace=namespaces, name=names, text=st.sampled_from(("x", "y")))
    def write(self, namespace: str, name: str, text: str) -> None:
        self._patch(namespace, name, {"data": {"text": text}})

    @rule(namespace=namespaces, name=names, held=st.booleans())
    def hold_with_a_finalizer(self, namespace: str, name: str, held: bool) -> None:
        self._patch(namespace, name, {"metadata": {"finalizers": ["test/held"] if held else None}})

    def _patch(self, namespace: str, name: str, patch: Object) -> None:
        path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
        assert self.served.ask("PATCH", path, patch, "merge")[0] in {200, 404, 422}

    @rule(namespace=namespaces, name=names)
    def delete(self, namespace: str, name: str) -> None:
        assert self.served.ask("DELETE", f"/api/v1/namespaces/{namespace}/configmaps/{name}")[0] in {200, 404}

    @rule(namespace=namespaces)
    def delete_all(self, namespace: str) -> None:
        assert self.served.ask("DELETE", f"/api/v1/namespaces/{namespace}/configmaps")[0] == 200

    @rule(namespace=namespaces, name=names)
    def something_else_happens(self, namespace: str, name: str) -> None:
        """Versions go up without any config map changing."""
        self.served.ask("POST", f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": name}})

    @rule(ago=st.integers(0, 8))
    def compact(self, ago: int) -> None:
        self.served.server.store.compact(self.served.server.store.version - ago)

    @rule(seconds=st.sampled_from((1, 61, 3601)))
    def time_passes(self, seconds: int) -> None:
        """Bookmarks fall due, watches end."""
        self.served.clock.advance(seconds)

    # What clients do.

    @rule(client=clients, limit=st.integers(0, 3), namespace=namespaces, name=names, color=colors)
    def list_again(self, client: Client, limit: int, namespace: str, name: str, color: str) -> None:
        def meanwhile() -> None:
            self.create(namespace, name, color)
            self.recolor(namespace, NAMES[0], color)
            self.delete(namespace, NAMES[1])

        client.list(limit, meanwhile)

    @rule(client=clients, bookmarks=st.booleans())
    def watch(self, client: Client, bookmarks: bool) -> None:
        client.catch_up(bookmarks=bookmarks)

    @rule(client=clients)
    def read(self, client: Client) -> None:
        client.read()

    @rule(client=clients)
    def start_over_by_streaming(self, client: Client) -> None:
        client.stream_from_scratch()

    @rule(client=clients)
    def lose_the_connection(self, client: Client) -> None:
        client.disconnect()

    @rule()
    def the_server_drops_all_watches(self) -> None:
        self.served.server.watches.drop()

    @rule(client=clients)
    def every_event_is_there_once_the_client_has_caught_up(self, client: Client) -> None:
        client.catch_up()
        assert client.objects == self.served.truth(client.view)

    @invariant()
    def a_list_at_an_exact_version_is_what_it_was(self) -> None:
        version = self.served.server.store.version
        now = self.served.truth(VIEWS[0])
        status, content = self.served.ask(
            "GET", f"{VIEWS[0]}resourceVersion={version}&resourceVersionMatch=Exact"
        )
        assert status == 200
        assert {_key(item): item for item in content["items"]} == now


class WithAShortHistory(WatchConsistency):
    """The server forgets by itself, all the time."""

    HISTORY_LIMIT = 3


everyday = settings(max_examples=80, stateful_step_count=30, suppress_health_check=list(HealthCheck))
TestWatchConsistency = WatchConsistency.TestCase
TestWatchConsistency.settings = everyday
TestWatchConsistencyWithAShortHistory = WithAShortHistory.TestCase
TestWatchConsistencyWithAShortHistory.settings = everyday


@pytest.mark.parametrize("view", VIEWS)
def test_one_long_watch_replays_to_the_same_objects(view: str) -> None:
    """No reconnects here: one stream, changes of every sort, and its events in order."""
    served = ServedStore(1000)
    client = Client(served, view)
    client.list(0, lambda: None)
    client.connect()
    for step in range(120):
        namespace, name = NAMESPACES[step % 2], NAMES[step * 7 % 4]
        color = COLORS[step * 5 % 3]
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        served.ask("POST", path, {"metadata": {"name": name, "labels": {"color": color}}})
        served.ask("PATCH", f"{path}/{name}", {"metadata": {"labels": {"color": COLORS[step % 3]}}}, "merge")
        if step % 3 == 0:
            served.ask("DELETE", f"{path}/{NAMES[step % 4]}")
    client.read()
    assert client.objects == served.truth(view)
    served.close()
