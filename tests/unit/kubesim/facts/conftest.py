"""The stage of the facts (`tests/e2e/facts`), on a simulated cluster in virtual time.

The test functions are the same that were told by the real control plane. Here everybody is simulated:
controllers, scheduler, kubelets, heartbeats.
"""

import asyncio
import contextlib
import random
from datetime import datetime

import pytest

from kubesim import ApiServer
from kubesim.running_cluster import EPOCH, start_cluster
from kubesim.scheduler import Extender
from kubesim.sockets.outbound_calls import HttpExtenderCaller, HttpsWebhookCaller
from kubesim.virtual_time import Clock, LoopClock, VirtualLoop
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from rescheduler.kube.client import Client
from rescheduler.kube.transport import InProcessTransport
from tests.e2e.facts import adopt, test_adopt_timing
from tests.e2e.facts.podmigrations import definitions
from tests.e2e.facts.stage import Stage, until_usable
from tests.testbed import Options, Part
from tests.testbed.fake_kubelet.nodes import node_object, node_shapes

NETWORK_S = 0.001, 0.020
"""A request takes a moment, more or less: controllers react between two requests of one client."""


class _Observed:
    """Keeps what breaks in the background, so that a test can say so."""

    def __init__(self):
        super().__init__()
        self.broken = []
        self.set_exception_handler(lambda _, context: self.broken.append(context))


class ObservedLoop(_Observed, VirtualLoop): ...


class ObservedRealLoop(_Observed, asyncio.SelectorEventLoop): ...


def pytest_asyncio_loop_factories(config, item):
    """Virtual time, but for facts that have a server of their own: that answers in real time."""
    if "webhook" in item.name:
        return {"real": ObservedRealLoop}
    return {"virtual": ObservedLoop}


class ClusterTime(datetime):
    """The wall clock that the facts look at is the cluster's."""

    clock: Clock

    @classmethod
    def now(cls, tz=None):
        return cls.clock.now()


class Played:
    """What a stage asks of a kubelet."""

    name = "simulated"

    def __init__(self, kubelets):
        self.behave = kubelets.behave


class ControlPlane:
    """What the facts do to a control plane besides asking it."""

    def __init__(self, life, extenders):
        self.options = Options()
        self._life, self._extenders = life, extenders

    def stop_part(self, part):
        assert part is Part.CONTROLLER_MANAGER
        self._life.controllers.stop()

    def start_part(self, part):
        assert part is Part.CONTROLLER_MANAGER
        self._life.controllers.start()

    def restart(self, part, options):
        assert part is Part.SCHEDULER
        self.options = options
        self._life.scheduler.extenders = tuple(
            Extender(
                name=each.url_prefix,
                carry=self._extenders.at(each.url_prefix, each.timeout_s),
                filter_verb=each.filter_verb,
                prioritize_verb=each.prioritize_verb,
                ignorable=each.ignorable,
                node_cache_capable=each.node_cache_capable,
            )
            for each in options.extenders
        )


@pytest.fixture
async def cluster(monkeypatch):
    async def at_once(work, *arguments):
        return work(*arguments)

    # A thread would answer in real time.
    monkeypatch.setattr(asyncio, "to_thread", at_once)
    for module in (adopt, test_adopt_timing):
        monkeypatch.setattr(module, "datetime", ClusterTime)
    async with HttpsWebhookCaller() as webhooks, HttpExtenderCaller() as extenders:
        server = ApiServer(clock=LoopClock(EPOCH), seed=7, webhook_caller=webhooks)
        ClusterTime.clock = server.clock
        life = start_cluster(server)
        yield server, life, ControlPlane(life, extenders)
        life.controllers.stop()
    assert not asyncio.get_running_loop().broken, "somebody crashed"


@pytest.fixture
def control_plane(cluster):
    return cluster[2]


@pytest.fixture
async def client(cluster):
    server, dice = cluster[0], random.Random(1)

    async def handle(method, target, headers, body):
        await asyncio.sleep(dice.uniform(*NETWORK_S))
        return await server.handle(method, target, headers, body)

    transport = InProcessTransport(handle)
    yield Client(transport)
    await transport.close()


@pytest.fixture
async def namespace(client):
    await client.create(NAMESPACES, {"metadata": {"name": "facts"}})
    return "facts"


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
def tell_usage():
    """The simulator tells all the time what pods use."""
    return contextlib.nullcontext


@pytest.fixture
async def set_stage(cluster, client, namespace):
    server, life, _ = cluster
    for definition in definitions():
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)

    async def set_it(nodes=4):
        kubelet = Played(life.kubelets)
        for shape in node_shapes(nodes, kubelet.name):
            made = node_object(shape, kubelet.name, server.clock.now())
            await client.create(NODES.as_json, made)
        stage = Stage(client, namespace, kubelet, await until_usable(client, kubelet, nodes))
        stage.behave()
        return stage

    return set_it
