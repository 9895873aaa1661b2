"""The daemon under hostile clients, as a process with the limits of a container."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median

import pytest

from rescheduler.migrations.definition import definition
from rescheduler.simulator import ApiServer
from rescheduler.simulator.shells.http import serve
from tests.unit.serving.hostile import Process, connected, probe, running


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[Path]:
    server = ApiServer(seed=3)
    server.load([definition()])
    async with await serve(server) as served:
        file = tmp_path / "kubeconfig"
        file.write_text(served.kubeconfig)
        yield file


async def answers(port: int) -> bool:
    with contextlib.suppress(OSError):
        return (await probe(port))[0].startswith(b"HTTP/1.1 200")
    return False


@pytest.fixture
async def daemon(
    kubeconfig: Path, tmp_path: Path, unused_tcp_port: int
) -> AsyncIterator[tuple[Process, int]]:
    arguments = ("run", "--kubeconfig", kubeconfig, "--host", "127.0.0.1", "--port", unused_tcp_port)
    async with running(tmp_path / "log", *arguments) as process:
        async with asyncio.timeout(60):
            while not await answers(unused_tcp_port):  # noqa: ASYNC110 - only asking tells
                await asyncio.sleep(0.1)
        yield process, unused_tcp_port


async def test_probes_are_answered_whatever_idle_connections_others_hold(daemon: tuple[Process, int]) -> None:
    """More connections than the process may open files: each probe is answered within a second, the log does
    not grow, no processor is busy, and afterwards all is as before."""
    process, port = daemon
    lines, files, cpu_s = len(process.lines), process.files, process.cpu_s
    async with connected(port, 1500, b"GET /healthz HTTP/1.1\r\n"):
        probes = [await probe(port) for _ in range(20)]
        assert all(line.startswith(b"HTTP/1.1 200") for line, _ in probes)
        assert median(took_s for _, took_s in probes) < 1
        assert process.files < files + 300
    await process.until(lambda: process.files <= files + 8)
    assert len(process.lines) < lines + 50
    assert process.cpu_s - cpu_s < 5
