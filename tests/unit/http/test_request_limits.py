"""How our servers treat slow clients, invalid requests and connections that never end."""

import asyncio
import gzip
import os
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web

from rescheduler.http.http_server import serve_http
from rescheduler.http.request_limits import BodyReader, ConnectionLimits, ConnectionPhase, OpenConnections
from rescheduler.steering.webhook.certificate_manager import ReloadableTLS
from rescheduler.steering.webhook.certificate_secret import CertificateLifetimes, renew_credentials
from tests.unit.http.hostile_clients import connect, connected, probe

OK = b"HTTP/1.1 200"
LARGEST = 10_000
SHORT = ConnectionLimits(connections=20, handshake_s=0.3, idle_s=30, headers_s=0.3, request_s=0.3)
POST = b"POST /echo HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture
def answered() -> list[int]:
    return []


@pytest.fixture
def app(answered: list[int]) -> web.Application:
    bodies = BodyReader(LARGEST, 3 * LARGEST)

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def echo(request: web.Request) -> web.Response:
        body = await bodies.read(request)
        answered.append(len(body))
        return web.Response(body=body)

    async def hang(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async def large(_: web.Request) -> web.Response:
        return web.Response(body=bytes(32 << 20))

    made = web.Application()
    made.router.add_get("/healthz", healthz)
    made.router.add_get("/hang", hang)
    made.router.add_get("/large", large)
    made.router.add_post("/echo", echo)
    return made


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def ended(reader: asyncio.StreamReader) -> bytes:
    """All that the server sends until it closes the connection."""
    async with asyncio.timeout(20):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(b"G", id="a part of the first line"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: ", id="a part of the headers"),
        pytest.param(POST + b"Content-Length: 9\r\n\r\n", id="no body"),
        pytest.param(POST + b"Content-Length: 9\r\n\r\n1234", id="a part of the body"),
        pytest.param(POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n12\r\n", id="a part of the chunks"),
        pytest.param(b"GET /hang HTTP/1.1\r\nHost: x\r\n\r\n", id="a request that is never answered"),
    ],
)
async def test_a_request_that_is_not_complete_in_time_is_refused(app: web.Application, first: bytes) -> None:
    async with serve_http(app, "127.0.0.1", 0, limits=SHORT) as port:
        reader, writer = await connect(port, first)
        assert not (await ended(reader)).startswith(OK)
        writer.close()
        assert (await probe(port))[0].startswith(OK)


async def test_a_client_that_sends_a_byte_now_and_then_gets_no_more_time(app: web.Application) -> None:
    async with serve_http(app, "127.0.0.1", 0, limits=SHORT) as port:
        reader, writer = await connect(port, b"GET /healthz HTTP/1.1\r\nX-A: ")
        closed = asyncio.create_task(ended(reader))
        async with asyncio.timeout(10):
            while not closed.done():
                writer.write(b"a")
                await asyncio.wait([closed], timeout=0.05)
        assert closed.result() == b""
        writer.close()


async def test_a_client_that_does_not_read_its_answer_is_disconnected(app: web.Application) -> None:
    async with serve_http(app, "127.0.0.1", 0, limits=SHORT) as port:
        _, writer = await connect(port, b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n", limit=1)
        before = open_files()
        async with asyncio.timeout(20):
            while open_files() >= before:  # noqa: ASYNC110 - the server's end is closed
                await asyncio.sleep(0.02)
        writer.transport.abort()


async def test_kept_connections_are_served_again_and_closed_when_they_are_idle(app: web.Application) -> None:
    limits = ConnectionLimits(idle_s=0.5)
    async with serve_http(app, "127.0.0.1", 0, limits=limits) as port:
        reader, writer = await connect(port)
        for _ in range(3):
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readuntil(b"ok")).startswith(OK)
        assert await ended(reader) == b""
        writer.close()


@pytest.mark.parametrize("secure", [False, True], ids=["without TLS", "TLS handshakes that never end"])
async def test_silent_clients_do_not_affect_others(app: web.Application, secure: bool) -> None:
    credentials = renew_credentials(None, ("127.0.0.1",), datetime.now(UTC), CertificateLifetimes())
    live = ReloadableTLS()
    live.load(credentials)
    trusting = ssl.create_default_context(cadata=credentials.trusted.decode()) if secure else None
    before = open_files()
    limits = ConnectionLimits(connections=50, handshake_s=2)
    tls = live.public if secure else None
    async with serve_http(app, "127.0.0.1", 0, tls, limits) as port, connected(port, 1000):
        for _ in range(10):
            assert (await probe(port, ssl=trusting))[0].startswith(OK)
        assert open_files() < before + 1000 + 60
    assert open_files() <= before + 2


async def test_a_tls_handshake_that_is_not_finished_in_time_is_aborted(app: web.Application) -> None:
    live = ReloadableTLS()
    live.load(renew_credentials(None, ("127.0.0.1",), datetime.now(UTC), CertificateLifetimes()))
    async with serve_http(app, "127.0.0.1", 0, live.public, SHORT) as port:
        for first in (b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096)):
            reader, writer = await connect(port, first)
            await ended(reader)
            writer.close()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(os.urandom(65536), id="random bytes"),
        pytest.param(b"GET /" + b"a" * 100_000, id="an endless first line"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nX-A: " + b"a" * 100_000, id="an endless header"),
        pytest.param(b"GET /healthz HTTP/1.1\r\n" + b"X-A: b\r\n" * 20_000, id="endless headers"),
        pytest.param(
            b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 3 + os.urandom(4096), id="pipelined garbage"
        ),
        pytest.param(POST + b"Content-Length: -1\r\n\r\n", id="a negative length"),
        pytest.param(
            POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", id="two lengths"
        ),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", id="HTTP/2"),
    ],
)
async def test_nonsense_ends_the_connection_and_nothing_else(
    app: web.Application, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve_http(app, "127.0.0.1", 0, limits=SHORT) as port:
        for _ in range(3):
            reader, writer = await connect(port, sent)
            answer = await ended(reader)
            assert b"Traceback" not in answer
            assert not answer or answer.startswith(OK) or answer.endswith(b"400: Bad Request")
            writer.close()
        assert (await probe(port))[0].startswith(OK)
    assert not caplog.records


async def test_requests_that_are_sent_without_waiting_are_all_answered(app: web.Application) -> None:
    count = 200
    async with serve_http(app, "127.0.0.1", 0) as port:
        last = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        reader, writer = await connect(port, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * (count - 1) + last)
        assert (await ended(reader)).count(OK) == count
        writer.close()


# -- bodies


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "identity, gzip", "GZIP"])
async def test_a_compressed_body_is_refused_unread(
    app: web.Application, answered: list[int], encoding: str
) -> None:
    body = gzip.compress(bytes(1 << 20))
    head = POST + f"Content-Encoding: {encoding}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    async with serve_http(app, "127.0.0.1", 0, limits=SHORT) as port:
        reader, writer = await connect(port, head)
        assert b" 415 " in await reader.readline()
        writer.close()
    assert not answered


