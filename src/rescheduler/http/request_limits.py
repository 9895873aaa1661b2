"""Limits for the clients of a server: connections, time, and memory for request bodies.

A new connection is never refused. When there are too many, the server closes the longest idle connection of
the address that has the most. So a probe always gets through, and a client that opens a thousand connections
only loses its own. aiohttp limits none of this: it ignores connections in a TLS handshake, and has no limit
for the time in which the headers or the body of a request must arrive, or a response must be read.

The memory for bodies is limited by what has arrived, not by what clients announce: a client that announces
megabytes and sends nothing uses no memory and blocks no other client. When all bodies together are too large,
the largest one is aborted.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

__all__ = [
    "MAX_BODY_BYTES",
    "AcceptedConnection",
    "BodyReader",
    "ConnectionLimits",
    "ConnectionPhase",
    "LimitedConnection",
    "OpenConnections",
]

_BAD_REQUEST: Final = 400
_SWEEP_S: Final = 0.5


class ConnectionPhase(Enum):
    HANDSHAKE = auto()
    """The connection is accepted; with TLS, its handshake is not complete."""
    IDLE = auto()
    """No byte of the next request has arrived."""
    HEADERS = auto()
    """A part of the headers has arrived."""
    REQUEST = auto()
    """The headers are complete: the request is read or handled, or the response is written."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    connections: int = 256
    """Maximum number of connections. With TLS, Python needs a quarter of a megabyte for each."""
    handshake_s: float = 5.0
    idle_s: float = 120.0
    """Seconds until an idle connection is closed. API servers close theirs after 90 s, which is earlier, so
    that none is closed while a request is sent."""
    headers_s: float = 5.0
    request_s: float = 10.0
    """API servers and schedulers wait for one second, Prometheus for ten."""
    header_bytes: int = 32 << 10

    @property
    def by_phase(self) -> Mapping[ConnectionPhase, float]:
        return {
            ConnectionPhase.HANDSHAKE: self.handshake_s,
            ConnectionPhase.IDLE: self.idle_s,
            ConnectionPhase.HEADERS: self.headers_s,
            ConnectionPhase.REQUEST: self.request_s,
        }


@dataclass(eq=False, slots=True)
class AcceptedConnection:
    """A connection, from before its TLS handshake until its socket is closed."""

    socket: socket.socket
    peer: str
    since: float
    """When its phase began, in loop time."""
    phase: ConnectionPhase = ConnectionPhase.HANDSHAKE
    transport: asyncio.Transport | None = None
    """Set when the handshake is complete."""
    handshake: asyncio.Task[None] | None = field(default=None, repr=False)

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()
        elif self.handshake is not None:
            self.handshake.cancel()


