"""The cluster in which moves are measured: simulated, with every request counted by client."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from kubesim import ApiServer
from kubesim.behaviour import load_behaviour
from kubesim.running_cluster import EPOCH, start_cluster
from kubesim.virtual_time import LoopClock
from rescheduler.api.podmigration_crd import podmigration_crd
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.kube.api_resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
)
from rescheduler.kube.client import Client
from rescheduler.kube.informer import Informer
from rescheduler.kube.transport import InProcessTransport
from tests.stories import objects
from tests.testbed.fake_kubelet.nodes import node_object, node_shapes

__all__ = ["NAMESPACE", "WRITES", "Cluster", "Ledger", "Move", "ReadinessMonitor", "now_s"]

NAMESPACE = "shop"
REPLICAS = 2
NETWORK_S = 0.001, 0.020
WRITES = ("create", "update", "patch", "delete", "evict")


# -- what is measured


@dataclass
class Ledger:
    """Counts the requests of one client by verb. Watches are open all the time; Events count separately."""

    handle: Callable[..., Any]
    rng: random.Random
    counts: Counter[str] = field(default_factory=Counter)

    async def __call__(self, method: str, target: str, headers: Any, body: bytes) -> Any:
        if _is_probe(target):
            return await self.handle(method, target, headers, body)
        self.counts[_verb(method, target)] += 1
        await asyncio.sleep(self.rng.uniform(*NETWORK_S))
        return await self.handle(method, target, headers, body)


def _is_probe(target: str) -> bool:
    """Whether it is only a health probe: their number depends on the duration."""
    return target == "/livez" or target.endswith("limit=1")


def _verb(method: str, target: str) -> str:
    path, _, query = target.partition("?")
    if method == "GET" and "watch=true" in query:
        return "watch"
    if method == "GET":
        # A name follows the kind, and a kind follows the namespace.
        return "get" if len(path.rpartition("/namespaces/")[2].split("/")) > 2 else "list"
    if path.endswith("/events"):
        return "event"
    if path.endswith("/eviction"):
        return "evict"
    return {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[method]


class ReadinessMonitor:
    """Sums up by how much, and for how long, each workload was below its replica count."""

    def __init__(self, pods: Informer[PodRecord]) -> None:
        self._pods = pods
        self._ready: dict[str, set[str]] = {}
        self._since_s = now_s()
        self._changed = asyncio.Event()
        self.lost_s = 0.0
        pods.subscribe(self._on_change)

    def _on_change(self, old: PodRecord | None, new: PodRecord | None) -> None:
        self.sum_up()
        pod = old if new is None else new
        assert pod is not None
        ready = self._ready.setdefault(pod.labels["app"], set())
        serves = new is not None and new.is_ready and not new.is_terminating
        (ready.add if serves else ready.discard)(pod.uid)
        self._changed.set()

    def sum_up(self) -> None:
        missing = sum(max(REPLICAS - len(ready), 0) for ready in self._ready.values())
        self.lost_s += missing * (now_s() - self._since_s)
        self._since_s = now_s()

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            changed = self._changed
            await changed.wait()
            if changed is self._changed:
                self._changed = asyncio.Event()

    def is_whole(self, app: str, without: str = "") -> bool:
        ready = self._ready.get(app, set())
        return len(ready) >= REPLICAS and without not in ready


# -- the cluster


@dataclass(frozen=True)
class Move:
    pod: PodRecord
    app: str
    target: str


class Cluster:
    def __init__(self, nodes: int, moves: int, budget: dict[str, Any], startup: str) -> None:
        self.server = ApiServer(clock=LoopClock(EPOCH), seed=7)
        life = start_cluster(self.server)
        life.kubelets.behave(load_behaviour({"pods": [{"startup": startup, "termination": "2s"}]}))
        self._nodes = nodes
        self._apps = [f"app-{number:03}" for number in range(moves // REPLICAS)]
        self._budget = budget
        self._transports: list[InProcessTransport] = []

    def connect(self) -> tuple[Client, Ledger]:
        ledger = Ledger(self.server.handle, random.Random(len(self._transports)))
        self._transports.append(InProcessTransport(ledger))
        return Client(self._transports[-1]), ledger

    async def close(self) -> None:
        for transport in self._transports:
            await transport.close()

    async def fill(self, client: Client) -> None:
        now = self.server.clock.now()
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, podmigration_crd())
        for shape in node_shapes(self._nodes):
            await client.create(NODES.as_json, node_object(shape, "simulated", now))
        for app in self._apps:
            spec = objects.pod_spec("simulated")
            await client.create(DEPLOYMENTS, objects.deployment(NAMESPACE, app, REPLICAS, spec))
            await client.create(POD_DISRUPTION_BUDGETS, objects.budget(NAMESPACE, app, app, **self._budget))

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[ReadinessMonitor]:
        """Watch all pods, once every workload has all its replicas."""
        client, _ = self.connect()
        pods = Informer(client, PODS)
        async with pods.running():
            await pods.synced()
            readiness = ReadinessMonitor(pods)
            await readiness.until(lambda: all(readiness.is_whole(app) for app in self._apps))
            readiness.sum_up()
            readiness.lost_s = 0.0
            yield readiness

    async def moves(self, client: Client) -> list[Move]:
        """Return moves to nodes far away: first one pod of each workload, then the other."""
        pods = sorted((await client.list(PODS, namespace=NAMESPACE)).items, key=lambda pod: pod.key)
        names = sorted(node.name for node in (await client.list(NODES)).items)
        place = {name: number for number, name in enumerate(names)}
        found = [
            Move(pod, pod.labels["app"], names[(place[pod.node] + self._nodes // 3) % self._nodes])
            for pod in pods
        ]
        return found[::REPLICAS] + found[1::REPLICAS]

    async def on_target(self, client: Client, moves: list[Move]) -> int:
        """Return how many pods are on the node that their move names, workload by workload."""
        wanted = Counter((move.app, move.target) for move in moves)
        there = Counter(
            (pod.labels["app"], pod.node) for pod in (await client.list(PODS, namespace=NAMESPACE)).items
        )
        return (wanted & there).total()


def now_s() -> float:
    return asyncio.get_running_loop().time()
