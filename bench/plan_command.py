"""`rescheduler plan` against a real API server, from process start to printed plan, compared with curl.

    python -m bench.plan_command [--pods 30000] [--nodes 1000] [--repeat 3] [--gate]

Starts a control plane of its own and fills it. Then, in turn: curl, which fetches all pods as protobuf and
throws them away, plain and compressed; and the command, which reads everything it needs and prints a plan.
The ratio is between the best of each; that of the medians stands beside it, because on a busy machine the
best of curl's few reads says little. With --gate the exit code is 1 if the command takes more than 2.5
times what plain curl takes.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import NamedTuple

from bench.decode import machine
from bench.read_cluster import Fetched, fetched
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.api_resources import merge_patch
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from tests.e2e.client_truth.encodings import PROTOBUF
from tests.testbed import ControlPlane, Options
from tests.testbed.filler.processes import Filling, fill_nodes, fill_pods

AT_MOST = 2.5
PROPOSES_MOVES = 3


class Planned(NamedTuple):
    wall_s: float
    processor_s: float
    moves: int


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.plan_command", description=__doc__.splitlines()[0])
    parser.add_argument("--pods", type=int, default=30_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--gate", action="store_true", help="exit 1 if the aim is missed")
    options = parser.parse_args(arguments)
    print(machine())
    parts = Options(controller_manager=False, scheduler=False, audit=False)
    with tempfile.TemporaryDirectory() as folder, ControlPlane(Path(folder), parts) as plane:
        filled(plane, options.nodes, options.pods)
        ratio = compared(plane, options.repeat)
    reached = ratio <= AT_MOST
    print(f"{ratio:.2f} times curl; the aim is {AT_MOST:g}: {'reached' if reached else 'missed'}")
    return 1 if options.gate and not reached else 0


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


def compared(plane: ControlPlane, repeat: int) -> float:
    plainly, packed, by_us = [], [], []
    for _ in range(repeat):
        plainly.append(fetched(plane, PROTOBUF))
        packed.append(fetched(plane, PROTOBUF, "--compressed"))
        by_us.append(planned(plane.kubeconfig))
    plain, compressed, ours = min(plainly), min(packed), min(by_us)
    for title, curl in (("curl", plain), ("curl, gzip", compressed)):
        print(f"{title:12}{curl.size / 2**20:7.1f} MB {curl.wall_s:6.2f} s, {curl.processor_s:.2f} s busy")
    print(
        f"{'plan':12}{ours.moves:4} moves {ours.wall_s:8.2f} s, {ours.processor_s:.2f} s busy, "
        f"{ours.wall_s / compressed.wall_s:.2f} times curl with gzip",
        flush=True,
    )
    print(f"by the medians: {_median_s(by_us) / _median_s(plainly):.2f} times curl")
    return ours.wall_s / plain.wall_s


def _median_s(runs: Sequence[Planned | Fetched]) -> float:
    return statistics.median(each.wall_s for each in runs)


def planned(kubeconfig: Path) -> Planned:
    """Run it as a user does. The filler's pods are new, so `--now` is an hour later."""
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    command = [
        Path(sys.executable).with_name("rescheduler"),
        "plan",
        "--kubeconfig",
        kubeconfig,
        "--now",
        later,
    ]
    began, busy = time.monotonic(), _processor_s()
    done = subprocess.run([*map(str, command), "-o", "json"], capture_output=True, text=True, check=False)
    took_s, processor_s = time.monotonic() - began, _processor_s() - busy
    assert done.returncode in {0, PROPOSES_MOVES}, done.stderr
    return Planned(took_s, processor_s, len(json.loads(done.stdout)["moves"]))


def _processor_s() -> float:
    usage = getrusage(RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
