"""Workers that look at keys: each as it comes, again when that look says so, and later if it failed.

WorkQueue ──▶ N workers ──▶ look
    ▲                         │
    └── look again at, retry ─┘
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime

from rescheduler.controller.queue import Closed, WorkQueue
from rescheduler.kube import errors

__all__ = ["Look", "TryAgain", "Workers"]

log = logging.getLogger(__name__)

Look = Callable[[str], Awaitable[datetime | None]]
"""When to look again at that key, if nothing changes before. Raises `KubeError` or `TryAgain`: then the
queue decides when, with a pause that doubles."""


class TryAgain(Exception):  # noqa: N818 - reads as what is to be done
    """Something was done and is not seen to help: to do it again at once would be a loop."""


class Workers:
    def __init__(
        self, queue: WorkQueue, look: Look, now: Callable[[], datetime], *, count: int, task: str
    ) -> None:
        """`task` is what a look at a key is called in the log: "migration", "recovery of"."""
        self._queue = queue
        self._look = look
        self._now = now
        self._count = count
        self._task = task
        self._at_work: list[asyncio.Task[None]] = []

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """While the body runs. At its end every worker stops where it is: the record suffices."""
        self._at_work = [
            asyncio.create_task(self._work(), name=f"{self._task} {number}") for number in range(self._count)
        ]
        try:
            yield
        finally:
            self._queue.close()
            for worker in self._at_work:
                worker.cancel()
            await asyncio.gather(*self._at_work, return_exceptions=True)

    async def finish(self, within_s: float) -> None:
        """Before the end: no key is begun any more, and those at work have so long to come to a stop."""
        self._queue.close()
        if self._at_work:
            await asyncio.wait(self._at_work, timeout=within_s)

    async def _work(self) -> None:
        while True:
            try:
                key = await self._queue.get()
            except Closed:
                return
            try:
                await self._look_at(key)
            finally:
                self._queue.done(key)
            # Most looks wait for nothing: thousands of keys in a row must not hold up the event loop.
            await asyncio.sleep(0)

    async def _look_at(self, key: str) -> None:
        try:
            look_again = await self._look(key)
        except errors.KubeError as error:
            delay_s = self._queue.retry(key, at_least_s=getattr(error, "delay_s", 0.0))
            level = logging.INFO if error.retriable else logging.ERROR
            log.log(level, "%s %s: %s Tried again in %.1f s.", self._task, key, error, delay_s)
        except TryAgain as why:
            delay_s = self._queue.retry(key)
            log.info("%s %s: %s. Tried again in %.1f s.", self._task, key, why, delay_s)
        except Exception:
            log.exception("%s %s: a fault of the program; tried again later", self._task, key)
            self._queue.retry(key)
        else:
            self._queue.forget(key)
            if look_again is not None:
                self._queue.add_later(key, (look_again - self._now()).total_seconds())
