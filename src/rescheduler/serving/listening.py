"""A server on a port, and an end that is one: no connection outlives it.

Callers such as API servers keep connections open, and open more than they use. When aiohttp ends it says
goodbye to those that it has talked to, and does not wait for the answer; of one whose TLS handshake was never
finished it does not even know. So we know the sockets ourselves.
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final
from weakref import WeakSet

from aiohttp import web

__all__ = ["listening"]

_IDLE_S: Final = 120.0
"""Longer than API servers keep idle connections (90 s): it is they who close them, never in mid-request."""
_UNFINISHED_S: Final = 2.0
"""How long requests that are under way may take after the end; their callers wait for one second."""
_GOODBYE_S: Final = 1.0
_BACKLOG: Final = 128


class _Listening(socket.socket):
    """One that remembers whom it has accepted."""

    def __init__(self, family: int) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self.accepted: WeakSet[socket.socket] = WeakSet()

    def accept(self) -> tuple[socket.socket, Any]:
        made, address = super().accept()
        self.accepted.add(made)
        return made, address


@contextlib.asynccontextmanager
async def listening(
    app: web.Application, host: str | None, port: int, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serves while the body runs, on all addresses without a `host`; gives the port. Raises `OSError`."""
    runner = web.AppRunner(
        app, access_log=None, handle_signals=False, keepalive_timeout=_IDLE_S, shutdown_timeout=_UNFINISHED_S
    )
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(each) for each in _bound(host, port)]
        await runner.setup()
        try:
            for each in sockets:
                await web.SockSite(runner, each, ssl_context=tls, backlog=_BACKLOG).start()
            yield int(sockets[0].getsockname()[1])
        finally:
            await runner.cleanup()
            await _hung_up([made for each in sockets for made in each.accepted])


def _bound(host: str | None, port: int) -> Iterable[_Listening]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # One name may have an address of each family; with port 0, all get the one that the first was given.
    for family, address in {each[0]: each[4] for each in found}.items():
        try:
            made = _Listening(family)
        except OSError:  # not on this machine
            continue
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            made.bind((address[0], port, *address[2:]))
        except OSError as error:
            made.close()
            if host is None and error.errno == errno.EADDRNOTAVAIL:  # switched off on this machine
                continue
            raise
        port = int(made.getsockname()[1])
        made.setblocking(False)
        yield made


async def _hung_up(accepted: list[socket.socket]) -> None:
    """Until the event loop has noticed the end of all of them."""
    for each in accepted:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_GOODBYE_S):
            while any(each.fileno() >= 0 for each in accepted):  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.005)
