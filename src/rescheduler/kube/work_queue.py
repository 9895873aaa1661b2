"""Keys that want to be looked at: each once, by one worker at a time, when its time has come.

    add ──▶ waiting ──▶ get ──▶ at work ──▶ done ──▶ (added meanwhile? waiting again)
    add_later, retry ──▶ delayed ──┘

A key says only that something about its object may have changed. Keys wait in the order in which they came,
so none is passed over, and one that keeps coming back queues up behind the others. A key that fails comes
back after a pause that doubles, with jitter; `forget` ends that when it went well.

Workers that look at keys: each as it comes, again when that look says so, and later if it failed.

WorkQueue ──▶ N workers ──▶ look
    ▲                         │
    └── look again at, retry ─┘
"""

import asyncio
import contextlib
import logging
import random
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import Final

from rescheduler.kube import errors
from rescheduler.kube.flow_control import Backoff

__all__ = ["QueueClosed", "Reconcile", "RetryLater", "WorkQueue", "WorkerPool"]

FIRST_RETRY_S: Final = 0.2
LONGEST_RETRY_S: Final = 120.0


class QueueClosed(Exception):  # noqa: N818 - reads as what happened
    """No more keys will come: a worker ends its loop."""


class WorkQueue:
    """On the event loop's clock, so that it runs on a virtual one too."""

    def __init__(
        self,
        *,
        first_retry_s: float = FIRST_RETRY_S,
        longest_retry_s: float = LONGEST_RETRY_S,
        dice: random.Random | None = None,
    ) -> None:
        self._waiting: dict[str, None] = {}
        self._at_work: set[str] = set()
        self._again: dict[str, None] = {}
        """Added while at work: they wait again as soon as that work is done."""
        self._delayed: dict[str, asyncio.TimerHandle] = {}
        self._backoffs: dict[str, Backoff] = {}
        self._first_retry_s, self._longest_retry_s = first_retry_s, longest_retry_s
        self._dice = dice or random.Random()  # noqa: S311 - jitter, not a secret
        self._idle_workers: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        """Keys that could be looked at now."""
        return len(self._waiting)

    @property
    def is_idle(self) -> bool:
        """Nothing waits and nobody works; keys may still be due later."""
        return not self._waiting and not self._at_work

    def add(self, key: str) -> None:
        """Now. A time that was set for later is dropped: whoever looks will say anew when to look again."""
        if self._closed:
            return
        self._drop_delay(key)
        if key in self._at_work:
            self._again[key] = None
        elif key not in self._waiting:
            self._waiting[key] = None
            self._wake_one()

    def add_after(self, key: str, delay_s: float) -> None:
        """After a while, unless it comes sooner anyway; the earliest of several times counts."""
        if self._closed or key in self._waiting or key in self._again:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + max(delay_s, 0.0)
        known = self._delayed.get(key)
        if known is not None and known.when() <= due:
            return
        self._drop_delay(key)
        self._delayed[key] = loop.call_at(due, self.add, key)

    def retry(self, key: str, *, at_least_s: float = 0.0) -> float:
        """After a pause that grows with every failure; says how long it is."""
        backoff = self._backoffs.get(key)
        if backoff is None:
            backoff = self._backoffs[key] = Backoff(self._first_retry_s, self._longest_retry_s, self._dice)
        delay_s = max(backoff.next_delay_s(), at_least_s)
        self.add_after(key, delay_s)
        return delay_s

    def forget(self, key: str) -> None:
        """It went well: the next failure is the first again."""
        self._backoffs.pop(key, None)

    async def get(self) -> str:
        """The key that has waited longest; it is at work until `done`. Raises `Closed`."""
        while not self._waiting and not self._closed:
            turn = asyncio.get_running_loop().create_future()
            self._idle_workers.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                # Its turn may have come in the same moment: then it is the next one's.
                if turn.done() and not turn.cancelled():
                    self._wake_one()
                raise
        if self._closed:
            raise QueueClosed
        key = next(iter(self._waiting))
        del self._waiting[key]
        self._at_work.add(key)
        return key

    def done(self, key: str) -> None:
        self._at_work.discard(key)
        if key in self._again:
            del self._again[key]
            self.add(key)

    def close(self) -> None:
        """Workers finish what they are at; what waits is dropped."""
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
"""When to look again at that key, if nothing changes before. Raises `KubeError` or `TryAgain`: then the
queue decides when, with a pause that doubles."""


class RetryLater(Exception):  # noqa: N818 - reads as what is to be done
    """Something was done and is not seen to help: to do it again at once would be a loop."""


class WorkerPool:
    def __init__(
        self, queue: WorkQueue, look: Reconcile, now: Callable[[], datetime], *, count: int, task: str
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
            except QueueClosed:
                return
            try:
                await self._reconcile_key(key)
            finally:
                self._queue.done(key)
            # Most looks wait for nothing: thousands of keys in a row must not hold up the event loop.
            await asyncio.sleep(0)

    async def _reconcile_key(self, key: str) -> None:
        try:
            look_again = await self._look(key)
        except errors.KubeError as error:
            delay_s = self._queue.retry(key, at_least_s=getattr(error, "delay_s", 0.0))
            level = logging.INFO if error.retriable else logging.ERROR
            log.log(level, "%s %s: %s Tried again in %.1f s.", self._task, key, error, delay_s)
        except RetryLater as why:
            delay_s = self._queue.retry(key)
            log.info("%s %s: %s. Tried again in %.1f s.", self._task, key, why, delay_s)
        except Exception:
            log.exception("%s %s: a fault of the program; tried again later", self._task, key)
            self._queue.retry(key)
        else:
            self._queue.forget(key)
            if look_again is not None:
                self._queue.add_after(key, (look_again - self._now()).total_seconds())
