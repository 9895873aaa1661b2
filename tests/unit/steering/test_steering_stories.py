"""The tests of the real control plane, on a simulated cluster that lives in real time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from kubesim import ApiServer
from kubesim.running_cluster import start_cluster
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.kube.client import Client
from tests.e2e.facts.stage import Stage, until_usable
from tests.e2e.steering.replacing import *  # noqa: F403
from tests.e2e.steering.steered import SetSteered, Steered
from tests.testbed.fake_kubelet.nodes import node_object, node_shapes
from tests.unit.steering.conftest import Serve


class Played:
    """What a stage asks of a kubelet."""

    name = "simulated"

    def __init__(self, kubelets: Any) -> None:
        self.behave = kubelets.behave


@pytest.fixture
async def set_steered(
    server: ApiServer, client: Client, serve: Serve, eventually: Callable[..., Awaitable[Any]]
) -> AsyncIterator[SetSteered]:
    life = start_cluster(server)

    @contextlib.asynccontextmanager
    async def serving() -> AsyncIterator[None]:
        async with serve():
            yield

    async def set_it(nodes: int = 3) -> Steered:
        kubelet = Played(life.kubelets)
        for shape in node_shapes(nodes, kubelet.name):
            await client.create(NODES.as_json, node_object(shape, kubelet.name, server.clock.now()))
        stage = Stage(client, "shop", kubelet, await until_usable(client, kubelet, nodes))
        stage.behave()
        return Steered(stage, serving, eventually)

    yield set_it
    life.controllers.stop()
    # Nobody may be in the middle of a call when the network goes.
    living = asyncio.all_tasks() - {asyncio.current_task()}
    for task in living:
        task.cancel()
    await asyncio.gather(*living, return_exceptions=True)
