"""Wire together what a process needs to move pods: for the daemon, and for commands that move pods.

client ──▶ WatchedObjects ──▶ WatchedCluster ──▶ Checker: plans ──▶ PodMigrations
                 │                  └─────────▶ Revalidation ─┐
                 └────────────▶ MigrationController ◀─────────┘      only while this process holds the Lease
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Final

from rescheduler.api.well_known_names import DRY_RUN_LEASE_SUFFIX
from rescheduler.cluster.sources.watched_cluster import WatchedCluster
from rescheduler.cluster.sources.watched_objects import WatchedObjects
from rescheduler.cluster.trusted_usage import UsageReader
from rescheduler.config.policy import Configuration
from rescheduler.daemon.checker import Checker
from rescheduler.daemon.own_objects import lease_key, new_identity, own_namespace
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.leader_election import LeaderElector
from rescheduler.kube.transport import wall_clock
from rescheduler.migrations.controller.migration_controller import MigrationController
from rescheduler.migrations.controller.migration_log import StepObserver
from rescheduler.migrations.controller.revalidation import Revalidation
from rescheduler.migrations.runtime_state import RuntimeState, RuntimeStateHolder
from rescheduler.recovery.controller.attempt_recorder import AttemptRecorder
from rescheduler.recovery.controller.recovery_controller import RecoveryController
from rescheduler.recovery.controller.recovery_report import FailureListener
from rescheduler.steering.webhook.webhook_presence import AssumedSteering, SteeringProbe

__all__ = ["Rescheduler", "WhileLeading", "lease_key", "new_identity", "own_namespace"]

_SHUTDOWN_TIMEOUT_S: Final = 10.0
"""How long running steps may take at shutdown. The next leader continues what is not done by then."""

WhileLeading = Callable[[], AbstractAsyncContextManager[object]]
"""Returns the context manager of everything else that runs while this process holds the Lease."""


class Rescheduler:
    def __init__(
        self,
        client: Client,
        configuration: Configuration,
        *,
        lease_at: str,
        runtime: RuntimeStateHolder | None = None,
        webhook: SteeringProbe | None = None,
        now: Callable[[], datetime] = wall_clock,
        me: str = "",
    ) -> None:
        """`lease_at` is the key of the Lease; see `lease_key`."""
        self.client = client
        self.configuration = configuration
        """The configuration at the start; `runtime` has the current policy."""
        self.runtime = runtime or RuntimeStateHolder(RuntimeState(configuration.policy))
        self.watched = WatchedObjects(client)
        self.cluster = WatchedCluster(client, self.watched, now)
        self._webhook: SteeringProbe = webhook or AssumedSteering(self.runtime)
        self.revalidation = Revalidation(self.cluster, self.runtime, now)
        self.lease = LeaderElector(
            client, lease_at, me or new_identity(), configuration.leader_election, now=now
        )
        self._dry_run_lease = LeaderElector(
            client,
            f"{lease_at}{DRY_RUN_LEASE_SUFFIX}",
            self.lease.identity,
            configuration.leader_election,
            now=now,
        )
        self.on_step: StepObserver | None = None
        """Called for every step of every migration that this process executes."""
        self.controller: MigrationController | None = None
        """The controller, while this process executes."""
        self._leading: set[asyncio.Task[None]] = set()
        self.record = AttemptRecorder(client, self.cluster, self.runtime, now).record
        """Call it before the migration of a failing pod is created."""
        self._now = now

    def now(self) -> datetime:
        """Return the current time by the wall clock, or by the clock that replaces it."""
        return self._now()

    def recovering(self, listener: FailureListener | None = None) -> RecoveryController:
        """Return the controller that recovers failing pods, for the process that leads."""
        return RecoveryController(
            self.client, self.cluster, self.runtime, self._now, listener or FailureListener()
        )

    @contextlib.asynccontextmanager
    async def watching(self, *, only: bool = False) -> AsyncIterator[None]:
        """Watch the cluster while the body runs. Raises `KubeError` if a required kind can't be watched.

        Raises `MissingPodMigrationCRD`, too, unless the body `only` watches and executes nothing.
        """
        async with self.cluster.running(read_only=only):
            yield

    # -- executing

    @contextlib.asynccontextmanager
    async def executing(self, beside: WhileLeading = contextlib.nullcontext) -> AsyncIterator[None]:
        """Execute migrations while the body runs within `watching()` and this process holds the Lease.

        Otherwise the holder of the Lease executes them. Raises `KubeError` if the Lease can't be requested.
        """
        async with self._while_elected(self.lease, lambda ended: self._lead_once(ended, beside)):
            yield

    @contextlib.asynccontextmanager
    async def observing(self, beside: WhileLeading) -> AsyncIterator[None]:
        """Run `beside` while the body runs and this process holds the Lease of dry runs.

        No migrations are executed. Raises `KubeError` if the Lease can't be requested.
        """

        async def once(ended: asyncio.Event) -> None:
            async with beside():
                await _first_done(self._lost(self._dry_run_lease), ended.wait())

        async with self._while_elected(self._dry_run_lease, once):
            yield

    @contextlib.asynccontextmanager
    async def _while_elected(
        self, lease: LeaderElector, once: Callable[[asyncio.Event], Coroutine[Any, Any, None]]
    ) -> AsyncIterator[None]:
        async with self._contending(lease):
            ended = asyncio.Event()
            leading = asyncio.create_task(self._lead(lease, ended, once), name="leading")
            self._leading.add(leading)
            try:
                yield
            finally:
                ended.set()
                self._leading.remove(leading)
                await leading

    @property
    def is_broken(self) -> bool:
        """Return whether executing failed because of a bug; then leaving `executing()` raises the error."""
        return any(task.done() for task in self._leading)

    @property
    def _is_alone(self) -> bool:
        """Return whether this process executes without a Lease."""
        return not self.configuration.leader_election.leader_elect

    @contextlib.asynccontextmanager
    async def _contending(self, lease: LeaderElector) -> AsyncIterator[None]:
        if self._is_alone:
            yield
            return
        async with lease.running():
            await lease.tried()
            if isinstance(lease.failure, errors.Permanent):
                raise lease.failure
            yield

    async def _lead(
        self,
        lease: LeaderElector,
        ended: asyncio.Event,
        once: Callable[[asyncio.Event], Coroutine[Any, Any, None]],
    ) -> None:
        while not ended.is_set():
            if not self._is_alone:
                await _first_done(lease.acquired(), ended.wait())
            if not ended.is_set():
                await once(ended)

    async def _lead_once(self, ended: asyncio.Event, beside: WhileLeading) -> None:
        """Lead until the Lease is lost or `ended` is set; `beside` runs within the execution."""
        controller = self._controller()
        async with controller.running():
            self.controller = controller
            try:
                async with beside():
                    await _first_done(self._lost(self.lease), ended.wait())
                # While the Lease is ours, running steps may finish. Once it is lost, another process may
                # start.
                await _first_done(self._lost(self.lease), controller.finish_steps(_SHUTDOWN_TIMEOUT_S))
            finally:
                self.controller = None

    async def _lost(self, lease: LeaderElector) -> None:
        if self._is_alone:
            await asyncio.Event().wait()
        await lease.lost()

    def _controller(self) -> MigrationController:
        controller = MigrationController(
            self.client,
            self.runtime,
            self.revalidation,
            watched=self.watched,
            now=self._now,
            webhook=self._webhook,
        )
        controller.migration_log.on_step = self.on_step
        return controller

    # -- deciding

    @contextlib.asynccontextmanager
    async def checking(self, usage: UsageReader | None = None) -> AsyncIterator[Checker]:
        """Yield the checker, within `watching()`; load comes from `usage`, or from the policy's source."""
        checker = Checker(self.client, self.cluster, self.runtime, now=self._now, usage=usage)
        try:
            yield checker
        finally:
            await checker.close()


async def _first_done(*awaitables: Coroutine[Any, Any, Any]) -> None:
    """Wait until one of these coroutines is done, and cancel the others."""
    tasks = [asyncio.ensure_future(each) for each in awaitables]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
