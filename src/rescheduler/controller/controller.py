"""Executes migrations: what changes in the cluster becomes keys, and workers reconcile them. Never polls.

informers ──▶ keys ──▶ WorkQueue ──▶ N workers ──▶ Reconciler
                          ▲                            │
                          └── look again at, retry ────┘
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Final

from rescheduler.config.policy import Policy
from rescheduler.controller.events import EventWriter
from rescheduler.controller.followed import Followed
from rescheduler.controller.observing import unfinished
from rescheduler.controller.queue import Closed, WorkQueue
from rescheduler.controller.reconciler import Judge, Reconciler
from rescheduler.controller.story import Story
from rescheduler.controller.waking import Waking
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.model.migrations import Migration

__all__ = ["WORKERS", "Controller"]

log = logging.getLogger(__name__)

WORKERS: Final = 10


def _wall_clock() -> datetime:
    return datetime.now(UTC)


class Controller:
    def __init__(
        self,
        client: Client,
        policy: Policy,
        judge: Judge,
        *,
        followed: Followed | None = None,
        now: Callable[[], datetime] = _wall_clock,
        is_steered: Callable[[], bool] = lambda: False,
        workers: int = WORKERS,
    ) -> None:
        """`followed` if somebody else runs the informers; `now` is the wall clock."""
        self._follows_itself = followed is None
        self.followed = followed or Followed(client)
        self._events = EventWriter(client, now)
        self._reconciler = Reconciler(
            client, self.followed, Story(self._events), policy, judge, now, is_steered=is_steered
        )
        self._queue = WorkQueue()
        self._waking = Waking(self.followed, self._queue.add, self._reconciler.turns)
        self._now = now
        self._workers = workers
        self._at_work: list[asyncio.Task[None]] = []

    @property
    def queue_depth(self) -> int:
        """How many migrations wait to be looked at."""
        return len(self._queue)

    def use(self, policy: Policy) -> None:
        """From the next look on."""
        self._reconciler.policy = policy

    def begin_only(self, may_begin: Callable[[Migration], bool]) -> None:
        """Asked about every migration whose turn has come; what is under way is not asked about."""
        self._reconciler.may_begin = may_begin

    def look_again(self) -> None:
        """At all that are not over: they may begin or go on now, though nothing has happened to them."""
        for migration in unfinished(self.followed):
            self._queue.add(migration.key)

    async def finish_steps(self, within_s: float) -> None:
        """Before the end: no key is begun any more, and those at work have so long to come to a stop."""
        self._queue.close()
        if self._at_work:
            await asyncio.wait(self._at_work, timeout=within_s)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Executes while the body runs. At its end every worker stops where it is: the record suffices."""
        async with contextlib.AsyncExitStack() as stack:
            if self._follows_itself:
                await stack.enter_async_context(self.followed.running())
            await stack.enter_async_context(self._events.running())
            stack.callback(self._waking.subscribe())
            self._at_work = [
                asyncio.create_task(self._work(), name=f"migrations {number}")
                for number in range(self._workers)
            ]
            try:
                yield
            finally:
                self._queue.close()
                for worker in self._at_work:
                    worker.cancel()
                await asyncio.gather(*self._at_work, return_exceptions=True)

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

    async def _look_at(self, key: str) -> None:
        try:
            look_again = await self._reconciler.reconcile(key)
        except errors.KubeError as error:
            delay_s = getattr(error, "delay_s", 0.0)
            delay_s = self._queue.retry(key, at_least_s=delay_s)
            level = logging.INFO if error.retriable else logging.ERROR
            log.log(level, "migration %s: %s Tried again in %.1f s.", key, error, delay_s)
        except Exception:
            log.exception("migration %s: a fault of the program; tried again later", key)
            self._queue.retry(key)
        else:
            self._queue.forget(key)
            if look_again is not None:
                self._queue.add_later(key, (look_again - self._now()).total_seconds())
