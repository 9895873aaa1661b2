"""Stability beside the descheduler: one part of the day on a real control plane, in real time.

    python -m bench.stability_peers rescheduler|descheduler|nothing [--minutes 60] [--every 60] [--to FILE]

The workloads of `bench.stability` run on fake nodes from 09:00 on, when the load rises; two nodes have just
been added. Rescheduler's daemon balances cpu with default settings. The unmodified descheduler runs
LowNodeUtilization for cpu every --every seconds, by usage of the metrics API, with --deviation: 10 points in
both directions tolerate the same spread of 20 as rescheduler. Evictions are those that the API server marked.
"""

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.day_curve import HOUR_S, App, DayMove, apps_of, behaviour_of, rollouts_of, spread_of, undone_moves
from bench.stability import NODE_CPU_MILLIS
from kubesim.behaviour import load_behaviour
from kubevalues.quantity import parse_quantity
from rescheduler.api.podmigration_crd import podmigration_crd
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.api_resources import DEPLOYMENTS, NAMESPACES, Object, merge_patch
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.kube.informer import Informer
from tests.e2e.daemon.processes import write_config
from tests.e2e.evictions.peers import start_descheduler
from tests.stories import objects
from tests.stories.objects import ready_since
from tests.stories.real_cluster import install_definitions
from tests.stories.sandbox import until_usable
from tests.testbed import ControlPlane, Options
from tests.testbed.fake_kubelet import FakeKubelet
from tests.testbed.fake_kubelet.nodes import node_shapes
from tests.testbed.usage import UsageApi
from tests.testbed.usage.metrics import FakeUsage

NAMESPACE = "day"
FROM_HOUR = 9.0
NEW_NODES = 2
SAMPLE_S = 15.0
AVERAGED = 16
"""The spread is one of averages over so many samples, four minutes: of load, not of noise."""
SUCCESSOR_WITHIN_S = 120.0


def descheduler_policy(deviation: int) -> Object:
    """Return a policy that tolerates this deviation from the average, in both directions."""
    return {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "metricsProviders": [{"source": "KubernetesMetrics"}],
        "profiles": [
            {
                "name": "default",
                "pluginConfig": [
                    {
                        "name": "LowNodeUtilization",
                        "args": {
                            "useDeviationThresholds": True,
                            "thresholds": {"cpu": deviation},
                            "targetThresholds": {"cpu": deviation},
                            "metricsUtilization": {"source": "KubernetesMetrics"},
                        },
                    }
                ],
                "plugins": {"balance": {"enabled": ["LowNodeUtilization"]}},
            }
        ],
    }


@dataclass
class PodLife:
    app: str
    node: str = ""
    created_s: float = 0.0
    evicted_s: float | None = None


