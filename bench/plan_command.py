"""`rescheduler plan` against a real API server, from start to printed plan, beside curl and descheduler.

    python -m bench.plan_command [--pods 30000] [--nodes 1000] [--repeat 3] [--gate]

Starts a control plane of its own and fills it. Then, in turn: curl, which fetches all pods as protobuf and
throws them away, plain and compressed; descheduler's dry run of LowNodeUtilization, unmodified, once from
start to end; and the command, which reads everything it needs and prints a plan. The ratios are between the
best of each; those of the medians stand beside them, because on a busy machine the best of few runs says
little. With --gate the exit code is 1 if a target is missed.
"""

import argparse
import asyncio
import compileall
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import kubevalues
import rescheduler
from bench.decode import machine
from bench.read_cluster import PATH
from bench.verdicts import Figure, Usage, print_figures, run_measured, save
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.api_resources import merge_patch
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from tests.e2e.client_truth.encodings import PROTOBUF
from tests.testbed import ControlPlane, Options
from tests.testbed.cache import located_peers
from tests.testbed.filler.processes import Filling, fill_nodes, fill_pods
from tests.testbed.ports import free_ports

__all__ = ["LOW_NODE_UTILIZATION", "filled", "main"]

PROPOSES_MOVES: Final = 3
AT_MOST_CURL: Final = 1.0
LARGE: Final = 150_000
AT_MOST_DESCHEDULER: Final = {False: 0.7, True: 0.4}
"""By whether the cluster is large."""
OURS, DESCHEDULER = "rescheduler plan", "descheduler 0.36"
LOW_NODE_UTILIZATION: Final = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "DeschedulerPolicy",
    "profiles": [
        {
            "name": "balance",
            "pluginConfig": [
                {
                    "name": "LowNodeUtilization",
                    "args": {
                        "thresholds": {"cpu": 25, "memory": 25, "pods": 25},
                        "targetThresholds": {"cpu": 35, "memory": 35, "pods": 35},
                    },
                },
                {"name": "DefaultEvictor", "args": {"nodeFit": True}},
            ],
            "plugins": {"balance": {"enabled": ["LowNodeUtilization"]}},
        }
    ],
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.plan_command", description=__doc__.splitlines()[0])
    parser.add_argument("--pods", type=int, default=30_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--gate", action="store_true", help="exit 1 if a target is missed")
    options = parser.parse_args(arguments)
    print(machine())
    for package in (kubevalues, rescheduler):  # as pip does when it installs the program
        compileall.compile_dir(package.__path__[0], quiet=1)
    parts = Options(controller_manager=False, scheduler=False, audit=False)
    with tempfile.TemporaryDirectory() as folder, ControlPlane(Path(folder), parts) as plane:
        filled(plane, options.nodes, options.pods)
        is_reached = compared(plane, Path(folder), options)
    return 1 if options.gate and not is_reached else 0


def filled(plane: ControlPlane, nodes: int, pods: int) -> None:
    """Add ReplicaSets, so that pods have owners and can move."""
    filling = Filling(plane.kubeconfig, nodes=nodes, pods=pods, etcd=plane.etcd_url, owners=True)
    began = time.monotonic()
    asyncio.run(fill_nodes(filling))
    fill_pods(filling)
    asyncio.run(untainted(plane))
    print(f"{nodes} nodes and {pods} pods made in {time.monotonic() - began:.0f} s", flush=True)


async def untainted(plane: ControlPlane) -> None:
    """New nodes are tainted until the controller manager has seen them, which does not run here."""
    client = Client(HttpTransport(load_cluster_access(plane.kubeconfig)), timeout_s=60.0)
    for node in (await client.list(NODES)).items:
        await client.patch(NODES, node.name, merge_patch({"spec": {"taints": None}}))
    await client.close()


def compared(plane: ControlPlane, folder: Path, options: argparse.Namespace) -> bool:
    """Run each in turn, so that all have the same share of a busy machine."""
    runs: dict[str, Callable[[], Usage]] = {
        "curl": lambda: fetched(plane, folder),
        "curl, gzip": lambda: fetched(plane, folder, "--compressed"),
        DESCHEDULER: lambda: descheduled(plane, folder),
        OURS: lambda: planned(plane, folder),
    }
    found: dict[str, list[Usage]] = {name: [] for name in runs}
    for _ in range(options.repeat):
        for name, run in runs.items():
            found[name].append(run())
            print(f"{name:18}{_described(found[name][-1])}", flush=True)
    best = {name: min(usages) for name, usages in found.items()}
    medians = {name: statistics.median(each.wall_s for each in usages) for name, usages in found.items()}
    ours, peer = best[OURS], best[DESCHEDULER]
    at_most = AT_MOST_DESCHEDULER[options.pods >= LARGE]
    figures = [
        Figure("time to a plan", ours.wall_s, DESCHEDULER, peer.wall_s, "s", at_most),
        Figure("the same, by the medians", medians[OURS], DESCHEDULER, medians[DESCHEDULER], "s"),
        Figure("time to a plan", ours.wall_s, "curl", best["curl"].wall_s, "s", AT_MOST_CURL),
        Figure("the same, by the medians", medians[OURS], "curl", medians["curl"], "s"),
        Figure("time to a plan", ours.wall_s, "curl, gzip", best["curl, gzip"].wall_s, "s"),
        Figure("processor time", ours.processor_s, DESCHEDULER, peer.processor_s, "s"),
        Figure("peak memory", ours.peak_mb, DESCHEDULER, peer.peak_mb, "MB"),
    ]
    save("plan_command", f"{options.pods}", figures, nodes=options.nodes, pods=options.pods)
    return print_figures(figures)


def _described(usage: Usage) -> str:
    return f"{usage.wall_s:7.2f} s, {usage.processor_s:.2f} s busy, {usage.peak_mb:.0f} MB"


def fetched(plane: ControlPlane, folder: Path, *flags: str) -> Usage:
    command = ["curl", "--silent", "--show-error", "--fail", "--output", "/dev/null", "--noproxy", "*"]
    command += ["--cacert", str(plane.ca_certificate), "--header", f"Accept: {PROTOBUF}"]
    command += ["--header", f"Authorization: Bearer {plane.admin_token}", *flags, plane.server + PATH]
    return run_measured(command, folder / "curl.log")


def descheduled(plane: ControlPlane, folder: Path) -> Usage:
    policy = folder / "policy.json"
    policy.write_text(json.dumps(LOW_NODE_UTILIZATION))
    (port,) = free_ports(1)
    return run_measured(
        [
            str(located_peers().descheduler),
            f"--kubeconfig={plane.kubeconfig}",
            f"--policy-config-file={policy}",
            "--descheduling-interval=0",  # once, then it ends
            "--dry-run",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={folder / 'descheduler'}",
        ],
        folder / "descheduler.log",
    )


def planned(plane: ControlPlane, folder: Path) -> Usage:
    """Run it as a user does. The filler's pods are new, so `--now` is an hour later."""
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    command = [str(Path(sys.executable).with_name("rescheduler")), "plan", "--kubeconfig"]
    command += [str(plane.kubeconfig), "--now", later]
    return run_measured(command, folder / "plan.log", accepted=(0, PROPOSES_MOVES))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
