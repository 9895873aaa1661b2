"""Calls to our process, as those who trust its certificate make them."""

import contextlib
import io
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp

from rescheduler.kube.client import Client
from rescheduler.serving.webhook import Webhook
from tests.e2e.webhook.rotating import credentials_of

__all__ = ["Call", "calling", "trusted_by_callers"]

Call = Callable[..., Awaitable[tuple[int, bytes]]]


async def trusted_by_callers(client: Client) -> str:
    return (await credentials_of(client, "ours")).trusted.decode()


@contextlib.asynccontextmanager
async def calling(client: Client, webhook: Webhook) -> AsyncIterator[Call]:
    """call(method, path, body), each on a connection of its own, so that every one sees the certificate."""
    async with aiohttp.ClientSession() as session:

        async def call(method: str, path: str, body: bytes = b"", *, trusted: str = "") -> tuple[int, bytes]:
            context = ssl.create_default_context(cadata=trusted or await trusted_by_callers(client))
            headers = {"connection": "close"}
            url = f"https://127.0.0.1:{webhook.port}{path}"
            asked = session.request(method, url, data=io.BytesIO(body), ssl=context, headers=headers)
            async with asked as response:
                return response.status, await response.read()

        yield call
