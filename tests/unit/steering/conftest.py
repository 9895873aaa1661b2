"""A simulated cluster with its own clients, and the webhook on a port of this machine."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from kubesim import ApiServer
from kubesim.sockets.outbound_calls import HttpsWebhookCaller
from rescheduler.api.podmigration_crd import podmigration_crd
from rescheduler.config.policy import Policy
from rescheduler.kube.api_resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    VALIDATING_WEBHOOKS,
    merge_patch,
)
from rescheduler.kube.client import Client
from rescheduler.kube.transport import InProcessTransport
from rescheduler.steering.steering_server import SteeringServer
from rescheduler.steering.webhook.eviction_guard import EvictionSettings
from tests.stories.steering.simulated_steering import serving

Serve = Callable[..., Any]


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    made = ApiServer(seed=7)
    async with HttpsWebhookCaller() as caller:
        made.cluster.admission.webhooks.caller = caller
        yield made


@pytest.fixture
async def connect(server: ApiServer) -> AsyncIterator[Callable[[], Client]]:
    clients: list[Client] = []

    async def handle(method: str, target: str, headers: Any, body: bytes) -> Any:
        # As on any network, others have their turn between two requests of one client.
        await asyncio.sleep(0.001)
        return await server.handle(method, target, headers, body)

    def made() -> Client:
        clients.append(Client(InProcessTransport(handle)))
        return clients[-1]

    yield made
    for client in clients:
        await client.close()


@pytest.fixture
async def client(connect: Callable[[], Client]) -> Client:
    made = connect()
    for name in ("ours", "shop"):
        await made.create(NAMESPACES, {"metadata": {"name": name}})
    await made.create(CUSTOM_RESOURCE_DEFINITIONS, podmigration_crd())
    return made


@pytest.fixture
def serve(client: Client, unused_tcp_port_factory: Callable[[], int]) -> Serve:
    """async with serve(): a webhook that is ready and registered; options are those of the webhook."""

    return lambda **options: serving(client, unused_tcp_port_factory(), **options)


@pytest.fixture
def eventually() -> Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]:
    async def wait(look: Callable[[], Awaitable[Any]]) -> Any:
        async with asyncio.timeout(60):
            while not (seen := await look()):  # noqa: ASYNC110 - only asking tells
                await asyncio.sleep(0.01)
        return seen

    return wait


@pytest.fixture
def guarded(client: Client, serve: Serve) -> Any:
    @contextlib.asynccontextmanager
    async def guarding(policy: Policy | None = None) -> AsyncIterator[SteeringServer]:
        settings = EvictionSettings(policy or Policy(), "ours", "rescheduler", "ours")
        async with serve(evictions=settings) as webhook:
            guard = webhook._service.evictions
            assert guard is not None
            await guard._caches.synced()
            await _wait_for_answers(client)
            yield webhook

    return guarding


async def _wait_for_answers(client: Client) -> None:
    """Let the server wait for a webhook on a busy machine: after two seconds, evictions would pass."""
    (item,) = (await client.list(VALIDATING_WEBHOOKS)).items
    hooks = [hook | {"timeoutSeconds": 30} for hook in item["webhooks"]]
    await client.patch(VALIDATING_WEBHOOKS, item["metadata"]["name"], merge_patch({"webhooks": hooks}))
