"""Daemons, drains and wards on one simulated cluster in virtual time, for things that happen at once."""

import asyncio
import contextlib
from dataclasses import replace

import pytest

from rescheduler.config.policy import Configuration
from rescheduler.controller.draining import Draining, send_away
from rescheduler.controller.webhook_presence import SaidPresence
from rescheduler.daemon.rescheduler import Rescheduler
from rescheduler.model.node_marks import in_maintenance
from tests.unit.controller.recovering.conftest import set_ward, steered  # noqa: F401
from tests.unit.controller.running.conftest import (  # noqa: F401
    HOME,
    POLICY,
    crowd,
    eventually,
    migrations,
    start,
    status,
)


@pytest.fixture
async def draining(connect, server):
    """async with draining(*nodes, **policy) as it: what `rescheduler drain` does, as a process of its own."""

    @contextlib.asynccontextmanager
    async def begun(*nodes, me="drainer", **policy):
        client = connect()
        configuration = Configuration(policy=replace(POLICY, **policy))
        rescheduler = Rescheduler(
            client, configuration, lease_at=f"{HOME}/rescheduler", now=server.clock.now, me=me
        )
        async with rescheduler.looking(), rescheduler.executing():
            await send_away(client, nodes)
            await _labels_seen(rescheduler, nodes)
            errands = []
            wanted = rescheduler.configuration.policy
            it = Draining(
                client, rescheduler.cluster, wanted, nodes, webhook=SaidPresence(), tell=errands.append
            )
            it.errands = errands
            it.rescheduler = rescheduler
            yield it

    return begun


async def _labels_seen(rescheduler, nodes):
    while not all(in_maintenance(rescheduler.followed.nodes.get(name)) for name in nodes):  # noqa: ASYNC110
        await asyncio.sleep(0.05)


@pytest.fixture
def set_evicting(set_moves):
    """A bare pod whose copy serves beside it: a budget does not let it go. Nobody executes."""

    async def set_it():
        moves = await set_moves(3)
        pod = await moves.stage.until_pod_ready(await moves.stage.pod("web"))
        await moves.stage.budget(minAvailable=2)
        key = await moves.wish(pod, await moves.stage.free_node())
        async with moves.executing():
            await moves.until(key, lambda migration: migration.status.step == "Evicting")
            copy = await moves.copy_of(key)
        return moves, key, pod, copy

    return set_it
