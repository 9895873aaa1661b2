"""300 moves on a real control plane, beside 300 evictions by the descheduler on the same cluster.

    python -m bench.executed_moves [--moves 300] [--nodes 60] [--gate]

Nodes are played by a fake kubelet; a pod is ready one second after it was bound. First the descheduler evicts
as many pods once (PodLifeTime), with its own client limit; it is measured from its start to its end. Then the
daemon and the webhook, as processes of their own, move as many pods of Deployments to nodes that we choose,
with the default `settleTime`. The audit log counts the requests of each account, and the CPU time of every
process shows what bounds the moves: all of them share the processors of this machine. With --gate the exit
code is 1 if a target is missed.
"""

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.control_plane import rescheduler_process
from bench.decode import machine
from bench.plan_command import DESCHEDULER
from bench.verdicts import Figure, print_figures, processor_s, run_measured, save
from rescheduler.api.podmigration import MigrationPhase, decode_migration
from rescheduler.api.podmigration_crd import podmigration_crd
from rescheduler.api.well_known_names import FINALIZER
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.sources.live_source import WEBHOOK_LABEL_SELECTOR
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS, nested_field, object_key
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.api_resources import DEPLOYMENTS, LEASES, NAMESPACES, VALIDATING_WEBHOOKS, Object
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.kube.informer import Informer
from rescheduler.steering.webhook.webhook_configurations import UrlAddress
from tests.stories import objects
from tests.stories.real_cluster import install_definitions
from tests.testbed import ControlPlane
from tests.testbed.cache import located_peers
from tests.testbed.ports import free_ports
from tests.webhook_installed import install_webhook

__all__ = ["main"]

NAMESPACE: Final = "shop"
REPLICAS: Final = 3
KUBELET: Final = "bench"
AT_MOST_TIME: Final = 0.5
AT_MOST_REQUESTS: Final = 12
WITHIN_S: Final = 900.0
AT_ONCE: Final = 10
BEHAVIOUR: Final = {"pods": [{"startup": "1s", "termination": "1s"}]}
SETTINGS: Final = {
    "maxConcurrentMigrations": 300,
    "maxConcurrentPerNode": 30,
    "maxConcurrentPerWorkload": 3,
    "minPodAge": "0s",
    "excludedNamespaces": ["kube-system"],
    "failedPods": {"enabled": False},
}
ALL_PODS: Final = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "DeschedulerPolicy",
    "profiles": [
        {
            "name": "all",
            "pluginConfig": [
                {
                    "name": "PodLifeTime",
                    "args": {"maxPodLifeTimeSeconds": 1, "namespaces": {"include": [NAMESPACE]}},
                },
                {"name": "DefaultEvictor", "args": {"nodeFit": False}},
            ],
            "plugins": {"deschedule": {"enabled": ["PodLifeTime"]}},
        }
    ],
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.executed_moves", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--moves", type=int, default=300)
    parser.add_argument("--nodes", type=int, default=60)
    parser.add_argument("--gate", action="store_true", help="exit 1 if a target is missed")
    options = parser.parse_args(arguments)
    print(machine())
    with tempfile.TemporaryDirectory() as folder, ControlPlane(Path(folder) / "plane") as plane:
        install_definitions(plane, [podmigration_crd()])
        is_reached = asyncio.run(measured(plane, Path(folder), options))
    return 1 if options.gate and not is_reached else 0


async def measured(plane: ControlPlane, folder: Path, options: argparse.Namespace) -> bool:
    async with contextlib.AsyncExitStack() as stack:
        client = Client(HttpTransport(load_cluster_access(plane.kubeconfig)), timeout_s=60.0)
        stack.push_async_callback(client.close)
        kubelet = await stack.enter_async_context(fake_kubelet(plane, folder, options.nodes))
        await fill(client, options.moves)
        evicting_s, evictions = await asyncio.to_thread(evicted, plane, folder)
        await all_ready(client, options.moves)
        before = len(plane.audited())
        found = await moved(plane, folder, client, options.moves, kubelet.pid)
        counts = requests_of(plane.audited()[before:], account("rescheduler"))
    counts["create", "podmigrations"] += options.moves  # by us, as a plan's execution would
    waited = sum(count for (verb, kind), count in counts.items() if kind != "events" and verb != "watch")
    events = sum(count for (_, kind), count in counts.items() if kind == "events")
    print(f"{evictions} evictions by {DESCHEDULER} in {evicting_s:.1f} s")
    print(f"{found.completed} of {options.moves} moves completed, {found.on_target} on target")
    for (verb, kind), count in sorted(counts.items()):
        print(f"  {verb:8}{kind:34}{count / options.moves:8.2f} per move")
    count = options.moves
    per_move_ms = {name: 1000 * seconds / count for name, seconds in found.processor_s.items()}
    in_all_ms = sum(per_move_ms.values())
    figures = [
        Figure(f"{count} moves", found.took_s, f"{DESCHEDULER}, {evictions}", evicting_s, "s", AT_MOST_TIME),
        Figure("requests per move", waited / count, "target", AT_MOST_REQUESTS, "", 1.0),
        Figure("Events per move", events / count, "requests", waited / count, ""),
        Figure("pods that missed the target", count - found.on_target, "pods", count, "", 0.0),
        Figure("CPU time per move", per_move_ms["daemon"], "all processes", in_all_ms, "ms"),
    ]
    for name, each in per_move_ms.items():
        print(f"  CPU time {name:33}{each:8.1f} ms per move")
    rounded = {name: round(each, 1) for name, each in per_move_ms.items()}
    save("executed_moves", str(count), figures, nodes=options.nodes, processor_ms_per_move=rounded)
    return print_figures(figures)


