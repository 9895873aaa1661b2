"""Run a large simulated cluster for hours of virtual time, and check that nothing grows: `make soak`.

Daemon, webhook and simulator are one process on a virtual clock. Pods are rolled out, scaled, moved and
deleted, and nodes die and return. Memory, tasks, files and open watches are sampled every ten minutes; the
first hour does not count, because caches and the history of the store fill up.
"""

import argparse
import asyncio
import gc
import logging
import os
import random
import re
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from kubesim import ApiServer
from kubesim.running_cluster import EPOCH, RunningCluster, start_cluster
from kubesim.scenario.initial_cluster import initial_objects
from kubesim.scenario.scenario_file import load_scenario
from kubesim.virtual_time import LoopClock
from rescheduler.api.daemon_status import DaemonStatus
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.config.policy import Configuration, LeaderElection, Policy
from rescheduler.daemon.own_objects import read_state
from rescheduler.install.cluster_installation import install_definition
from rescheduler.kube import errors
from rescheduler.kube.api_resources import DEPLOYMENTS, merge_patch
from rescheduler.kube.client import Client
from tests.campaign.campaign_programs import DaemonProcess, WebhookProcess
from tests.campaign.unreliable_connection import ApiServerOutage, UnreliableConnection
from tests.e2e.chaos.api_observer import POD_MIGRATIONS
from tests.e2e.chaos.chaos_workloads import HOME
from tests.stories.cluster_kinds import SimulatorLoop

REPLICAS = 20
NAMESPACE = "shop"
WARM_UP_HOURS = 1.0
SAMPLE_EVERY_S = 600.0
ROUND_EVERY_S = 60.0
MOVES_PER_ROUND = 3
MOST_MB_PER_HOUR = 10.0
MOST_MORE = 5
"""So many tasks, files and watches may be more at the end than after the first hour: those under way."""
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20


@dataclass(frozen=True)
class Sample:
    hours: float
    memory_mb: float
    tasks: int
    files: int
    watches: int

    def __str__(self) -> str:
        return (
            f"{self.hours:4.1f} h: {self.memory_mb:8.1f} MB, {self.tasks} tasks, {self.files} files, "
            f"{self.watches} watches"
        )


