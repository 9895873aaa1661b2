"""When the simulated API server ends, nothing of its connections is left to the garbage collector."""

import asyncio
import gc
import socket
import ssl
import warnings
from urllib.parse import urlsplit

from rescheduler.simulator.server import ApiServer
from rescheduler.simulator.shells.http import serve


def test_a_client_that_does_not_hang_up_leaves_no_open_socket_behind():
    """Two such sockets were closed in the middle of a later test, which was then reported as failing."""

    async def run() -> socket.socket:
        async with await serve(ApiServer(seed=1)) as running:
            where = urlsplit(running.url)
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

            def connected() -> socket.socket:
                client = context.wrap_socket(socket.create_connection((where.hostname, where.port)))
                client.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
                assert client.recv(1000).startswith(b"HTTP/1.1 200")
                return client

            return await asyncio.to_thread(connected)

    gc.collect()
    with warnings.catch_warnings():
        # Raised in a finalizer, it would be reported for whichever test runs then: here, for this one.
        warnings.simplefilter("error", ResourceWarning)
        with asyncio.run(run()):
            gc.collect()
