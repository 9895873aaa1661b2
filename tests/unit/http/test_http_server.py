"""A server that stops leaves no open connection; warnings are errors here."""

import asyncio
import contextlib
import errno
import gc
import socket
import ssl
from datetime import UTC, datetime

import pytest
from aiohttp import web

from rescheduler.http.http_server import serve_http
from rescheduler.steering.webhook.certificate_manager import ReloadableTLS
from rescheduler.steering.webhook.certificate_secret import CertificateLifetimes, renew_credentials

OK = b"HTTP/1.1 200 OK"


@pytest.fixture(scope="module")
def credentials():
    return renew_credentials(None, ("127.0.0.1",), datetime.now(UTC), CertificateLifetimes())


@pytest.fixture
def tls(credentials):
    live = ReloadableTLS()
    live.load(credentials)
    return live.public


@pytest.fixture
def app():
    async def answer(_):
        return web.Response(text="ok")

    made = web.Application()
    made.router.add_get("/", answer)
    return made


async def asked(reader, writer):
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    return await reader.readline()


async def test_idle_connections_are_closed(app, tls, credentials):
    trusting = ssl.create_default_context(cadata=credentials.trusted.decode())
    async with serve_http(app, "127.0.0.1", 0, tls) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
        assert (await asked(reader, writer)).startswith(OK)
    await reader.read()
    assert reader.at_eof()
    writer.close()
    gc.collect()


async def test_connections_without_a_request_are_closed_too(app, tls):
    async with serve_http(app, "127.0.0.1", 0, tls) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        # A later client has been served: so the one before has been accepted.
        later_reader, later = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.sleep(0)
    assert await reader.read() == b""
    assert await later_reader.read() == b""
    for each in (writer, later):
        each.close()
    gc.collect()


async def test_without_a_host_it_is_reached_on_every_address_by_the_same_port(app):
    async with serve_http(app, None, 0) as port:
        for host in ("127.0.0.1", "::1"):
            if host == "::1" and not socket.has_dualstack_ipv6():
                continue
            reader, writer = await asyncio.open_connection(host, port)
            assert (await asked(reader, writer)).startswith(OK)
            writer.close()


async def test_a_port_that_is_taken_is_said(app):
    async with serve_http(app, "127.0.0.1", 0) as port:
        with pytest.raises(OSError, match="in use"):
            async with serve_http(app, "127.0.0.1", port):
                pass


async def test_without_file_descriptors_the_longest_idle_connection_is_closed(app, monkeypatch, caplog):
    accept, failures = socket.socket.accept, [OSError(errno.EMFILE, "Too many open files")]

    def accept_later(listener):
        if failures:
            raise failures.pop()
        return accept(listener)

    async with serve_http(app, "127.0.0.1", 0) as port:
        idle_reader, idle = await asyncio.open_connection("127.0.0.1", port)
        assert (await asked(idle_reader, idle)).startswith(OK)
        monkeypatch.setattr(socket.socket, "accept", accept_later)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert (await asked(reader, writer)).startswith(OK)
        # An aborted connection ends with a reset, unless the client has read everything.
        async with asyncio.timeout(5):
            with contextlib.suppress(ConnectionResetError):
                await idle_reader.read()
        assert idle_reader.at_eof() or idle_reader.exception()
        for each in (writer, idle):
            each.close()
    assert [each.getMessage() for each in caplog.records] == [
        "can't accept a connection: Too many open files; closing the longest idle one"
    ]
