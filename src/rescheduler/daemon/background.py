"""Work that goes on beside the rest, and work that the end breaks off."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

__all__ = ["BrokenOff", "broken_off_by", "in_background"]

Work = Coroutine[Any, Any, None]


class BrokenOff(Exception):  # noqa: N818 - says what happened
    """The end was asked for before it was done."""


@contextlib.asynccontextmanager
async def broken_off_by(ended: asyncio.Event) -> AsyncIterator[None]:
    """The body need not be waited for when the end is asked for: then this raises `BrokenOff`."""
    loop, patience = asyncio.get_running_loop(), asyncio.timeout(None)

    async def lose_patience() -> None:
        await ended.wait()
        patience.reschedule(loop.time())

    try:
        async with patience:
            watching = asyncio.create_task(lose_patience())
            try:
                yield
            finally:
                watching.cancel()
    except TimeoutError:
        if not patience.expired():
            raise
        raise BrokenOff from None


@contextlib.asynccontextmanager
async def in_background(ended: asyncio.Event) -> AsyncIterator[Callable[[Work, str], None]]:
    """Gives what starts work that goes on while the body runs.

    None of it ever ends by itself. If it does, that is a fault of the program: everything is ended in good
    order, and the fault is raised.
    """
    tasks: list[asyncio.Task[None]] = []

    def start(work: Work, name: str) -> None:
        tasks.append(asyncio.create_task(work, name=name))
        tasks[-1].add_done_callback(lambda _: ended.set())

    try:
        yield start
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
