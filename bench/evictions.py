"""How quickly the webhook decides on evictions, and how much memory it needs, beside a real API server.

    python -m bench.evictions [--nodes 5000] [--pods 150000] [--rate 100] [--seconds 20] [--gate]

Starts a control plane of its own, fills it with pods of ReplicaSets, and starts the webhook as installed.
Then reviews of evictions of different pods are due at fixed times, over TLS; each is timed from when it was
due. All of them are held, and recorded as moves. A server that answers every request with "ok" is asked in
the same way before: what it needs is the cost of TLS and of a busy machine. At last the writes that pods of
sets wait for are timed. With --gate the exit code is 1 if the 99th percentile is above 5 ms, or if the
webhook needs more memory than its limit in the chart.
"""

import argparse
import asyncio
import base64
import json
import os
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import aiohttp

from bench.decode import machine
from bench.read_cluster import filled
from bench.webhook import PATH, WARM_UP_S, Load, as_request, asked, empty_application, measured
from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME, podmigration_crd
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.api_resources import LEASES, NAMESPACES, VALIDATING_WEBHOOKS, Object
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.steering.webhook.eviction_caches import EvictionTurns
from rescheduler.steering.webhook.webhook_configurations import UrlAddress
from tests.testbed import ControlPlane, Options
from tests.testbed.ports import free_ports
from tests.webhook_installed import configuration_of, install_webhook

__all__ = ["main"]

AT_MOST_MS: Final = 5.0
NAMESPACE: Final = "rescheduler-system"
CONNECTIONS: Final = 8
TURNS: Final = 200
PAUSE_S: Final = 0.1
"""Between two turns: a replica of the webhook does not write them faster."""
READY_WITHIN_S: Final = 300.0
MEMORY_LIMIT_MB: Final = 1024
"""As in the chart."""


class WebhookAddressAndTrust(NamedTuple):
    port: int
    path: str
    trusted: bytes


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.evictions", description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=150_000)
    parser.add_argument("--rate", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--gate", action="store_true", help="exit 1 if an aim is missed")
    options = parser.parse_args(arguments)
    print(machine())
    body = as_request(PATH, review("namespace", "name"))
    measured("an empty handler", empty_application, Load((body,), options.rate, options.seconds, CONNECTIONS))
    parts = Options(controller_manager=False, scheduler=False, audit=False)
    with tempfile.TemporaryDirectory() as folder, ControlPlane(Path(folder), parts) as plane:
        filled(plane, options.nodes, options.pods, owners=True)
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(podmigration_crd()))
        plane.wait_until_served(PODMIGRATION_CRD_NAME)
        reached = asyncio.run(measure(plane, Path(folder), options))
    return 1 if options.gate and not reached else 0


async def measure(plane: ControlPlane, folder: Path, options: argparse.Namespace) -> bool:
    client = Client(HttpTransport(load_cluster_access(plane.kubeconfig)), timeout_s=300.0)
    (port,) = free_ports(1)
    await lead(client)
    await install_webhook(client, NAMESPACE, UrlAddress(f"https://127.0.0.1:{port}"))
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("rescheduler"), "webhook", "--kubeconfig", str(plane.kubeconfig),
        "--namespace", NAMESPACE, "--host", "127.0.0.1", "--port", str(port), "--extender-port", "0",
        "--url", f"https://127.0.0.1:{port}", stderr=(folder / "webhook.log").open("wb"),
    )  # fmt: skip
    try:
        count = int(options.rate * (options.seconds + WARM_UP_S)) + 1
        pods = (await client.list(PODS)).items[:count]
        began_s = time.monotonic()
        webhook = await until_answering(client, review(pods[0].namespace, pods[0].name))
        print(f"the webhook holds evictions {time.monotonic() - began_s:.1f} s after its start")
        requests = tuple(as_request(webhook.path, review(pod.namespace, pod.name)) for pod in pods)
        load = Load(requests, options.rate, options.seconds, CONNECTIONS)
        before_s, waited_s = processor_s(process.pid), waiting_s(process.pid)
        found = await asked(webhook.port, webhook.trusted, load)
        used_ms = 1000 * (processor_s(process.pid) - before_s) / count
        peak_mb, resident_mb = (memory_mb(process.pid, field) for field in ("VmHWM", "VmRSS"))
        waited_s = waiting_s(process.pid) - waited_s
        recorded = len((await client.list(POD_MIGRATIONS)).items)
        turns_ms = await times_of_turns(client, pods)
    finally:
        process.kill()
        await process.wait()
        await client.close()
    print(
        f"{options.pods:,} pods, {found.rate:.0f} evictions/s: p50 {found.p50_ms:.2f} ms, p99 "
        f"{found.p99_ms:.2f} ms, worst {found.worst_ms:.2f} ms, {used_ms:.2f} ms of a processor each, with "
        f"recording; {recorded} moves recorded; "
        f"{resident_mb} MB resident, {peak_mb} MB at its peak; it waited {waited_s:.1f} s for a processor"
    )
    p50_ms, p99_ms = statistics.median(turns_ms), statistics.quantiles(turns_ms, n=100)[98]
    print(f"{len(turns_ms)} turns of pods of sets: p50 {p50_ms:.1f} ms, p99 {p99_ms:.1f} ms")
    return found.p99_ms <= AT_MOST_MS and peak_mb <= MEMORY_LIMIT_MB


