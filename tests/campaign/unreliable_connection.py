"""The connection of one client to the simulated API server, with its faults and an audit log of its writes.

To the faults of `FaultyTransport` (requests that are lost, late, refused, or done and answered with an error;
lagging watches) it adds partitions, restarts of the API server, watch events that come twice, and the end of
a process at its n-th write.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kubesim import ApiServer
from kubesim.apiserver.request_route import find_route
from rescheduler.kube.client import Client, RequestObserver
from rescheduler.kube.transport import InProcessTransport
from tests.e2e.chaos.audit_trail import AuditedRequest
from tests.unit.migrations.controller.adversary.random_faults import FaultyTransport

__all__ = ["ApiServerOutage", "UnreliableConnection"]

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass
class ApiServerOutage:
    """Whether the API server is down, for all of its clients."""

    is_down: bool = False


@dataclass
class UnreliableConnection:
    server: ApiServer
    user: str
    rng: random.Random
    outage: ApiServerOutage
    requests: list[AuditedRequest]
    """The audit log: all writes of all clients that were granted."""
    repeat_rate: float = 0.0
    """How often an event of a watch is delivered twice."""
    is_cut: bool = False
    end_at_write: int | None = None
    """How many more writes there are before the process ends."""
    end_after_it: bool = False
    """Whether the last write is done before the process ends."""
    on_end: Callable[[], None] = lambda: None
    network: FaultyTransport = field(init=False)
    _transport: InProcessTransport | None = None

    def __post_init__(self) -> None:
        self.network = FaultyTransport(
            _Handler(self._audited), self.rng, lag_s=0.0, fault_rate=0.0, stall=0.0
        )

    def client(self, observer: RequestObserver | None = None) -> Client:
        self._transport = InProcessTransport(self._handle)
        return Client(self._transport, observer=observer) if observer else Client(self._transport)

    async def close(self) -> None:
        """Close all watches, as when the process ends."""
        self.is_cut = True
        if self._transport is not None:
            await self._transport.close()

    @property
    def open_responses(self) -> int:
        """Return how many answers are not read to their end: the open watches."""
        return len(self._transport._open) if self._transport is not None else 0

    def calm(self) -> None:
        self.network.fault_rate = self.network.stall = self.network.lag_s = self.repeat_rate = 0.0
        self.is_cut = False
        self.end_at_write = None

    async def until_nothing_is_late(self) -> None:
        await asyncio.gather(*self.network.late)

    # -- requests

    async def _handle(self, method: str, target: str, headers: Any, body: bytes) -> Any:
        self._check_line()
        if method != "GET" and self._ends_here(target):
            if self.end_after_it:
                await self._audited(method, target, headers, body)
            self.is_cut = True
            self.on_end()
            raise ConnectionError("the process ends")
        answer = await self.network.handle(method, target, headers, body)
        if "watch=true" in target:
            return answer._replace(chunks=self._watched(answer.chunks))
        self._check_line()
        return answer

    def _check_line(self) -> None:
        if self.is_cut:
            raise ConnectionError("no route to the API server")
        if self.outage.is_down:
            raise ConnectionError("connection refused")

    def _ends_here(self, target: str) -> bool:
        if self.end_at_write is None or "/leases" in target or "/events" in target or "dryRun" in target:
            return False
        self.end_at_write -= 1
        return self.end_at_write < 0

    async def _watched(self, chunks: Any) -> Any:
        try:
            async for chunk in chunks:
                self._check_line()
                yield chunk
                if self.repeat_rate and self.rng.random() < self.repeat_rate:
                    yield chunk.splitlines(keepends=True)[-1]
        finally:
            await chunks.aclose()

    async def _audited(self, method: str, target: str, headers: Any, body: bytes) -> Any:
        received = self.server.clock.now()
        answer = await self.server.handle(method, target, {**headers, "impersonate-user": self.user}, body)
        path, _, query = target.partition("?")
        if method in _VERBS and 200 <= answer.status < 300 and "dryRun=All" not in query:
            self._log(method, path, body, received)
        return answer

    def _log(self, method: str, path: str, body: bytes, received: Any) -> None:
        route = find_route(path, self.server.kinds)
        if route is None:
            return
        name = route.name
        if not name and method == "POST":
            name = (msgspec.json.decode(body).get("metadata") or {}).get("name", "")
        self.requests.append(
            AuditedRequest(
                user=self.user,
                verb=_VERBS[method],
                resource="/".join(filter(None, (route.kind.plural, route.subresource))),
                namespace=route.namespace,
                name=name,
                received=received,
                done=self.server.clock.now(),
            )
        )


@dataclass
class _Handler:
    """What `FaultyTransport` calls in place of a server."""

    handle: Callable[..., Any]
