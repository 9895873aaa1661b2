"""The two servers that every scenario runs on."""

import asyncio
import itertools
import os
from collections.abc import Iterable
from typing import Any

from rescheduler.kube import Client, Network, cluster_config
from rescheduler.kube.in_process import InProcess
from rescheduler.simulator import ApiServer
from rescheduler.simulator.shells.webhook_caller import HttpsCaller
from rescheduler.simulator.virtual_time import run_virtual
from tests.conformance.scenario import Scenario
from tests.conformance.world import World
from tests.testbed.control_plane import ControlPlane
from tests.testbed.options import Options
from tests.testbed.parts import Part

__all__ = ["API_ONLY", "Notes", "Outcome", "all_on_real_server", "all_on_simulator", "on_simulator"]

Notes = list[list[Any]]
Outcome = Notes | Exception
"""An exception if the scenario could not be played to its end."""

API_ONLY = Options(
    scheduler=False,
    flags={
        Part.CONTROLLER_MANAGER: (
            "--controllers=garbage-collector-controller,namespace-controller",
            # Every scenario leaves a namespace to be emptied; who waits for one must not wait for all.
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        )
    },
)
"""The API server as such: nobody computes budgets or places pods, so scenarios can do that by hand."""

_AT_ONCE = 8
_numbers = itertools.count(1)


def on_simulator(found: Scenario) -> Notes:
    """In virtual time if possible: nobody waits for a watch to end."""
    return asyncio.run(_simulated(found)) if found.sockets else run_virtual(_simulated(found))


async def _simulated(found: Scenario) -> Notes:
    async with HttpsCaller() as webhook_caller:
        server = ApiServer(seed=1, webhook_caller=webhook_caller)
        client = Client(InProcess(server.handle))

        async def forget() -> None:
            server.store.compact()

        try:
            return await _play(found, World(client, "scenario", forget=forget))
        finally:
            await client.close()


def all_on_simulator(chosen: Iterable[Scenario]) -> dict[str, Outcome]:
    outcomes: dict[str, Outcome] = {}
    for found in chosen:
        try:
            outcomes[found.id] = on_simulator(found)
        except Exception as error:  # noqa: BLE001 - the other scenarios go on
            outcomes[found.id] = error
    return outcomes


async def all_on_real_server(chosen: Iterable[Scenario], cluster: ControlPlane) -> dict[str, Outcome]:
    """What each scenario saw, by its id. Side by side where they can be: each has its own namespace."""
    chosen = list(chosen)
    outcomes: dict[str, Outcome] = {}
    room = asyncio.Semaphore(_AT_ONCE)

    async def play(found: Scenario) -> None:
        async with room:
            try:
                outcomes[found.id] = await _on_real_server(found, client, cluster)
            except Exception as error:  # noqa: BLE001 - the other scenarios go on
                outcomes[found.id] = error

    async with Network(cluster_config.load(cluster.kubeconfig)) as network:
        client = Client(network)
        # First those that run alone: the others leave work for the controllers behind.
        for found in chosen:
            if found.alone:
                await play(found)
        await asyncio.gather(*(play(found) for found in chosen if not found.alone))
    return outcomes


async def _on_real_server(found: Scenario, client: Client, cluster: ControlPlane) -> Notes:
    async def forget() -> None:
        await asyncio.to_thread(cluster.compact_etcd)
        await asyncio.to_thread(cluster.restart, Part.API_SERVER)

    namespace = f"scenario-{os.getpid()}-{next(_numbers)}"
    return await _play(found, World(client, namespace, forget=forget))


async def _play(found: Scenario, world: World) -> Notes:
    await world.enter()
    try:
        await found.steps(world)
    finally:
        await world.leave()
    return world.notes
