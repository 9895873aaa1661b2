"""When the simulated API server ends, nothing of its connections is left to the garbage collector."""

import asyncio
import gc
import socket
import ssl
import warnings

import pytest

from kubesim.apiserver.api_server import ApiServer
from kubesim.sockets.loopback_server import serve


def waiting_for_an_answer(address: tuple[str, int]) -> socket.socket:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    client = context.wrap_socket(socket.create_connection(address))
    client.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
    assert client.recv(1000).startswith(b"HTTP/1.1 200")
    return client


def before_its_handshake(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address)


@pytest.mark.parametrize("connect", [waiting_for_an_answer, before_its_handshake])
def test_a_client_that_does_not_hang_up_leaves_no_open_socket_behind(connect):
    """Such sockets were closed in the middle of a later test, which was then reported as failing."""

    async def run() -> socket.socket:
        async with await serve(ApiServer(seed=1)) as running:
            port = int(running.url.rpartition(":")[2])
            client = await asyncio.to_thread(connect, ("127.0.0.1", port))
            # One that came later was answered, so this one was accepted.
            (await asyncio.to_thread(waiting_for_an_answer, ("127.0.0.1", port))).close()
            return client

    gc.collect()
    with warnings.catch_warnings():
        # Raised in a finalizer, it would be reported for whichever test runs then: here, for this one.
        warnings.simplefilter("error", ResourceWarning)
        with asyncio.run(run()):
            gc.collect()


@pytest.mark.parametrize("turns", range(5))
def test_a_client_that_connects_while_the_server_stops_leaves_no_open_socket_behind(turns):
    """asyncio accepts a connection in one turn of its loop, and sets it up in the next."""

    async def run() -> socket.socket:
        async with await serve(ApiServer(seed=1)) as running:
            client = before_its_handshake(("127.0.0.1", int(running.url.rpartition(":")[2])))
            for _ in range(turns):
                await asyncio.sleep(0)
        return client

    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        with asyncio.run(run()):
            gc.collect()
