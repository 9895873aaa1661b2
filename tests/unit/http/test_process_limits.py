"""The daemon and the webhook under hostile clients, as processes with the limits of a container."""

import asyncio
import contextlib
import ssl
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from statistics import median

import pytest

from kubesim import ApiServer
from kubesim.sockets.loopback_server import serve
from rescheduler.api.podmigration_crd import podmigration_crd
from rescheduler.http.request_limits import MAX_BODY_BYTES
from tests.unit.http.hostile_clients import Process, connect, connected, probe, running


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[Path]:
    server = ApiServer(seed=3)
    server.load([podmigration_crd()])
    async with await serve(server) as served:
        file = tmp_path / "kubeconfig"
        file.write_text(served.kubeconfig)
        yield file


async def is_ready(port: int) -> bool:
    with contextlib.suppress(OSError):
        return (await probe(port, "/readyz"))[0].startswith(b"HTTP/1.1 200")
    return False


@pytest.fixture
async def daemon(
    kubeconfig: Path, tmp_path: Path, unused_tcp_port: int
) -> AsyncIterator[tuple[Process, int]]:
    arguments = ("run", "--kubeconfig", kubeconfig, "--host", "127.0.0.1", "--port", unused_tcp_port)
    async with running(tmp_path / "log", *arguments) as process:
        async with asyncio.timeout(60):
            while not await is_ready(unused_tcp_port):  # noqa: ASYNC110 - only asking tells
                await asyncio.sleep(0.1)
        yield process, unused_tcp_port


WATCHES = 40
"""A ready daemon has read everything, but some of its watches may open a moment later."""


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
    await process.until(lambda: process.files <= files + WATCHES)
    assert len(process.lines) < lines + 50
    assert process.cpu_s - cpu_s < 5


# -- the webhook

MEMORY_LIMIT = 512 << 20
"""Of its container, as it is installed."""


@pytest.fixture
async def webhook(
    kubeconfig: Path, tmp_path: Path, unused_tcp_port: int
) -> AsyncIterator[tuple[Process, int]]:
    ports = ("--host", "127.0.0.1", "--port", unused_tcp_port, "--extender-port", 0)
    arguments = ("webhook", "--kubeconfig", kubeconfig, "--namespace", "default", *ports)
    async with running(tmp_path / "log", *arguments) as process:
        await process.until(lambda: any("listening on port" in line for line in process.lines))
        yield process, unused_tcp_port


def unverified_tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def review(head: str, body: bytes) -> bytes:
    return f"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{head}\r\n".encode() + body


def compressed() -> bytes:
    """Half a megabyte, and six hundred when it is not."""
    packer = zlib.compressobj(9, wbits=31)
    parts = [packer.compress(b'{"request": {"object": {"x": "')]
    parts += [packer.compress(b" " * (1 << 20)) for _ in range(600)]
    return review("Content-Encoding: gzip\r\n", b"".join((*parts, packer.flush())))


def repeated(before: bytes, item: bytes, after: bytes = b"") -> Callable[[], bytes]:
    count = (MAX_BODY_BYTES - len(before) - len(after)) // len(item)
    return lambda: review("", before + item * count + after)


ABOUT = b'{"request": {"object": {"metadata": '
STORMS = [
    pytest.param(compressed, id="a compressed body of 600 MB"),
    pytest.param(repeated(b"[", b"[],", b"[]]"), id="a million lists"),
    pytest.param(repeated(ABOUT + b'{"annotations": {', b'"":"",', b'"":""}}}}}'), id="many annotations"),
    pytest.param(repeated(ABOUT + b'{"ownerReferences": [', b"{},", b"{}]}}}}"), id="a million owners"),
    pytest.param(repeated(ABOUT, b"["), id="nested as deep as it goes"),
    pytest.param(lambda: repeated(b"", b" ")()[:-1], id="bodies that never end"),
]


@pytest.mark.size
@pytest.mark.parametrize("storm", STORMS)
async def test_a_storm_of_the_largest_requests_takes_half_of_the_memory_that_it_may_have(
    webhook: tuple[Process, int], storm: Callable[[], bytes]
) -> None:
    process, port = webhook
    tls, sent = unverified_tls(), storm()

    async def send() -> None:
        """Whatever the answer is, or whether there is one."""
        with contextlib.suppress(OSError, TimeoutError):
            reader, writer = await connect(port, sent, ssl=tls)
            try:
                await asyncio.wait_for(reader.readline(), 30)
            finally:
                writer.transport.abort()

    await asyncio.gather(*(send() for _ in range(60)))
    assert process.largest_memory < MEMORY_LIMIT // 2
    async with asyncio.timeout(30):
        reader, writer = await connect(port, review("", b"{}"), ssl=tls)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.transport.abort()
    assert len(process.lines) < 100
