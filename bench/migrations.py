"""The cost of moving pods, and whether clients notice: 200 migrations, 50 at a time, on 100 simulated nodes.

    python -m bench.migrations [--moves 200] [--at-once 50] [--nodes 100] [--gate]

The real controller moves two pods of each of 100 Deployments, in virtual time; a request takes 1 to 20 ms, a
pod 10 s to start and 2 s to end. Beside it the same pods are evicted as a descheduler does it: through the
Eviction API, as many at a time, each until its workload is whole again. An observer follows all pods:
ready-seconds lost are the time of each workload below its replica count, times how far below.
With --gate the exit code is 1 if a promise is broken.
"""

import argparse
import asyncio
import contextlib
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from bench.decode import machine
from bench.moving_cluster import NAMESPACE, WRITES, Cluster, Ledger, Move, ReadinessMonitor, now_s
from kubesim.virtual_time import run_virtual
from rescheduler.api.podmigration import (
    ControllerReference,
    Handover,
    Migration,
    MigrationPhase,
    decode_migration,
)
from rescheduler.api.well_known_names import FINALIZER
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS, WatchedObjects
from rescheduler.config.policy import Policy
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.migrations.controller.migration_controller import MigrationController
from rescheduler.migrations.observation import RevalidationOutcome, RevalidationResult
from rescheduler.migrations.runtime_state import RuntimeState, RuntimeStateHolder

MOST_WRITES = 11
MOST_READS = 3
"""Of single objects: the copy and its node, before the eviction."""
ASK_AGAIN_S = 5.0
"""After a budget has refused."""


@dataclass(frozen=True)
class Measured:
    moved: int
    on_target: int
    lost_s: float
    durations_s: list[float]
    took_s: float
    counts: Counter[str]
    busy_s: float

    @property
    def writes(self) -> int:
        return sum(self.counts[verb] for verb in WRITES)

    def at(self, share: float) -> float:
        return sorted(self.durations_s)[round(share * (len(self.durations_s) - 1))]


# -- the two ways


async def migrated(
    nodes: int = 100,
    count: int = 200,
    at_once: int = 50,
    *,
    budget: dict[str, Any] | None = None,
    startup: str = "10s",
    beside: Callable[[Cluster], AbstractAsyncContextManager[object]] = contextlib.nullcontext,
) -> Measured:
    """Move the pods with the controller and Adopt; `beside` may run something else meanwhile."""
    async with _set_up(nodes, count, budget, startup) as (cluster, readiness, client, ledger):
        seen = WatchedObjects(client)
        policy = Policy(max_concurrent_migrations=at_once, migration_timeout=timedelta(hours=2))
        runtime = RuntimeStateHolder(RuntimeState(policy))
        controller = MigrationController(
            client, runtime, _ApprovingRevalidator(seen), watched=seen, now=cluster.server.clock.now
        )
        moves = await cluster.moves(client)
        async with beside(cluster), seen.running(), controller.running():
            with _measuring(ledger) as measure:
                for number, move in enumerate(moves):
                    await client.create(POD_MIGRATIONS, _podmigration(number, move))
                await _all_over(seen, len(moves))
                took_s, busy_s, counts = measure()
            readiness.sum_up()
        ended = [decode_migration(item) for item in (await client.list(POD_MIGRATIONS)).items]
        return Measured(
            moved=sum(each.status.phase is MigrationPhase.COMPLETED for each in ended),
            on_target=await cluster.on_target(client, moves),
            lost_s=readiness.lost_s,
            durations_s=[_duration_s(each) for each in ended],
            took_s=took_s,
            counts=counts,
            busy_s=busy_s,
        )


async def evicted(
    nodes: int = 100,
    count: int = 200,
    at_once: int = 50,
    *,
    budget: dict[str, Any] | None = None,
    tries: int = 1_000,
) -> Measured:
    """Move the pods by plain evictions."""
    async with _set_up(nodes, count, budget, "10s") as (cluster, readiness, client, ledger):
        moves = await cluster.moves(client)
        durations_s: list[float] = []
        waiting = iter(moves)

        async def evict(move: Move) -> None:
            for _ in range(tries):
                try:
                    await client.evict(move.pod.key, uid=move.pod.uid)
                except errors.BudgetRefused:
                    await asyncio.sleep(ASK_AGAIN_S)
                    continue
                began_s = now_s()
                await readiness.until(lambda: readiness.is_whole(move.app, without=move.pod.uid))
                durations_s.append(now_s() - began_s)
                return

        async def work() -> None:
            for move in waiting:
                await evict(move)

        with _measuring(ledger) as measure:
            await asyncio.gather(*(work() for _ in range(at_once)))
            took_s, busy_s, counts = measure()
        readiness.sum_up()
        return Measured(
            moved=len(durations_s),
            on_target=await cluster.on_target(client, moves),
            lost_s=readiness.lost_s,
            durations_s=durations_s or [0.0],
            took_s=took_s,
            counts=counts,
            busy_s=busy_s,
        )


@contextlib.asynccontextmanager
async def _set_up(
    nodes: int, count: int, budget: dict[str, Any] | None, startup: str
) -> AsyncIterator[tuple[Cluster, ReadinessMonitor, Client, Ledger]]:
    cluster = Cluster(nodes, count, budget or {"maxUnavailable": 1}, startup)
    try:
        client, ledger = cluster.connect()
        await cluster.fill(client)
        async with cluster.watched() as readiness:
            # What comes of the beginning is over.
            await asyncio.sleep(60)
            yield cluster, readiness, client, ledger
    finally:
        await cluster.close()


