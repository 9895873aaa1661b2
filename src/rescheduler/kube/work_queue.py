"""A work queue of keys, the workers that reconcile them, and other tasks that run in the background.

    add ──▶ waiting ──▶ get ──▶ in progress ──▶ done ──▶ (added in the meantime? waiting again)
    add_after, retry ──▶ delayed ──┘

A key only means that its object may have changed. Each key is in the queue once, and one worker reconciles it
at a time. Keys wait in the order in which they were added, so none starves. A key that fails is retried after
a delay that doubles, with jitter; `forget` resets the delay after a success.
"""

import asyncio
import contextlib
import logging
import random
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from datetime import datetime
from typing import Any, Final

from rescheduler.kube import errors
from rescheduler.kube.request_sender import Backoff

__all__ = ["QueueClosed", "Reconcile", "RetryLater", "WorkQueue", "WorkerPool", "background_task"]


FIRST_RETRY_S: Final = 0.2
LONGEST_RETRY_S: Final = 120.0


class QueueClosed(Exception):  # noqa: N818 - says what happened
    """The queue is closed: workers stop."""


class WorkQueue:
    """A queue of keys. Delays use the event loop's clock, so a virtual clock works too."""

    def __init__(
        self,
        *,
        first_retry_s: float = FIRST_RETRY_S,
        longest_retry_s: float = LONGEST_RETRY_S,
        rng: random.Random | None = None,
    ) -> None:
        self._waiting: dict[str, None] = {}
        self._in_progress: set[str] = set()
        self._again: dict[str, None] = {}
        """Keys that were added while in progress: they wait again when that is done."""
        self._delayed: dict[str, asyncio.TimerHandle] = {}
        self._backoffs: dict[str, Backoff] = {}
        self._first_retry_s, self._longest_retry_s = first_retry_s, longest_retry_s
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not a secret
        self._idle_workers: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        """Return the number of waiting keys."""
        return len(self._waiting)

    def add(self, key: str) -> None:
        """Add a key now; a delay of the key is dropped."""
        if self._closed:
            return
        self._drop_delay(key)
        if key in self._in_progress:
            self._again[key] = None
        elif key not in self._waiting:
            self._waiting[key] = None
            self._wake_one()

    def add_after(self, key: str, delay_s: float) -> None:
        """Add a key after a delay, unless it is added earlier; the earliest of several delays counts."""
        if self._closed or key in self._waiting or key in self._again:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + max(delay_s, 0.0)
        timer = self._delayed.get(key)
        if timer is not None and timer.when() <= due:
            return
        self._drop_delay(key)
        self._delayed[key] = loop.call_at(due, self.add, key)

    def retry(self, key: str, *, at_least_s: float = 0.0) -> float:
        """Add a key after a delay that doubles with every failure; return the delay."""
        backoff = self._backoffs.get(key)
        if backoff is None:
            backoff = self._backoffs[key] = Backoff(self._first_retry_s, self._longest_retry_s, self._rng)
        delay_s = max(backoff.next_delay_s(), at_least_s)
        self.add_after(key, delay_s)
        return delay_s

    def forget(self, key: str) -> None:
        """Reset the retry delay of a key after a success."""
        self._backoffs.pop(key, None)

    async def get(self) -> str:
        """Return the key that has waited longest; it is in progress until `done`. Raises `QueueClosed`."""
        while not self._waiting and not self._closed:
            turn = asyncio.get_running_loop().create_future()
            self._idle_workers.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                # It may have been woken at the same moment: then wake the next worker.
                if turn.done() and not turn.cancelled():
                    self._wake_one()
                raise
        if self._closed:
            raise QueueClosed
        key = next(iter(self._waiting))
        del self._waiting[key]
        self._in_progress.add(key)
        return key

    def done(self, key: str) -> None:
        self._in_progress.discard(key)
        if key in self._again:
            del self._again[key]
            self.add(key)

    def close(self) -> None:
        """Drop all waiting and delayed keys; workers finish the keys in progress."""
        self._closed = True
        for timer in self._delayed.values():
            timer.cancel()
        self._delayed.clear()
        self._waiting.clear()
        self._again.clear()
        while self._idle_workers:
            self._wake_one()

    def _drop_delay(self, key: str) -> None:
        timer = self._delayed.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _wake_one(self) -> None:
        while self._idle_workers:
            turn = self._idle_workers.popleft()
            if not turn.done():
                turn.set_result(None)
                return


log = logging.getLogger(__name__)

Reconcile = Callable[[str], Awaitable[datetime | None]]
"""Reconcile a key; return when to reconcile it again if nothing changes before. If it raises `KubeError` or
`RetryLater`, the key is retried after a delay that doubles."""


class RetryLater(Exception):  # noqa: N818 - says what to do
    """An action had no visible effect yet: repeating it immediately would be a busy loop."""


class WorkerPool:
    """Workers that reconcile the keys of a queue.

    WorkQueue ──▶ N workers ──▶ reconcile
        ▲                          │
        └── requeue at, retry ─────┘
    """

    def __init__(
        self, queue: WorkQueue, reconcile: Reconcile, now: Callable[[], datetime], *, count: int, task: str
    ) -> None:
        """Create the pool; `task` describes a key in the log: "migration", "recovery of"."""
        self._queue = queue
        self._reconcile = reconcile
        self._now = now
        self._count = count
        self._task = task
        self._workers: list[asyncio.Task[None]] = []

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Run the workers while the body runs. At its end all are cancelled: the state in the cluster
        suffices."""
        self._workers = [
            asyncio.create_task(self._work(), name=f"{self._task} {number}") for number in range(self._count)
        ]
        try:
            yield
        finally:
            self._queue.close()
            for worker in self._workers:
                worker.cancel()
            await asyncio.gather(*self._workers, return_exceptions=True)

    async def finish(self, within_s: float) -> None:
        """Start no more keys, and give those in progress this long to finish."""
        self._queue.close()
        if self._workers:
            await asyncio.wait(self._workers, timeout=within_s)

    async def _work(self) -> None:
        while True:
            try:
                key = await self._queue.get()
            except QueueClosed:
                return
            try:
                await self._reconcile_key(key)
            finally:
                self._queue.done(key)
            # Most reconciliations don't wait: thousands of keys in a row must not block the event loop.
            await asyncio.sleep(0)

    async def _reconcile_key(self, key: str) -> None:
        try:
            requeue_at = await self._reconcile(key)
        except errors.KubeError as error:
            delay_s = self._queue.retry(key, at_least_s=getattr(error, "delay_s", 0.0))
            level = logging.INFO if error.retriable else logging.ERROR
            log.log(level, "%s %s: %s Retrying in %.1f s.", self._task, key, error, delay_s)
        except RetryLater as why:
            delay_s = self._queue.retry(key)
            log.info("%s %s: %s. Retrying in %.1f s.", self._task, key, why, delay_s)
        except Exception:
            log.exception("%s %s: a bug in rescheduler; retrying later", self._task, key)
            self._queue.retry(key)
        else:
            self._queue.forget(key)
            if requeue_at is not None:
                self._queue.add_after(key, (requeue_at - self._now()).total_seconds())


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
