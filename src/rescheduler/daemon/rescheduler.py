"""Everything that a process has which moves pods.

client ──▶ Followed ──▶ KnownCluster ──▶ CheckLoop: plans ──▶ PodMigrations
               │              └────────▶ Judging ─┐
               └──────────────▶ Controller ◀──────┘      only while the Lease is ours
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any, Final

from rescheduler.config.policy import Configuration, Policy
from rescheduler.controller.check_loop import CheckLoop
from rescheduler.controller.controller import Controller
from rescheduler.controller.followed import Followed
from rescheduler.controller.judging import Judging
from rescheduler.controller.known_cluster import KnownCluster
from rescheduler.controller.lease import Lease
from rescheduler.controller.recovering.recording import Recording
from rescheduler.controller.recovering.recovering import Hooks, Recovering
from rescheduler.controller.webhook_presence import Presence, SaidPresence
from rescheduler.daemon.whereabouts import who_we_are
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.model.migrations import MANUAL, Migration
from rescheduler.strategies.node_maintenance import NodeMaintenance
from rescheduler.strategies.registry import strategies_of
from rescheduler.usage.reading import UsageReader, usage_reader

__all__ = ["Beside", "Rescheduler"]

_LAST_STEPS_S: Final = 10.0
"""At an ordered end, how long steps that are being made may take. What is not done by then is left as it is:
whoever leads next goes on from the record."""

Beside = Callable[[], AbstractAsyncContextManager[object]]
"""What else runs while the Lease is ours."""


def _wall_clock() -> datetime:
    return datetime.now(UTC)


def _urgent(policy: Policy) -> list[str]:
    """Maintenance always: whoever drains a node by hand asks for the same, enabled or not."""
    return [*(each.name for each in strategies_of(policy) if each.urgent), NodeMaintenance.name]


class Rescheduler:
    def __init__(
        self,
        client: Client,
        configuration: Configuration,
        *,
        lease_at: str,
        webhook: Presence | None = None,
        now: Callable[[], datetime] = _wall_clock,
        me: str = "",
    ) -> None:
        """`lease_at` as `lease_key` says it."""
        policy = configuration.policy
        self.client = client
        self.configuration = configuration
        self.followed = Followed(client)
        self.cluster = KnownCluster(client, self.followed, now)
        self.webhook: Presence = webhook or SaidPresence()
        self.may_begin: Callable[[Migration], bool] = lambda _: True
        """False during a halt. May be exchanged."""
        self.is_winding_up: Callable[[], bool] = lambda: False
        """Whether what waits for its turn is called off, because soon nobody executes. May be exchanged."""
        self.judging = Judging(self.cluster, policy, _urgent(policy), self.webhook, now)
        self.lease = Lease(client, lease_at, me or who_we_are(), configuration.leader_election, now=now)
        self.controller: Controller | None = None
        """While it runs: while this process executes."""
        self._leading: asyncio.Task[None] | None = None
        self._recovering: Recovering | None = None
        self.record = Recording(client, self.cluster, self._ask_policy, now).record
        """To be asked before the migration of a failing pod is created."""
        self._now = now

    def now(self) -> datetime:
        """By the wall clock, or by what stands for it."""
        return self._now()

    def use(self, policy: Policy) -> None:
        """From now on, for what is under way too."""
        self.configuration = Configuration(
            policy=policy,
            client_connection=self.configuration.client_connection,
            leader_election=self.configuration.leader_election,
        )
        self.judging.use(policy, _urgent(policy))
        if self.controller is not None:
            self.controller.use(policy, (MANUAL, *_urgent(policy)))
            self.controller.look_again()
        if self._recovering is not None:
            self._recovering.reconsider()

    def recovering(self, hooks: Hooks = Hooks()) -> Recovering:  # noqa: B008 - frozen
        """To be run by whoever leads. The last that was asked for hears of every other policy."""
        self._recovering = Recovering(self.client, self.cluster, self._ask_policy, self._now, hooks)
        return self._recovering

    def _ask_policy(self) -> Policy:
        return self.configuration.policy

    def _ask_may_begin(self, migration: Migration) -> bool:
        return self.may_begin(migration)

    def _ask_winding_up(self) -> bool:
        return self.is_winding_up()

    @contextlib.asynccontextmanager
    async def looking(self, *, only: bool = False) -> AsyncIterator[None]:
        """Follows the cluster. Raises `KubeError` for what it can't do without.

        And `MissingDefinition`, unless `only` that is done, and nothing executed.
        """
        async with self.cluster.running(only_looks=only):
            yield

    # -- executing

    @contextlib.asynccontextmanager
    async def executing(self, beside: Beside = contextlib.nullcontext) -> AsyncIterator[None]:
        """Executes migrations whenever the Lease is ours, while the body runs within `looking()`.

        Otherwise whoever has the Lease executes them. Raises `KubeError` if it can't even be asked for.
        """
        async with self._contending():
            ended = asyncio.Event()
            leading = self._leading = asyncio.create_task(self._lead(ended, beside), name="leading")
            try:
                yield
            finally:
                ended.set()
                self._leading = None
                await leading

    @property
    def is_broken(self) -> bool:
        """By a fault of the program, while it was executing: leaving `executing()` raises it."""
        return self._leading is not None and self._leading.done()

    @property
    def _is_alone(self) -> bool:
        """Nobody is asked who leads."""
        return not self.configuration.leader_election.leader_elect

    @contextlib.asynccontextmanager
    async def _contending(self) -> AsyncIterator[None]:
        if self._is_alone:
            yield
            return
        async with self.lease.contending():
            await self.lease.looked()
            if isinstance(self.lease.failure, errors.Final):
                raise self.lease.failure
            yield

    async def _lead(self, ended: asyncio.Event, beside: Beside) -> None:
        while not ended.is_set():
            if not self._is_alone:
                await _first(self.lease.acquired(), ended.wait())
            if not ended.is_set():
                await self._lead_once(ended, beside)

    async def _lead_once(self, ended: asyncio.Event, beside: Beside) -> None:
        """Deciding begins after executing, and ends before it."""
        controller = self._controller()
        async with controller.running():
            self.controller = controller
            try:
                async with beside():
                    await _first(self._lost(), ended.wait())
                # If it is still ours, there is time to finish. Once it is lost, another may begin any moment.
                await _first(self._lost(), controller.finish_steps(_LAST_STEPS_S))
            finally:
                self.controller = None

    async def _lost(self) -> None:
        if self._is_alone:
            await asyncio.Event().wait()
        await self.lease.lost()

    def _controller(self) -> Controller:
        controller = Controller(
            self.client,
            self.configuration.policy,
            self.judging.judge,
            followed=self.followed,
            now=self._now,
            webhook=self.webhook,
        )
        controller.use(self.configuration.policy, (MANUAL, *_urgent(self.configuration.policy)))
        controller.begin_only(self._ask_may_begin)
        controller.preempt_nobody(self.judging.may_preempt)
        controller.find_room(self.judging.no_room)
        controller.call_off_when(self._ask_winding_up)
        return controller

    # -- deciding

    @contextlib.asynccontextmanager
    async def checking(self, usage: UsageReader | None = None) -> AsyncIterator[CheckLoop]:
        """Checks, within `looking()`; load comes from `usage`, or from where the policy says."""
        reader = usage or usage_reader(self.configuration.policy, self.client)
        loop = CheckLoop(
            self.client,
            self.cluster,
            reader,
            self.configuration.policy,
            now=self._now,
            webhook=self.webhook,
        )
        try:
            yield loop
        finally:
            await loop.usage.close()


async def _first(*awaitables: Coroutine[Any, Any, Any]) -> None:
    """Until one of them is done; the others are dropped."""
    tasks = [asyncio.ensure_future(each) for each in awaitables]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
