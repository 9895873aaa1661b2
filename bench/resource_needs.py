"""Measure what daemon and webhook need at several sizes of a cluster: the chart's requests and limits.

    python -m bench.resource_needs [--nodes 100 1000 5000] [--pods-per-node 30] [--checks 3]

Starts a control plane of its own, fills it, and runs `rescheduler run --dry-run` and `rescheduler webhook` as
processes: as in a cluster in which nothing changes. Memory is the highest resident size. Processor time is
given for the start, until all is read and the first plan is made, and per minute afterwards, with a check
every 30 s.
"""

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.testbed import ControlPlane, Options, Part
from tests.testbed.filler.processes import Filling, fill_nodes, fill_pods
from tests.testbed.ports import free_ports
from tests.testbed.readiness import until

__all__ = ["main"]

_READY_WITHIN_S = 300.0
_TICKS = os.sysconf("SC_CLK_TCK")
_CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: Rescheduler
    args: {reschedulingInterval: 30s, usageSource: requests}
"""


class Needs(NamedTuple):
    peak_bytes: int
    start_s: float
    """Processor time until it is ready, or until the first plan."""
    per_minute_s: float


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.resource_needs", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 1000, 5000])
    parser.add_argument("--pods-per-node", type=int, default=30)
    parser.add_argument("--checks", type=int, default=3, help="how many checks to watch (%(default)s)")
    options = parser.parse_args(arguments)
    print("| nodes | pods | program | memory, peak | processor time, start | per minute |")
    print("|--:|--:|---|--:|--:|--:|")
    for nodes in options.nodes:
        pods = nodes * options.pods_per_node
        for name, needs in _measured(nodes, pods, options.checks):
            print(
                f"| {nodes:,} | {pods:,} | {name} | {needs.peak_bytes >> 20} MiB | {needs.start_s:.1f} s | "
                f"{needs.per_minute_s:.1f} s |",
                flush=True,
            )
    return 0


def _measured(nodes: int, pods: int, checks: int) -> Iterator[tuple[str, Needs]]:
    with tempfile.TemporaryDirectory(prefix="resource-needs-") as name:
        folder = Path(name)
        configuration = folder / "rescheduler.yaml"
        configuration.write_text(_CONFIGURATION)
        started = Options(controller_manager=False, scheduler=False, audit=False)
        with ControlPlane(folder / "run", started) as plane:
            filling = Filling(plane.kubeconfig, nodes=nodes, pods=pods, etcd=plane.etcd_url)
            asyncio.run(fill_nodes(filling))
            fill_pods(filling)
            plane.restart(Part.API_SERVER)  # it reads what was written into etcd
            plane.kubectl("create", "namespace", "rescheduler")
            install = [_program(), "manifests"]
            shown = subprocess.run(install, capture_output=True, text=True, check=True).stdout
            plane.kubectl("apply", "--server-side", "-f", "-", stdin=shown)
            common = ["--kubeconfig", str(plane.kubeconfig), "--config", str(configuration)]
            common += ["--namespace", "rescheduler"]
            port, webhook, extender = free_ports(3)
            run = [_program(), "run", "--dry-run", f"--port={port}", *common]
            yield "daemon", _needs(run, lambda: _plans(port) >= 1, lambda: _plans(port) >= 1 + checks)
            serve = [_program(), "webhook", f"--port={webhook}", f"--extender-port={extender}", *common]
            began = time.monotonic()
            yield (
                "webhook",
                _needs(serve, lambda: _listens(webhook), lambda: time.monotonic() - began > 30.0 * checks),
            )


def _needs(command: list[str], is_ready: Callable[[], bool], is_over: Callable[[], bool]) -> Needs:
    with _running(command) as process:
        if not until(is_ready, _READY_WITHIN_S):
            raise TimeoutError(f"{command[1]} is not ready after {_READY_WITHIN_S:.0f} s")
        start_s, began = _processor_s(process.pid), time.monotonic()
        until(is_over, 60.0 * 10)
        minutes = (time.monotonic() - began) / 60
        return Needs(_peak_bytes(process.pid), start_s, (_processor_s(process.pid) - start_s) / minutes)


@contextmanager
def _running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def _plans(port: int) -> int:
    """Return the number of finished checks, by the daemon's own metrics."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
    except OSError:
        return 0
    found = re.findall(r"^rescheduler_checks_total(?:\{.*\})? (\S+)$", text, re.MULTILINE)
    return int(sum(map(float, found)))


def _listens(port: int) -> bool:
    import ssl  # noqa: PLC0415 - only here

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(f"https://127.0.0.1:{port}/readyz", timeout=5, context=context) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _peak_bytes(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"^VmHWM:\s+(\d+) kB$", text, re.MULTILINE)[0]) << 10


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _program() -> str:
    return str(Path(sys.executable).with_name("rescheduler"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
