"""Informer tests run in virtual time: minutes without events take no time."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from kubesim.virtual_time import VirtualLoop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"jumping clock": VirtualLoop}


@pytest.fixture
def until() -> Callable[..., Awaitable[None]]:
    """Waits until something is so, for at most so many seconds of the jumping clock."""

    async def wait(true: Callable[[], Any], within_s: float = 60.0) -> None:
        async with asyncio.timeout(within_s):
            while not true():  # noqa: ASYNC110 - this clock jumps, so looking often costs nothing
                await asyncio.sleep(0.01)

    return wait
