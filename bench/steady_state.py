"""The daemon and the webhook beside a real API server on which pods change all the time.

    python -m bench.steady_state [--nodes 5000] [--pods 150000] [--rate 500] [--minutes 10] [--gate]

Starts a control plane of its own, fills it, and starts daemon and webhook as processes. Then pods change at
the given rate: an annotation with the time at which it was written. A probe process with the
product's own informer measures the lag, from that time until the change is in its cache. Beside it the
descheduler runs its dry run again and again, as often as it does by default (5 minutes), and once at least.
With --gate the exit code is 1 if the daemon uses more of a processor than the descheduler.
"""

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from bench.control_plane import rescheduler_process
from bench.decode import machine
from bench.evictions import memory_mb
from bench.plan_command import DESCHEDULER, descheduled, filled
from bench.verdicts import Figure, print_figures, processor_s, save
from rescheduler.api.podmigration_crd import podmigration_crd
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.api_resources import NAMESPACES, merge_patch
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.kube.informer import Informer
from rescheduler.steering.webhook.webhook_configurations import UrlAddress
from tests.stories.real_cluster import install_definitions
from tests.testbed import ControlPlane, Options
from tests.testbed.ports import free_ports
from tests.webhook_installed import install_webhook

__all__ = ["main"]

NAMESPACE: Final = "rescheduler-system"
WRITTEN: Final = "rescheduler.dev/original-pod"
"""An annotation that records keep, so that the informer hands it out."""
WRITERS: Final = 16
LOOK_EVERY_S: Final = 10.0
DESCHEDULER_EVERY_S: Final = 300.0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.steady_state", description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=150_000)
    parser.add_argument("--rate", type=int, default=500, help="changes of pods per second")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--gate", action="store_true", help="exit 1 if a target is missed")
    options = parser.parse_args(arguments)
    print(machine())
    parts = Options(controller_manager=False, scheduler=False, audit=False)
    with tempfile.TemporaryDirectory() as folder, ControlPlane(Path(folder) / "plane", parts) as plane:
        filled(plane, options.nodes, options.pods)
        install_definitions(plane, [podmigration_crd()])
        is_reached = asyncio.run(measured(plane, Path(folder), options))
    return 1 if options.gate and not is_reached else 0


async def measured(plane: ControlPlane, folder: Path, options: argparse.Namespace) -> bool:
    async with contextlib.AsyncExitStack() as stack:
        client = Client(HttpTransport(load_cluster_access(plane.kubeconfig)), timeout_s=300.0)
        stack.push_async_callback(client.close)
        daemon, webhook = await started(plane, client, folder, stack)
        changes = Changes(client, options.rate)
        await changes.read()
        samples = await sampled(
            {"daemon": daemon.pid, "webhook": webhook.pid}, plane, folder, changes, options
        )
    return reported(samples, changes, options)


async def started(
    plane: ControlPlane, client: Client, folder: Path, stack: contextlib.AsyncExitStack
) -> tuple[asyncio.subprocess.Process, asyncio.subprocess.Process]:
    """Start daemon (as a dry run: pods only change here) and webhook, and wait until both are ready."""
    await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    config = folder / "config.json"
    plugin = {"name": "Rescheduler", "args": {"dryRun": True}}
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config.write_text(json.dumps(document | {"profiles": [{"pluginConfig": [plugin]}]}))
    daemon_port, webhook_port = free_ports(2)
    url = f"https://127.0.0.1:{webhook_port}"
    await install_webhook(client, NAMESPACE, UrlAddress(url))
    common = ("--namespace", NAMESPACE, "--host", "127.0.0.1")
    daemon = await stack.enter_async_context(
        rescheduler_process(
            plane.kubeconfig, "run", *common, "--port", str(daemon_port), "--config", str(config)
        )
    )
    webhook = await stack.enter_async_context(
        rescheduler_process(
            plane.kubeconfig, "webhook", *common, "--port", str(webhook_port), "--extender-port", "0",
            "--url", url,
        )
    )  # fmt: skip
    return daemon, webhook


