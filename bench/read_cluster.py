"""Read all pods of a real API server into a cache, compared with curl for the same bytes in the same run.

    python -m bench.read_cluster [--pods 30000] [--nodes 1000] [--repeat 3] [--only protobuf] [--gate]

Starts a control plane of its own and fills it. Then, in turn: curl, which throws away what it gets, plain
and compressed; and a fresh process whose informer reads the same answer over the same TLS into its cache,
from the first byte sent until the cache is synced. The ratio is between the best of each. With --gate the
exit code is 1 if protobuf takes more than 1.6 times what curl takes, or keeps more than 2 KB per pod.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any, NamedTuple

from bench.decode import machine, resident_bytes
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.kube.informer import Informer
from tests.e2e.client_truth.encodings import JSON, PROTOBUF, only
from tests.testbed import ControlPlane, Options, Part
from tests.testbed.filler.processes import Filling, fill_nodes, fill_pods

AT_MOST = 1.6
KEPT_AT_MOST = 2048
ENCODINGS = {"protobuf": PROTOBUF, "json": JSON}
PATH = "/api/v1/pods?resourceVersion=0&limit=500"
"""What an informer asks for first; from its cache the server gives all at once, whatever the limit."""


class Fetched(NamedTuple):
    """What curl took."""

    wall_s: float
    processor_s: float
    size: int


class Cached(NamedTuple):
    """What our informer took."""

    wall_s: float
    processor_s: float
    pods: int
    kept_bytes: int
    peak_bytes: int


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.read_cluster", description=__doc__.splitlines()[0])
    parser.add_argument("--pods", type=int, default=30_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", choices=ENCODINGS, help="one encoding instead of all")
    parser.add_argument("--gate", action="store_true", help="exit 1 if the aim is missed")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--kubeconfig", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        print(json.dumps(asyncio.run(cached(options.measure, options.kubeconfig))))
        return 0
    print(machine())
    parts = Options(controller_manager=False, scheduler=False, audit=False)
    with tempfile.TemporaryDirectory() as folder, ControlPlane(Path(folder), parts) as plane:
        filled(plane, options.nodes, options.pods)
        names = [options.only] if options.only else list(ENCODINGS)
        missed = [fault for name in names for fault in compared(plane, name, options.pods, options.repeat)]
    print("\n".join(missed) if missed else "all aims reached")
    return 1 if missed and options.gate else 0


def filled(plane: ControlPlane, nodes: int, pods: int, *, owners: bool = False) -> None:
    filling = Filling(plane.kubeconfig, nodes=nodes, pods=pods, etcd=plane.etcd_url, owners=owners)
    began = time.monotonic()
    asyncio.run(fill_nodes(filling))
    halfway = time.monotonic()
    fill_pods(filling)
    print(f"{nodes} nodes made in {halfway - began:.0f} s, {pods} pods in {time.monotonic() - halfway:.0f} s")
    for part in (Part.API_SERVER, Part.ETCD):
        status = Path(f"/proc/{plane.process(part).pid}/status").read_text()
        resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        print(f"{part}: {int(resident.split()[1]) >> 10} MB resident", flush=True)


def compared(plane: ControlPlane, name: str, pods: int, repeat: int) -> list[str]:
    plainly, packed, by_us = [], [], []
    for _ in range(repeat):
        plainly.append(fetched(plane, ENCODINGS[name]))
        packed.append(fetched(plane, ENCODINGS[name], "--compressed"))
        by_us.append(in_fresh_process(name, plane.kubeconfig))
    assert {each.pods for each in by_us} == {pods}
    plain, compressed, ours = min(plainly), min(packed), min(by_us)
    ratio, kept = ours.wall_s / min(plain, compressed).wall_s, ours.kept_bytes / pods
    for title, curl in (("curl", plain), ("curl, gzip", compressed)):
        size = f"{curl.size / 2**20:.1f} MB"
        print(f"{name:9}{title:11}{size:>9} {curl.wall_s:6.2f} s, {curl.processor_s:.2f} s busy")
    print(
        f"{name:9}{'ours':20} {ours.wall_s:6.2f} s, {ours.processor_s:.2f} s busy, {ratio:.2f} times curl, "
        f"{kept:.0f} B kept per pod, peak {ours.peak_bytes >> 20} MB",
        flush=True,
    )
    missed = []
    if name == "protobuf" and ratio > AT_MOST:
        missed.append(f"{name} takes {ratio:.2f} times what curl takes; the aim is {AT_MOST:g}")
    if kept > KEPT_AT_MOST:
        missed.append(f"{name} keeps {kept:.0f} bytes per pod; the aim is {KEPT_AT_MOST}")
    return missed


def fetched(plane: ControlPlane, accept: str, *flags: str) -> Fetched:
    before = _processor_s(RUSAGE_CHILDREN)
    command = ["curl", "--silent", "--show-error", "--fail", "--output", "/dev/null", "--noproxy", "*"]
    command += ["--cacert", str(plane.ca_certificate), "--header", f"Accept: {accept}"]
    command += ["--header", f"Authorization: Bearer {plane.admin_token}"]
    command += ["--write-out", "%{time_total} %{size_download}", *flags, plane.server + PATH]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    wall_s, size = done.stdout.split()
    return Fetched(float(wall_s), _processor_s(RUSAGE_CHILDREN) - before, int(size))


def in_fresh_process(name: str, kubeconfig: Path) -> Cached:
    command = [sys.executable, "-m", "bench.read_cluster", "--measure", name, "--kubeconfig", str(kubeconfig)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return Cached(*json.loads(answer.stdout))


async def cached(name: str, kubeconfig: Path) -> Cached:
    client = Client(HttpTransport(load_cluster_access(kubeconfig)), timeout_s=300.0)
    informer: Informer[Any] = Informer(client, only(ENCODINGS[name], PODS))
    resident = resident_bytes()
    began, processor_s = time.monotonic(), _processor_s(RUSAGE_SELF)
    async with informer.running():
        await informer.synced()
        took_s, processor_s = time.monotonic() - began, _processor_s(RUSAGE_SELF) - processor_s
        kept = resident_bytes() - resident
        result = Cached(took_s, processor_s, len(informer), kept, getrusage(RUSAGE_SELF).ru_maxrss << 10)
    await client.close()
    return result


def _processor_s(who: int) -> float:
    usage = getrusage(who)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
