"""A simulated cluster as stories see it: controllers, scheduler, kubelets and heartbeats are simulated.

A request takes a moment, more or less: controllers, scheduler and kubelets react between two requests of one
client. In virtual time the same story has the same history every time.
"""

import asyncio
import contextlib
import random
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from kubesim import ApiServer
from kubesim.running_cluster import EPOCH, RunningCluster, start_cluster
from kubesim.scheduler import Extender
from kubesim.sockets.loopback_server import serve
from kubesim.sockets.outbound_calls import HttpExtenderCaller, HttpsWebhookCaller
from kubesim.virtual_time import LoopClock, VirtualLoop
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, Object
from rescheduler.kube.client import Client
from rescheduler.kube.transport import InProcessTransport
from tests.stories.migrations.ephemeral_claims import EphemeralClaims
from tests.stories.sandbox import Sandbox, until_usable
from tests.testbed import Extender as ConfiguredExtender
from tests.testbed.cache import NotBuiltError, located
from tests.testbed.fake_kubelet.nodes import node_object, node_shapes

__all__ = [
    "SimulatedCluster",
    "SimulatedKubelet",
    "connect",
    "life",
    "server",
    "simulated_client",
    "simulated_cluster",
]

NETWORK_S = 0.001, 0.020
NAMESPACE = "moves"
Connect = Callable[..., Client]


class SimulatedKubelet:
    """What a sandbox asks of a kubelet."""

    name = "simulated"

    def __init__(self, kubelets: Any) -> None:
        self.behave = kubelets.behave


@dataclass
class SimulatedCluster:
    server: ApiServer
    life: RunningCluster
    client: Client
    connect: Connect
    namespace: str = NAMESPACE
    _stack: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    def now(self) -> datetime:
        return self.server.clock.now()

    async def connect_as(self, _account: str) -> None:
        """Return no client: the simulator has no accounts, and callers use that of the sandbox."""

    async def sandbox(self, nodes: int = 4) -> Sandbox:
        kubelet = SimulatedKubelet(self.life.kubelets)
        for shape in node_shapes(nodes, kubelet.name):
            await self.client.create(NODES.as_json, node_object(shape, kubelet.name, self.now()))
        usable = await until_usable(self.client, kubelet, nodes)  # type: ignore[arg-type]
        sandbox = Sandbox(self.client, self.namespace, kubelet, usable, self.now)  # type: ignore[arg-type]
        sandbox.behave()
        return sandbox

    @contextlib.asynccontextmanager
    async def controllers_stopped(self) -> AsyncIterator[None]:
        self.life.controllers.stop()
        yield
        self.life.controllers.start()

    async def configure_extenders(self, *extenders: ConfiguredExtender) -> None:
        calls = await self._stack.enter_async_context(HttpExtenderCaller())
        self.life.scheduler.extenders = tuple(
            Extender(
                name=each.url_prefix,
                carry=calls.at(each.url_prefix, each.timeout_s),
                filter_verb=each.filter_verb,
                prioritize_verb=each.prioritize_verb,
                ignorable=each.ignorable,
                node_cache_capable=each.node_cache_capable,
            )
            for each in extenders
        )

    def usage_served(self, _kubelet: object) -> AbstractAsyncContextManager[None]:
        """The simulator serves it all the time."""
        return contextlib.nullcontext()

    @contextlib.asynccontextmanager
    async def ephemeral_volume_controller(self) -> AsyncIterator[None]:
        """The simulator has none."""
        async with asyncio.TaskGroup() as tasks, EphemeralClaims(self.client).playing(tasks):
            yield

    async def kubectl(self, *arguments: str) -> str:
        """Run the real kubectl on the simulator, over HTTPS."""
        try:
            kubectl = located().kubectl
        except NotBuiltError:
            pytest.skip("no kubectl: build one with `make control-plane`")
        async with await serve(self.server) as running:
            with tempfile.NamedTemporaryFile("w", suffix=".kubeconfig") as kubeconfig:
                kubeconfig.write(running.kubeconfig)
                kubeconfig.flush()
                return await asyncio.to_thread(_run, kubectl, f"--kubeconfig={kubeconfig.name}", *arguments)

    async def close(self) -> None:
        self.life.controllers.stop()
        await self._stack.aclose()


def _run(command: Path, *arguments: str) -> str:
    done = subprocess.run([str(command), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return done.stdout


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """An API server without controllers, scheduler and kubelets (see `life`)."""
    is_virtual = isinstance(asyncio.get_running_loop(), VirtualLoop)
    async with HttpsWebhookCaller() as webhooks:
        # In real time there are certificates, which are valid by the clock on the wall.
        yield ApiServer(clock=LoopClock(EPOCH if is_virtual else None), seed=7, webhook_caller=webhooks)
        if not is_virtual:
            await _end_background_tasks()
    assert not asyncio.get_running_loop().failures, "a background task failed"  # type: ignore[attr-defined]


async def _end_background_tasks() -> None:
    """No call may be under way when its connection is closed."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def life(server: ApiServer) -> RunningCluster:
    """Everything that makes the API server a cluster."""
    return start_cluster(server)


@pytest.fixture
async def connect(server: ApiServer) -> AsyncIterator[Connect]:
    """connect(): another client, each with a network of its own."""
    transports: list[InProcessTransport] = []

    def made(handle: Any = server.handle) -> Client:
        rng = random.Random(len(transports))

        async def delayed(*request: Any) -> Any:
            await asyncio.sleep(rng.uniform(*NETWORK_S))
            return await handle(*request)

        transports.append(InProcessTransport(delayed))
        return Client(transports[-1])

    yield made
    for transport in transports:
        await transport.close()


@pytest.fixture
def simulated_client(connect: Connect) -> Client:
    return connect()


@pytest.fixture
async def simulated_cluster(
    server: ApiServer,
    life: RunningCluster,
    simulated_client: Client,
    connect: Connect,
    custom_resource_definitions: list[Object],
) -> AsyncIterator[SimulatedCluster]:
    await simulated_client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    for definition in custom_resource_definitions:
        await simulated_client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    cluster = SimulatedCluster(server, life, simulated_client, connect)
    yield cluster
    await cluster.close()
