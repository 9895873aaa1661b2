"""Two measurements on a real control plane, in real time: the webhook's latency, and a busy daemon's Lease.

    python -m bench.control_plane [--pods 500] [--queued 10000] [--seconds 60]

- Webhook: pods are created (dry run) one after another, without the steering webhook and with it. The API
  server says in its metrics how long it waited for the webhook; the difference is what a client notices.
- Lease: so many PodMigrations are queued, and the daemon runs as a process of its own. The Lease is read
  twice a second: how old its renewal gets at most, and whether another leader was elected.
"""

import argparse
import asyncio
import contextlib
import os
import re
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rescheduler.api.podmigration_crd import podmigration_crd
from rescheduler.api.well_known_names import STEERING_WEBHOOK
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.api_resources import LEASES, NAMESPACES, Object
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.steering.webhook.webhook_configurations import UrlAddress
from tests.stories.real_cluster import install_definitions
from tests.testbed import ControlPlane
from tests.testbed.fake_kubelet.nodes import node_object, node_shapes
from tests.webhook_installed import install_webhook

NAMESPACE = "bench"
LEASE_S = 15
AT_ONCE = 20
NODE_COUNT = 100
_BUCKET = re.compile(
    r'apiserver_admission_webhook_admission_duration_seconds_bucket\{.*?name="([^"]+)".*?le="([^"]+)"\} (\d+)'
)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.control_plane", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--pods", type=int, default=500)
    parser.add_argument("--queued", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, ControlPlane(Path(folder)) as plane:
        install_definitions(plane, [podmigration_crd()])
        asyncio.run(_measured(plane, options))
    return 0


async def _measured(plane: ControlPlane, options: argparse.Namespace) -> None:
    async with HttpTransport(load_cluster_access(plane.kubeconfig)) as transport:
        client = Client(transport)
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        if options.pods:
            await _webhook(plane, client, options.pods)
        if options.queued:
            await _lease(plane, client, options.queued, options.seconds)


# -- the webhook


async def _webhook(plane: ControlPlane, client: Client, pods: int) -> None:
    without_ms = await _created(client, pods)
    port = _free_port()
    url = f"https://127.0.0.1:{port}"
    await install_webhook(client, NAMESPACE, UrlAddress(url))
    command = ("webhook", "--namespace", NAMESPACE, "--host", "127.0.0.1", "--port", str(port))
    async with rescheduler_process(plane.kubeconfig, *command, "--extender-port", "0", "--url", url):
        async with asyncio.timeout(60):
            while not _buckets(plane):
                await _created(client, 10)
        before = _buckets(plane)
        with_ms = await _created(client, pods)
        after = _buckets(plane)
    counts = {le: after[le] - before.get(le, 0) for le in after}
    print(f"create a pod, without the webhook: {_percentiles(without_ms)}")
    print(f"create a pod, with the webhook:    {_percentiles(with_ms)}")
    print(f"the API server's wait for the webhook, {counts[float('inf')]} calls, at most:")
    for share in (0.5, 0.99, 1.0):
        print(f"  {share:.0%}: {1000 * _quantile(counts, share):g} ms")


async def _created(client: Client, pods: int) -> list[float]:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "1", "controller": True}
    found = []
    for number in range(pods):
        metadata = {"namespace": NAMESPACE, "name": f"pod-{number}", "ownerReferences": [owner]}
        spec = {"containers": [{"name": "main", "image": "app"}]}
        began_s = time.perf_counter()
        await client.create(PODS.as_json, {"metadata": metadata, "spec": spec}, dry_run=True)
        found.append(1000 * (time.perf_counter() - began_s))
    return found


def _buckets(plane: ControlPlane) -> dict[float, int]:
    lines = _BUCKET.findall(plane.kubectl("get", "--raw", "/metrics"))
    found = {float(le): int(count) for name, le, count in lines if name == STEERING_WEBHOOK}
    return found if any(found.values()) else {}


