"""An in-process API server of a hundred lines whose failures the tests control."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest

from rescheduler.kube.api_resources import ApiResource, Object, api_resource
from rescheduler.kube.client import Client
from rescheduler.kube.transport import InProcessTransport

DROP = object()
END = object()


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


@dataclass
class Asked:
    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Stream:
    """An open watch, as the server sees it."""

    asked: Asked
    lines: "asyncio.Queue[Any]" = field(default_factory=asyncio.Queue)
    closed: bool = False


def status(code: int, reason: str = "", message: str = "", **details: Any) -> Object:
    return {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}


class ScriptedServer:
    """Things with versions, lists of them in pages, and watches; one `version` for all."""

    def __init__(self) -> None:
        self.version = 100
        self.objects: dict[str, Object] = {}
        self.history: list[tuple[int, Object]] = []
        self.compacted = 0
        self.asked: list[Asked] = []
        self.answers: list[Callable[[Asked], Answer | None]] = []
        """Each is asked first, and dropped once it has answered."""
        self.streams: list[Stream] = []
        self.silent = False
        """Accept watches and never say a word."""
        self._uids = itertools.count(1)

    # --- what happens in the cluster ---

    def put(self, name: str, **fields: Any) -> Object:
        old = self.objects.get(name)
        uid = old["metadata"]["uid"] if old else f"uid-{next(self._uids)}"
        self.version += 1
        metadata = {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": str(self.version)}
        made = {"apiVersion": "test.dev/v1", "kind": "Thing", "metadata": metadata, **fields}
        self.objects[name] = made
        self.send_event("MODIFIED" if old else "ADDED", made)
        return made

    def remove(self, name: str) -> None:
        self.version += 1
        gone = self.objects.pop(name)
        gone = gone | {"metadata": gone["metadata"] | {"resourceVersion": str(self.version)}}
        self.send_event("DELETED", gone)

    def send_event(self, kind: str, item: Object) -> None:
        """Send an event, also one that no correct server would send."""
        event = {"type": kind, "object": item}
        self.history.append((int(item["metadata"]["resourceVersion"]), event))
        self.say(event)

    def bookmark(self, version: int | None = None) -> None:
        metadata = {"resourceVersion": str(version or self.version)}
        self.say({"type": "BOOKMARK", "object": {"kind": "Thing", "metadata": metadata}})

    def restore(self, objects: dict[str, Object], version: int) -> None:
        """Restore a backup: older objects, older versions, and no history of what came after."""
        self.objects, self.version, self.history = objects, version, []

    # --- what happens to the connections ---

    def say(self, event: Object | bytes | object) -> None:
        line = json.dumps(event).encode() + b"\n" if isinstance(event, dict) else event
        for stream in self.open_streams:
            if not self.silent:
                stream.lines.put_nowait(line)

    def drop(self) -> None:
        self.say(DROP)

    def end(self) -> None:
        self.say(END)

    def compact(self) -> None:
        self.compacted = self.version

    def fail(self, code: int, *, times: int = 1, watch: bool | None = None, **reported: Any) -> None:
        headers = {"retry-after": str(reported.pop("retry_after"))} if "retry_after" in reported else {}

        def answer(asked: Asked) -> Answer | None:
            if watch is not None and ("watch" in asked.query) != watch:
                return None
            return _whole(code, status(code, **reported), headers)

        self.answers += [answer] * times

    def break_next(self) -> None:
        """The next request is taken and its connection dropped."""

        def answer(asked: Asked) -> Answer:
            raise ConnectionResetError("the server hung up")

        self.answers.append(answer)

    def ended(self) -> Answer:
        """A watch that is accepted and over."""
        stream = Stream(self.asked[-1])
        stream.lines.put_nowait(END)
        return Answer(200, {"content-type": "application/json"}, self._lines(stream))

    @property
    def open_streams(self) -> list[Stream]:
        return [stream for stream in self.streams if not stream.closed]

    def asks(self, *, watch: bool) -> list[Asked]:
        return [asked for asked in self.asked if ("watch" in asked.query) == watch]

    # --- answering ---

    async def handle(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        asked = Asked(method, parts.path, query, headers, body)
        self.asked.append(asked)
        for scripted in self.answers:
            if (answer := scripted(asked)) is not None:
                self.answers.remove(scripted)
                return answer
        if "watch" in query:
            return self._watch(asked)
        if method == "GET" and parts.path.endswith("/things"):
            return self._list(query)
        name = parts.path.rsplit("/", 1)[-1]
        if method == "GET" and name not in self.objects:
            return _whole(404, status(404, "NotFound", f'things.test.dev "{name}" not found', name=name))
        return _whole(200, self.objects.get(name) or asked.json)

    def _list(self, query: dict[str, str]) -> Answer:
        items = [self.objects[name] for name in sorted(self.objects)]
        start = int(query.get("continue", 0))
        end = start + int(query.get("limit", len(items)))
        metadata = {"resourceVersion": str(self.version)}
        if end < len(items):
            metadata["continue"] = str(end)
        return _whole(200, {"kind": "ThingList", "metadata": metadata, "items": items[start:end]})

    def _watch(self, asked: Asked) -> Answer:
        since = int(asked.query["resourceVersion"])
        if since < self.compacted:
            return _whole(410, status(410, "Expired", f"too old resource version: {since}"))
        stream = Stream(asked)
        if not self.silent:
            for version, event in self.history:
                if version > since:
                    stream.lines.put_nowait(json.dumps(event).encode() + b"\n")
        self.streams.append(stream)
        return Answer(200, {"content-type": "application/json"}, self._lines(stream))

    async def _lines(self, stream: Stream) -> AsyncIterator[bytes]:
        try:
            while (line := await stream.lines.get()) is not END:
                if line is DROP:
                    raise ConnectionResetError("the server hung up")
                yield line
        finally:
            stream.closed = True


def _whole(code: int, content: Object, headers: Mapping[str, str] | None = None) -> Answer:
    async def chunks() -> AsyncIterator[bytes]:
        yield json.dumps(content).encode()

    return Answer(code, {"content-type": "application/json", **(headers or {})}, chunks())


@pytest.fixture
def server() -> ScriptedServer:
    return ScriptedServer()


@pytest.fixture
def transport(server: ScriptedServer) -> InProcessTransport:
    return InProcessTransport(server.handle)


@pytest.fixture
def client(transport: InProcessTransport) -> Client:
    return Client(transport, timeout_s=5)


@pytest.fixture
def things() -> ApiResource[Object]:
    return api_resource("test.dev", "v1", "things", "Thing")
