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
from tests.conformance.cluster_under_test import ClusterUnderTest
from tests.conformance.machines import SimulatedMachines, real_machines
from tests.conformance.running_cluster import RunningCluster
from tests.conformance.scenario import Scenario
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
"""The API server alone: no component computes budgets or places pods, so scenarios can do that by hand."""

_AT_ONCE = 8
_numbers = itertools.count(1)


def on_simulator(found: Scenario) -> Notes:
    """Run it in virtual time if possible: waiting for a watch to end takes no time."""
    if found.components is not None:
        return run_virtual(_simulated_life(found))
    return asyncio.run(_simulated(found)) if found.sockets else run_virtual(_simulated(found))


async def _simulated(found: Scenario) -> Notes:
    async with HttpsWebhookCaller() as webhook_caller:
        server = ApiServer(seed=1, webhook_caller=webhook_caller)
        async with _client_of(server) as client:
            return await _play(found, ClusterUnderTest(client, "scenario", forget=_forgetting(server)))


async def _simulated_life(found: Scenario) -> Notes:
    assert found.components is not None
    server = ApiServer(seed=1, clock=LoopClock(EPOCH))
    kubelets = start_cluster(server).kubelets
    async with _client_of(server) as client:
        cluster = RunningCluster(client, "scenario", forget=_forgetting(server))
        await cluster.begin(
            SimulatedMachines(server, kubelets, client, cluster.namespace), found.components.nodes
        )
        return await _play(found, cluster)


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


async def all_on_real_server(chosen: Iterable[Scenario], control_plane: ControlPlane) -> dict[str, Outcome]:
    """What each scenario saw, by its id. Side by side where they can be: each has its own namespace."""
    chosen = list(chosen)
    outcomes: dict[str, Outcome] = {}
    room = asyncio.Semaphore(_AT_ONCE)

    async def play(found: Scenario) -> None:
        async with room:
            try:
                outcomes[found.id] = await _on_real_server(found, client, control_plane)
            except Exception as error:  # noqa: BLE001 - the other scenarios go on
                outcomes[found.id] = error

    async with HttpTransport(cluster_config.load_cluster_access(control_plane.kubeconfig)) as network:
        client = Client(network)
        # First those that run alone: the others leave work for the controllers behind.
        for found in chosen:
            if found.alone:
                await play(found)
        await asyncio.gather(*(play(found) for found in chosen if not found.alone))
    return outcomes


async def _on_real_server(found: Scenario, client: Client, control_plane: ControlPlane) -> Notes:
    async def forget() -> None:
        await asyncio.to_thread(control_plane.compact_etcd)
        await asyncio.to_thread(control_plane.restart, Part.API_SERVER)

    namespace = f"scenario-{os.getpid()}-{next(_numbers)}"
    if found.components is None:
        return await _play(found, ClusterUnderTest(client, namespace, forget=forget))
    async with real_machines(client, namespace, metrics=found.components.metrics) as machines:
        cluster = RunningCluster(client, namespace, forget=forget)
        await cluster.begin(machines, found.components.nodes)
        return await _play(found, cluster)


async def _play(found: Scenario, cluster: ClusterUnderTest) -> Notes:
    await cluster.enter()
    try:
        await found.steps(cluster)
    finally:
        await cluster.leave()
    return cluster.notes
