"""Pods whose readiness changes every few seconds are not moved, and nodes that do the same get no pods."""

import asyncio
import contextlib
from datetime import timedelta

import pytest

from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.config.policy import HaltWhen
from rescheduler.kube.api_resources import strategic_patch

HALF_AN_HOUR_S = 1800
BALANCING = {
    "enabled_strategies": ("LoadBalancing",),
    "min_pod_age": timedelta(minutes=5),
    "settle_time": timedelta(seconds=10),
    "halt_when": HaltWhen(not_ready_share=1.0),
}


@pytest.fixture
def ready_and_not(client, server):
    """async with ready_and_not(*nodes): they are Ready for 20 seconds, and then not for four."""

    async def report(nodes, status):
        since = server.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {"type": "Ready", "status": status, "reason": "Some", "lastTransitionTime": since}
        for node in nodes:
            patch = strategic_patch({"status": {"conditions": [ready]}})
            await client.patch(NODES.as_json.status, node, patch)

    async def flap(nodes):
        while True:
            await report(nodes, "False")
            await asyncio.sleep(4)
            await report(nodes, "True")
            await asyncio.sleep(20)

    @contextlib.asynccontextmanager
    async def flapping(*nodes):
        task = asyncio.create_task(flap(nodes))
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await report(nodes, "True")

    return flapping


async def test_pods_that_flap_are_left_alone(crowd, start, migrations):
    """Their copies would flap, too: each would hold a turn until it times out, again and again."""
    moves = await crowd()
    moves.sandbox.behave({"startup": "0s", "readiness": {"ready": "4s", "unready": "3s"}})
    await asyncio.sleep(600)
    await start(**BALANCING)
    await asyncio.sleep(HALF_AN_HOUR_S)
    assert await migrations() == []


async def test_nodes_that_flap_get_no_pods(crowd, start, migrations, ready_and_not, eventually):
    moves = await crowd()
    _, *others = moves.sandbox.nodes
    await asyncio.sleep(600)
    async with ready_and_not(*others):
        await asyncio.sleep(30)
        await start(**BALANCING)
        await asyncio.sleep(HALF_AN_HOUR_S)
        assert await migrations() == []
    await eventually(migrations)
