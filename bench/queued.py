"""What migrations cost that only wait for their turn: processor time, and blocks of the event loop.

    python -m bench.queued [--sizes 0 1000 5000 10000] [--gate]

A whole daemon on a simulated cluster, in virtual time: ten migrations run and never end, the others wait.
Then all that wait are deleted at once. Numbers include the simulated API server; the first row is what that
and the daemon cost with an empty queue. A block is the processor time of one callback of the event loop, on
which the Lease is renewed.
"""

import argparse
import asyncio
import contextlib
import gc
import logging
import sys
import time
from asyncio import events
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from bench.decode import machine
from kubesim import ApiServer
from kubesim.running_cluster import EPOCH
from kubesim.virtual_time import LoopClock, VirtualLoop, run_virtual
from rescheduler.api.podmigration import MigrationPhase
from rescheduler.api.podmigration_crd import podmigration_crd
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.config.policy import Configuration, Policy, UsageSource
from rescheduler.daemon.daemon_process import Daemon, DaemonOptions
from rescheduler.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, LEASES, NAMESPACES, merge_patch
from rescheduler.kube.client import Client
from rescheduler.kube.transport import InProcessTransport
from tests.testbed.fake_kubelet.nodes import node_object, node_shapes

NODE_COUNT = 200
AT_ONCE = 10
STEADY_S = 300.0
NAMESPACE = "queue"
MOST_CPU_SHARE = 0.01
MOST_BLOCK_S = 0.05


@dataclass(frozen=True)
class Measured:
    queued: int
    steady_share: float
    """Processor time per second of virtual time, while nothing happens."""
    steady_block_s: float
    created_cpu_s: float
    created_block_s: float
    deleted_cpu_s: float
    deleted_block_s: float
    running: int
    lease_kept: bool


class Meter:
    def __init__(self) -> None:
        self.longest_s = 0.0
        self.in_threads_s = 0.0
        """What would be done in a thread, and in virtual time is done in line."""
        self._began_s = time.process_time()

    @property
    def cpu_s(self) -> float:
        return time.process_time() - self._began_s


@contextlib.contextmanager
def metered() -> Iterator[Meter]:
    """Every callback of the event loop, while the body runs."""
    meter, run, executor = Meter(), events.Handle._run, VirtualLoop.run_in_executor  # noqa: SLF001

    def timed(handle: events.Handle) -> None:
        began_s, in_threads_s = time.thread_time(), meter.in_threads_s
        run(handle)
        took_s = time.thread_time() - began_s - (meter.in_threads_s - in_threads_s)
        meter.longest_s = max(meter.longest_s, took_s)

    def in_thread(*arguments: Any) -> Any:
        began_s = time.thread_time()
        try:
            return executor(*arguments)
        finally:
            meter.in_threads_s += time.thread_time() - began_s

    events.Handle._run = timed  # type: ignore[method-assign]  # noqa: SLF001
    VirtualLoop.run_in_executor = in_thread  # type: ignore[method-assign]
    try:
        yield meter
    finally:
        events.Handle._run = run  # type: ignore[method-assign]  # noqa: SLF001
        VirtualLoop.run_in_executor = executor  # type: ignore[method-assign]


