"""Informer tests run on a clock that jumps: minutes of silence take no time."""

import asyncio
import selectors
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest


class _Jump(selectors.DefaultSelector):  # type: ignore[misc, valid-type]
    """Where a loop would sleep, it moves the clock instead."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise AssertionError("the test waits for something that will never happen")
        self.now += max(0.0, timeout)
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)

    def time(self) -> float:
        return self._jump.now


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"jumping clock": JumpingLoop}


@pytest.fixture
def until() -> Callable[..., Awaitable[None]]:
    """Waits until something is so, for at most so many seconds of the jumping clock."""

    async def wait(true: Callable[[], Any], within_s: float = 60.0) -> None:
        async with asyncio.timeout(within_s):
            while not true():  # noqa: ASYNC110 - this clock jumps, so looking often costs nothing
                await asyncio.sleep(0.01)

    return wait
