"""Other clients interfere at every call, on the simulator."""

import asyncio
from datetime import timedelta

import pytest

from kubesim.virtual_time import run_virtual
from rescheduler.kube.api_resources import REPLICA_SETS
from tests.stories.migrations.interferences import INTERFERENCES, Interference
from tests.stories.observer import observing
from tests.unit.migrations.controller.crashing_controller import NETWORK_S, Cluster, Faulty, at_every_call


class Disturbed(Faulty):
    """The transport to the API server, on which another client is faster than the n-th call."""

    async def handle(self, method, target, headers, body):
        await asyncio.sleep(self.rng.uniform(*NETWORK_S))
        if self._counts(method, target):
            self.calls.append(f"{method} {target.partition('?')[0]}")
            if len(self.calls) == self.at:
                await self.disturb()
        return await self.server.handle(method, target, headers, body)


async def deleted(moves, key, source):
    await moves.client.delete(REPLICA_SETS, moves.sandbox.key("web"), propagation="Background")


async def deleted_without_its_pods(moves, key, source):
    await moves.client.delete(REPLICA_SETS, moves.sandbox.key("web"), propagation="Orphan")


OF_A_REPLICA_SET = (
    Interference(deleted, wanted=0, takes_pods=True),
    Interference(deleted_without_its_pods, wanted=None),
)


async def disturbed_at(interference, at):
    """How many calls there were: fewer than `at` if there was no interference."""
    cluster = Cluster(migration_timeout=timedelta(seconds=60), max_retries=0)
    try:
        moves = await cluster.moves(nodes=4)
        sandbox = moves.sandbox
        await (sandbox.replica_set(3) if interference in OF_A_REPLICA_SET else sandbox.deployment(3))
        await sandbox.budget(maxUnavailable=0)
        source = (await sandbox.pods())[0]
        way = Disturbed(cluster.server, at, None)
        async with observing(moves.client, sandbox.namespace) as seen:
            key = await moves.create_migration(source, await sandbox.free_node())
            way.disturb = lambda: interference.act(moves, key, source)
            async with moves.executing(cluster.connect(way.handle)):
                await moves.until_over(key, timeout_s=600)
                if len(way.calls) < at:
                    return len(way.calls)
                await moves.until_nothing_left()
                if interference.wanted is not None:
                    await moves.until_served(interference.wanted)
        here = f"{interference.name} before {way.calls[at - 1]}"
        assert interference.takes_pods or min(seen.ready) >= 3, f"below the count: {here}"
        return len(way.calls)
    finally:
        await cluster.close()


@at_every_call(8)
@pytest.mark.parametrize("interference", INTERFERENCES, ids=lambda each: each.name)
def test_at_whatever_moment_the_workload_is(interference, first, apart):
    at = first
    while run_virtual(disturbed_at(interference, at)) >= at:
        at += apart
    assert at > 5


@at_every_call(8)
@pytest.mark.parametrize("interference", OF_A_REPLICA_SET, ids=lambda each: each.name)
def test_at_whatever_moment_a_replica_set_of_its_own_is(interference, first, apart):
    test_at_whatever_moment_the_workload_is(interference, first, apart)
