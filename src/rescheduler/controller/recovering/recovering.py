"""Recovers pods that keep failing, while this process leads. Never polls, and reads nothing in steady state.

informers ──▶ families that are not well ──▶ WorkQueue ──▶ workers ──▶ Attending
                                                ▲                          │
                                                └── look again at, retry ──┘

Which pods fail, how often they may go elsewhere and what is to be done is decided in `rescheduler.recovery`.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from rescheduler.config.policy import Policy
from rescheduler.controller.events import EventWriter
from rescheduler.controller.known_cluster import KnownCluster
from rescheduler.controller.queue import Closed, WorkQueue
from rescheduler.controller.recovering.attending import Attending
from rescheduler.controller.recovering.families import Families
from rescheduler.controller.recovering.reporting import RecoveryReport, Wards
from rescheduler.controller.recovering.telling import Telling
from rescheduler.controller.recovering.waking import NODES, Waking
from rescheduler.controller.telling import Told
from rescheduler.kube import errors
from rescheduler.kube.client import Client

__all__ = ["Recovering", "RecoveryReport"]

log = logging.getLogger(__name__)

_WORKERS: Final = 2
_SOON_S: Final = 0.1
"""Pods of a family often change together: one look is enough for all of them."""
_ASK_AGAIN_S: Final = 30.0
"""While nothing may be begun."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the rest of the program has to say, and wants to know."""

    may_act: Callable[[], bool] = lambda: True
    """False while nothing is to be begun."""
    told: Told = Told()  # noqa: RUF009 - hears everything, and keeps nothing


class Recovering:
    def __init__(
        self,
        client: Client,
        cluster: KnownCluster,
        policy: Callable[[], Policy],
        now: Callable[[], datetime],
        hooks: Hooks = Hooks(),  # noqa: B008 - frozen
    ) -> None:
        """`cluster` is run by somebody else, and outlives it; `policy` is asked at every look."""
        self._cluster = cluster
        self._policy = policy
        self._now = now
        self._hooks = hooks
        self._queue = WorkQueue()
        self._events = EventWriter(client, now)
        families = Families(cluster)
        self._telling = Telling(self._events, families)
        self._attending = Attending(client, cluster, policy, self._telling, now, may_act=hooks.may_act)
        self._waking = Waking(cluster, families, self._wake)
        self._wards = Wards()

    def report(self) -> RecoveryReport:
        """Who fails now, who has no try left, and which nodes are suspect."""
        return self._wards.report(self._policy().failed_pods, self._now().timestamp())

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While the body runs. At its end every worker stops where it is: the record suffices."""
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._events.running())
            stack.callback(self._waking.subscribe())
            workers = [
                asyncio.create_task(self._work(), name=f"recovering {number}") for number in range(_WORKERS)
            ]
            try:
                yield
            finally:
                self._queue.close()
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)

    def _wake(self, key: str) -> None:
        self._queue.add_later(key, _SOON_S)

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
            look_again_s = await self._attend(key)
        except errors.KubeError as error:
            delay_s = self._queue.retry(key, at_least_s=getattr(error, "delay_s", 0.0))
            level = logging.INFO if error.retriable else logging.ERROR
            log.log(level, "recovery of %s: %s Tried again in %.1f s.", key, error, delay_s)
        except Exception:
            log.exception("recovery of %s: a fault of the program; tried again later", key)
            self._queue.retry(key)
        else:
            self._queue.forget(key)
            if look_again_s is not None:
                self._queue.add_later(key, look_again_s - self._now().timestamp())

    async def _attend(self, key: str) -> float | None:
        if key == NODES:
            self._waking.wake_pods_of_lost_nodes()
            return None
        if not self._cluster.is_fresh:
            # By news of yesterday nothing is begun.
            return self._now().timestamp() + _ASK_AGAIN_S
        seen, look_again_s = await self._attending.attend(key)
        if self._wards.learn(key, seen):
            self._tell_of_all()
        return look_again_s

    def _tell_of_all(self) -> None:
        report = self.report()
        self._telling.suspects({each.node: each.workloads for each in report.suspects})
        self._hooks.told.failing(report.failing)
        self._hooks.told.suspects(report.suspect_nodes)
