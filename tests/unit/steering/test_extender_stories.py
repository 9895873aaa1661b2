"""The tests of the real scheduler, with the simulated one, which asks our process over HTTPS."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from kubesim import ApiServer
from kubesim.running_cluster import start_cluster
from kubesim.scenario import parse_scenario
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.kube.client import Client
from rescheduler.steering.steering_server import SteeringServer
from tests.e2e.facts.stage import Stage, until_usable
from tests.e2e.steering.moving import *  # noqa: F403
from tests.e2e.steering.replacing import *  # noqa: F403
from tests.e2e.steering.steered import Extended, SetSteered
from tests.testbed.fake_kubelet.nodes import node_object, node_shapes
from tests.unit.steering.conftest import Serve
from tests.unit.steering.https_calls import asking
from tests.unit.steering.test_steering_stories import Played

SCENARIO = b"""
extenders:
- {url: "https://127.0.0.1/extender", filter: filter, prioritize: prioritize, weight: 2, ignorable: true}
"""


class Reached:
    """The extender that runs at the moment, if one does."""

    def __init__(self, client: Client) -> None:
        self.webhook: SteeringServer | None = None
        self._client = client

    async def ask(self, verb: str, body: bytes) -> bytes:
        if self.webhook is None:
            raise OSError("connection refused")
        async with asking(self._client, self.webhook) as call:
            status, answer = await call("POST", f"/extender/{verb}", body)
            assert status == 200
            return answer

    def at(self, _url: str, _timeout_s: float) -> Callable[[str, Any], Awaitable[Any]]:
        async def carry(verb: str, arguments: Any) -> Any:
            return json.loads(await self.ask(verb, json.dumps(arguments).encode()))

        return carry


@pytest.fixture
async def set_steered(
    server: ApiServer, client: Client, serve: Serve, eventually: Callable[..., Awaitable[Any]]
) -> AsyncIterator[SetSteered]:
    reached = Reached(client)
    scenario = parse_scenario(SCENARIO, source="test")
    life = start_cluster(server, scenario, reach_extender=reached.at)

    @contextlib.asynccontextmanager
    async def serving() -> AsyncIterator[None]:
        async with serve(registers=False) as webhook:
            reached.webhook = webhook
            yield
            reached.webhook = None

    async def set_it(nodes: int = 3) -> Extended:
        kubelet = Played(life.kubelets)
        for shape in node_shapes(nodes, kubelet.name):
            await client.create(NODES.as_json, node_object(shape, kubelet.name, server.clock.now()))
        stage = Stage(client, "shop", kubelet, await until_usable(client, kubelet, nodes))
        stage.behave()
        return Extended(stage, serving, eventually, reached.ask)

    yield set_it
    life.controllers.stop()
    # Nobody may be in the middle of a call when the network goes.
    living = asyncio.all_tasks() - {asyncio.current_task()}
    for task in living:
        task.cancel()
    await asyncio.gather(*living, return_exceptions=True)