@dataclass
class Soak:
    nodes: int
    pods: int
    hours: float
    samples: list[Sample] = field(default_factory=list)
    done: dict[str, int] = field(default_factory=dict)
    status: DaemonStatus | None = None
    _connections: list[UnreliableConnection] = field(default_factory=list)
    _rng: random.Random = field(default_factory=lambda: random.Random(1))

    async def run(self, objects: list[dict[str, Any]]) -> None:
        self.server = ApiServer(clock=LoopClock(EPOCH), seed=1, history_limit=2_000)
        self.server.load(objects)
        gc.freeze()  # what is loaded stays; looking at it again in every collection takes long
        running = start_cluster(self.server)
        policy = Policy(
            rescheduling_interval=timedelta(minutes=5),
            migration_ttl=timedelta(minutes=30),
            enabled_strategies=("NodeMaintenance", "LoadBalancing"),
        )
        configuration = Configuration(policy=policy, leader_election=LeaderElection())
        client = self._connect("kubernetes-admin", "others").client()
        webhook = WebhookProcess(configuration, self._connect, random.Random(2))
        self.server.cluster.admission.webhooks.caller = webhook
        daemon = DaemonProcess("daemon", configuration, self._connect)
        await install_definition(client)
        await webhook.install(client)
        await webhook.start()
        daemon.start()
        try:
            await asyncio.gather(self._sample(), self._churn(client, running))
            self.status = (await read_state(client, HOME))[1]
            await self._count_migrations(client)
            assert daemon.runs, daemon.failures
        finally:
            await daemon.kill()
            await webhook.kill()

    def _connect(self, user: str, name: str) -> UnreliableConnection:
        forgotten: Any = deque(maxlen=0)
        made = UnreliableConnection(
            self.server, user, random.Random(name), ApiServerOutage(), requests=forgotten
        )
        self._connections.append(made)
        return made

    # -- what grows

    async def _sample(self) -> None:
        began_s = time.monotonic()
        for number in range(int(self.hours * 3600 / SAMPLE_EVERY_S) + 1):
            if number:
                await asyncio.sleep(SAMPLE_EVERY_S)
            gc.collect()
            sample = Sample(
                hours=number * SAMPLE_EVERY_S / 3600,
                memory_mb=_memory_mb(),
                tasks=len(asyncio.all_tasks()),
                files=_open_files(),
                watches=sum(each.open_responses for each in self._connections),
            )
            self.samples.append(sample)
            print(f"{sample}   ({time.monotonic() - began_s:.0f} s)", flush=True)

    @property
    def counted(self) -> list[Sample]:
        return [each for each in self.samples if each.hours >= min(WARM_UP_HOURS, self.hours / 2)]

    @property
    def mb_per_hour(self) -> float:
        """Return the slope of the line that fits the memory best."""
        hours = [each.hours for each in self.counted]
        return float(np.polyfit(hours, [each.memory_mb for each in self.counted], 1)[0])

    def faults(self) -> list[str]:
        first, last = self.counted[0], self.counted[-1]
        found = [
            f"{name}: {getattr(first, name)}, later {getattr(last, name)}"
            for name in ("tasks", "files", "watches")
            if getattr(last, name) > getattr(first, name) + MOST_MORE
        ]
        if self.mb_per_hour > MOST_MB_PER_HOUR:
            found.append(f"memory grows by {self.mb_per_hour:.1f} MB per hour")
        if self.status is None or self.status.last_check is None:
            found.append("the daemon has written no status")
        return found

    # -- what happens

    async def _churn(self, client: Client, running: RunningCluster) -> None:
        names = [f"{NAMESPACE}/web-{number:04}" for number in range(self.pods // REPLICAS)]
        for number in range(int(self.hours * 3600 / ROUND_EVERY_S)):
            await asyncio.sleep(ROUND_EVERY_S)
            template = {"metadata": {"annotations": {"revision": str(number)}}}
            await self._patch(client, names, {"template": template})
            await self._patch(client, names, {"replicas": REPLICAS + self._rng.randint(-2, 2)})
            await self._move_and_delete(client)
            if number % 20 == 0:
                node = f"node-{self._rng.randrange(self.nodes):04}"
                running.kubelets.kill(node)
                asyncio.get_running_loop().call_later(600.0, running.kubelets.revive, node)
                self._count("nodes that died")

    async def _patch(self, client: Client, names: list[str], spec: dict[str, Any]) -> None:
        await client.patch(DEPLOYMENTS, self._rng.choice(names), merge_patch({"spec": spec}))
        self._count(f"changes of {', '.join(spec)}")

    async def _move_and_delete(self, client: Client) -> None:
        node = f"node-{self._rng.randrange(self.nodes):04}"
        pods = (await client.list(PODS.as_json, fields=f"spec.nodeName={node}")).items
        for pod in self._rng.sample(pods, min(len(pods), MOVES_PER_ROUND + 1))[1:]:
            metadata = pod["metadata"]
            migration = {
                "apiVersion": POD_MIGRATIONS.api_version,
                "kind": POD_MIGRATIONS.kind,
                "metadata": {"namespace": metadata["namespace"], "generateName": "asked-"},
                "spec": {"pod": {"name": metadata["name"], "uid": metadata["uid"]}, "sourceNode": node},
            }
            await client.create(POD_MIGRATIONS, migration)
            self._count("requested moves")
        if pods:
            try:
                await client.delete(PODS, f"{NAMESPACE}/{pods[0]['metadata']['name']}")
            except errors.NotFound:
                return
            self._count("deleted pods")

    async def _count_migrations(self, client: Client) -> None:
        for each in (await client.list(POD_MIGRATIONS)).items:
            self._count(f"kept migrations, {(each.get('status') or {}).get('phase', 'Pending')}")

    def _count(self, name: str) -> None:
        self.done[name] = self.done.get(name, 0) + 1


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _memory_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_MB


# -- the cluster


def _cluster_objects(nodes: int, deployments: int) -> list[dict[str, Any]]:
    """Return nodes, and one Deployment again and again under other names, on other nodes."""
    workload = {
        "namespace": NAMESPACE, "name": "web-0000", "replicas": REPLICAS, "cpu": "500m", "memory": "1Gi",
        "on": [f"node-{number:04}" for number in range(REPLICAS)], "budget": {"maxUnavailable": 1},
    }  # fmt: skip
    machines = [{"name": f"node-{number:04}", "cpu": "64", "memory": "256Gi"} for number in range(nodes)]
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}}
    content = {"seed": 1, "settle": "10m", "nodes": machines, "workloads": [workload], "objects": [home]}
    found = initial_objects(load_scenario(content), EPOCH)
    copied = [each for each in found if "web-0000" in each["metadata"]["name"] and each["kind"] != "Event"]
    raw = msgspec.json.encode(copied).decode()
    return found + [
        item for number in range(1, deployments) for item in msgspec.json.decode(_renamed(raw, number, nodes))
    ]


def _renamed(raw: str, number: int, nodes: int) -> str:
    def moved(name: re.Match[str]) -> str:
        return f"node-{(int(name[1]) + number * REPLICAS) % nodes:04}"

    raw = re.sub(r"node-(\d{4})", moved, raw.replace("web-0000", f"web-{number:04}"))
    # The uids of a copy differ in their first digits.
    return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}-[0-9a-f]{4}-)", rf"{number:08x}\1", raw)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaign.soak", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--hours", type=float, default=4.0, help="virtual hours")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=30_000)
    options = parser.parse_args()
    logging.getLogger("rescheduler").setLevel(logging.ERROR)  # thousands of moves
    soak = Soak(options.nodes, options.pods, options.hours)
    began_s = time.monotonic()
    objects = _cluster_objects(options.nodes, options.pods // REPLICAS)
    with asyncio.Runner(loop_factory=SimulatorLoop) as runner:
        runner.run(soak.run(objects))
        failures = [f"background task failed: {each}" for each in runner.get_loop().failures]  # type: ignore[attr-defined]
    faults = soak.faults() + failures
    print(", ".join(f"{name}: {count}" for name, count in sorted(soak.done.items())))
    took = f"{time.monotonic() - began_s:.0f} s, {time.process_time():.0f} s of CPU time"
    allowed = f"at most {MOST_MB_PER_HOUR:g} are allowed"
    print(f"memory grows by {soak.mb_per_hour:.2f} MB per hour, {allowed}; {took}")
    print("\n".join(faults) or "nothing leaks")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
