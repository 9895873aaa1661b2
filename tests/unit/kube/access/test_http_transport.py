"""The transport over real sockets: trust, time-outs, broken connections."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import parse_qsl, urlsplit

import pytest
from cryptography import x509

from rescheduler.kube.access.cluster_access import ClusterAccess, StoredCredentials
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.kube.transport import ApiRequest, NoResponse


def access(server: str, **more) -> ClusterAccess:
    return ClusterAccess(server, StoredCredentials(), "a test", **more)


async def test_path_and_query_arrive_as_they_were_meant(serve):
    async with serve(tls=False) as server, HttpTransport(access(f"{server.url}/gateway")) as network:
        query = (("labelSelector", "a in (b, c),d!=e"), ("fieldSelector", "x=100%25+&é"), ("limit", "5"))
        async with await network.send(ApiRequest("GET", "/api/v1/pods", query)) as response:
            assert response.status == 200
            assert response.headers["content-type"].startswith("application/json")
        asked = urlsplit(server.calls[0].path)
        assert asked.path == "/gateway/api/v1/pods"
        assert parse_qsl(asked.query) == list(query)


async def test_a_server_of_another_authority_is_not_trusted(serve):
    async with serve() as server, HttpTransport(access(server.url)) as network:
        with pytest.raises(
            NoResponse, match=r"certificate of https://127.* is not trusted: .*self-signed"
        ) as failed:
            await network.send(ApiRequest("POST", "/"))
        assert not failed.value.sent
        assert "certificate authority in a test" in failed.value.remedy
        assert not server.calls


async def test_a_server_of_another_name_is_not_trusted_unless_the_name_is_given(serve, authority):
    async with serve(x509.DNSName("kubernetes.internal")) as server:
        async with HttpTransport(access(server.url, authority=authority.pem)) as network:
            with pytest.raises(NoResponse, match="is not trusted"):
                await network.send(ApiRequest("GET", "/"))
        named = access(server.url, authority=authority.pem, tls_server_name="kubernetes.internal")
        async with HttpTransport(named) as network, await network.send(ApiRequest("GET", "/")) as response:
            assert response.status == 200


async def test_any_server_is_trusted_if_the_kubeconfig_says_so(serve):
    async with (
        serve() as server,
        HttpTransport(access(server.url, insecure=True)) as network,
        await network.send(ApiRequest("GET", "/")) as response,
    ):
        assert response.status == 200


async def test_a_proxy_of_the_kubeconfig_is_used(serve):
    async with (
        serve(tls=False) as proxy,
        HttpTransport(access("http://cluster.test", proxy=proxy.url)) as network,
    ):
        async with await network.send(ApiRequest("GET", "/version")) as response:
            assert response.status == 200
        assert proxy.calls[0].headers["Host"] == "cluster.test"


async def test_a_proxy_of_the_environment_is_used_but_not_for_exceptions(serve, monkeypatch):
    async with serve(tls=False) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        async with HttpTransport(access("http://cluster.test")) as network:
            await (await network.send(ApiRequest("GET", "/"))).close()
        assert len(proxy.calls) == 1
        async with serve(tls=False) as direct, HttpTransport(access(direct.url)) as network:
            await (await network.send(ApiRequest("GET", "/"))).close()
            assert len(direct.calls) == 1


async def test_without_a_listener_nothing_was_sent():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with HttpTransport(access(f"http://127.0.0.1:{port}")) as network:
        with pytest.raises(NoResponse, match=rf"http://127.0.0.1:{port}: .*refused") as failed:
            await network.send(ApiRequest("POST", "/"))
        assert not failed.value.sent


ServerScript = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def faulty_server(talk: ServerScript) -> AsyncIterator[str]:
    """A server that does with its connections what no HTTP library would."""
    talking: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        talking.add(task)
        try:
            await talk(reader, writer)
        finally:
            writer.close()
            talking.discard(task)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in list(talking):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await server.wait_closed()


async def test_a_redirect_is_not_followed():
    """It might lead anywhere, with our credentials."""

    async def redirect(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()

    async with (
        faulty_server(redirect) as url,
        HttpTransport(access(url)) as network,
        await network.send(ApiRequest("GET", "/")) as response,
    ):
        assert response.status == 302


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
async def test_a_write_whose_connection_breaks_is_not_repeated(method):
    """HTTP libraries repeat PUT and DELETE on a kept connection that broke: we must not."""
    seen = []

    async def answer_once_then_hang_up(reader, writer):
        for _ in range(2):
            seen.append((await reader.readuntil(b"\r\n\r\n")).split()[0].decode())
            if len(seen) > 1:
                return
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async with faulty_server(answer_once_then_hang_up) as url, HttpTransport(access(url)) as network:
        async with await network.send(ApiRequest("GET", "/")) as response:
            await response.read()
        with pytest.raises(NoResponse, match="the connection broke") as failed:
            await network.send(ApiRequest(method, "/"))
        assert failed.value.sent
        assert seen == ["GET", method]


async def test_a_request_without_an_answer_times_out():
    async def silence(reader, writer):
        await asyncio.sleep(60)

    async with faulty_server(silence) as url, HttpTransport(access(url)) as network:
        with pytest.raises(NoResponse, match=r"no answer from .* within 0.05 s") as failed:
            await network.send(ApiRequest("POST", "/", timeout_s=0.05))
        assert failed.value.sent


async def test_a_body_that_never_ends_times_out():
    async def trickle(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
        await asyncio.sleep(60)

    async with (
        faulty_server(trickle) as url,
        HttpTransport(access(url)) as network,
        await network.send(ApiRequest("GET", "/", timeout_s=0.2)) as response,
    ):
        with pytest.raises(NoResponse, match="not complete in time"):
            await response.read()


async def test_a_body_that_breaks_off_is_never_taken_for_whole():
    async def cut(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
        await writer.drain()

    async with (
        faulty_server(cut) as url,
        HttpTransport(access(url)) as network,
        await network.send(ApiRequest("GET", "/")) as response,
    ):
        with pytest.raises(NoResponse, match="the connection broke"):
            await response.read()


async def test_a_stream_outlives_the_time_out_of_its_request():
    async def slowly(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await asyncio.sleep(0.15)
        writer.write(b"3\r\ntwo\r\n0\r\n\r\n")
        await writer.drain()

    async with (
        faulty_server(slowly) as url,
        HttpTransport(access(url)) as network,
        await network.send(ApiRequest("GET", "/", timeout_s=0.1, streaming=True)) as response,
    ):
        assert b"".join([chunk async for chunk in response.chunks()]) == b"onetwo"


async def test_leaving_a_stream_hangs_up_on_the_server():
    hung_up = asyncio.Event()

    async def until_gone(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await reader.read()
        hung_up.set()

    async with faulty_server(until_gone) as url, HttpTransport(access(url)) as network:
        async with await network.send(ApiRequest("GET", "/", streaming=True)) as response:
            assert await anext(response.chunks()) == b"one"
        async with asyncio.timeout(5):
            await hung_up.wait()
