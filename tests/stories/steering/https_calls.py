"""Calls to our process by clients that trust its certificate."""

import contextlib
import io
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp

from kubevalues.connections import ClosingConnector, load_certificate_into
from rescheduler.kube.client import Client
from rescheduler.steering.steering_server import SteeringServer
from tests.stories.steering.certificate_rotation import credentials_of

__all__ = ["Call", "asking", "calling", "scheduler_tls", "trusted_by_callers"]

Call = Callable[..., Awaitable[tuple[int, bytes]]]


async def trusted_by_callers(client: Client) -> str:
    return (await credentials_of(client, "ours")).trusted.decode()


@contextlib.asynccontextmanager
async def calling(client: Client, webhook: SteeringServer) -> AsyncIterator[Call]:
    """call(method, path, body), each on a connection of its own, so that every one sees the certificate."""
    async with aiohttp.ClientSession(connector=ClosingConnector()) as session:

        async def call(method: str, path: str, body: bytes = b"", *, trusted: str = "") -> tuple[int, bytes]:
            context = ssl.create_default_context(cadata=trusted or await trusted_by_callers(client))
            return await _called(session, method, webhook.port, path, body, context)

        yield call


@contextlib.asynccontextmanager
async def asking(client: Client, webhook: SteeringServer) -> AsyncIterator[Call]:
    """call(method, path, body), as a scheduler that was given the certificate for that."""
    async with aiohttp.ClientSession(connector=ClosingConnector()) as session:

        async def call(method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
            context = await scheduler_tls(client)
            return await _called(session, method, webhook.extender_port, path, body, context)

        yield call


async def scheduler_tls(client: Client) -> ssl.SSLContext:
    found = await credentials_of(client, "ours")
    assert found.client is not None
    context = ssl.create_default_context(cadata=found.trusted.decode())
    load_certificate_into(context, found.client.certificate, found.client.key)
    return context


async def _called(
    session: aiohttp.ClientSession, method: str, port: int, path: str, body: bytes, context: ssl.SSLContext
) -> tuple[int, bytes]:
    url = f"https://127.0.0.1:{port}{path}"
    headers = {"connection": "close"}
    async with session.request(method, url, data=io.BytesIO(body), ssl=context, headers=headers) as response:
        return response.status, await response.read()
