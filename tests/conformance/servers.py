"""The two clusters that every scenario runs on."""

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

from kubesim import ApiServer
from kubesim.running_cluster import EPOCH, start_cluster
from kubesim.sockets.outbound_calls import HttpsWebhookCaller
from kubesim.virtual_time import LoopClock, run_virtual
from rescheduler.kube.access import cluster_config
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.kube.transport import InProcessTransport
from tests.conformance.living import LivingWorld
from tests.conformance.machines import SimulatedMachines, real_machines
from tests.conformance.scenario import Scenario
from tests.conformance.world import World
from tests.testbed.control_plane import ControlPlane
from tests.testbed.options import Options
from tests.testbed.parts import Part

__all__ = [
    "API_ONLY",
    "Notes",
    "Outcome",
    "all_on_real_server",
    "all_on_simulator",
    "on_simulator",
]

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
    if found.cast is not None:
        return run_virtual(_simulated_life(found))
    return asyncio.run(_simulated(found)) if found.sockets else run_virtual(_simulated(found))


async def _simulated(found: Scenario) -> Notes:
    async with HttpsWebhookCaller() as webhook_caller:
        server = ApiServer(seed=1, webhook_caller=webhook_caller)
        async with _client_of(server) as client:
            return await _play(found, World(client, "scenario", forget=_forgetting(server)))


async def _simulated_life(found: Scenario) -> Notes:
    assert found.cast is not None
    server = ApiServer(seed=1, clock=LoopClock(EPOCH))
    kubelets = start_cluster(server).kubelets
    async with _client_of(server) as client:
        world = LivingWorld(client, "scenario", forget=_forgetting(server))
        await world.begin(SimulatedMachines(server, kubelets, client, world.namespace), found.cast.nodes)
        return await _play(found, world)


@contextlib.asynccontextmanager
async def _client_of(server: ApiServer) -> AsyncIterator[Client]:
    client = Client(InProcessTransport(server.handle))
    try:
        yield client
    finally:
        await client.close()


def _forgetting(server: ApiServer) -> Callable[[], Awaitable[None]]:
    async def forget() -> None:
        server.store.compact()

    return forget


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

    async with HttpTransport(cluster_config.load_cluster_access(cluster.kubeconfig)) as network:
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
    if found.cast is None:
        return await _play(found, World(client, namespace, forget=forget))
    async with real_machines(client, namespace, metrics=found.cast.metrics) as machines:
        world = LivingWorld(client, namespace, forget=forget)
        await world.begin(machines, found.cast.nodes)
        return await _play(found, world)


async def _play(found: Scenario, world: World) -> Notes:
    await world.enter()
    try:
        await found.steps(world)
    finally:
        await world.leave()
    return world.notes