def _quantile(counts: dict[float, int], share: float) -> float:
    """The upper bound of the bucket: the metrics say no more."""
    total = counts[float("inf")]
    return next(le for le in sorted(counts) if counts[le] >= share * total)


def _percentiles(values: list[float]) -> str:
    hundredths = statistics.quantiles(values, n=100)
    return f"50% {hundredths[49]:.1f} ms, 99% {hundredths[98]:.1f} ms, worst {max(values):.1f} ms"


# -- the Lease


async def _lease(plane: ControlPlane, client: Client, queued: int, seconds: float) -> None:
    began_s = time.monotonic()
    shapes = list(node_shapes(NODE_COUNT))
    for shape in shapes:
        await client.create(NODES.as_json, node_object(shape, "bench", datetime.now(UTC)))
    numbers = iter(range(queued))

    async def create() -> None:
        for number in numbers:
            name, node = f"pod-{number:05}", shapes[number % NODE_COUNT].name
            spec: Object = {"nodeName": node, "containers": [{"name": "main", "image": "app"}]}
            made = await client.create(
                PODS, {"metadata": {"namespace": NAMESPACE, "name": name}, "spec": spec}
            )
            wanted = {"pod": {"name": name, "uid": made.uid}, "sourceNode": node}
            metadata = {"namespace": NAMESPACE, "name": name}
            await client.create(
                POD_MIGRATIONS,
                {
                    "apiVersion": POD_MIGRATIONS.api_version,
                    "kind": POD_MIGRATIONS.kind,
                    "metadata": metadata,
                    "spec": wanted,
                },
            )

    await asyncio.gather(*(create() for _ in range(AT_ONCE)))
    print(f"created {queued} pods and PodMigrations in {time.monotonic() - began_s:.0f} s")
    command = ("run", "--namespace", NAMESPACE, "--host", "127.0.0.1", "--port", str(_free_port()))
    async with rescheduler_process(plane.kubeconfig, *command) as process:
        await _watch_lease(client, process, seconds)


async def _watch_lease(client: Client, process: asyncio.subprocess.Process, seconds: float) -> None:
    oldest_s, transitions, holder = 0.0, set(), set()
    async with asyncio.timeout(60):
        while not (found := await client.list(LEASES, namespace=NAMESPACE)).items:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
    began_s, cpu_s = time.monotonic(), _cpu_s(process.pid)
    halfway_s = 0.0
    while (passed_s := time.monotonic() - began_s) < seconds:
        (spec,) = (each["spec"] for each in (await client.list(LEASES, namespace=NAMESPACE)).items)
        renewed = datetime.fromisoformat(spec["renewTime"])
        oldest_s = max(oldest_s, (datetime.now(UTC) - renewed).total_seconds())
        transitions.add(spec.get("leaseTransitions", 0))
        holder.add(spec.get("holderIdentity"))
        if not halfway_s and passed_s > seconds / 2:
            halfway_s = _cpu_s(process.pid)
        await asyncio.sleep(0.5)
    del found
    used_s = _cpu_s(process.pid)
    share = (used_s - halfway_s) / (seconds / 2)
    print(
        f"Lease over {seconds:.0f} s: renewal at most {oldest_s:.1f} s old ({LEASE_S} s allowed),"
        f" holders {len(holder)}, transitions {sorted(transitions)}; the daemon used"
        f" {used_s - cpu_s:.1f} s of processor time, {share:.1%} of a core in the second"
        f" half; it {'runs' if process.returncode is None else 'ended'}"
    )


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.asynccontextmanager
async def rescheduler_process(kubeconfig: Path, *command: str) -> AsyncIterator[asyncio.subprocess.Process]:
    program = Path(sys.executable).with_name("rescheduler")
    started = await asyncio.create_subprocess_exec(
        program, *command, "--kubeconfig", str(kubeconfig), stderr=asyncio.subprocess.DEVNULL
    )
    try:
        yield started
    finally:
        with contextlib.suppress(ProcessLookupError):
            started.terminate()
        await started.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        address: Any = found.getsockname()
        return int(address[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