class Changes:
    """Changes pods at a rate, and watches when the changes arrive in a cache."""

    def __init__(self, client: Client, rate: int) -> None:
        self._client = client
        self._rate = rate
        self._keys: list[str] = []
        self.written = 0
        self.lags_s: list[float] = []

    async def read(self) -> None:
        self._keys = [pod.key for pod in (await self._client.list(PODS, version="0")).items]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        informer: Informer[PodRecord] = Informer(self._client, PODS)
        async with informer.running():
            await informer.synced()
            informer.subscribe(self._on_change)
            writers = [asyncio.create_task(self._write(number)) for number in range(WRITERS)]
            try:
                yield
            finally:
                for writer in writers:
                    writer.cancel()
                await asyncio.gather(*writers, return_exceptions=True)

    def _on_change(self, old: PodRecord | None, new: PodRecord | None) -> None:
        if old is not None and new is not None and WRITTEN in new.annotations:
            self.lags_s.append(time.time() - float(new.annotations[WRITTEN]))

    async def _write(self, number: int) -> None:
        rng, every_s = random.Random(number), WRITERS / self._rate
        due_s = time.monotonic()
        while True:
            due_s = max(due_s + every_s, time.monotonic() - 1.0)
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            annotations = {WRITTEN: f"{time.time():.6f}"}
            await self._client.patch(
                PODS, rng.choice(self._keys), merge_patch({"metadata": {"annotations": annotations}})
            )
            self.written += 1


class Sample(dict[str, float]):
    """Processor seconds and MB of each process at one time."""


async def sampled(
    pids: dict[str, int], plane: ControlPlane, folder: Path, changes: Changes, options: argparse.Namespace
) -> list[Sample]:
    found: list[Sample] = []
    async with changes.running():
        until_s = time.monotonic() + 60 * options.minutes
        next_peer_s = time.monotonic()
        peer_s, peer_mb = 0.0, 0.0
        while time.monotonic() < until_s:
            if time.monotonic() >= next_peer_s:
                next_peer_s += DESCHEDULER_EVERY_S
                usage = await asyncio.to_thread(descheduled, plane, folder)
                peer_s, peer_mb = peer_s + usage.processor_s, max(peer_mb, usage.peak_mb)
            sample = Sample(at_s=time.monotonic(), peer_s=peer_s, peer_mb=peer_mb, written=changes.written)
            for name, pid in pids.items():
                sample[f"{name}_s"], sample[f"{name}_mb"] = processor_s(pid), memory_mb(pid, "VmRSS")
            found.append(sample)
            print(
                "  ".join(f"{name} {value:.0f}" for name, value in sample.items() if name != "at_s"),
                flush=True,
            )
            await asyncio.sleep(LOOK_EVERY_S)
    return found


def reported(samples: list[Sample], changes: Changes, options: argparse.Namespace) -> bool:
    # The first part is start-up: reading 150,000 pods.
    first, last = samples[len(samples) // 4], samples[-1]
    passed_s = last["at_s"] - first["at_s"]
    shares = {
        name: 100 * (last[f"{name}_s"] - first[f"{name}_s"]) / passed_s for name in ("daemon", "webhook")
    }
    peer_share = 100 * last["peer_s"] / (last["at_s"] - samples[0]["at_s"])
    rate = (last["written"] - first["written"]) / passed_s
    lags = statistics.quantiles(changes.lags_s[len(changes.lags_s) // 4 :], n=100)
    print(f"{options.pods:,} pods, {rate:.0f} changes/s for {options.minutes:g} minutes")
    print(
        f"lag: p50 {1000 * lags[49]:.0f} ms, p99 {1000 * lags[98]:.0f} ms, worst {max(changes.lags_s):.1f} s"
    )
    print(f"memory of the daemon: {first['daemon_mb']:.0f} MB, at the end {last['daemon_mb']:.0f} MB")
    figures = [
        Figure("processor share of the daemon", shares["daemon"], DESCHEDULER, peer_share, "%", 1.0),
        Figure("processor share of the webhook", shares["webhook"], DESCHEDULER, peer_share, "%"),
        Figure("memory of the daemon", last["daemon_mb"], DESCHEDULER, last["peer_mb"], "MB", 1.0),
        Figure("memory of the webhook", last["webhook_mb"], DESCHEDULER, last["peer_mb"], "MB", 1.0),
        Figure("growth of the daemon's memory", last["daemon_mb"], "earlier", first["daemon_mb"], "MB", 1.1),
    ]
    save(
        "steady_state", str(options.pods), figures, minutes=options.minutes, changes_per_second=round(rate),
        lag_p50_ms=round(1000 * lags[49]), lag_p99_ms=round(1000 * lags[98]),
    )  # fmt: skip
    return print_figures(figures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
