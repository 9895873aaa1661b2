"""When an HTTP client is closed, nothing of its connections is left to the garbage collector."""

import asyncio
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest

from kubevalues.connections import ClosingConnector, load_certificate_into
from kubevalues.x509_certificates import new_authority, new_serving_certificate

LIFETIME = timedelta(hours=1)


@pytest.fixture(params=["keep-alive", "close"])
def silent_peer(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a server that answers one request, and never answers the end of the TLS connection."""
    response = f"HTTP/1.1 200 OK\r\nconnection: {request.param}\r\ncontent-length: 0\r\n\r\n"
    now = datetime.now(UTC)
    issued = new_serving_certificate(
        new_authority("test", now, LIFETIME), "peer", ["127.0.0.1"], now, LIFETIME
    )
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_certificate_into(tls, issued.certificate, issued.key)
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            accepted, _ = listening.accept()
            with tls.wrap_socket(accepted, server_side=True) as connection:
                connection.recv(4096)
                connection.sendall(response.encode())
                done.wait()

        server = threading.Thread(target=answer)
        server.start()
        yield f"https://127.0.0.1:{listening.getsockname()[1]}"
        done.set()
        server.join()


def test_closing_the_session_closes_every_connection(silent_peer: str) -> None:
    """A TLS connection that was in the middle of its shutdown made a later, unrelated test fail."""

    async def call() -> int:
        trust = ssl.create_default_context()
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        async with (
            aiohttp.ClientSession(connector=ClosingConnector(ssl=trust)) as session,
            session.get(silent_peer) as answer,
        ):
            return answer.status

    gc.collect()
    with warnings.catch_warnings():
        # Raised in a finalizer, a warning is reported for the test that runs then: here, for this one.
        warnings.simplefilter("error", ResourceWarning)
        assert asyncio.run(call()) == 200
        gc.collect()
