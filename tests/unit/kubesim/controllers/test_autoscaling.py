"""The autoscaler adds replicas while they are busy, and removes them after they were idle for a while."""

import asyncio

import pytest

from kubesim.apiserver.metrics_server import MeasuredUsage
from tests.unit.kubesim.controllers.conftest import template, workload


@pytest.fixture
async def autoscaled(sim):
    busy = {"resources": {"requests": {"cpu": "1"}}}
    await sim.create("deployments", workload("web", 2, template=template(**busy)))
    await sim.until_ready(2)
    target = {"type": "Utilization", "averageUtilization": 50}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 1,
        "maxReplicas": 6,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    }
    await sim.create("horizontalpodautoscalers", {"metadata": {"name": "web"}, "spec": spec})
    return sim


async def load(sim, cores):
    """All pods together use so much, however many there are, from now on."""
    while True:
        pods = await sim.pods()
        for pod in pods:
            usage = {"c": MeasuredUsage(cores / len(pods), 0)}
            sim.server.usage.set_pod("default", pod["metadata"]["name"], usage, now=sim.server.clock.now())
        await asyncio.sleep(1)


async def under_load(sim, cores, seconds):
    task = asyncio.create_task(load(sim, cores))
    await asyncio.sleep(seconds)
    task.cancel()
    return (await sim.get("deployments", "web"))["spec"]["replicas"]


async def test_busy_pods_get_company(autoscaled):
    assert await under_load(autoscaled, 2.0, 60) == 4
    status = (await autoscaled.get("horizontalpodautoscalers", "web"))["status"]
    assert (status["currentReplicas"], status["desiredReplicas"]) == (4, 4)
    assert status["currentMetrics"][0]["resource"]["current"]["averageUtilization"] == 50


async def test_never_more_than_allowed(autoscaled):
    assert await under_load(autoscaled, 50.0, 120) == 6


async def test_near_the_target_nothing_changes(autoscaled):
    assert await under_load(autoscaled, 1.05, 60) == 2


async def test_idle_pods_go_only_after_five_minutes(autoscaled):
    assert await under_load(autoscaled, 0.1, 240) == 2
    assert await under_load(autoscaled, 0.1, 120) == 1


async def test_without_metrics_it_says_so_and_does_nothing(autoscaled):
    await asyncio.sleep(60)
    status = (await autoscaled.get("horizontalpodautoscalers", "web"))["status"]
    active = next(each for each in status["conditions"] if each["type"] == "ScalingActive")
    assert (active["status"], active["reason"]) == ("False", "FailedGetResourceMetric")
    assert (await autoscaled.get("deployments", "web"))["spec"]["replicas"] == 2
