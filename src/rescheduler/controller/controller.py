"""Executes migrations: what changes in the cluster becomes keys, and workers reconcile them. Never polls.

informers ──▶ keys ──▶ WorkQueue ──▶ Workers ──▶ Reconciler
"""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import UTC, datetime
from typing import Final

from rescheduler.config.policy import Policy
from rescheduler.controller.dispatcher import Dispatcher
from rescheduler.controller.events import EventWriter
from rescheduler.controller.followed import Followed
from rescheduler.controller.queue import WorkQueue
from rescheduler.controller.reconciler import Judge, MayPreempt, NoRoom, Reconciler
from rescheduler.controller.story import Story
from rescheduler.controller.waking import Waking
from rescheduler.controller.webhook_presence import Presence, SaidPresence
from rescheduler.controller.workers import Workers
from rescheduler.kube.client import Client
from rescheduler.model.migrations import MANUAL, Migration

__all__ = ["WORKERS", "Controller"]

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
        webhook: Presence | None = None,
        workers: int = WORKERS,
    ) -> None:
        """`followed` if somebody else runs the informers; `now` is the wall clock."""
        self._follows_itself = followed is None
        self.followed = followed or Followed(client)
        self._events = EventWriter(client, now)
        self._queue = WorkQueue()
        self._dispatcher = Dispatcher(self.followed, policy, now, self._queue.add)
        self._reconciler = Reconciler(
            client,
            self.followed,
            Story(self._events),
            self._dispatcher,
            judge,
            now,
            webhook=webhook or SaidPresence(),
        )
        self._waking = Waking(
            self.followed, self._queue.add, self._dispatcher, self._reconciler.forced_removals
        )
        self._workers = Workers(self._queue, self._reconciler.reconcile, now, count=workers, task="migration")

    @property
    def queue_depth(self) -> int:
        """How many migrations wait to be looked at."""
        return len(self._queue)

    def use(self, policy: Policy, urgent: Iterable[str] = (MANUAL,)) -> None:
        """From the next look on. `urgent` are the strategies whose moves begin before others."""
        self._dispatcher.use(policy, urgent)

    def begin_only(self, may_begin: Callable[[Migration], bool]) -> None:
        """Asked about every migration whose turn has come; what is under way is not asked about.

        What it says may depend on namespace and strategy only: it is asked once for all that have the same.
        """
        self._dispatcher.may_begin = may_begin

    def find_room(self, no_room: NoRoom) -> None:
        """From now on, nothing is evicted whose replacement would find no room."""
        self._reconciler.no_room = no_room

    def preempt_nobody(self, may_preempt: MayPreempt) -> None:
        """Asked about every migration before a pod is let loose on the scheduler."""
        self._reconciler.may_preempt = may_preempt

    def call_off_when(self, is_winding_up: Callable[[], bool]) -> None:
        """Asked about every migration that waits for its turn: whether it is not to have one."""
        self._reconciler.is_winding_up = is_winding_up

    def look_again(self) -> None:
        """At what may begin or go on now, though nothing has happened to it."""
        is_winding_up = self._reconciler.is_winding_up()
        for key in self._dispatcher.unfinished() if is_winding_up else self._dispatcher.under_way():
            self._queue.add(key)
        self._dispatcher.dispatch(everything=True)

    async def finish_steps(self, within_s: float) -> None:
        """Before the end: no key is begun any more, and those at work have so long to come to a stop."""
        await self._workers.finish(within_s)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Executes while the body runs. At its end every worker stops where it is: the record suffices."""
        async with contextlib.AsyncExitStack() as stack:
            if self._follows_itself:
                await stack.enter_async_context(self.followed.running())
            await stack.enter_async_context(self._events.running())
            stack.callback(self._waking.subscribe())
            await stack.enter_async_context(self._workers.working())
            await stack.enter_async_context(self._dispatcher.running())
            yield
