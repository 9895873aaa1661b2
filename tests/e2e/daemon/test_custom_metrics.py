"""The daemon balances the pressure of nodes that a real Prometheus measures, and says so when it is gone."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from rescheduler.api.podmigration import MigrationPhase
from rescheduler.kube.api_resources import DEPLOYMENTS
from rescheduler.kube.client import Client
from tests.e2e.daemon.conftest import Run
from tests.e2e.daemon.pressure_exporter import PressureExporter
from tests.e2e.daemon.processes import Cluster, Replica, write_config
from tests.e2e.daemon.test_daemon import migrations_of
from tests.stories import objects
from tests.stories.migrations.moves import Moves
from tests.stories.observer import observing
from tests.stories.sandbox import AT_ONCE, Sandbox, node_of, until_usable
from tests.testbed.prometheus import Prometheus

pytestmark = pytest.mark.full

Eventually = Callable[..., Awaitable[Any]]
PATIENCE_S = 120.0
WAITING = {"video": 0.2, "web": 0.01}
"""The share of time for which each pod waits for the CPU."""
METRIC = {
    "name": "cpu-pressure",
    "query": "max by (node) (rate(node_pressure_cpu_waiting_seconds_total[5s]))",
    "podQuery": "sum by (namespace, pod) (rate(container_pressure_cpu_waiting_seconds_total[5s]))",
    "capacity": 1,
}
USAGE = {
    "cpuQuery": "sum by (namespace, pod) (rate(container_cpu_usage_seconds_total[5s]))",
    "memoryQuery": "sum by (namespace, pod) (container_memory_working_set_bytes)",
}


@pytest.fixture
async def moves(client: Client, namespace: str, start_kubelet: Callable[..., Awaitable[Any]]) -> Moves:
    """Make three nodes with four pods each: equal cpu, but all pods of `video` are on the first."""
    kubelet = await start_kubelet({"pods": [AT_ONCE]}, nodes=3)
    made = Moves(Sandbox(client, namespace, kubelet, await until_usable(client, kubelet, 3)))
    first, *others = made.sandbox.nodes
    spec = objects.pod_spec(kubelet.name, cpu="400m")
    await made.sandbox.cordon(*others)
    await client.create(DEPLOYMENTS, objects.deployment(namespace, "video", 4, spec))
    await made.sandbox.until_ready(4, app="video")
    await made.sandbox.cordon(*others, on=False)
    await made.sandbox.cordon(first)
    await client.create(DEPLOYMENTS, objects.deployment(namespace, "web", 8, spec))
    await made.sandbox.until_ready(8, app="web")
    await made.sandbox.cordon(first, on=False)
    made.sandbox.behave({"startup": "1s", "termination": "0s"})
    return made


@pytest.fixture
async def prometheus(moves: Moves, tmp_path: Path) -> AsyncIterator[Prometheus]:
    async with PressureExporter(moves.sandbox.kubelet, WAITING).running() as exporter:
        scraped = {"job_name": "nodes", "static_configs": [{"targets": [exporter.address]}]}
        interval = {"scrape_interval": "500ms", "scrape_timeout": "500ms"}
        folder = tmp_path / "prometheus"
        folder.mkdir()
        server = Prometheus(folder, {"global": interval, "scrape_configs": [scraped]})
        await asyncio.to_thread(server.start)
        try:
            yield server
        finally:
            await asyncio.to_thread(server.stop)


def configure(cluster: Cluster, prometheus: Prometheus, **more: Any) -> None:
    write_config(
        cluster.config,
        usageSource="prometheus",
        prometheus={"url": prometheus.url, "timeout": "5s", **USAGE},
        customMetrics=[METRIC],
        balanceResources=["cpu", "memory", "cpu-pressure"],
        hotChecks=2,
        imbalanceThreshold=30,
        **more,
    )


def calm(moves: Moves, replica: Replica, checks: int) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        done = await migrations_of(moves)
        last = [line["moves"] for line in replica.said("CheckDone")[-checks:]]
        return bool(done) and all(each.is_finished for each in done) and last == [0] * checks

    return look


async def videos_per_node(moves: Moves) -> Counter[str]:
    return Counter(node_of(pod) for pod in await moves.sandbox.pods("video"))


async def test_pods_leave_a_node_whose_tasks_wait_for_the_cpu(
    cluster: Cluster, run: Run, moves: Moves, prometheus: Prometheus, eventually: Eventually
) -> None:
    """The usage of all nodes is equal: only their pressure says that one of them is hot."""
    configure(cluster, prometheus)
    first = moves.sandbox.nodes[0]
    assert await videos_per_node(moves) == {first: 4}
    async with observing(moves.client, moves.sandbox.namespace, "video") as seen:
        replica = await run()
        await replica.until_said("MovePlanned")
        await eventually(calm(moves, replica, 5), timeout_s=PATIENCE_S)
    assert min(seen.ready) == 4, "nothing was missed for a moment"
    planned = replica.said("MovePlanned")
    assert {line["source"] for line in planned} == {first}
    assert "cpu-pressure: source" in planned[0]["message"]
    assert replica.said("CheckDone")[-1]["usage"] == "prometheus"
    per_node = await videos_per_node(moves)
    assert sorted(per_node.values()) in ([1, 1, 2], [2, 2]), "the pressure is relieved"
    done = await migrations_of(moves)
    assert {each.status.phase for each in done} == {MigrationPhase.COMPLETED}
    assert len(done) == 4 - per_node[first], "no pod moved twice"
    await replica.end()


async def test_a_prometheus_that_goes_away_and_comes_back_is_reported(
    cluster: Cluster, run: Run, moves: Moves, prometheus: Prometheus, eventually: Eventually
) -> None:
    configure(cluster, prometheus, dryRun=True)
    replica = await run()
    await replica.until_said("MovePlanned")
    await asyncio.to_thread(prometheus.stop)

    async def assumptions() -> list[str]:
        found: list[str] = (await cluster.status())["lastCheck"]["assumptions"]
        return found

    async def is_reported() -> bool:
        found = " ".join(await assumptions())
        return "cpu-pressure is not balanced: Prometheus does not answer" in found and "ago is used" in found

    await eventually(is_reported, timeout_s=PATIENCE_S)
    await asyncio.to_thread(prometheus.start)
    seen = len(replica.said("CheckDone"))

    async def is_back() -> bool:
        return not [each for each in await assumptions() if "Prometheus" in each] and any(
            line["moves"] for line in replica.said("CheckDone")[seen:]
        )

    await eventually(is_back, timeout_s=PATIENCE_S)
    await replica.end()
