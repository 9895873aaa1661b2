"""A proxy before the API server that stops a client in each namespace after so many writes.

A write is carried out, and its answer never arrives: as if the client had crashed at that moment. So one
process leaves a migration at every step, each in a namespace of its own.
"""

import asyncio
import contextlib
import re
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Self

from aiohttp import ClientSession, ClientTimeout, TCPConnector, web

from tests.testbed import ControlPlane

__all__ = ["StoppingProxy"]

_NAMESPACED = re.compile(r"/namespaces/(?P<namespace>[^/]+)/(?P<resource>[^/]+)(?P<name>/[^/]+)?")
_OF_ONE_CONNECTION = {"connection", "host", "keep-alive", "transfer-encoding", "content-length"}


class StoppingProxy:
    def __init__(self, plane: ControlPlane, limits: Mapping[str, int]) -> None:
        """`limits` has the writes per namespace, not counting new PodMigrations and Events."""
        self._plane = plane
        self._limits = limits
        self.writes: Counter[str] = Counter()
        self.stopped: set[str] = set()
        """Namespaces in which nothing passes any more."""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        trust = ssl.create_default_context(cafile=self._plane.ca_certificate)
        app = web.Application(client_max_size=2**25)
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        async with ClientSession(
            connector=TCPConnector(ssl=trust, limit=0),
            timeout=ClientTimeout(total=None),
            auto_decompress=False,
            skip_auto_headers=("Accept-Encoding", "Content-Type", "User-Agent"),
        ) as self._session:
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            try:
                yield self
            finally:
                await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        namespace = self._counted_namespace(request)
        if namespace:
            self.writes[namespace] += 1
            if self.writes[namespace] > self._limits[namespace]:
                await self._stop(namespace)
        headers = {
            name: text for name, text in request.headers.items() if name.lower() not in _OF_ONE_CONNECTION
        }
        url = f"{self._plane.server}{request.path_qs}"
        body = await request.read() or None
        async with self._session.request(request.method, url, headers=headers, data=body) as answer:
            kept = [
                (name, text)
                for name, text in answer.headers.items()
                if name.lower() not in _OF_ONE_CONNECTION
            ]
            passed = web.StreamResponse(status=answer.status, headers=dict(kept))
            if namespace and self.writes[namespace] == self._limits[namespace]:
                await self._stop(namespace)
            await passed.prepare(request)
            async for chunk in answer.content.iter_any():
                await passed.write(chunk)
            await passed.write_eof()
        return passed

    async def _stop(self, namespace: str) -> None:
        self.stopped.add(namespace)
        await asyncio.get_running_loop().create_future()

    def _counted_namespace(self, request: web.Request) -> str:
        """Return the namespace of a write that counts."""
        found = _NAMESPACED.search(request.path)
        if request.method == "GET" or found is None or found["namespace"] not in self._limits:
            return ""
        is_new_migration = found["resource"] == "podmigrations" and request.method == "POST"
        return "" if found["resource"] == "events" or is_new_migration else found["namespace"]
