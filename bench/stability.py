"""Stability over a day: does rescheduler keep the load even without moving pods back and forth?

    python -m bench.stability [--nodes 20] [--pods 240] [--hours 24] [--interval 30] [--gate] [--to FILE]

A simulated cluster in virtual time: load follows the time of day with noise of 25 %, workloads are scaled
every 5 minutes, and rollouts replace pods in office hours (see `day_curve`). The real daemon with default
settings checks it every --interval seconds by usage of the metrics API. The same day runs without it for
comparison. Loads are sampled every minute from the metrics API and averaged over ten minutes. With --gate the
exit code is 1 if a target is missed.
"""

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import time
from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.day_curve import (
    HOUR_S,
    App,
    DayMove,
    apps_of,
    behaviour_of,
    rollouts_of,
    spread_of,
    undone_moves,
)
from kubesim.running_cluster import simulated_server
from kubesim.scenario import Scenario, initial_objects, parse_scenario
from kubesim.virtual_time import run_virtual
from kubevalues.quantity import parse_quantity
from rescheduler.api.podmigration import MigrationPhase
from rescheduler.api.podmigration_crd import podmigration_crd
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.sources.cluster_kinds import METRICS_KINDS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.config.policy import Configuration, Policy
from rescheduler.daemon.daemon_process import Daemon, DaemonOptions
from rescheduler.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, Object
from rescheduler.kube.client import Client, RequestObserver
from rescheduler.kube.informer import Informer
from rescheduler.kube.transport import InProcessTransport

START = datetime(2026, 3, 2, tzinfo=UTC)
NODE_CPU_MILLIS, NODE_MEMORY_GIB = 8000, 32
SAMPLE_S = 60.0
AVERAGED = 10
"""The spread is one of averages over so many samples: of load, not of noise."""
SCALE_EVERY_MIN = 5
WARM_UP_S = 1800.0
"""The first half hour is not measured: the cluster starts as the scheduler has placed it."""
HOME = "rescheduler"
MOST_MOVES_PER_HOUR = 0.1
"""The target: a tenth of all pods at most, each hour."""


@dataclass
class Day:
    """What was measured of one day."""

    spreads: list[tuple[float, float, float]] = field(default_factory=list)
    """Hours since midnight, spread of cpu, deviation of cpu, at every sample."""
    recent: deque[dict[str, float]] = field(default_factory=lambda: deque(maxlen=AVERAGED))
    """The loads of nodes at the last samples."""
    moves: list[DayMove] = field(default_factory=list)
    failed: int = 0
    pods: list[int] = field(default_factory=list)
    lost_s: float = 0.0
    cpu_s: float = 0.0

    def settled(self, column: int) -> list[float]:
        return [each[column] for each in self.spreads if each[0] * HOUR_S >= WARM_UP_S]


def scenario_of(apps: list[App], nodes: int, hours: float, seed: int) -> dict[str, Any]:
    events: list[dict[str, Any]] = []
    size = {app.name: app.replicas_at(0.0) for app in apps}
    for minute in range(0, round(hours * 60), SCALE_EVERY_MIN):
        for app in apps:
            if (replicas := app.replicas_at(minute / 60)) != size[app.name]:
                size[app.name] = replicas
                what = {"what": f"Deployment/day/{app.name}", "replicas": replicas}
                events.append({"at": f"{minute}m", "scale": what})
    for number, (hour, app) in enumerate(rollouts_of(apps, seed)):
        rollout = {"what": f"Deployment/day/{app.name}", "image": f"example.com/{app.name}:2.{number}"}
        events.append({"at": f"{round(hour * 60)}m", "rollOut": rollout})
    return {
        "seed": seed,
        "pools": [
            {"name": "node", "count": nodes, "cpu": f"{NODE_CPU_MILLIS}m", "memory": f"{NODE_MEMORY_GIB}Gi"}
        ],
        "workloads": [
            {
                "namespace": "day",
                "name": app.name,
                "replicas": app.replicas_at(0.0),
                "cpu": f"{app.cpu_millis}m",
                "memory": f"{app.memory_mib}Mi",
            }
            for app in apps
        ],
        "behaviour": behaviour_of(apps, seed),
        "events": sorted(events, key=lambda event: int(event["at"][:-1])),
    }


