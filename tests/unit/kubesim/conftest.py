"""A simulated API server and a plain way to talk to it: requests in, statuses and objects out."""

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

from kubesim import ApiServer
from kubesim.virtual_time import ManualClock

Object = dict[str, Any]

MERGE = "application/merge-patch+json"


class Reply(NamedTuple):
    status: int
    body: Any
    headers: dict[str, str]

    @property
    def message(self) -> str:
        return self.body["message"]


class WatchReader:
    """Reads a watch event by event."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._lines: list[bytes] = []

    async def next(self) -> Object:
        while not self._lines:
            self._lines = (await anext(self._chunks)).splitlines()
        return json.loads(self._lines.pop(0))

    async def take(self, count: int) -> list[tuple[str, str]]:
        """Type and name of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]

    async def rest(self) -> list[Object]:
        """All that comes until the server ends the watch."""
        events = [json.loads(line) for line in self._lines]
        async for chunk in self._chunks:
            events += [json.loads(line) for line in chunk.splitlines()]
        return events

    async def close(self) -> None:
        await self._chunks.aclose()


class Api:
    def __init__(self, server: ApiServer) -> None:
        self.server = server

    async def send(self, method: str, target: str, body: Any = None, **headers: str) -> Reply:
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = await self.server.handle(method, target, {"content-type": "application/json", **named}, raw)
        content = b"".join([chunk async for chunk in answer.chunks])
        is_json = "json" in answer.headers["content-type"]
        return Reply(answer.status, json.loads(content) if is_json else content, dict(answer.headers))

    async def get(self, target: str, **headers: str) -> Reply:
        return await self.send("GET", target, **headers)

    async def post(self, target: str, body: Any, **headers: str) -> Reply:
        return await self.send("POST", target, body, **headers)

    async def put(self, target: str, body: Any, **headers: str) -> Reply:
        return await self.send("PUT", target, body, **headers)

    async def patch(self, target: str, body: Any, content_type: str = MERGE) -> Reply:
        return await self.send("PATCH", target, body, content_type=content_type)

    async def delete(self, target: str, body: Any = None) -> Reply:
        return await self.send("DELETE", target, body)

    async def names(self, target: str) -> list[str]:
        return [item["metadata"]["name"] for item in (await self.get(target)).body["items"]]

    @contextlib.asynccontextmanager
    async def watch(self, target: str, **headers: str) -> AsyncIterator[WatchReader]:
        mark = "&" if "?" in target else "?"
        answer = await self.server.handle("GET", f"{target}{mark}watch=true", headers, b"")
        assert answer.status == 200
        reader = WatchReader(answer.chunks)
        try:
            yield reader
        finally:
            await reader.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def api(clock: ManualClock) -> Api:
    """An API server whose clock stands still until a test moves it."""
    return Api(ApiServer(clock=clock, seed=1))