async def times_of_turns(client: Client, pods: Sequence[PodRecord]) -> list[float]:
    """Return how long each write took, one after the other."""
    turns, took_ms = EvictionTurns(client, NAMESPACE, time.monotonic), []
    owners = {pod.owner.uid: pod for pod in pods if pod.owner is not None}
    async with turns.running():
        for pod in list(owners.values())[:TURNS]:
            began_s = time.monotonic()
            assert await turns.take(pod)
            took_ms.append(1000 * (time.monotonic() - began_s))
            await asyncio.sleep(PAUSE_S)
    return took_ms


async def lead(client: Client) -> None:
    """Write a Lease as if a daemon led for an hour."""
    about = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await client.create(NAMESPACES, about)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "bench", "leaseDurationSeconds": 3600, "renewTime": now, "acquireTime": now}
    metadata = {"namespace": NAMESPACE, "name": "rescheduler"}
    lease = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
    await client.create(LEASES, lease)


async def until_answering(client: Client, body: bytes) -> WebhookAddressAndTrust:
    """Wait until all caches are synced: then the first eviction is held."""
    give_up_at = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < give_up_at:
        found = _registered(await client.get(VALIDATING_WEBHOOKS, configuration_of(NAMESPACE)))
        if found is not None and await _is_held(found, body):
            return found
        await asyncio.sleep(0.5)
    raise TimeoutError("the webhook holds no eviction")


def _registered(configuration: Object) -> WebhookAddressAndTrust | None:
    (config,) = (
        each["clientConfig"]
        for each in configuration["webhooks"]
        if "/evictions/" in each["clientConfig"].get("url", "")
    )
    url = urlsplit(config["url"])
    if not config.get("caBundle") or url.port is None:
        return None
    return WebhookAddressAndTrust(url.port, url.path, base64.b64decode(config["caBundle"]))


async def _is_held(webhook: WebhookAddressAndTrust, body: bytes) -> bool:
    tls = ssl.create_default_context(cadata=webhook.trusted.decode())
    try:
        async with aiohttp.ClientSession() as session:
            url = f"https://127.0.0.1:{webhook.port}{webhook.path}"
            async with session.post(url, data=body, ssl=tls) as response:
                answer: dict[str, Any] = json.loads(await response.read())
    except (aiohttp.ClientError, ValueError):
        return False
    return not answer["response"]["allowed"]


def review(namespace: str, name: str) -> bytes:
    request = {
        "uid": "0b7e5ca4-8d0d-4f8f-9e1c-6a8c1f2d3e4f", "name": name, "namespace": namespace,
        "operation": "CREATE", "subResource": "eviction", "userInfo": {"username": "kubernetes-admin"},
        "object": {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}},
    }  # fmt: skip
    made = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return json.dumps(made).encode()


def processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def waiting_s(pid: int) -> float:
    """Return how long its main thread was ready to run, and other processes had the processors."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


def memory_mb(pid: int, field: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) >> 10


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