class ReadyPods:
    """Sums up for how long ready pods of a workload were missing, while its size did not change."""

    def __init__(self, pods: Informer[PodRecord], apps: list[App], now_s: Any) -> None:
        self._now_s = now_s
        self._apps = {app.name: app for app in apps}
        self._ready: dict[str, set[str]] = {app.name: set() for app in apps}
        self._since_s = now_s()
        self.lost_s = 0.0
        pods.subscribe(self._on_change)

    def _on_change(self, old: PodRecord | None, new: PodRecord | None) -> None:
        self.sum_up()
        pod = old if new is None else new
        assert pod is not None
        if (ready := self._ready.get(pod.labels.get("app", ""))) is not None:
            serves = new is not None and new.is_ready and not new.is_terminating
            (ready.add if serves else ready.discard)(pod.uid)

    def sum_up(self) -> None:
        now_s = self._now_s()
        hour = now_s / HOUR_S
        # A workload that has just been scaled is smaller than it should be, whoever looks.
        wanted = {
            name: min(app.replicas_at(hour), app.replicas_at(hour - 0.2)) for name, app in self._apps.items()
        }
        missing = sum(max(wanted[name] - len(ready), 0) for name, ready in self._ready.items())
        self.lost_s += missing * (now_s - self._since_s)
        self._since_s = now_s


def play(nodes: int, pods: int, hours: float, seed: int, policy: Policy | None) -> Day:
    """Play the day with this policy; without one, nothing moves pods."""
    apps = apps_of(nodes, pods, NODE_CPU_MILLIS, seed)
    content = json.dumps(scenario_of(apps, nodes, hours, seed)).encode()
    scenario = parse_scenario(content, source="day")
    began_s = time.process_time()
    objects = initial_objects(scenario, START)
    day = run_virtual(_played(objects, scenario, apps, hours, policy))
    day.cpu_s = time.process_time() - began_s
    return day


async def _played(
    objects: list[Object], scenario: Scenario, apps: list[App], hours: float, policy: Policy | None
) -> Day:
    day = Day()
    server = simulated_server(objects, scenario, start=START)
    now = server.clock.now

    def now_s() -> float:
        return (now() - START).total_seconds()

    async with contextlib.AsyncExitStack() as stack:
        transport = InProcessTransport(server.handle)
        stack.push_async_callback(transport.close)
        client = Client(transport)
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, podmigration_crd())
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}})
        watched: Informer[PodRecord] = Informer(client, PODS)
        migrations: Informer[Object] = Informer(client, POD_MIGRATIONS)
        for informer in (watched, migrations):
            await stack.enter_async_context(informer.running())
            await informer.synced()
        ready = ReadyPods(watched, apps, now_s)
        if policy is not None:
            migrations.subscribe(lambda old, new: record(day, old, new))
            await stack.enter_async_context(running_daemon(client, policy, now))
        while now_s() < hours * HOUR_S:
            await sample(client, day, now_s())
            if len(day.spreads) % 60 == 0:
                _, spread, _ = day.spreads[-1]
                moves = f", {len(day.moves)} moves" if policy is not None else ""
                print(f"{now():%H:%M}: spread {spread:.1f}{moves}", file=sys.stderr)
            await asyncio.sleep(SAMPLE_S)
        ready.sum_up()
        day.lost_s = ready.lost_s
    return day


@contextlib.asynccontextmanager
async def running_daemon(client: Client, policy: Policy, now: Any) -> AsyncIterator[None]:
    def connect(observer: RequestObserver) -> Client:
        return Client(client.transport, observer=observer)

    options = DaemonOptions(lease_at=f"{HOME}/rescheduler", now=now, me="bench")
    ended = asyncio.Event()
    task = asyncio.create_task(Daemon(connect, Configuration(policy=policy), options).run_until(ended))
    try:
        yield
    finally:
        ended.set()
        await task


def record(day: Day, old: Object | None, new: Object | None) -> None:
    if new is None:
        return
    before = (old or {}).get("status", {}).get("phase")
    spec, status = new["spec"], new.get("status", {})
    phase = status.get("phase")
    if phase == before or phase not in {MigrationPhase.COMPLETED, MigrationPhase.FAILED}:
        return
    if phase == MigrationPhase.FAILED:
        day.failed += 1
        return
    day.moves.append(
        DayMove(
            (datetime.fromisoformat(status["finishedAt"]) - START).total_seconds(),
            spec["pod"]["name"].rsplit("-", 2)[0],
            spec["sourceNode"],
            status["targetNode"],
            spec["pod"]["uid"],
            status["targetPod"]["uid"],
        )
    )


