"""What recovery postponed during a halt happens after it, without a new event."""

import asyncio

import pytest

from rescheduler.api.daemon_status import Pause
from rescheduler.daemon.own_objects import write_pause

HOUR_S = 3600


@pytest.fixture
def switch(client, server):
    async def turn(*, paused):
        await write_pause(client, "moves", Pause(paused=paused, at=server.clock.now()))

    return turn


@pytest.mark.size
async def test_a_pod_that_recovers_during_a_pause_is_forgiven_after_it(make_recovery, switch):
    recovery = await make_recovery(3)
    node = recovery.sandbox.nodes[0]
    await recovery.workload_on(node, "Deployment")
    recovery.breaks(node)
    async with recovery.recovering():
        await recovery.until_well(1)
        await switch(paused=True)
        await asyncio.sleep(HOUR_S)
        assert (await recovery.ledger("Deployment")).lineages, "nothing is written during a pause"
        await switch(paused=False)
        await recovery.until_forgotten("Deployment")


@pytest.mark.size
async def test_a_daemon_set_pod_stuck_during_a_pause(make_recovery, switch):
    """It is created again after the pause."""
    recovery = await make_recovery(2)
    node = recovery.sandbox.nodes[0]
    recovery.breaks(node, blocked="ContainerCreating")
    async with recovery.recovering():
        await switch(paused=True)
        await recovery.workload("DaemonSet")
        await asyncio.sleep(HOUR_S)
        before = {pod["metadata"]["uid"] for pod in await recovery.pods()}
        await switch(paused=False)
        await recovery.until_pods(lambda pods: {pod["metadata"]["uid"] for pod in pods} - before)
