"""Usage from a real Prometheus with the default queries: known rates go in, the same come out."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from rescheduler.cluster.sources.usage_sources import PrometheusReader
from rescheduler.cluster.usage_readings import UsageOutcome, UsageReadings, UsageUnavailable
from rescheduler.config.metric_settings import Prometheus as Settings
from tests.e2e.usage.cadvisor import Cadvisor, Series
from tests.testbed.prometheus import Prometheus

pytestmark = pytest.mark.asyncio(loop_scope="module")

MI = 2**20
WITHIN_S = 60.0


def of_pod(pod: str, cores: float, memory_bytes: int, container: str = "main", run: str = "1") -> Series:
    place = f"/kubepods/{pod}/{container}-{run}"
    return Series(cores, memory_bytes, namespace="shop", pod=pod, container=container, id=place)


NODES = {
    "n-1": [
        Series(3.0, 4000 * MI, id="/"),
        of_pod("web", 0.25, 100 * MI),
        of_pod("web", 0.05, 28 * MI, container="side"),
        of_pod("web", 0.0, 1 * MI, container="POD"),
        Series(0.3, 129 * MI, namespace="shop", pod="web", id="/kubepods/web"),
        # The container before its restart: its counter stands still, its memory is still reported.
        of_pod("restarted", 0.0, 300 * MI),
        of_pod("restarted", 1.5, 500 * MI, run="2"),
    ],
    "n-2": [Series(0.5, 900 * MI, id="/"), of_pod("idle", 0.0, 5 * MI)],
}
JOBS = {"kubelet-1": "n-1", "kubelet-2": "n-2", "again": "n-1"}
"""The last one scrapes a node that another one scrapes too, as happens after an upgrade."""


def configuration(address: str) -> dict[str, Any]:
    return {
        "global": {"scrape_interval": "200ms", "scrape_timeout": "200ms"},
        "scrape_configs": [
            {
                "job_name": job,
                "metrics_path": f"/{node}/{job}",
                "static_configs": [{"targets": [address], "labels": {"node": node}}],
            }
            for job, node in JOBS.items()
        ],
    }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def prometheus(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Prometheus]:
    """Start a Prometheus with ten minutes of history."""
    async with Cadvisor(NODES).running() as cadvisor:
        started = Prometheus(tmp_path_factory.mktemp("prometheus"), configuration(cadvisor.address))
        await asyncio.to_thread(started.start)
        try:
            async with asyncio.timeout(WITHIN_S):
                await cadvisor.caught_up(len(JOBS))
            yield started
        finally:
            await asyncio.to_thread(started.stop)


async def read(prometheus: Prometheus, **queries: str) -> UsageOutcome:
    reader = PrometheusReader(Settings(url=prometheus.url, **queries))
    try:
        return await reader.read()
    finally:
        await reader.close()


def cpu_and_memory(usage: Any) -> dict[str, tuple[Any, int]]:
    return {name: (used.cpu_millis, used.memory_bytes) for name, used in usage.items()}


def about(cpu_millis: int) -> Any:
    return pytest.approx(cpu_millis, rel=0.01, abs=1)


PODS = {
    "shop/web": (about(300), 128 * MI),
    "shop/restarted": (about(1500), 500 * MI),
    "shop/idle": (0, 5 * MI),
}


async def test_the_default_queries_return_what_pods_and_nodes_use(prometheus: Prometheus) -> None:
    readings = await read(prometheus)
    assert isinstance(readings, UsageReadings), readings
    assert cpu_and_memory(readings.pods) == PODS
    assert cpu_and_memory(readings.nodes) == {"n-1": (about(3000), 4000 * MI), "n-2": (about(500), 900 * MI)}
    assert readings.notes == ()


async def test_pods_are_reported_even_if_series_do_not_name_their_node(
    prometheus: Prometheus,
) -> None:
    elsewhere = Settings().cpu_query.replace("(node)", "(no_such_label)")
    assert elsewhere != Settings().cpu_query
    readings = await read(prometheus, cpu_query=elsewhere)
    assert isinstance(readings, UsageReadings), readings
    assert cpu_and_memory(readings.pods) == PODS
    assert readings.nodes == {}


@pytest.mark.parametrize(
    ("query", "why"),
    [
        pytest.param("sum(", "bad_data: invalid parameter", id="no PromQL"),
        pytest.param("container_cpu_usage_seconds_total[5m]", "the query returns a matrix", id="a range"),
        pytest.param("scalar(up)", "the query returns a scalar", id="a number"),
        pytest.param("nothing_of_that_name", "returned no pods", id="no series"),
        pytest.param("sum(up)", "returned no pods", id="a total"),
        pytest.param("container_cpu_usage_seconds_total", "several values for shop/", id="not aggregated"),
    ],
)
async def test_a_query_that_can_not_be_used_is_refused_in_words(
    prometheus: Prometheus, query: str, why: str
) -> None:
    outcome = await read(prometheus, cpu_query=query)
    assert isinstance(outcome, UsageUnavailable)
    assert why in outcome.why
    assert "Check prometheus.cpuQuery" in outcome.why


async def test_values_that_are_no_numbers_are_left_out(prometheus: Prometheus) -> None:
    # Memory by cpu: infinite for the pod that stands still.
    cpu, memory = (query.partition(" or ")[0] for query in (Settings().cpu_query, Settings().memory_query))
    readings = await read(prometheus, cpu_query=f"{memory} / {cpu}")
    assert isinstance(readings, UsageReadings), readings
    assert set(readings.pods) == {"shop/web", "shop/restarted"}
    assert readings.notes == ("1 value of prometheus.cpuQuery are invalid, such as shop/idle (+Inf)",)