async def sample(client: Client, day: Day, now_s: float) -> None:
    found = (await client.list(METRICS_KINDS[1], page_size=0)).items
    day.recent.append(
        {
            each["metadata"]["name"]: parse_quantity(each["usage"]["cpu"]).millis / NODE_CPU_MILLIS * 100
            for each in found
        }
    )
    averages = [statistics.fmean(each[name] for each in day.recent) for name in day.recent[-1]]
    day.spreads.append((now_s / HOUR_S, *spread_of(averages)))
    day.pods.append(len((await client.list(PODS)).items))


# -- the report


def summary(day: Day, hours: float) -> dict[str, Any]:
    spreads = day.settled(1)
    per_hour = [0] * max(1, round(hours))
    for move in day.moves:
        per_hour[min(int(move.at_s // HOUR_S), len(per_hour) - 1)] += 1
    return {
        "spread": {"mean": statistics.fmean(spreads), "p95": sorted(spreads)[int(0.95 * len(spreads))]},
        "deviation": statistics.fmean(day.settled(2)),
        "above20": sum(each > 20 for each in spreads) / len(spreads),
        "moves": len(day.moves),
        "movesPerHour": per_hour,
        "failedMoves": day.failed,
        "undone": asdict(undone_moves(day.moves)),
        "readySecondsLost": day.lost_s,
        "pods": statistics.fmean(day.pods),
        "cpuSeconds": day.cpu_s,
    }


def show(name: str, found: dict[str, Any]) -> None:
    spread, undone = found["spread"], found["undone"]
    lines = (
        ("spread of cpu", f"{spread['mean']:.1f} points on average, 95 % below {spread['p95']:.1f}"),
        ("deviation of cpu", f"{found['deviation']:.1f} points on average"),
        ("spread above 20", f"{found['above20']:.1%} of the time"),
        ("moves", f"{found['moves']}, {found['failedMoves']} failed; per hour {found['movesPerHour']}"),
        (
            "undone in an hour",
            (
                f"{undone['same_pod']} of the same pod, {undone['same_workload']} of the workload; "
                f"{undone['moved_again']} pods moved again"
            ),
        ),
        ("ready-seconds lost", f"{found['readySecondsLost']:.0f}"),
    )
    print(f"{name}: {found['pods']:.0f} pods on average ({found['cpuSeconds']:.0f} s of CPU time)")
    for what, value in lines:
        print(f"  {what:20}{value}")


def verdicts(without: dict[str, Any], found: dict[str, Any]) -> dict[str, bool]:
    hours = found["movesPerHour"][1:] or found["movesPerHour"]
    return {
        "no move is undone within an hour": found["undone"]["same_workload"] == 0,
        "no pod moves twice in an hour": found["undone"]["moved_again"] == 0,
        f"at most {MOST_MOVES_PER_HOUR:.0%} of the pods move in an hour, after the first": max(hours)
        <= MOST_MOVES_PER_HOUR * found["pods"],
        "the spread is at most the threshold, 20 points, for 95 % of the time": found["above20"] <= 0.05,
        "no ready-seconds are lost": found["readySecondsLost"] <= without["readySecondsLost"] * 1.01 + 1,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--pods", type=int, default=240)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--interval", type=int, default=30, help="seconds between two checks")
    parser.add_argument("--gate", action="store_true")
    parser.add_argument("--to", type=Path, help="also write the figures to this file")
    given = parser.parse_args()
    size = given.nodes, given.pods, given.hours, given.seed
    policy = replace(
        Policy(),
        dry_run=False,
        enabled_strategies=("LoadBalancing",),
        rescheduling_interval=timedelta(seconds=given.interval),
    )
    with ProcessPoolExecutor(2) as processes:
        running = {
            name: processes.submit(play, *size, each)
            for name, each in (("without", None), ("rescheduler", policy))
        }
        days = {name: each.result() for name, each in running.items()}
    found = {name: summary(day, given.hours) for name, day in days.items()}
    for name, each in found.items():
        show(name, each)
    reached = verdicts(found["without"], found["rescheduler"])
    for what, holds in reached.items():
        print(f"{'reached' if holds else 'MISSED':8} {what}")
    if given.to:
        given.to.parent.mkdir(parents=True, exist_ok=True)
        series = {
            name: [[round(n, 2) for n in each] for each in day.spreads[::10]] for name, day in days.items()
        }
        content = {
            "nodes": given.nodes,
            "pods": given.pods,
            "hours": given.hours,
            "seed": given.seed,
            "intervalSeconds": given.interval,
        }
        given.to.write_text(
            json.dumps(content | {"verdicts": reached, "days": found, "series": series}, indent=1)
        )
    return 1 if given.gate and not all(reached.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