@pytest.mark.parametrize(
    ("head", "body"),
    [
        pytest.param(b"Content-Length: 10001\r\n\r\n", b"", id="announced, before anything of it is sent"),
        pytest.param(
            b"Transfer-Encoding: chunked\r\n\r\n", b"1000\r\n" + bytes(0x1000) + b"\r\n", id="in chunks"
        ),
    ],
)
async def test_a_body_that_is_too_large_is_refused(
    app: web.Application, answered: list[int], head: bytes, body: bytes
) -> None:
    async with serve_http(app, "127.0.0.1", 0, limits=ConnectionLimits()) as port:
        reader, writer = await connect(port, POST + head)
        for _ in range(3):
            writer.write(body)
        assert b" 413 " in await reader.readline()
        writer.close()
    assert not answered


async def test_the_largest_body_is_accepted(app: web.Application, answered: list[int]) -> None:
    async with serve_http(app, "127.0.0.1", 0) as port:
        reader, writer = await connect(port, POST + b"Content-Length: 10000\r\n\r\n" + bytes(LARGEST))
        assert (await reader.readline()).startswith(OK)
        writer.close()
    assert answered == [LARGEST]


async def test_large_bodies_are_refused_before_small_ones(app: web.Application, answered: list[int]) -> None:
    """Of many large bodies at once, the largest are refused, and small requests are answered."""
    unfinished = POST + b"Content-Length: 10000\r\n\r\n" + bytes(LARGEST - 1)
    async with (
        serve_http(app, "127.0.0.1", 0, limits=ConnectionLimits()) as port,
        connected(port, 20, unfinished),
    ):
        for _ in range(5):
            reader, writer = await connect(port, POST + b"Content-Length: 4\r\n\r\nhere")
            assert (await reader.readline()).startswith(OK)
            writer.close()
    assert answered == [4] * 5


async def test_a_client_that_announces_much_and_sends_nothing_takes_no_slot(
    app: web.Application, answered: list[int]
) -> None:
    head = POST + b"Content-Length: 10000\r\n\r\n"
    async with serve_http(app, "127.0.0.1", 0) as port, connected(port, 50, head):
        reader, writer = await connect(port, head + bytes(LARGEST))
        assert (await reader.readline()).startswith(OK)
        writer.close()
    assert answered == [LARGEST]


# -- who has to go


class Line:
    """A connection that notes its end."""

    def __init__(self, ended: list[str], name: str) -> None:
        self._ended, self._name = ended, name

    def abort(self) -> None:
        self._ended.append(self._name)


def held(
    connections: OpenConnections, ended: list[str], name: str, peer: str, phase: ConnectionPhase, since: float
) -> None:
    accepted = connections.add(None, peer)  # type: ignore[arg-type] # nothing is sent
    accepted.phase, accepted.since = phase, since
    accepted.transport = Line(ended, name)  # type: ignore[assignment]


async def test_who_has_the_most_connections_loses_the_one_that_was_idle_longest() -> None:
    connections, gone = OpenConnections(ConnectionLimits(connections=5)), list[str]()
    held(connections, gone, "a probe", "kubelet", ConnectionPhase.IDLE, 1)
    held(connections, gone, "at work", "flood", ConnectionPhase.REQUEST, 2)
    held(connections, gone, "idle", "flood", ConnectionPhase.IDLE, 4)
    held(connections, gone, "half a request", "flood", ConnectionPhase.HEADERS, 3)
    held(connections, gone, "an API server", "server", ConnectionPhase.IDLE, 0)
    for _ in range(2):
        held(connections, gone, "new", "flood", ConnectionPhase.REQUEST, 9)
    assert gone == ["half a request", "idle"]
    held(connections, gone, "one more", "other", ConnectionPhase.IDLE, 10)
    assert gone == ["half a request", "idle", "at work"], "rather than refusing the new one"
    assert len(connections) == 5
    connections.close()
