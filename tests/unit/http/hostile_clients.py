"""Hostile clients, and what they do to a process."""

import asyncio
import contextlib
import os
import resource
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

__all__ = ["PATIENCE_S", "Connected", "Process", "connect", "connected", "probe", "running"]

PATIENCE_S = 60.0
Connected = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(port: int, first: bytes = b"", **options: Any) -> Connected:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **options)
    if first:
        writer.write(first)
    return reader, writer


@contextlib.asynccontextmanager
async def connected(port: int, count: int, first: bytes = b"") -> AsyncIterator[list[socket.socket]]:
    """Open so many connections, which send `first` and then nothing; the server may close them."""
    loop = asyncio.get_running_loop()
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in made:
            each.setblocking(False)
            with contextlib.suppress(OSError):
                await loop.sock_connect(each, ("127.0.0.1", port))
                await loop.sock_sendall(each, first)
        yield made


async def probe(port: int, path: str = "/healthz", **options: Any) -> tuple[bytes, float]:
    """The first line of the answer, and after how many seconds it came.

    A kubelet waits for one second, but not while other tests run.
    """
    began = time.monotonic()
    async with asyncio.timeout(5.0):
        reader, writer = await connect(port, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode(), **options)
        line = await reader.readline()
    writer.transport.abort()
    return line, time.monotonic() - began


class Process:
    """`rescheduler` with these arguments."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._folder = Path("/proc", str(process.pid))
        self.log = log

    @property
    def lines(self) -> list[str]:
        return self.log.read_text().splitlines()

    @property
    def files(self) -> int:
        return sum(1 for _ in (self._folder / "fd").iterdir())

    @property
    def cpu_s(self) -> float:
        fields = (self._folder / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def largest_memory(self) -> int:
        """Return the peak in bytes since it was started."""
        status = (self._folder / "status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not is_so():
                assert self._process.returncode is None, self.log.read_text()
                await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def running(log: Path, *arguments: object, files: int = 1024) -> AsyncIterator[Process]:
    """It may open so many files."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    with log.open("wb") as written:
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("rescheduler"),
            *map(str, arguments),
            stderr=written,
            preexec_fn=limit,
        )
    try:
        yield Process(process, log)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