def account(name: str) -> str:
    return f"system:serviceaccount:{NAMESPACE}:{name}"


def kubeconfig_of(plane: ControlPlane, folder: Path, name: str) -> Path:
    """Return the kubeconfig of an account of its own, which may do everything: the audit log names it."""
    plane.kubectl("create", "serviceaccount", name, "-n", NAMESPACE)
    allowed = f"--serviceaccount={NAMESPACE}:{name}"
    plane.kubectl("create", "clusterrolebinding", name, "--clusterrole=cluster-admin", allowed)
    token = plane.kubectl("create", "token", name, "-n", NAMESPACE, "--duration=2h").strip()
    plane.write_kubeconfig(folder / f"{name}.kubeconfig", user=name, token=token)
    return folder / f"{name}.kubeconfig"


@contextlib.asynccontextmanager
async def fake_kubelet(plane: ControlPlane, folder: Path, nodes: int) -> Any:
    behaviour = folder / "behaviour.yaml"
    behaviour.write_text(json.dumps(BEHAVIOUR))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.testbed.fake_kubelet", "--kubeconfig", str(plane.kubeconfig),
        "--nodes", str(nodes), "--name", KUBELET, "--scenario", str(behaviour),
        stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        await process.wait()


async def fill(client: Client, pods: int) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    for number in range(pods // REPLICAS):
        spec = objects.pod_spec(KUBELET, terminationGracePeriodSeconds=1)
        await client.create(DEPLOYMENTS, objects.deployment(NAMESPACE, f"app-{number:03}", REPLICAS, spec))
    await all_ready(client, pods)


async def all_ready(client: Client, pods: int) -> list[PodRecord]:
    async with asyncio.timeout(WITHIN_S):
        while True:
            found = (await client.list(PODS, namespace=NAMESPACE)).items
            if len(found) == pods and all(pod.is_ready and not pod.is_terminating for pod in found):
                return sorted(found, key=lambda pod: pod.key)
            await asyncio.sleep(1)


def evicted(plane: ControlPlane, folder: Path) -> tuple[float, int]:
    """Run the descheduler once; return how long it took, and how many pods it evicted."""
    (folder / "policy.json").write_text(json.dumps(ALL_PODS))
    before = len(plane.audited())
    (port,) = free_ports(1)
    usage = run_measured(
        [
            str(located_peers().descheduler),
            f"--kubeconfig={kubeconfig_of(plane, folder, 'descheduler')}",
            f"--policy-config-file={folder / 'policy.json'}",
            "--descheduling-interval=0",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={folder / 'descheduler'}",
        ],
        folder / "descheduler.log",
    )
    asked = requests_of(plane.audited()[before:], account("descheduler"))
    return usage.wall_s, asked["create", "pods/eviction"]


@dataclass(frozen=True)
class Moved:
    took_s: float
    on_target: int
    completed: int
    processor_s: dict[str, float]
    """What each process took meanwhile, by its name."""


async def moved(plane: ControlPlane, folder: Path, client: Client, count: int, kubelet: int) -> Moved:
    """Move all pods; `kubelet` is the process that plays the nodes."""
    nodes = sorted(node.name for node in (await client.list(NODES)).items)
    place = {name: number for number, name in enumerate(nodes)}
    pods = (await all_ready(client, count))[:count]
    targets = {pod.key: nodes[(place[pod.node] + len(nodes) // 3) % len(nodes)] for pod in pods}
    config = folder / "config.json"
    plugin = {"name": "Rescheduler", "args": SETTINGS | {"enabledStrategies": []}}
    config.write_text(
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [{"pluginConfig": [plugin]}],
            }
        )
    )
    (port,) = free_ports(1)
    command = ("run", "--namespace", NAMESPACE, "--host", "127.0.0.1", "--port", str(port))
    kubeconfig = kubeconfig_of(plane, folder, "rescheduler")
    async with (
        _finishing(client, count) as finished,
        webhook(plane, folder, client) as webhook_process,
        rescheduler_process(kubeconfig, *command, "--config", str(config)) as daemon,
    ):
        await _leads(client)
        processes = {str(part): plane.process(part).pid for part in plane.options.wanted()} | {
            "fake kubelets": kubelet,
            "webhook": webhook_process.pid,
            "daemon": daemon.pid,
            "this benchmark": os.getpid(),
        }
        began_s = time.monotonic()
        used_before_s = {name: processor_s(pid) for name, pid in processes.items()}
        waiting = iter(pods)

        async def record() -> None:
            for pod in waiting:
                await client.create(POD_MIGRATIONS, _podmigration(pod, targets[pod.key]))

        await asyncio.gather(*(record() for _ in range(AT_ONCE)))
        phases = await finished()
        took_s = time.monotonic() - began_s
        used_s = {name: processor_s(pid) - used_before_s[name] for name, pid in processes.items()}
    there = Counter((pod.labels["app"], pod.node) for pod in await all_ready(client, count))
    wanted = Counter((pod.labels["app"], targets[pod.key]) for pod in pods)
    return Moved(took_s, (wanted & there).total(), phases.count(MigrationPhase.COMPLETED), used_s)


@contextlib.asynccontextmanager
async def webhook(plane: ControlPlane, folder: Path, client: Client) -> Any:
    """Run the webhook, as an installation does: it keeps ReplicaSets from creating surplus pods."""
    (port,) = free_ports(1)
    url = f"https://127.0.0.1:{port}"
    await install_webhook(client, NAMESPACE, UrlAddress(url))
    kubeconfig = kubeconfig_of(plane, folder, "rescheduler-webhook")
    at = ("--namespace", NAMESPACE, "--host", "127.0.0.1", "--port", str(port), "--extender-port", "0")
    async with rescheduler_process(kubeconfig, "webhook", *at, "--url", url) as process:
        async with asyncio.timeout(WITHIN_S):
            while not await _is_trusted(client):  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        yield process


async def _is_trusted(client: Client) -> bool:
    """Return whether the webhook has told the API server whom to trust, which it does last."""
    found = (await client.list(VALIDATING_WEBHOOKS, labels=WEBHOOK_LABEL_SELECTOR)).items
    return all(each["clientConfig"].get("caBundle") for item in found for each in item["webhooks"])


async def _leads(client: Client) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not (await client.list(LEASES, namespace=NAMESPACE)).items:  # noqa: ASYNC110
            await asyncio.sleep(0.2)


@contextlib.asynccontextmanager
async def _finishing(
    client: Client, count: int
) -> AsyncIterator[Callable[[], Awaitable[list[MigrationPhase]]]]:
    """Yield a function that returns the phases of all migrations once they are finished.

    It watches them: to list hundreds of them again and again would be a good part of the load.
    """
    phases: dict[str, MigrationPhase] = {}
    all_over = asyncio.Event()

    def look(_old: Object | None, new: Object | None) -> None:
        if new is not None and nested_field(new, "status", "finishedAt"):
            phases[object_key(new)] = decode_migration(new).status.phase
        if len(phases) == count:
            all_over.set()

    async def finished() -> list[MigrationPhase]:
        async with asyncio.timeout(WITHIN_S):
            await all_over.wait()
        return list(phases.values())

    informer = Informer(client, POD_MIGRATIONS)
    async with informer.running():
        await informer.synced()
        informer.subscribe(look)
        yield finished


def _podmigration(pod: PodRecord, target: str) -> dict[str, Any]:
    return {
        "apiVersion": POD_MIGRATIONS.api_version,
        "kind": POD_MIGRATIONS.kind,
        "metadata": {"namespace": NAMESPACE, "name": pod.name, "finalizers": [FINALIZER]},
        "spec": {"pod": {"name": pod.name, "uid": pod.uid}, "sourceNode": pod.node, "targetNode": target},
    }


def requests_of(audited: list[dict[str, Any]], user: str) -> Counter[tuple[str, str]]:
    """Count the requests of an account by verb and kind; without lists and watches, which moves don't cause,
    and without Leases and the status of the daemon, which depend on time."""
    counts: Counter[tuple[str, str]] = Counter()
    for each in audited:
        what = each.get("objectRef") or {}
        kind = "/".join(filter(None, (what.get("resource", ""), what.get("subresource", ""))))
        if (
            each["user"]["username"] == user
            and each["verb"] not in {"watch", "list"}
            and kind not in {"", "leases", "configmaps"}
            and not each.get("requestURI", "").endswith("dryRun=All")
        ):
            counts[each["verb"], kind] += 1
    return counts


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
