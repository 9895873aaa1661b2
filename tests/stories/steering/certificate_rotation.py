"""A clock that runs ahead, so that certificates become due during a test."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from rescheduler.kube.api_resources import SECRETS
from rescheduler.kube.client import Client
from rescheduler.steering.webhook.certificate_secret import (
    CertificateLifetimes,
    ServingCredentials,
    credentials_of_secret,
    next_renewal_at,
)
from rescheduler.steering.webhook.webhook_configurations import WEBHOOK_SECRET

__all__ = ["LIFETIMES", "ROUNDS_S", "ClockAhead", "credentials_of", "is_caught_up", "under_load"]

LIFETIMES = CertificateLifetimes(
    timedelta(seconds=360), timedelta(seconds=200), overlap=timedelta(seconds=20)
)
"""So short that the clock has to run ahead by less than certificates are made valid in advance: all of them
are valid by every clock."""
ROUNDS_S = (0, 140, 245, 270, 290)
"""The serving certificate is due, then the authority, then its successor takes over, and all goes on."""


class ClockAhead:
    def __init__(self) -> None:
        self.by_s = 0

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.by_s)


async def credentials_of(client: Client, namespace: str) -> ServingCredentials:
    return credentials_of_secret((await client.get(SECRETS, f"{namespace}/{WEBHOOK_SECRET}"))["data"])


@asynccontextmanager
async def under_load(
    ask: Callable[[], Awaitable[None]], eventually: Callable[..., Awaitable[Any]], workers: int = 3
) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
    """Asks without end while the body runs; `await asked(n)` returns after n more. What fails ends it all."""
    count = 0

    async def ask_without_end() -> None:
        nonlocal count
        while True:
            await ask()
            count += 1

    async def asked(more: int) -> None:
        goal = count + more

        async def enough() -> bool:
            return count >= goal

        await eventually(enough)

    async with asyncio.TaskGroup() as load:
        tasks = [load.create_task(ask_without_end()) for _ in range(workers)]
        yield asked
        for task in tasks:
            task.cancel()


def is_caught_up(found: ServingCredentials, clock: ClockAhead) -> bool:
    """Nothing is due any more."""
    return clock.now() < next_renewal_at(found, LIFETIMES)
