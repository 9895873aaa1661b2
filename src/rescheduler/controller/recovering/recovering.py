"""Recovers pods that keep failing, while this process leads. Never polls, and reads nothing in steady state.

informers ──▶ families that are not well ──▶ WorkQueue ──▶ Workers ──▶ Attending

Which pods fail, how often they may go elsewhere and what is to be done is decided in `rescheduler.recovery`.
"""

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from rescheduler.config.policy import Policy
from rescheduler.controller.events import EventWriter
from rescheduler.controller.known_cluster import KnownCluster
from rescheduler.controller.queue import WorkQueue
from rescheduler.controller.recovering.attending import Attending
from rescheduler.controller.recovering.families import Families
from rescheduler.controller.recovering.observed_failures import ObservedFailures
from rescheduler.controller.recovering.reporting import RecoveryReport, Wards
from rescheduler.controller.recovering.telling import Telling
from rescheduler.controller.recovering.waking import NODES, SUSPECTS, Waking
from rescheduler.controller.telling import Told
from rescheduler.controller.workers import Workers
from rescheduler.kube.client import Client

__all__ = ["Recovering", "RecoveryReport"]

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
        self._workers = Workers(self._queue, self._look, now, count=_WORKERS, task="recovery of")
        self._events = EventWriter(client, now)
        families = Families(cluster)
        self._telling = Telling(self._events, families)
        self._attending = Attending(client, cluster, policy, self._telling, now, may_act=hooks.may_act)
        self._waking = Waking(cluster, families, self._wake)
        self._wards = Wards()
        self._observed = ObservedFailures(cluster.followed)

    def report(self) -> RecoveryReport:
        """Who fails now, who has no try left, and which nodes are suspect."""
        made_s = {node.name: node.created_s for node in self._cluster.followed.nodes}
        terms, now_s = self._policy().failed_pods, self._now().timestamp()
        return self._wards.report(terms, made_s, self._observed, now_s)

    def reconsider(self) -> None:
        """By another policy: from what is known already, nobody is asked anything."""
        self._waking.wake_all()
        self._wake(SUSPECTS)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While the body runs. At its end every worker stops where it is: the record suffices."""
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._events.running())
            stack.callback(self._cluster.followed.migrations.informer.subscribe(self._observed.changed))
            stack.callback(self._waking.subscribe())
            await stack.enter_async_context(self._workers.working())
            yield

    def _wake(self, key: str) -> None:
        self._queue.add_later(key, _SOON_S)

    async def _look(self, key: str) -> datetime | None:
        look_again_s = await self._attend(key)
        return None if look_again_s is None else datetime.fromtimestamp(look_again_s, UTC)

    async def _attend(self, key: str) -> float | None:
        if key == NODES:
            self._waking.wake_pods_of_lost_nodes()
            return None
        if key == SUSPECTS:
            self._tell_of_all()
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
        if report.changes_s is not None:
            self._queue.add_later(SUSPECTS, report.changes_s - self._now().timestamp())
