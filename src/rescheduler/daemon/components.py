"""Everything that a process has which moves pods.

client ──▶ Followed ──▶ KnownCluster ──▶ CheckLoop: plans ──▶ PodMigrations
               │              └────────▶ Judging ─┐
               └──────────────▶ Controller ◀──────┘      only while the Lease is ours

The one place that wires things together: what the commands that move pods run on, and the daemon.

rescheduler   everything that a process has which moves pods
running       `rescheduler run`: ordered start, leading or standing by, ordered stop
rounds        the checks of whoever leads, and what becomes of their plans
watchman      what brings the program to a halt
keeping       what the leader writes down for `rescheduler status`
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any, Final

from rescheduler.api.podmigration import MANUAL, Migration
from rescheduler.cluster.sources.usage_sources import UsageReader, usage_reader
from rescheduler.cluster.sources.watched_cluster import WatchedCluster
from rescheduler.cluster.sources.watched_objects import WatchedObjects
from rescheduler.config.policy import Configuration, Policy
from rescheduler.daemon.checker import Checker
from rescheduler.daemon.own_objects import lease_key, new_identity, own_namespace
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.leader_election import LeaderElector
from rescheduler.migrations.controller.migration_controller import MigrationController
from rescheduler.migrations.controller.revalidation import Revalidation
from rescheduler.recovery.controller.attempt_recorder import AttemptRecorder
from rescheduler.recovery.controller.recovery_controller import RecoveryController, RecoveryHooks
from rescheduler.steering.webhook.webhook_presence import FixedPresence, SteeringPresence
from rescheduler.strategies.node_maintenance import NodeMaintenance
from rescheduler.strategies.strategy_registry import strategies_of

__all__ = ["Rescheduler", "WhileLeading", "lease_key", "new_identity", "own_namespace"]

_SHUTDOWN_TIMEOUT_S: Final = 10.0
"""At an ordered end, how long steps that are being made may take. What is not done by then is left as it is:
whoever leads next goes on from the record."""

WhileLeading = Callable[[], AbstractAsyncContextManager[object]]
"""What else runs while the Lease is ours."""


def _wall_clock() -> datetime:
    return datetime.now(UTC)


def _urgent_strategies(policy: Policy) -> list[str]:
    """Maintenance always: whoever drains a node by hand asks for the same, enabled or not."""
    return [*(each.name for each in strategies_of(policy) if each.urgent), NodeMaintenance.name]


class Rescheduler:
    def __init__(
        self,
        client: Client,
        configuration: Configuration,
        *,
        lease_at: str,
        webhook: SteeringPresence | None = None,
        now: Callable[[], datetime] = _wall_clock,
        me: str = "",
    ) -> None:
        """`lease_at` as `lease_key` says it."""
        policy = configuration.policy
        self.client = client
        self.configuration = configuration
        self.followed = WatchedObjects(client)
        self.cluster = WatchedCluster(client, self.followed, now)
        self.webhook: SteeringPresence = webhook or FixedPresence()
        self.may_begin: Callable[[Migration], bool] = lambda _: True
        """False during a halt. May be exchanged."""
        self.is_winding_down: Callable[[], bool] = lambda: False
        """Whether what waits for its turn is called off, because soon nobody executes. May be exchanged."""
        self.judging = Revalidation(self.cluster, policy, _urgent_strategies(policy), self.webhook, now)
        self.lease = LeaderElector(
            client, lease_at, me or new_identity(), configuration.leader_election, now=now
        )
        self.controller: MigrationController | None = None
        """While it runs: while this process executes."""
        self._leading: asyncio.Task[None] | None = None
        self._recovering: RecoveryController | None = None
        self.record = AttemptRecorder(client, self.cluster, self._ask_policy, now).record
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
        self.judging.use(policy, _urgent_strategies(policy))
        if self.controller is not None:
            self.controller.use(policy, (MANUAL, *_urgent_strategies(policy)))
            self.controller.look_again()
        if self._recovering is not None:
            self._recovering.reconsider()

    def recovering(self, hooks: RecoveryHooks = RecoveryHooks()) -> RecoveryController:  # noqa: B008 - frozen
        """To be run by whoever leads. The last that was asked for hears of every other policy."""
        self._recovering = RecoveryController(self.client, self.cluster, self._ask_policy, self._now, hooks)
        return self._recovering

    def _ask_policy(self) -> Policy:
        return self.configuration.policy

    def _ask_may_begin(self, migration: Migration) -> bool:
        return self.may_begin(migration)

    def _ask_winding_up(self) -> bool:
        return self.is_winding_down()

    @contextlib.asynccontextmanager
    async def looking(self, *, only: bool = False) -> AsyncIterator[None]:
        """Follows the cluster. Raises `KubeError` for what it can't do without.

        And `MissingDefinition`, unless `only` that is done, and nothing executed.
        """
        async with self.cluster.running(only_looks=only):
            yield

    # -- executing

    @contextlib.asynccontextmanager
    async def executing(self, beside: WhileLeading = contextlib.nullcontext) -> AsyncIterator[None]:
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
            if isinstance(self.lease.failure, errors.Permanent):
                raise self.lease.failure
            yield

    async def _lead(self, ended: asyncio.Event, beside: WhileLeading) -> None:
        while not ended.is_set():
            if not self._is_alone:
                await _first_done(self.lease.acquired(), ended.wait())
            if not ended.is_set():
                await self._lead_once(ended, beside)

    async def _lead_once(self, ended: asyncio.Event, beside: WhileLeading) -> None:
        """Deciding begins after executing, and ends before it."""
        controller = self._controller()
        async with controller.running():
            self.controller = controller
            try:
                async with beside():
                    await _first_done(self._lost(), ended.wait())
                # If it is still ours, there is time to finish. Once it is lost, another may begin any moment.
                await _first_done(self._lost(), controller.finish_steps(_SHUTDOWN_TIMEOUT_S))
            finally:
                self.controller = None

    async def _lost(self) -> None:
        if self._is_alone:
            await asyncio.Event().wait()
        await self.lease.lost()

    def _controller(self) -> MigrationController:
        controller = MigrationController(
            self.client,
            self.configuration.policy,
            self.judging.revalidate,
            followed=self.followed,
            now=self._now,
            webhook=self.webhook,
        )
        controller.use(self.configuration.policy, (MANUAL, *_urgent_strategies(self.configuration.policy)))
        controller.begin_only(self._ask_may_begin)
        controller.preempt_nobody(self.judging.may_preempt)
        controller.find_room(self.judging.no_room)
        controller.cancel_queued_when(self._ask_winding_up)
        return controller

    # -- deciding

    @contextlib.asynccontextmanager
    async def checking(self, usage: UsageReader | None = None) -> AsyncIterator[Checker]:
        """Checks, within `looking()`; load comes from `usage`, or from where the policy says."""
        reader = usage or usage_reader(self.configuration.policy, self.client)
        loop = Checker(
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


async def _first_done(*awaitables: Coroutine[Any, Any, Any]) -> None:
    """Until one of them is done; the others are dropped."""
    tasks = [asyncio.ensure_future(each) for each in awaitables]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
