"""Tasks that run in the background of a `with` block."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Coroutine
from typing import Any

__all__ = ["background_task"]

log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def background_task(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    """Run `work` while the body runs, then cancel it and wait until it has stopped.

    A failure of `work` is logged when it happens and raised when the body ends.
    """
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_log_failure)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _log_failure(task: asyncio.Task[None]) -> None:
    # The body may run for days before it ends and raises the error.
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("the background task %r failed", task.get_name(), exc_info=error)