class OpenConnections:
    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.closed = asyncio.Event()
        """Set while there are no connections."""
        self.closed.set()
        self._loop = asyncio.get_running_loop()
        self._open: dict[AcceptedConnection, None] = {}
        self._aborted: set[AcceptedConnection] = set()
        self._by_peer: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    def add(self, accepted_socket: socket.socket, peer: str) -> AcceptedConnection:
        """Add a connection; abort another one if there are too many."""
        if len(self._open) >= self.limits.connections:
            self.abort_one()
        accepted = AcceptedConnection(accepted_socket, peer, self._loop.time())
        self._open[accepted] = None
        self._by_peer[peer] += 1
        self.closed.clear()
        if self._timer is None:
            self._timer = self._loop.call_later(_SWEEP_S, self._sweep)
        return accepted

    def remove(self, accepted: AcceptedConnection) -> None:
        """Remove a connection whose socket is closed."""
        self._forget(accepted)
        self._aborted.discard(accepted)
        if not self._open and not self._aborted:
            self.closed.set()

    def abort_one(self) -> None:
        """Abort the longest idle connection of the address that has the most."""
        if not self._open:
            return
        ((peer, _),) = self._by_peer.most_common(1)
        candidates = (each for each in self._open if each.peer == peer)
        self._abort(min(candidates, key=lambda each: (each.phase is ConnectionPhase.REQUEST, each.since)))

    def abort_handshakes(self) -> None:
        for each in tuple(self._open):
            if each.phase is ConnectionPhase.HANDSHAKE:
                self._abort(each)

    def abort_all(self) -> None:
        for each in tuple(self._open):
            self._abort(each)

    def _abort(self, accepted: AcceptedConnection) -> None:
        self._forget(accepted)
        self._aborted.add(accepted)
        accepted.abort()

    def _forget(self, accepted: AcceptedConnection) -> None:
        if accepted not in self._open:
            return
        del self._open[accepted]
        self._by_peer[accepted.peer] -= 1
        if not self._by_peer[accepted.peer]:
            del self._by_peer[accepted.peer]

    def _sweep(self) -> None:
        now, longest = self._loop.time(), self.limits.by_phase
        for each in tuple(self._open):
            if now - each.since > longest[each.phase]:
                self._abort(each)
        self._timer = self._loop.call_later(_SWEEP_S, self._sweep) if self._open else None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class LimitedConnection(RequestHandler):
    """aiohttp's handler of one connection, which also tracks the connection's phase."""

    __slots__ = ("_accepted", "_connections", "_header_bytes")

    def __init__(
        self, server: web.Server, connections: OpenConnections, accepted: AcceptedConnection
    ) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=connections.limits.idle_s,
            access_log=None,  # type: ignore[arg-type] # as aiohttp's own runners pass it
            max_field_size=8190,
            max_headers=64,
            # Don't decompress bodies: a few bytes must not become a gigabyte.
            auto_decompress=False,
            lingering_time=1.0,
            read_bufsize=1 << 16,
        )
        self._connections = connections
        self._accepted = accepted
        self._header_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._accepted.transport = transport
        self._enter(ConnectionPhase.IDLE)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._connections.remove(self._accepted)

    def data_received(self, data: bytes) -> None:
        before = self._request_count
        super().data_received(data)
        if self._request_count > before:
            self._header_bytes = 0
            if self._accepted.phase is not ConnectionPhase.REQUEST:
                self._enter(ConnectionPhase.REQUEST)
        elif self._accepted.phase is not ConnectionPhase.REQUEST:
            if self._accepted.phase is ConnectionPhase.IDLE:
                self._enter(ConnectionPhase.HEADERS)
            self._header_bytes += len(data)
            if self._header_bytes > self._connections.limits.header_bytes:
                self._accepted.abort()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            # With pipelined requests, the next one starts at once.
            self._enter(ConnectionPhase.REQUEST if self._messages else ConnectionPhase.IDLE)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if status != _BAD_REQUEST:
            return super().handle_error(request, status, exc, message)
        # A bad request is the client's fault: don't log it, and don't repeat what it contains.
        response = web.Response(status=status, text="400: Bad Request")
        response.force_close()
        return response

    def extend(self) -> None:
        """Restart the time limit of a streamed response, because its client has read all that was sent."""
        self._enter(self._accepted.phase)

    def _enter(self, phase: ConnectionPhase) -> None:
        self._accepted.phase = phase
        self._accepted.since = self._loop.time()


MAX_BODY_BYTES: Final = 13 << 18
"""3.25 MiB: API servers accept requests of at most 3 MiB, and a review adds the user and options. For
5,000 nodes, a scheduler sends names of at most 253 bytes each."""
_MAX_BYTES_TOGETHER: Final = 4 * MAX_BODY_BYTES


@dataclass(eq=False, slots=True)
class _BodyInProgress:
    transport: asyncio.Transport | None
    body: bytearray = field(default_factory=bytearray)


class BodyReader:
    """Reads the bodies of all requests of one server, with a limit for each and for all together."""

    def __init__(self, largest: int = MAX_BODY_BYTES, together: int = _MAX_BYTES_TOGETHER) -> None:
        self._largest = largest
        self._together = together
        self._readings: dict[_BodyInProgress, None] = {}

    async def read(self, request: web.BaseRequest) -> bytes:
        """Return the body; raise `web.HTTPException` if it is not accepted."""
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            # None of our callers compresses; a compressed body could become a thousand times larger.
            raise web.HTTPUnsupportedMediaType(text="Content-Encoding is not supported")
        if (request.content_length or 0) > self._largest:
            raise self._too_large(request.content_length or 0)
        reading = _BodyInProgress(request.transport)
        self._readings[reading] = None
        try:
            async for part in request.content.iter_any():
                reading.body += part
                if len(reading.body) > self._largest:
                    raise self._too_large(len(reading.body))
                self._make_room(reading)
            return bytes(reading.body)
        finally:
            del self._readings[reading]

    def _make_room(self, reading: _BodyInProgress) -> None:
        if sum(len(each.body) for each in self._readings) <= self._together:
            return
        largest = max(self._readings, key=lambda each: len(each.body))
        if largest is reading:
            raise web.HTTPServiceUnavailable(text="too many large requests at the same time")
        # Its handler removes it later. Until then, it must not be chosen again.
        largest.body.clear()
        if largest.transport is not None:
            largest.transport.abort()

    def _too_large(self, size: int) -> web.HTTPRequestEntityTooLarge:
        return web.HTTPRequestEntityTooLarge(max_size=self._largest, actual_size=size)
