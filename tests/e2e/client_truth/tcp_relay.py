"""A TCP relay on loopback between a client and the API server, which tests can cut and block.

TLS runs through it unbroken, so what the client sees is what a failing network shows it: connections that are
reset in the middle of a sentence, or that stay open and say nothing.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Self
from urllib.parse import urlsplit

from rescheduler.kube.access.cluster_access import ClusterAccess

__all__ = ["TcpRelay"]


class TcpRelay:
    def __init__(self, access: ClusterAccess) -> None:
        self._access = access
        self._through = asyncio.Event()
        self._through.set()
        self._ends: set[asyncio.StreamWriter] = set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """`access` leads through the cable from now on."""
        address = urlsplit(self._access.server)
        self._far = (address.hostname, address.port)
        server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        self.access = replace(self._access, server=f"https://127.0.0.1:{port}")
        try:
            yield self
        finally:
            server.close()
            self.release()
            self.cut()
            await self._all_ended()

    def cut(self) -> None:
        """Resets all connections; new ones may be made at once."""
        for end in self._ends:
            end.transport.abort()

    def hold(self) -> None:
        """From now on no byte passes, and no side is notified."""
        self._through.clear()

    def release(self) -> None:
        self._through.set()

    async def _all_ended(self) -> None:
        while self._ends:  # noqa: ASYNC110 - it takes no longer than a moment
            await asyncio.sleep(0.05)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._far)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, far_writer}
        self._ends |= ends
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass_on(reader, far_writer))
                both.create_task(self._pass_on(far_reader, writer))
        finally:
            self._ends -= ends
            for end in ends:
                end.transport.abort()

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        """Relay bytes until either side closes, then close the other."""
        with contextlib.suppress(OSError):
            while chunk := await source.read(2**18):
                await self._through.wait()
                target.write(chunk)
                await target.drain()
        target.transport.abort()
