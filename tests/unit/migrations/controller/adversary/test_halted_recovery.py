"""What recovery would have done during a halt is done when that is over, though nothing happens then."""

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


async def test_a_pod_that_recovers_during_a_pause_is_forgiven_after_it(set_ward, switch):
    ward = await set_ward(3)
    node = ward.stage.nodes[0]
    await ward.workload_on(node, "Deployment")
    ward.breaks(node)
    async with ward.recovering():
        await ward.until_well(1)
        await switch(paused=True)
        await asyncio.sleep(HOUR_S)
        assert (await ward.ledger("Deployment")).lineages, "nothing is written during a pause"
        await switch(paused=False)
        await ward.until_forgotten("Deployment")


async def test_a_pod_of_a_daemon_set_that_gets_stuck_during_a_pause_is_made_anew_after_it(set_ward, switch):
    ward = await set_ward(2)
    node = ward.stage.nodes[0]
    ward.breaks(node, blocked="ContainerCreating")
    async with ward.recovering():
        await switch(paused=True)
        await ward.workload("DaemonSet")
        await asyncio.sleep(HOUR_S)
        before = {pod["metadata"]["uid"] for pod in await ward.pods()}
        await switch(paused=False)
        await ward.until_pods(lambda pods: {pod["metadata"]["uid"] for pod in pods} - before)
