"""A peer that disappears without closing its connection: the kernel reports it, as our socket options
request.
"""

import asyncio
import contextlib
import ipaddress
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from kubevalues.connections import ClosingConnector
from rescheduler.kube.access.cluster_access import ClusterAccess, StoredCredentials
from rescheduler.kube.http_transport import DEAD_PEER_OPTIONS, HttpTransport
from rescheduler.kube.transport import ApiRequest, NoResponse

NOTICED_S = 20.0
# Each process has a subnet of its own in the range for benchmarks, so that two runs don't share an address.
_SUBNET = list(ipaddress.ip_network("198.18.0.0/15").subnets(new_prefix=30))[os.getpid() % 2**15]
HERE, THERE = map(str, _SUBNET.hosts())
PORT = 8000
_SERVER = f"""
import socket
with socket.create_server(("{THERE}", {PORT})) as server:
    print("listens", flush=True)
    line, _ = server.accept()
    line.recv(65536)
    line.sendall(b"HTTP/1.1 200 OK\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n")
    line.recv(65536)
"""


class Wire(NamedTuple):
    cut: Callable[[], None]


def _access(host: str, port: int) -> ClusterAccess:
    return ClusterAccess(f"http://{host}:{port}", StoredCredentials(), "the test")


def _can_make_networks() -> bool:
    if sys.platform != "linux" or os.geteuid() or shutil.which("ip") is None:
        return False
    name = f"rsprobe{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
    return made.returncode == 0


@pytest.fixture
def wire() -> Iterator["Wire"]:
    """Another host, at the end of a wire that can be cut."""
    space, near, far = f"rs{os.getpid()}", f"rsn{os.getpid()}", f"rsf{os.getpid()}"

    def ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True, capture_output=True)

    ip("netns", "add", space)
    try:
        ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", space)
        ip("address", "add", f"{HERE}/30", "dev", near)
        ip("-n", space, "address", "add", f"{THERE}/30", "dev", far)
        ip("link", "set", near, "up")
        ip("-n", space, "link", "set", far, "up")
        command = ["ip", "netns", "exec", space, sys.executable, "-c", _SERVER]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
            try:
                assert server.stdout is not None
                assert server.stdout.readline() == b"listens\n"
                yield Wire(lambda: ip("-n", space, "link", "set", far, "down"))
            finally:
                server.kill()
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):
            ip("netns", "delete", space)


@pytest.mark.skipif(not _can_make_networks(), reason="needs root and network namespaces")
async def test_a_host_that_vanishes_ends_its_connections_within_seconds(wire: Wire) -> None:
    async with HttpTransport(_access(THERE, PORT)) as network:
        watch = ApiRequest("GET", "/watch", streaming=True)
        async with await network.send(watch) as response:
            assert response.status == 200
            wire.cut()
            began = time.monotonic()
            with pytest.raises(NoResponse, match="broke in the middle"):
                await asyncio.wait_for(response.read(), NOTICED_S)
            print(f"noticed after {time.monotonic() - began:.1f} s")


async def test_every_socket_asks_the_kernel_to_find_out_about_dead_peers() -> None:
    accepted: list[asyncio.StreamWriter] = []

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.append(writer)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, HttpTransport(_access("127.0.0.1", port)) as network:
        async with await network.send(ApiRequest("GET", "/", streaming=True)):
            assert network._session is not None
            assert isinstance(network._session.connector, ClosingConnector)
            (made,) = network._session.connector._sockets
            assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            for option, value in DEAD_PEER_OPTIONS.items():
                if hasattr(socket, option):
                    assert made.getsockopt(socket.IPPROTO_TCP, getattr(socket, option)) == value
        for writer in accepted:
            writer.transport.abort()