@contextlib.contextmanager
def _measuring(ledger: Ledger) -> Iterator[Callable[[], tuple[float, float, Counter[str]]]]:
    ledger.counts.clear()
    began_s, began_busy_s = now_s(), time.process_time()
    yield lambda: (now_s() - began_s, time.process_time() - began_busy_s, Counter(ledger.counts))


@dataclass(frozen=True, slots=True)
class _ApprovingRevalidator:
    """Approves every move: other benchmarks measure the decision."""

    seen: WatchedObjects

    async def prepare(self, _migration: Migration) -> None:
        """Do nothing."""

    def revalidate(self, migration: Migration, _has_room_at: Callable[[str], bool]) -> RevalidationResult:
        pod = self.seen.pods.get(migration.pod_key)
        assert pod is not None
        owner = pod.owner
        assert owner is not None
        reference = ControllerReference(owner.api_version, owner.kind, owner.name, owner.uid)
        return RevalidationResult(
            RevalidationOutcome.APPROVED, Handover.ADOPT, migration.spec.target_node, reference
        )

    def may_preempt(self, _migration: Migration) -> str:
        return ""

    def no_room(self, _migration: Migration) -> str:
        return ""


def _podmigration(number: int, move: Move) -> dict[str, Any]:
    return {
        "apiVersion": POD_MIGRATIONS.api_version,
        "kind": POD_MIGRATIONS.kind,
        "metadata": {"namespace": NAMESPACE, "name": f"move-{number:03}", "finalizers": [FINALIZER]},
        "spec": {
            "pod": {"name": move.pod.name, "uid": move.pod.uid},
            "sourceNode": move.pod.node,
            "targetNode": move.target,
        },
    }


async def _all_over(seen: WatchedObjects, count: int) -> None:
    """Finished, and let go of."""
    over: set[str] = set()
    all_over = asyncio.Event()

    def look(_old: Any, new: Any) -> None:
        if new is not None and decode_migration(new).is_finished and not new["metadata"].get("finalizers"):
            over.add(new["metadata"]["uid"])
        if len(over) == count:
            all_over.set()

    end = seen.migrations.informer.subscribe(look)
    await all_over.wait()
    end()


def _duration_s(migration: Migration) -> float:
    status = migration.status
    assert status.started_at is not None
    assert status.finished_at is not None
    return (status.finished_at - status.started_at).total_seconds()


# -- telling


def broken_promises(found: Measured, count: int) -> list[str]:
    """Return the promises that don't hold for moves by Adopt; none is as it should be."""
    promises = {
        f"all {count} are moved": found.moved == count,
        f"all {count} are on their target": found.on_target == count,
        "no ready-second is lost": found.lost_s == 0.0,
        f"at most {MOST_WRITES} writes each": found.writes <= MOST_WRITES * count,
        f"at most {MOST_READS} reads each": found.counts["get"] <= MOST_READS * count,
        "nothing is listed": found.counts["list"] == 0,
    }
    return [promise for promise, holds in promises.items() if not holds]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.migrations", description=__doc__.splitlines()[0])
    parser.add_argument("--moves", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=50)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--gate", action="store_true", help="exit 1 if a promise is broken")
    options = parser.parse_args(arguments)
    print(machine())
    size = (options.nodes, options.moves, options.at_once)
    none, one = {"maxUnavailable": 0}, {"maxUnavailable": 1}
    rows = {
        "Adopt, budgets allow 1": run_virtual(migrated(*size, budget=one)),
        "Adopt, budgets allow 0": run_virtual(migrated(*size, budget=none)),
        "evicted, budgets allow 1": run_virtual(evicted(*size, budget=one)),
        "evicted, budgets allow 0": run_virtual(evicted(*size, budget=none, tries=3)),
    }
    _print_outcome(rows)
    _print_requests(rows, options.moves)
    broken = [
        f"{name}: not so that {promise}"
        for name, found in rows.items()
        if name.startswith("Adopt")
        for promise in broken_promises(found, options.moves)
    ]
    print("\n".join(broken) or "all promises are kept")
    return 1 if options.gate and broken else 0


def _print_outcome(rows: dict[str, Measured]) -> None:
    print(f"\n{'':24}  moved  on target  ready-seconds lost  p50      p95      longest  all took")
    for name, found in rows.items():
        times = "".join(f"{found.at(share):6.1f} s " for share in (0.5, 0.95, 1.0))
        if not found.moved:
            times = f"{'-':>6}   " * 3
        print(
            f"{name:24}  {found.moved:5}  {found.on_target:9}  {found.lost_s:18.1f}  {times}"
            f"{found.took_s:6.0f} s"
        )


def _print_requests(rows: dict[str, Measured], count: int) -> None:
    verbs = (*WRITES, "event", "get", "list")
    print(f"\n{'requests':24}" + "".join(f"{verb:>8}" for verb in verbs) + "   writes each")
    for name, found in rows.items():
        counts = "".join(f"{found.counts[verb]:8}" for verb in verbs)
        print(f"{name:24}{counts}{found.writes / count:14.1f}")
    print()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
