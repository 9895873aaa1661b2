"""How long checks of a big cluster hold up the event loop, on which the Lease is renewed and pods are moved.

    python -m bench.event_loop [--nodes 5000] [--pods 150000] [--checks 4]

While checks run and pods change, a task asks again and again how much processor time has passed since it last
had its turn: that is what it would have waited on a machine that has nothing else to do. Garbage is
collected as in the daemon.
"""

import argparse
import asyncio
import gc
import sys
import time
from datetime import UTC, datetime
from typing import Any

import msgspec

from bench.clusters import NOW_S, BigCluster, big_cluster, usage_of
from rescheduler.cli.execution import short_collections
from rescheduler.cluster.sources.cluster_kinds import CLUSTER_KINDS
from rescheduler.cluster.sources.watched_cluster import WatchedCluster
from rescheduler.cluster.sources.watched_objects import WatchedObjects
from rescheduler.cluster.usage_readings import UsageByName, UsageOutcome, UsageReadings
from rescheduler.config.policy import Policy, UsageSource
from rescheduler.daemon.checker import Checker
from rescheduler.kube.client import Client
from rescheduler.kube.transport import InProcessTransport
from rescheduler.migrations.runtime_state import RuntimeState, RuntimeStateHolder, SteeringStatus

TURN_S = 0.002
CHANGES_PER_S = 500


class Measured:
    """A source of usage that knows everything at once."""

    def __init__(self, pods: UsageByName) -> None:
        self._pods = pods

    async def read(self) -> UsageOutcome:
        return UsageReadings(UsageSource.METRICS, self._pods)

    async def close(self) -> None:
        pass


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.event_loop", description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=150_000)
    parser.add_argument("--checks", type=int, default=4)
    options = parser.parse_args(arguments)
    asyncio.run(measure(big_cluster(options.nodes, options.pods), options.checks))
    return 0


@short_collections()
async def measure(cluster: BigCluster, checks: int) -> tuple[float, float]:
    """Return the processor time of the last check and the longest wait: during all checks but the first, and
    while the state is frozen for a move."""

    def now() -> datetime:
        return datetime.fromtimestamp(NOW_S, UTC)

    client = Client(InProcessTransport(no_server))
    known = WatchedCluster(client, WatchedObjects(client), now)
    known._state = cluster.state()  # noqa: SLF001 - as if it had been listed
    runtime = RuntimeStateHolder(RuntimeState(Policy(), SteeringStatus(steers=True)))
    loop = Checker(client, known, runtime, now=now, usage=Measured(usage_of(cluster)))
    waits: list[float] = []
    background = [asyncio.create_task(take_turns(waits)), asyncio.create_task(change(known, cluster))]
    longest_s = 0.0
    gc.collect()
    for number in range(1, checks + 1):
        waits.clear()
        began_s = time.process_time()
        made = await loop.check()
        took_s = time.process_time() - began_s
        longest = [f"{1000 * wait:.0f}" for wait in sorted(waits, reverse=True)[:4]]
        longest_s = max(longest_s, *waits) if number > 1 else 0.0
        print(
            f"check {number}: {took_s:.1f} s in all, "
            f"{len(made.plan.moves)} moves; longest waits {', '.join(longest)} ms"
        )
    waits.clear()
    began_s = time.process_time()
    await known.refresh()
    known.present()
    wait_s = max(waits, default=0.0)
    print(
        f"a snapshot before a move: {1000 * (time.process_time() - began_s):.0f} ms in a thread; "
        f"longest wait {1000 * wait_s:.0f} ms"
    )
    longest_s = max(longest_s, wait_s)
    for task in background:
        task.cancel()
    return took_s, longest_s


async def no_server(*_: Any) -> Any:
    raise ConnectionError


async def take_turns(waits: list[float]) -> None:
    while True:
        began_s = time.process_time()
        await asyncio.sleep(TURN_S)
        waits.append(time.process_time() - began_s)


async def change(known: WatchedCluster, cluster: BigCluster) -> None:
    """Report changes as an informer does."""
    pods = next(kind for kind in CLUSTER_KINDS if kind.kind == "Pod")
    handler, number = known._handler(pods), 0  # noqa: SLF001
    while True:
        await asyncio.sleep(10 / CHANGES_PER_S)
        for _ in range(10):
            number += 1
            pod = cluster.pods[number * 7919 % len(cluster.pods)]
            handler(pod, msgspec.structs.replace(pod, resource_version=str(number)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
