"""How long the webhook takes to answer 1,000 requests per second, measured from another process.

    python -m bench.webhook [--rate 1000] [--seconds 10] [--connections 8] [--gate]

Two servers in a process of their own, over TLS on loopback with connections that stay open, as API servers
keep them: first one that answers every request with "ok" (what aiohttp, TLS and this machine cost), then the
webhook with 50 running migrations, asked about pods of 6 KB of which every other one is steered. Requests
are due at fixed times; each is timed from when it was due, so that waiting for a free connection counts.
With --gate the exit code is 1 if the 99th percentile is above 5 ms or the rate was not reached.
"""

import argparse
import asyncio
import json
import multiprocessing
import ssl
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from aiohttp import web

from bench.decode import machine
from kubevalues.connections import server_tls_context
from rescheduler.api.podmigration import ControllerReference
from rescheduler.http.http_server import serve_http
from rescheduler.steering.intents import Intent, IntentIndex
from rescheduler.steering.steering_server import webhook_application
from rescheduler.steering.webhook.certificate_secret import CertificateLifetimes, renew_credentials
from rescheduler.steering.webhook.pod_mutation import answer_review
from rescheduler.steering.webhook.webhook_configurations import STEERING_PATH as PATH

AT_MOST_MS = 5.0
MIGRATIONS = 50
WARM_UP_S = 1.0
NEAR_ENOUGH = 0.99

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Measured(NamedTuple):
    p50_ms: float
    p99_ms: float
    worst_ms: float
    rate: float
    processor_us: float = 0.0
    """That the server used per request: what does not depend on who else is busy."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.webhook", description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--gate", action="store_true", help="exit 1 if the aim is missed")
    options = parser.parse_args(arguments)
    print(machine())
    load = Load(
        tuple(as_request(PATH, review(f"rs-{n}")) for n in (1, MIGRATIONS + 1)),
        options.rate,
        options.seconds,
        options.connections,
    )
    empty = measured("an empty handler", empty_application, load)
    webhook = measured("the webhook", steering_application, load)
    print(f"the webhook's 99th percentile is {webhook.p99_ms / empty.p99_ms:.2f} times the empty handler's")
    reached = webhook.p99_ms <= AT_MOST_MS and webhook.rate >= options.rate * NEAR_ENOUGH
    print(f"the aim is {AT_MOST_MS:g} ms at {options.rate}/s: {'reached' if reached else 'missed'}")
    return 1 if options.gate and not reached else 0


class Load(NamedTuple):
    """Requests, by turns, of which so many are due each second."""

    requests: tuple[bytes, ...]
    rate: int
    seconds: float
    connections: int


def measured(name: str, make: Callable[[], web.Application], load: Load) -> Measured:
    """Prints it, too. `make` is called in the server's process."""
    credentials = renew_credentials(None, ("127.0.0.1",), datetime.now(UTC), CertificateLifetimes())
    serving = (credentials.serving.certificate, credentials.serving.key)
    ours, theirs = multiprocessing.Pipe()
    spawning = multiprocessing.get_context("spawn")
    server = spawning.Process(target=serve, args=(make, serving, theirs))
    server.start()
    try:
        port = ours.recv()
        found = asyncio.run(asked(port, credentials.trusted, load))
    finally:
        ours.send("enough")
        used_s = ours.recv()
        server.join()
    count = int(load.rate * load.seconds) + int(load.rate * WARM_UP_S)
    found = found._replace(processor_us=1e6 * used_s / count)
    print(
        f"{name:>17}: p50 {found.p50_ms:5.2f} ms   p99 {found.p99_ms:5.2f} ms   "
        f"worst {found.worst_ms:6.2f} ms   {found.rate:,.0f} requests/s   "
        f"{found.processor_us:.0f} µs of a processor each"
    )
    return found


# -- the server's process


def serve(make: Callable[[], web.Application], serving: tuple[bytes, bytes], control: Connection) -> None:
    asyncio.run(_serve(make(), serving, control))


async def _serve(app: web.Application, serving: tuple[bytes, bytes], control: Connection) -> None:
    tls = server_tls_context(*serving)
    async with serve_http(app, "127.0.0.1", 0, lambda: tls) as port:
        control.send(port)
        began_s = time.process_time()
        await asyncio.to_thread(control.recv)
        control.send(time.process_time() - began_s)


def empty_application() -> web.Application:
    return webhook_application({PATH: lambda _: b"ok"}, lambda: True)


def steering_application() -> web.Application:
    book = known_intents()
    return webhook_application({PATH: lambda body: answer_review(body, book).body}, lambda: True)


def known_intents() -> IntentIndex:
    intents = [
        Intent(
            "shop",
            ControllerReference("apps/v1", "ReplicaSet", f"web-{n}", f"rs-{n}"),
            None,
            "new",
            ("old",),
            f"m-{n}",
        )
        for n in range(MIGRATIONS)
    ]
    return IntentIndex(intents)


# -- the caller's process: as little work as can be, so that it is not what is measured


async def asked(port: int, trusted: bytes, load: Load) -> Measured:
    context = ssl.create_default_context(cadata=trusted.decode())
    opened = [await asyncio.open_connection("127.0.0.1", port, ssl=context) for _ in range(load.connections)]
    await paced(opened, load, WARM_UP_S)
    began = time.perf_counter()
    times = await paced(opened, load, load.seconds)
    lasted = time.perf_counter() - began
    for _, writer in opened:
        writer.close()
    times.sort()
    p50, p99, worst = (
        1000 * times[min(len(times) * share // 100, len(times) - 1)] for share in (50, 99, 100)
    )
    return Measured(p50, p99, worst, len(times) / lasted)


async def paced(opened: list[Streams], load: Load, seconds: float) -> list[float]:
    """Seconds from when each request was due until its answer was read."""
    times: list[float] = []
    began = time.perf_counter()
    numbers = iter(range(int(load.rate * seconds)))

    async def call_in_turn(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in numbers:
            due = began + number / load.rate
            if (early := due - time.perf_counter()) > 0:
                await asyncio.sleep(early)
                # An event loop wakes up late by up to a millisecond: that is the caller's fault.
                due = max(due, time.perf_counter())
            writer.write(load.requests[number % len(load.requests)])
            await answered(reader)
            times.append(time.perf_counter() - due)

    await asyncio.gather(*(call_in_turn(*each) for each in opened))
    return times


async def answered(reader: asyncio.StreamReader) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    assert head.startswith(b"http/1.1 200")
    await reader.readexactly(int(head.partition(b"content-length:")[2].partition(b"\r\n")[0]))


def as_request(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
    return f"{head}content-type: application/json\r\n\r\n".encode() + body


def review(owner_uid: str) -> bytes:
    """Return an admission review of a typical pod of about 6 KB."""
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web",
        "uid": owner_uid,
        "controller": True,
    }
    variables = [{"name": f"VARIABLE_{n}", "value": "x" * 40} for n in range(60)]
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "web-", "namespace": "shop", "ownerReferences": [owner],
                     "annotations": {f"example.com/{n}": "y" * 60 for n in range(10)}},
        "spec": {"containers": [{"name": "main", "image": "shop/web:1", "env": variables}]},
    }  # fmt: skip
    request = {
        "uid": "0b7e5ca4-8d0d-4f8f-9e1c-6a8c1f2d3e4f",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "namespace": "shop",
        "operation": "CREATE",
        "object": pod,
        "dryRun": False,
    }
    made = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return json.dumps(made).encode()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
