"""A controller that is stopped does nothing, and catches up when it starts again."""

import asyncio

from tests.unit.kubesim.controllers.conftest import names, workload


async def test_while_they_are_stopped_a_pod_is_not_replaced_and_afterwards_it_is(sim):
    await sim.create("replicasets", workload("web", 3))
    pods = await sim.until_ready(3)
    sim.controllers.stop()
    await sim.delete("pods", names(pods)[0])
    await asyncio.sleep(600)
    assert names(await sim.pods()) == names(pods)[1:]
    sim.controllers.start()
    await sim.until_ready(3)


async def test_what_they_had_begun_stays_half_done(sim):
    await sim.create("replicasets", workload("web", 20))
    await asyncio.sleep(0.007)
    sim.controllers.stop()
    begun = len(await sim.pods())
    assert 0 < begun < 20
    await asyncio.sleep(600)
    assert len(await sim.pods()) == begun


async def test_a_workload_that_went_meanwhile_is_forgotten(sim):
    await sim.create("replicasets", workload("web", 2))
    await sim.until_ready(2)
    sim.controllers.stop()
    await sim.delete("replicasets", "web", propagationPolicy="Orphan")
    await asyncio.sleep(1)
    sim.controllers.start()
    await sim.delete("pods", names(await sim.pods())[0])
    await asyncio.sleep(60)
    assert len(await sim.pods()) == 1
