"""The stage of `tests/e2e/migrations`, on a simulated cluster in virtual time.

The test functions are the same that run on the real control plane. A request takes a moment, more or less:
controllers, scheduler and kubelets react between two requests of one client.
"""

import asyncio
import contextlib
import random
from dataclasses import replace

import pytest

from kubesim import ApiServer
from kubesim.running_cluster import EPOCH, start_cluster
from kubesim.sockets.outbound_calls import HttpsWebhookCaller
from kubesim.virtual_time import LoopClock, VirtualLoop
from rescheduler.api.podmigration_crd import podmigration_crd
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from rescheduler.kube.client import Client
from rescheduler.kube.transport import InProcessTransport
from tests.e2e.facts.stage import Stage, until_usable
from tests.e2e.migrations.moving import Moves
from tests.testbed.fake_kubelet.nodes import node_object, node_shapes
from tests.unit.migrations.controller.ephemeral_claims import EphemeralClaims

NETWORK_S = 0.001, 0.020


class _Observed:
    """Keeps what breaks in the background, so that a test can say so."""

    def __init__(self):
        super().__init__()
        self.broken = []
        self.set_exception_handler(lambda _, context: self.broken.append(context))


class ObservedLoop(_Observed, VirtualLoop): ...


class ObservedRealLoop(_Observed, asyncio.SelectorEventLoop): ...


def pytest_asyncio_loop_factories(config, item):
    """Virtual time, but for tests that have a server of their own: that answers in real time."""
    if "that_a_webhook" in item.name:
        return {"real": ObservedRealLoop}
    return {"virtual": ObservedLoop}


class Played:
    """What a stage asks of a kubelet."""

    name = "simulated"

    def __init__(self, kubelets):
        self.behave = kubelets.behave


@pytest.fixture
async def server():
    async with HttpsWebhookCaller() as webhooks:
        yield ApiServer(clock=LoopClock(EPOCH), seed=7, webhook_caller=webhooks)
    assert not asyncio.get_running_loop().broken, "somebody crashed"


@pytest.fixture
def life(server):
    return start_cluster(server)


@pytest.fixture
async def connect(server):
    """connect(): another client, each with a network of its own."""
    transports = []

    def made(handle=server.handle):
        dice = random.Random(len(transports))

        async def delayed(method, target, headers, body):
            await asyncio.sleep(dice.uniform(*NETWORK_S))
            return await handle(method, target, headers, body)

        transports.append(InProcessTransport(delayed))
        return Client(transports[-1])

    yield made
    for transport in transports:
        await transport.close()


@pytest.fixture
def client(connect):
    return connect()


@pytest.fixture
def tell_usage():
    """The simulator tells all the time what pods use."""
    return contextlib.nullcontext


@pytest.fixture
async def ephemeral_claims(client):
    async with asyncio.TaskGroup() as tasks, EphemeralClaims(client).playing(tasks):
        yield


@pytest.fixture
def eventually():
    """await eventually(look): asks until the answer is true."""

    async def wait(look):
        async with asyncio.timeout(60):
            while not (seen := await look()):  # noqa: ASYNC110 - only asking tells
                await asyncio.sleep(0.1)
        return seen

    return wait


@pytest.fixture
async def set_moves(server, life, client):
    await client.create(NAMESPACES, {"metadata": {"name": "moves"}})
    await client.create(CUSTOM_RESOURCE_DEFINITIONS, podmigration_crd())

    async def set_it(nodes=4, **policy):
        kubelet = Played(life.kubelets)
        for shape in node_shapes(nodes, kubelet.name):
            await client.create(NODES.as_json, node_object(shape, kubelet.name, server.clock.now()))
        stage = Stage(client, "moves", kubelet, await until_usable(client, kubelet, nodes))
        stage.behave()
        moves = Moves(stage, server.clock.now)
        moves.policy = replace(moves.policy, **policy)
        return moves

    return set_it
