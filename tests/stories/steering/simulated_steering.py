"""The webhook and the extender in this process, called by the simulated API server and scheduler."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from kubesim.scheduler import Extender
from rescheduler.kube.api_resources import NAMESPACES
from rescheduler.kube.client import Client
from rescheduler.steering.steering_server import SteeringServer, SteeringServerOptions
from rescheduler.steering.webhook.certificate_manager import CertificateIntervals
from rescheduler.steering.webhook.webhook_configurations import UrlAddress
from tests.stories.simulated_cluster import SimulatedCluster
from tests.stories.steering.https_calls import asking
from tests.stories.steering.steered import Ask, Serving
from tests.webhook_installed import install_webhook

__all__ = ["HOME", "PACE", "ask_on_simulator", "extender_on_simulator", "serving", "webhook_on_simulator"]

HOME = "ours"
"""The namespace of our own objects."""
PACE = CertificateIntervals(pause_s=0.02, retry_s=0.05)


@contextlib.asynccontextmanager
async def serving(
    client: Client,
    port: int,
    *,
    until_ready: bool = True,
    ended: asyncio.Event | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    **options: Any,
) -> AsyncIterator[SteeringServer]:
    """A webhook that is ready and registered; options are those of the webhook."""
    address = UrlAddress(f"https://127.0.0.1:{port}")
    await install_webhook(client, HOME, address)
    defaults = {"host": "127.0.0.1", "port": port, "extender_port": 0, "pace": PACE, "drain_s": 0.0}
    webhook = SteeringServer(client, SteeringServerOptions(HOME, address, **(defaults | options)), now=now)
    ended = ended or asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(webhook.run_until(ended))
        await webhook.registered()
        if until_ready:
            await webhook.ready()
        yield webhook
        ended.set()


@pytest.fixture
async def home(simulated_cluster: SimulatedCluster) -> None:
    await simulated_cluster.client.create(NAMESPACES, {"metadata": {"name": HOME}})


@pytest.fixture
def webhook_on_simulator(
    simulated_cluster: SimulatedCluster, home: None, unused_tcp_port_factory: Callable[[], int]
) -> Serving:
    @contextlib.asynccontextmanager
    async def served() -> AsyncIterator[None]:
        async with serving(simulated_cluster.client, unused_tcp_port_factory()):
            yield

    return served


class ReachableExtender:
    """The extender that runs at the moment, if one does."""

    def __init__(self, client: Client) -> None:
        self.server: SteeringServer | None = None
        self._client = client

    async def ask(self, verb: str, body: bytes) -> bytes:
        if self.server is None:
            raise OSError("connection refused")
        async with asking(self._client, self.server) as call:
            status, answer = await call("POST", f"/extender/{verb}", body)
            assert status == 200
            return answer

    async def carry(self, verb: str, arguments: Any) -> Any:
        return json.loads(await self.ask(verb, json.dumps(arguments).encode()))


@pytest.fixture
def reachable_extender(simulated_cluster: SimulatedCluster) -> ReachableExtender:
    extender = ReachableExtender(simulated_cluster.client)
    simulated_cluster.life.scheduler.extenders = (
        Extender(
            name="https://127.0.0.1/extender",
            carry=extender.carry,
            filter_verb="filter",
            prioritize_verb="prioritize",
            weight=2,
            ignorable=True,
        ),
    )
    return extender


@pytest.fixture
def extender_on_simulator(
    simulated_cluster: SimulatedCluster,
    home: None,
    reachable_extender: ReachableExtender,
    unused_tcp_port_factory: Callable[[], int],
) -> Serving:
    @contextlib.asynccontextmanager
    async def served() -> AsyncIterator[None]:
        async with serving(simulated_cluster.client, unused_tcp_port_factory(), registers=False) as server:
            reachable_extender.server = server
            yield
            reachable_extender.server = None

    return served


@pytest.fixture
def ask_on_simulator(reachable_extender: ReachableExtender) -> Ask:
    return reachable_extender.ask
