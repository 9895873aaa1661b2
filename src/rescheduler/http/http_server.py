"""The HTTP server of all our programs, which limits its connections and closes all of them at the end.

It accepts connections itself. When the process has no file descriptors left, asyncio's accept loop logs a
line for each waiting connection, a hundred at a time, and schedules itself again for each of them.
"""

import asyncio
import contextlib
import errno
import functools
import logging
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Final

from aiohttp import web

from rescheduler.http.request_limits import (
    AcceptedConnection,
    ConnectionLimits,
    LimitedConnection,
    OpenConnections,
)
from rescheduler.kube.event_recorder import log_event

__all__ = ["health_application", "serve_http"]

log = logging.getLogger(__name__)

_SHUTDOWN_TIMEOUT_S: Final = 2.0
"""How long requests in progress may take after the server is stopped; their callers wait for one second."""
_CLOSE_S: Final = 1.0
_BACKLOG: Final = 512
_ACCEPTS_PER_TURN: Final = 32
"""How many connections are accepted before other tasks can run."""
_PAUSE_S: Final = 0.1
_MAX_OPEN_FILES: Final = 8192
_SHARE_OF_MAX_OPEN_FILES: Final = 4
"""Connections of one server use at most this fraction (1/n) of the files that the process may open."""


@contextlib.asynccontextmanager
async def serve_http(
    app: web.Application,
    host: str | None,
    port: int,
    tls: Callable[[], ssl.SSLContext] | None = None,
    limits: ConnectionLimits | None = None,
) -> AsyncIterator[int]:
    """Serve on `host`, or on all addresses, while the body runs; yield the port. Raise `OSError`.

    `tls` is called for each connection, so that certificates can be rotated.
    """
    runner = web.AppRunner(
        app, handle_signals=False, handler_cancellation=True, shutdown_timeout=_SHUTDOWN_TIMEOUT_S
    )
    connections = OpenConnections(
        limits
        or ConnectionLimits(
            connections=min(ConnectionLimits().connections, _max_open_files() // _SHARE_OF_MAX_OPEN_FILES)
        )
    )
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(each) for each in _bound_sockets(host, port)]
        await runner.setup()
        assert runner.server is not None
        acceptors = [_Acceptor(each, runner.server, connections, tls) for each in sockets]
        try:
            for acceptor in acceptors:
                acceptor.start()
            yield int(sockets[0].getsockname()[1])
        finally:
            for acceptor in acceptors:
                acceptor.stop()
            connections.abort_handshakes()
            await runner.cleanup()
            await _wait_until_closed(connections)
            connections.abort_all()
            await _wait_until_closed(connections)
            connections.close()


async def _wait_until_closed(connections: OpenConnections) -> None:
    """Wait, for a limited time, until all connections are closed, some of them by their clients."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(connections.closed.wait(), _CLOSE_S)


class _Acceptor:
    def __init__(
        self,
        listener: socket.socket,
        server: web.Server,
        connections: OpenConnections,
        tls: Callable[[], ssl.SSLContext] | None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._server = server
        self._connections = connections
        self._tls = tls
        self._paused: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._listener.listen(_BACKLOG)
        self._resume()

    def stop(self) -> None:
        self._loop.remove_reader(self._listener)
        if self._paused is not None:
            self._paused.cancel()

    def _resume(self) -> None:
        self._paused = None
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                made, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(error)
                return
            made.setblocking(False)
            accepted = self._connections.add(made, str(address[0]))
            accepted.handshake = self._loop.create_task(self._connect(accepted))
            accepted.handshake.add_done_callback(functools.partial(self._connected, accepted))

    def _pause(self, error: OSError) -> None:
        """Close one connection and retry later, because there are probably no file descriptors left."""
        message = f"can't accept a connection: {error.strerror}; closing the longest idle one"
        log_event(log, logging.WARNING, "ConnectionNotAccepted", message, connections=len(self._connections))
        self._connections.abort_one()
        self._loop.remove_reader(self._listener)
        self._paused = self._loop.call_later(_PAUSE_S, self._resume)

    async def _connect(self, accepted: AcceptedConnection) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: LimitedConnection(self._server, self._connections, accepted),
                accepted.socket,
                ssl=self._tls() if self._tls else None,
                ssl_handshake_timeout=self._connections.limits.handshake_s if self._tls else None,
                ssl_shutdown_timeout=_CLOSE_S if self._tls else None,
            )
        except ssl.SSLError as error:
            message = f"the TLS handshake with a client failed: {error.reason or error}"
            log_event(log, logging.WARNING, "TLSHandshakeFailed", message, peer=accepted.peer)
        except OSError:
            pass  # The client has disconnected, or was too slow.

    def _connected(self, accepted: AcceptedConnection, _: asyncio.Task[None]) -> None:
        if accepted.transport is None:
            accepted.socket.close()
            self._connections.remove(accepted)


def _max_open_files() -> int:
    """Raise the limit of open files to at most `_MAX_OPEN_FILES`, and return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(_MAX_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return _MAX_OPEN_FILES if soft == resource.RLIM_INFINITY else soft


def _bound_sockets(host: str | None, port: int) -> Iterable[socket.socket]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # A name may have an address of each family; with port 0, all use the port of the first.
    for family, address in {each[0]: each[4] for each in found}.items():
        try:
            made = socket.socket(family, socket.SOCK_STREAM)
        except OSError:  # the family is not supported on this machine
            continue
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            made.bind((address[0], port, *address[2:]))
        except OSError as error:
            made.close()
            if host is None and error.errno == errno.EADDRNOTAVAIL:  # the family is disabled on this machine
                continue
            raise OSError(error.errno, error.strerror, f"port {port}") from error
        port = int(made.getsockname()[1])
        made.setblocking(False)
        yield made


_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_UNAVAILABLE: Final = 503


def health_application(
    not_ready: Callable[[], Sequence[str]], metrics: Callable[[], bytes]
) -> web.Application:
    """Return an application with `/healthz`, `/readyz` and `/metrics`.

    `not_ready` returns the reasons why the program is not ready.
    """

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        reasons = not_ready()
        if reasons:
            return web.Response(text="".join(f"{each}\n" for each in reasons), status=_UNAVAILABLE)
        return web.Response(text="ok\n")

    async def read_metrics(_: web.Request) -> web.Response:
        return web.Response(body=metrics(), headers={"Content-Type": _METRICS_TYPE})

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", read_metrics)
    return app