@dataclass
class Watching:
    """What is seen of the pods."""

    apps: dict[str, App]
    replicas: dict[str, int]
    lives: dict[str, PodLife] = field(default_factory=dict)
    ready: dict[str, set[str]] = field(default_factory=dict)
    lost_s: float = 0.0
    counts: bool = False
    _since_s: float = field(default_factory=time.time)

    def on_pod(self, old: Object | None, new: Object | None) -> None:
        self.sum_up()
        pod = new or old
        assert pod is not None
        metadata = pod["metadata"]
        uid, app = metadata["uid"], metadata["labels"]["app"]
        life = self.lives.setdefault(uid, PodLife(app, created_s=_seconds(metadata["creationTimestamp"])))
        life.node = pod["spec"].get("nodeName", "") or life.node
        if life.evicted_s is None and _is_evicted(pod):
            life.evicted_s = time.time()
        serves = new is not None and ready_since(new) and "deletionTimestamp" not in metadata
        ready = self.ready.setdefault(app, set())
        (ready.add if serves else ready.discard)(uid)

    def sum_up(self) -> None:
        now_s = time.time()
        if self.counts:
            missing = (max(0, self.replicas[app] - len(self.ready.get(app, ()))) for app in self.apps)
            self.lost_s += sum(missing) * (now_s - self._since_s)
        self._since_s = now_s

    def evictions(self) -> list[DayMove]:
        """Return the evictions, each with the pod of the same workload that was created about then."""
        taken: set[str] = set()
        moves = []
        for uid, life in sorted(self.lives.items(), key=lambda each: each[1].evicted_s or 0.0):
            if life.evicted_s is None:
                continue
            near = [
                (abs(other.created_s - life.evicted_s), other_uid)
                for other_uid, other in self.lives.items()
                if other.app == life.app and other_uid not in taken | {uid}
            ]
            distance_s, successor = min(near, default=(SUCCESSOR_WITHIN_S, ""))
            known = successor if distance_s < SUCCESSOR_WITHIN_S else ""
            taken.add(known)
            target = self.lives[known].node if known else ""
            moves.append(DayMove(life.evicted_s, life.app, life.node, target, uid, known))
        return moves


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _is_evicted(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(
        each["type"] == "DisruptionTarget" and each.get("reason") == "EvictionByEvictionAPI"
        for each in conditions
    )


async def play(plane: ControlPlane, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    now = datetime.now(UTC)
    apps = {app.name: app for app in apps_of(given.nodes, given.pods, NODE_CPU_MILLIS, given.seed)}
    shift_h = now.hour + now.minute / 60 - FROM_HOUR
    behaviour = load_behaviour(behaviour_of(apps.values(), given.seed, shift_h))
    async with contextlib.AsyncExitStack() as stack:
        client = Client(HttpTransport(load_cluster_access(plane.kubeconfig)))
        stack.push_async_callback(client.close)
        await client.create(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        )
        kubelet = FakeKubelet(client, behaviour, name=NAMESPACE, beat_every_s=10.0)
        await stack.enter_async_context(kubelet.running())
        await kubelet.register(node_shapes(given.nodes, cpu=f"{NODE_CPU_MILLIS}m", memory="32Gi"))
        await until_usable(client, kubelet, given.nodes)
        seen = Watching(apps, {app.name: app.replicas_at(FROM_HOUR) for app in apps.values()})
        pods: Informer[Object] = Informer(client, PODS.as_json)
        pods.subscribe(seen.on_pod)
        await stack.enter_async_context(pods.running())
        await stack.enter_async_context(UsageApi(client, kubelet).running())
        # Two nodes have just been added: the load is uneven when the tool starts.
        added = [f"node-{number:04}" for number in range(1, NEW_NODES + 1)]
        for node in added:
            await client.patch(NODES, node, merge_patch({"spec": {"unschedulable": True}}))
        for app in apps.values():
            spec = objects.pod_spec(NAMESPACE, cpu=f"{app.cpu_millis}m")
            spec["containers"][0]["resources"]["requests"]["memory"] = f"{app.memory_mib}Mi"
            await client.create(
                DEPLOYMENTS, objects.deployment(NAMESPACE, app.name, seen.replicas[app.name], spec)
            )
        async with asyncio.timeout(600):
            while any(len(seen.ready.get(name, ())) < count for name, count in seen.replicas.items()):  # noqa: ASYNC110 - not ours
                await asyncio.sleep(1.0)
        for node in added:
            await client.patch(NODES, node, merge_patch({"spec": {"unschedulable": None}}))
        seen.counts = True
        async with running_tool(plane, folder, given):
            spreads = await measured(client, kubelet, seen, given)
        seen.sum_up()
        migrations = (await client.list(POD_MIGRATIONS)).items if given.tool == "rescheduler" else []
        return report(seen, spreads, migrations, given)


@contextlib.asynccontextmanager
async def running_tool(plane: ControlPlane, folder: Path, given: argparse.Namespace) -> AsyncIterator[None]:
    if given.tool == "descheduler":
        peer = start_descheduler(
            plane, NAMESPACE, folder, descheduler_policy(given.deviation), every_s=given.every
        )
        try:
            yield
        finally:
            peer.stop()
    elif given.tool == "rescheduler":
        config = write_config(folder / "config.json")
        content = json.loads(config.read_text())
        content["profiles"][0]["pluginConfig"][0]["args"] = {
            "enabledStrategies": ["LoadBalancing"],
            "balanceResources": ["cpu"],
        }
        config.write_text(json.dumps(content))
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("rescheduler"), "run", "--namespace", NAMESPACE,
            "--config", str(config), "--host", "127.0.0.1", "--port", "0",
            env={"KUBECONFIG": str(plane.kubeconfig), "PATH": "/usr/bin"},
            stderr=(folder / "rescheduler.log").open("wb"),
        )  # fmt: skip
        try:
            yield
        finally:
            process.terminate()
            await process.wait()
    else:
        yield


async def measured(
    client: Client, kubelet: FakeKubelet, seen: Watching, given: argparse.Namespace
) -> list[tuple[float, float]]:
    """Play the curve, and return minutes and spreads."""
    began_s = time.time()
    recent: deque[dict[str, float]] = deque(maxlen=AVERAGED)
    spreads: list[tuple[float, float]] = []
    rollouts = [each for each in rollouts_of(list(seen.apps.values()), given.seed) if each[0] >= FROM_HOUR]
    usage = FakeUsage(kubelet)
    while (passed_s := time.time() - began_s) < given.minutes * 60:
        hour = FROM_HOUR + passed_s / HOUR_S
        recent.append(
            {
                each["metadata"]["name"]: parse_quantity(each["usage"]["cpu"]).millis / NODE_CPU_MILLIS * 100
                for each in usage.node_metrics(datetime.now(UTC))
            }
        )
        averages = [statistics.fmean(each[name] for each in recent) for name in recent[-1]]
        spreads.append((passed_s / 60, spread_of(averages)[0]))
        for name, app in seen.apps.items():
            if (replicas := app.replicas_at(hour)) != seen.replicas[name]:
                seen.replicas[name] = replicas
                await client.patch(
                    DEPLOYMENTS, f"{NAMESPACE}/{name}", merge_patch({"spec": {"replicas": replicas}})
                )
        while rollouts and rollouts[0][0] <= hour:
            _, app = rollouts.pop(0)
            template = {"metadata": {"annotations": {"rolled-out": f"{hour:.2f}"}}}
            patch = merge_patch({"spec": {"template": template}})
            await client.patch(DEPLOYMENTS, f"{NAMESPACE}/{app.name}", patch)
        await asyncio.sleep(SAMPLE_S)
    return spreads


def report(
    seen: Watching, spreads: list[tuple[float, float]], migrations: list[Object], given: argparse.Namespace
) -> dict[str, Any]:
    moves = seen.evictions()
    completed = [each for each in migrations if each.get("status", {}).get("phase") == "Completed"]
    if given.tool == "rescheduler":
        moves = [
            DayMove(
                _seconds(each["status"]["finishedAt"]),
                each["spec"]["pod"]["name"].rsplit("-", 2)[0],
                each["spec"]["sourceNode"],
                each["status"]["targetNode"],
                each["spec"]["pod"]["uid"],
                each["status"]["targetPod"]["uid"],
            )
            for each in completed
        ]
    last = [spread for minute, spread in spreads if minute >= given.minutes / 2]
    found = {
        "tool": given.tool, "minutes": given.minutes, "everySeconds": given.every,
        "deviation": given.deviation, "nodes": given.nodes,
        "pods": sum(seen.replicas.values()),
        "evictions": len(seen.evictions()), "moves": len(moves), "undone": asdict(undone_moves(moves)),
        "back": sum(move.source == move.target for move in moves),
        "spreadAtStart": statistics.fmean(spread for _, spread in spreads[:AVERAGED]),
        "spreadInSecondHalf": statistics.fmean(last), "readySecondsLost": seen.lost_s,
        "series": [[round(minute, 2), round(spread, 2)] for minute, spread in spreads[::4]],
    }  # fmt: skip
    for name, value in found.items():
        if name != "series":
            print(f"{name:20}{value}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.stability_peers", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("tool", choices=("rescheduler", "descheduler", "nothing"))
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--every", type=int, default=60, help="seconds between the descheduler's runs")
    parser.add_argument("--deviation", type=int, default=10, help="the descheduler's thresholds, in points")
    parser.add_argument("--nodes", type=int, default=12)
    parser.add_argument("--pods", type=int, default=140)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--to", type=Path, help="also write the figures to this file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with ControlPlane(folder / "plane", Options(audit=False)) as plane:
            install_definitions(plane, [podmigration_crd()])
            found = asyncio.run(play(plane, folder, given))
        if given.to:
            given.to.parent.mkdir(parents=True, exist_ok=True)
            given.to.write_text(json.dumps(found, indent=1))
            for log in folder.glob("*.log"):
                given.to.with_suffix(f".{log.name}").write_bytes(log.read_bytes())
    return 0


if __name__ == "__main__":
    sys.exit(main())
