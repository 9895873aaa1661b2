"""One round: a new control plane, the programs under test, the random disruptions, and the observer's
verdict.
"""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from kubesim.behaviour import load_behaviour
from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME, podmigration_crd
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.api_resources import merge_patch
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.steering.webhook.webhook_configurations import UrlAddress
from tests.e2e.chaos.api_observer import ApiObserver
from tests.e2e.chaos.audit_trail import audited_requests
from tests.e2e.chaos.chaos_actions import ChaosActions
from tests.e2e.chaos.chaos_programs import Program
from tests.e2e.chaos.chaos_schedule import ChaosSchedule
from tests.e2e.chaos.chaos_workloads import FLAPPING, HOME, STEADY, initial_replicas, stock
from tests.e2e.chaos.leftover_verdicts import leftovers, unrecovered
from tests.e2e.chaos.object_versions import CORDONED_BY, FORGED
from tests.e2e.chaos.round_summary import Summary, summarize
from tests.e2e.daemon.processes import write_config
from tests.e2e.permissions import DAEMON, WEBHOOK, kubeconfig_as
from tests.stories.sandbox import until_usable
from tests.testbed import ControlPlane, Part
from tests.testbed.fake_kubelet import FakeKubelet, node_shapes
from tests.testbed.options import QUICK
from tests.webhook_installed import install_webhook

__all__ = ["LARGE", "SMALL", "RoundSize", "play_round"]

BEAT_EVERY_S = 3.0
CALM_FOR_S = 5.0
DAEMONS = 2
_ARGS = {
    "reschedulingInterval": "2s",
    "enabledStrategies": ["NodeMaintenance", "LoadBalancing"],
    "imbalanceThreshold": 10,
    "settleTime": "1s",
    "podCooldown": "10s",
    "migrationTimeout": "40s",
    "steerTimeout": "10s",
    "maxRetries": 1,
    "maxConcurrentPerNode": 4,
    "moveUnderZeroBudget": "always",
    "haltWhen": {"failureRatio": 1.0, "notReadyShare": 0.9},
}


@dataclass(frozen=True)
class RoundSize:
    nodes: int
    crowd: int
    """Deployments of 16 replicas, in addition to those that every round has."""
    calm_within_s: float


SMALL = RoundSize(nodes=14, crowd=0, calm_within_s=150.0)
LARGE = RoundSize(nodes=50, crowd=60, calm_within_s=600.0)
"""A thousand pods."""


@dataclass
class _Cluster:
    size: RoundSize
    plane: ControlPlane
    client: Client
    folder: Path
    port: int

    @property
    def config(self) -> Path:
        return self.folder / "config.json"

    async def prepare(self, kubelet: FakeKubelet) -> None:
        """All workloads are created; the last node is cordoned by others and has a forged mark of ours."""
        self.plane.kubectl("apply", "-f", "-", stdin=json.dumps(podmigration_crd()))
        self.plane.wait_until_served(PODMIGRATION_CRD_NAME)
        # It asks which kinds there are only every half a minute, or when it starts.
        await asyncio.to_thread(self.plane.restart, Part.CONTROLLER_MANAGER)
        nodes = await until_usable(self.client, kubelet, self.size.nodes)
        marks = {"annotations": {CORDONED_BY: "NodeMaintenance", FORGED: "true"}}
        change = {"metadata": marks, "spec": {"unschedulable": True}}
        await self.client.patch(NODES, nodes[-1], merge_patch(change))
        for resource, item in stock(kubelet.name, self.size.crowd):
            await self.client.create(resource, item)

    async def programs(self) -> tuple[list[Program], Program]:
        write_config(self.config, **_ARGS)
        account = kubeconfig_as(self.plane, DAEMON, HOME, self.folder)
        run = ("run", "--namespace", HOME, "--config", str(self.config), "--log-level", "debug")
        options = (*run, "--log-format", "json", "--host", "127.0.0.1", "--port", "0")
        names = [f"daemon-{number}" for number in range(1, DAEMONS + 1)]
        daemons = [Program(name, options, account, self.folder / f"{name}.log") for name in names]
        url = f"https://127.0.0.1:{self.port}"
        serve = ("webhook", "--namespace", HOME, "--host", "127.0.0.1", "--extender-port", "0")
        webhook = Program(
            "webhook",
            (*serve, "--port", str(self.port), "--url", url),
            kubeconfig_as(self.plane, WEBHOOK, HOME, self.folder),
            self.folder / "webhook.log",
        )
        await install_webhook(self.client, HOME, UrlAddress(url))
        await webhook.start()
        await webhook.until_logged("ValidatingWebhookConfiguration")
        for daemon in daemons:
            await daemon.start()
        return daemons, webhook


async def play_round(seed: int, lasts_s: float, folder: Path, port: int, size: RoundSize = SMALL) -> Summary:
    """What the observer has found. Its log, and those of the chaos and of all programs, are in the folder."""
    with ControlPlane(folder / "control-plane", QUICK) as plane:
        async with _clients(plane) as (playing, reading):
            kubelet = FakeKubelet(playing, load_behaviour(STEADY), name="chaos", beat_every_s=BEAT_EVERY_S)
            observer = ApiObserver(reading)
            cluster = _Cluster(size, plane, playing, folder, port)
            shapes = {shape.name: shape for shape in node_shapes(size.nodes, "node")}
            async with kubelet.running():
                await kubelet.register(shapes.values())
                await cluster.prepare(kubelet)
                async with observer.running():
                    await _until_calm(observer, size.calm_within_s)
                    daemons, webhook = await cluster.programs()
                    rng = random.Random(seed)
                    actions = ChaosActions(
                        rng, plane, playing, kubelet, shapes, daemons, webhook, initial_replicas(size.crowd)
                    )
                    chaos = ChaosSchedule(actions)
                    try:
                        kubelet.behave(load_behaviour(FLAPPING))
                        await chaos.run(lasts_s)
                        kubelet.behave(load_behaviour(STEADY))
                        # Nothing new is planned: what was asked for finishes.
                        write_config(cluster.config, **{**_ARGS, "enabledStrategies": ["NodeMaintenance"]})
                        await _until_calm(observer, size.calm_within_s)
                    finally:
                        (folder / "chaos.log").write_text("\n".join(actions.log) + "\n")
                        for program in (*daemons, webhook):
                            await program.stop()
                            chaos.done[f"{program.name} ended by itself"] += len(program.ended_by_itself)
        requests = list(audited_requests(plane.audited()))
        summary = await asyncio.to_thread(summarize, seed, observer, requests, +chaos.done)
        (folder / "observer.log").write_text("\n".join([str(summary), *summary.surplus]) + "\n")
        return summary


@contextlib.asynccontextmanager
async def _clients(plane: ControlPlane) -> AsyncIterator[tuple[Client, Client]]:
    """One for those who play the cluster, one for the observer alone."""
    playing = Client(HttpTransport(load_cluster_access(plane.kubeconfig)), field_manager="chaos")
    reading = Client(HttpTransport(load_cluster_access(plane.kubeconfig)), field_manager="observer")
    try:
        yield playing, reading
    finally:
        await playing.close()
        await reading.close()


async def _until_calm(observer: ApiObserver, within_s: float) -> None:
    """Wait until there are no leftovers for some seconds; after a long time the verdict names them."""
    loop = asyncio.get_running_loop()
    calm_since = loop.time()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while loop.time() - calm_since < CALM_FOR_S:
                if leftovers(observer) or unrecovered(observer):
                    calm_since = loop.time()
                await asyncio.sleep(0.2)