async def measured(queued: int) -> Measured:
    server = ApiServer(clock=LoopClock(EPOCH), seed=7)
    transport = InProcessTransport(server.handle)
    client = Client(transport)
    names = await _filled(client, server, queued + AT_ONCE)
    # What the simulated server holds is no concern of the collector in a real daemon.
    gc.collect()
    gc.freeze()
    policy = Policy(
        max_concurrent_migrations=AT_ONCE,
        migration_timeout=timedelta(hours=9),
        usage_source=UsageSource.REQUESTS,
    )
    options = DaemonOptions(lease_at=f"{NAMESPACE}/rescheduler", me="bench", now=server.clock.now)
    daemon = Daemon(
        lambda observer: Client(transport, observer=observer), Configuration(policy=policy), options
    )
    ended = asyncio.Event()
    task = asyncio.create_task(daemon.run_until(ended))
    await asyncio.sleep(60)
    with metered() as created:
        for name in names:
            await client.create(POD_MIGRATIONS, _wanted(name, *names[name]))
        await asyncio.sleep(60)
        made = created.cpu_s, created.longest_s
    with metered() as steady:
        await asyncio.sleep(STEADY_S)
        rested = steady.cpu_s, steady.longest_s
    phases = [item.get("status", {}).get("phase") for item in (await client.list(POD_MIGRATIONS)).items]
    with metered() as deleted:
        for name in list(names)[AT_ONCE:]:
            await client.delete(POD_MIGRATIONS, f"{NAMESPACE}/{name}")
        await asyncio.sleep(60)
        gone = deleted.cpu_s, deleted.longest_s
    lease = await client.get(LEASES, f"{NAMESPACE}/rescheduler")
    ended.set()
    await task
    await transport.close()
    gc.unfreeze()
    return Measured(
        queued,
        rested[0] / STEADY_S,
        rested[1],
        *made,
        *gone,
        running=phases.count(MigrationPhase.IN_PROGRESS),
        lease_kept=lease["spec"].get("leaseTransitions", 0) == 0,
    )


async def _filled(client: Client, server: ApiServer, count: int) -> dict[str, tuple[str, str]]:
    """Pods without a controller, by name: uid and node."""
    await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    await client.create(CUSTOM_RESOURCE_DEFINITIONS, podmigration_crd())
    shapes = list(node_shapes(NODE_COUNT))
    for shape in shapes:
        await client.create(NODES.as_json, node_object(shape, "simulated", server.clock.now()))
        # No controller is there that would do it.
        await client.patch(NODES.as_json, shape.name, merge_patch({"spec": {"taints": None}}))
    found = {}
    for number in range(count):
        name, node = f"pod-{number:05}", shapes[number % NODE_COUNT].name
        pod: dict[str, Any] = {
            "metadata": {"namespace": NAMESPACE, "name": name},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "app"}]},
        }
        made = await client.create(PODS, pod)
        found[name] = made.uid, node
    return found


def _wanted(name: str, uid: str, node: str) -> dict[str, Any]:
    return {
        "apiVersion": POD_MIGRATIONS.api_version,
        "kind": POD_MIGRATIONS.kind,
        "metadata": {"namespace": NAMESPACE, "name": name},
        "spec": {"pod": {"name": name, "uid": uid}, "sourceNode": node},
    }


def broken_promises(base: Measured, found: Measured) -> list[str]:
    promises = {
        f"{MOST_CPU_SHARE:.0%} of a core at most": found.steady_share - base.steady_share <= MOST_CPU_SHARE,
        f"no block above {1000 * MOST_BLOCK_S:.0f} ms": found.steady_block_s <= MOST_BLOCK_S,
        "the Lease is kept": found.lease_kept,
        "those that may begin do": found.running == AT_ONCE or not found.queued,
    }
    return [promise for promise, holds in promises.items() if not holds]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.queued", description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[0, 1_000, 5_000, 10_000])
    parser.add_argument("--gate", action="store_true", help="exit 1 if a promise is broken")
    options = parser.parse_args(arguments)
    logging.disable(logging.WARNING)
    print(machine())
    print(
        f"{'queued':>7} {'steady':>8} {'block':>9} | {'created':>9} {'block':>9} |"
        f" {'deleted':>9} {'block':>9}"
    )
    rows = []
    for size in options.sizes:
        found = run_virtual(measured(size))
        rows.append(found)
        print(
            f"{size:7} {found.steady_share:8.2%} {1000 * found.steady_block_s:6.1f} ms |"
            f" {found.created_cpu_s:7.1f} s {1000 * found.created_block_s:6.1f} ms |"
            f" {found.deleted_cpu_s:7.1f} s {1000 * found.deleted_block_s:6.1f} ms"
        )
    broken = [
        f"{each.queued}: not so that {words}" for each in rows for words in broken_promises(rows[0], each)
    ]
    print("\n".join(broken) or "all promises are kept")
    return 1 if options.gate and broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
