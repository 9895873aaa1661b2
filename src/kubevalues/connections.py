"""TLS contexts from certificates, and a connection pool for HTTP clients that leaves no connection behind."""

import asyncio
import contextlib
import socket
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from weakref import WeakSet

import aiohttp

__all__ = ["ClosingConnector", "load_certificate_into", "server_tls_context"]

_CLOSE_TIMEOUT_S: Final = 1.0


def load_certificate_into(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Use the certificate for new connections. Raises `ssl.SSLError` if OpenSSL can't read it."""
    # Python reads keys from files only: this one is private and removed immediately.
    with tempfile.TemporaryDirectory(prefix="rescheduler-") as folder:
        chain_file, key_file = Path(folder, "tls.crt"), Path(folder, "tls.key")
        chain_file.write_bytes(certificate)
        key_file.touch(mode=0o600)
        key_file.write_bytes(key)
        # Without a password OpenSSL would ask for one on the terminal.
        context.load_cert_chain(chain_file, key_file, password="")


def server_tls_context(certificate: bytes, key: bytes) -> ssl.SSLContext:
    """Return the context of a server with that certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_certificate_into(context, certificate, key)
    return context


def _plain_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, _, _ = address
    return socket.socket(family, kind, protocol)


class ClosingConnector(aiohttp.TCPConnector):
    """A connector whose `close` closes every open connection and waits until all are closed.

    aiohttp itself forgets the connections of cancelled requests and of responses with `Connection: close`.
    If the event loop ends before their TLS shutdown does, they stay open.
    """

    def __init__(
        self, *, open_socket: Callable[[aiohttp.AddrInfoType], socket.socket] = _plain_socket, **options: Any
    ) -> None:
        """Pool connections over the sockets of `open_socket`; `options` are those of `TCPConnector`."""
        sockets: WeakSet[socket.socket] = WeakSet()

        def open_and_remember(address: aiohttp.AddrInfoType) -> socket.socket:
            opened = open_socket(address)
            sockets.add(opened)
            return opened

        super().__init__(socket_factory=open_and_remember, **options)
        self._sockets = sockets

    async def close(self, *, abort_ssl: bool = False) -> None:
        await super().close(abort_ssl=abort_ssl)
        for each in self._open_sockets():
            with contextlib.suppress(OSError):
                # The connection ends for the event loop, whether or not the peer answers the TLS shutdown.
                each.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                while self._open_sockets():  # noqa: ASYNC110 - there is no event
                    await asyncio.sleep(0.005)

    def _open_sockets(self) -> list[socket.socket]:
        return [each for each in self._sockets if each.fileno() >= 0]
