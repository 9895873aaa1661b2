"""The connections of one server: how many there may be, how long each may take, and which one has to go.

A new connection is never refused. When there are too many, the longest idle one of the address that has the
most is closed in its place: so a probe gets through whatever others hold open, and whoever opens a thousand
connections closes their own.

aiohttp bounds none of this: it knows neither connections whose TLS handshake is not finished, nor a limit for
the time in which the headers or the body of a request must arrive, or an answer must be read.

Bodies of requests, each of a limited size, and all of them together.

What a server holds for its clients is bounded by what it has read, not by what they promise: somebody who
announces megabytes and sends none takes no memory, and stands in nobody's way. When all bodies together are
too large, the largest one is given up.
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
    """Accepted; with TLS, the handshake is not finished."""
    IDLE = auto()
    """Nothing of the next request has arrived."""
    HEADERS = auto()
    """A part of its headers has."""
    REQUEST = auto()
    """They are complete: the body is read, the request is handled, or the answer is written."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    connections: int = 256
    """With TLS, Python holds a quarter of a megabyte for each."""
    handshake_s: float = 5.0
    idle_s: float = 120.0
    """Longer than API servers keep idle connections (90 s), so that they close them, never in mid-request."""
    headers_s: float = 5.0
    request_s: float = 10.0
    """API servers and schedulers wait for one second, and Prometheus for ten."""
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
    """A connection, from before TLS and HTTP know of it until its socket is closed."""

    socket: socket.socket
    peer: str
    since: float
    """When its phase began, by the clock of the event loop."""
    phase: ConnectionPhase = ConnectionPhase.HANDSHAKE
    transport: asyncio.Transport | None = None
    """Once the handshake is finished."""
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
        """Set while there are none."""
        self.closed.set()
        self._loop = asyncio.get_running_loop()
        self._open: dict[AcceptedConnection, None] = {}
        self._aborted: set[AcceptedConnection] = set()
        self._by_peer: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    def add(self, made: socket.socket, peer: str) -> AcceptedConnection:
        """Makes room for it first."""
        if len(self._open) >= self.limits.connections:
            self.abort_one()
        accepted = AcceptedConnection(made, peer, self._loop.time())
        self._open[accepted] = None
        self._by_peer[peer] += 1
        self.closed.clear()
        if self._timer is None:
            self._timer = self._loop.call_later(_SWEEP_S, self._sweep)
        return accepted

    def remove(self, accepted: AcceptedConnection) -> None:
        """Its socket is closed."""
        self._leave(accepted)
        self._aborted.discard(accepted)
        if not self._open and not self._aborted:
            self.closed.set()

    def abort_one(self) -> None:
        """The one that has waited longest for its client, of the address that has the most."""
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
        self._leave(accepted)
        self._aborted.add(accepted)
        accepted.abort()

    def _leave(self, accepted: AcceptedConnection) -> None:
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
    """aiohttp's, which says how far its requests are."""

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
            # Bodies stay as they were sent: a few bytes must not become a gigabyte.
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
            # Of requests that were sent without waiting for an answer, the next one begins.
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
        # Whatever a client sends, it is the client's fault: nothing to log, and nothing to repeat.
        response = web.Response(status=status, text="400: Bad Request")
        response.force_close()
        return response

    def _enter(self, phase: ConnectionPhase) -> None:
        self._accepted.phase = phase
        self._accepted.since = self._loop.time()


MAX_BODY_BYTES: Final = 4 << 20
"""API servers take requests of at most 3 MiB, and a review adds who has made one, and with which options. Of
5,000 nodes, a scheduler sends names of 253 bytes at most."""
_MAX_BYTES_TOGETHER: Final = 8 * MAX_BODY_BYTES


@dataclass(eq=False, slots=True)
class _BodyInProgress:
    transport: asyncio.Transport | None
    body: bytearray = field(default_factory=bytearray)


class BodyReader:
    """For all requests of one server."""

    def __init__(self, largest: int = MAX_BODY_BYTES, together: int = _MAX_BYTES_TOGETHER) -> None:
        self._largest = largest
        self._together = together
        self._readings: dict[_BodyInProgress, None] = {}

    async def read(self, request: web.BaseRequest) -> bytes:
        """Raises `web.HTTPException` for a body that is not accepted."""
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            # No caller of ours compresses; what was compressed well would be a thousand times as large.
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
            raise web.HTTPServiceUnavailable(text="too many large requests at once")
        # Its memory is free when its handler has noticed: until then, it must not be chosen again.
        largest.body.clear()
        if largest.transport is not None:
            largest.transport.abort()

    def _too_large(self, size: int) -> web.HTTPRequestEntityTooLarge:
        return web.HTTPRequestEntityTooLarge(max_size=self._largest, actual_size=size)
