"""Run the daemon: ordered start, leading or standing by, ordered stop.

start   the pause switch ─▶ caches ─▶ halts ─▶ the Lease ─▶ migrations ─▶ checks
stop    checks ─▶ migrations: their current steps ─▶ the Lease is released ─▶ caches

A dry run by configuration starts no move, and finishes those that an earlier daemon has started. One replica
checks and writes the status: the holder of a second Lease, because commands such as `move` need the first one
to execute. `run --dry-run` is read-only: it writes nothing, not even a Lease.

The configuration file is compared by content, not by time: a mounted ConfigMap changes by a symbolic link to
another directory, and editors replace files in different ways.
"""

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rescheduler.api.podmigration import Migration
from rescheduler.cluster.sources.watched_cluster import MissingPodMigrationCRD
from rescheduler.cluster.trusted_usage import UsageReader
from rescheduler.config.config_loader import LoadedConfiguration, load_file
from rescheduler.config.config_validation import ConfigurationError, known_strategies
from rescheduler.config.policy import Configuration, Policy
from rescheduler.daemon.components import Rescheduler
from rescheduler.daemon.eviction_responder import EvictionResponder
from rescheduler.daemon.halt_monitor import HaltMonitor
from rescheduler.daemon.halts import ApiResponseWindow
from rescheduler.daemon.journal_writer import JournalWriter
from rescheduler.daemon.listeners import DaemonEvents, DaemonListener, DaemonLog, ListenerFanout
from rescheduler.daemon.node_evictions import NodeClaimWatch, NodeEvictions
from rescheduler.daemon.notifier import Notifier
from rescheduler.daemon.own_objects import WatchedState, new_identity
from rescheduler.daemon.periodic_checks import DryRunTally, PeriodicChecks
from rescheduler.daemon.status_writer import MaintenanceConditionWriter, StatusWriter
from rescheduler.kube.api_resources import ApiCall, Object
from rescheduler.kube.client import Client, RequestObserver
from rescheduler.kube.event_recorder import EventRecorder, log_event
from rescheduler.kube.informer import Informer
from rescheduler.migrations.controller.observation_builder import migrations_to_finish
from rescheduler.migrations.runtime_state import RuntimeState, RuntimeStateHolder
from rescheduler.steering.webhook.webhook_presence import WebhookPresence

__all__ = [
    "FILE_POLL_INTERVAL_S",
    "Daemon",
    "DaemonOptions",
    "Interrupted",
    "WatchedConfigurationFile",
    "in_background",
    "interrupted_by",
]

Work = Coroutine[Any, Any, None]


class Interrupted(Exception):  # noqa: N818 - says what happened
    """The process was asked to end before the body was done."""


@contextlib.asynccontextmanager
async def interrupted_by(ended: asyncio.Event) -> AsyncIterator[None]:
    """Run the body until it ends or `ended` is set; then interrupt it and raise `Interrupted`."""
    loop, deadline = asyncio.get_running_loop(), asyncio.timeout(None)

    async def expire_at_end() -> None:
        await ended.wait()
        deadline.reschedule(loop.time())

    try:
        async with deadline:
            waiting = asyncio.create_task(expire_at_end())
            try:
                yield
            finally:
                waiting.cancel()
    except TimeoutError:
        if not deadline.expired():
            raise
        raise Interrupted from None


@contextlib.asynccontextmanager
async def in_background(ended: asyncio.Event) -> AsyncIterator[Callable[[Work, str], None]]:
    """Yield a function that starts work which runs while the body runs.

    Such work never ends by itself. If it does, that is a bug: everything is stopped in order, and the error
    is raised.
    """
    tasks: list[asyncio.Task[None]] = []

    def start(work: Work, name: str) -> None:
        tasks.append(asyncio.create_task(work, name=name))
        tasks[-1].add_done_callback(lambda task: None if task.cancelled() else ended.set())

    try:
        yield start
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


FILE_POLL_INTERVAL_S: Final = 2.0


@dataclass(slots=True)
class WatchedConfigurationFile:
    path: Path
    strategies: frozenset[str]
    """The names of strategies that it may enable."""
    _seen: bytes = b""

    def __post_init__(self) -> None:
        self._seen = self._digest()

    async def follow(
        self, use: Callable[[LoadedConfiguration], None], refuse: Callable[[ConfigurationError], None]
    ) -> None:
        """Follow the file forever: call `use` with every valid change and `refuse` with every other one."""
        while True:
            await asyncio.sleep(FILE_POLL_INTERVAL_S)
            digest = await asyncio.to_thread(self._digest)
            if digest == self._seen:
                continue
            self._seen = digest
            try:
                loaded = await asyncio.to_thread(load_file, self.path, self.strategies)
            except ConfigurationError as error:
                refuse(error)
            else:
                use(loaded)

    def _digest(self) -> bytes:
        """Return the digest of the file; empty if it is missing, which is a change, too, but never a valid
        one."""
        try:
            return hashlib.sha256(self.path.read_bytes()).digest()
        except OSError:
            return b""


log: Final = logging.getLogger(__name__)

_POLL_INTERVAL_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonOptions:
    lease_at: str
    """The Lease, as `lease_key` returns it; our other objects are in the same namespace."""
    file: Path | None = None
    """The configuration file, to be followed."""
    listeners: Sequence[DaemonListener] = ()
    me: str = ""
    """The name of this process, which no other process may have."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    usage: UsageReader | None = None
    """The reader to use instead of the policy's usage source."""
    overridden: Callable[[Policy], Policy] = lambda policy: policy
    """Applies the options of the command line, which override the file."""
    read_only: bool = False
    """Whether to write nothing at all; the policy must be that of a dry run."""


class Daemon:
    def __init__(
        self,
        connect: Callable[[RequestObserver], Client],
        configuration: Configuration,
        options: DaemonOptions,
    ) -> None:
        """Create the daemon; `connect` creates the client, and its argument is called for every request."""
        self._options = options
        self._api_responses = ApiResponseWindow()
        client = connect(self._requested)
        me = options.me or new_identity()
        namespace = options.lease_at.partition("/")[0]
        self.runtime = RuntimeStateHolder(RuntimeState(configuration.policy))
        self._webhook = WebhookPresence(client, self.runtime, namespace)
        self.rescheduler = Rescheduler(
            client,
            configuration,
            lease_at=options.lease_at,
            runtime=self.runtime,
            webhook=self._webhook,
            now=options.now,
            me=me,
        )
        self._node_claims = NodeClaimWatch(client, self.rescheduler.watched.nodes, self.runtime)
        self.state = WatchedState(client, namespace)
        """The pause switch and the status of the leader."""
        self._events = EventRecorder(client, options.now)
        self._tally = DryRunTally()
        self._status_writer = StatusWriter(
            client, namespace, me, options.now, dry_run_moves=self._tally.encoded
        )
        self._journal = JournalWriter(client, namespace, options.now)
        self._notifier = Notifier(namespace, options.now)
        announcer = DaemonEvents(self._events, self.state)
        self._maintenance = MaintenanceConditionWriter(
            client, self.rescheduler.watched, self._events, options.now
        )
        self._node_evictions = NodeEvictions(
            client, self.rescheduler.watched, self.runtime, self._events, options.now
        )
        self.listener = self._node_evictions.listener = self._notifier.listener = ListenerFanout(
            (
                DaemonLog(),
                self._status_writer,
                announcer,
                self._maintenance,
                self._journal,
                self._notifier,
                self._node_evictions,
                *options.listeners,
            )
        )
        self.rescheduler.on_step = self.listener.migration_step
        self.halt_monitor = HaltMonitor(
            self.rescheduler, self.state, self._api_responses, now=options.now, listener=self.listener
        )  # fmt: skip
        self._checks = PeriodicChecks(
            self.rescheduler, self.halt_monitor, self.listener, options.usage, self._tally
        )

    @property
    def not_ready(self) -> list[str]:
        """Return which caches are not fresh, and why, as messages."""
        silent = [each for each in self.rescheduler.watched.informers if not each.is_fresh]
        return [f"{each.resource.plural}: {_why_not_fresh(each)}" for each in silent]

    @property
    def lags(self) -> dict[str, float]:
        """Return for how many seconds nothing was received, by kind."""
        known = [each for each in self.rescheduler.watched.informers if each.is_synced]
        return {each.resource.kind: each.staleness() for each in known}

    @property
    def queue_depth(self) -> int:
        controller = self.rescheduler.controller
        return 0 if controller is None else controller.queue_depth

    async def run_until(self, ended: asyncio.Event) -> None:
        """Run until the event is set; raise `MissingPodMigrationCRD`, and `KubeError` if something essential
        fails."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with interrupted_by(ended):
                    await stack.enter_async_context(self.state.running())
                    await stack.enter_async_context(self.rescheduler.watching(only=self._is_dry_run))
                    await stack.enter_async_context(self._webhook.running())
            except Interrupted:
                return
            stack.callback(self.rescheduler.watched.migrations.informer.subscribe(self._on_migration))
            self._use_policy(self.runtime.current.policy)
            background = await stack.enter_async_context(in_background(ended))
            background(self.halt_monitor.run(), "halts")
            background(self._node_claims.run(), "node claims")
            if self._options.file is not None:
                background(self._follow_file(self._options.file), "configuration file")
            log_event(log, logging.INFO, "Started", "all caches are synced", namespace=self.state.namespace)
            while not ended.is_set():
                await self._act_until(ended)
            log_event(log, logging.INFO, "Ended", "all work has stopped")

    async def _act_until(self, ended: asyncio.Event) -> None:
        """Act until the end, or until the configuration switches `dryRun` on or off."""
        is_dry_run = self._is_dry_run
        async with self._acting(is_dry_run=is_dry_run), in_background(ended) as background:
            if is_dry_run and not self._options.read_only:
                background(self._finish_started_migrations(), "migrations of others")
            while not self.rescheduler.is_broken and (
                self._is_dry_run == is_dry_run or (self._is_busy and not is_dry_run)
            ):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_INTERVAL_S):
                        await ended.wait()
                        self.runtime.update(is_stopping=True)
                        return

    def _acting(self, *, is_dry_run: bool) -> contextlib.AbstractAsyncContextManager[None]:
        if not is_dry_run:
            return self.rescheduler.executing(self._leading)
        return (
            self._checks.running() if self._options.read_only else self.rescheduler.observing(self._reporting)
        )

    @property
    def _is_dry_run(self) -> bool:
        return self.runtime.current.policy.dry_run

    @property
    def _is_busy(self) -> bool:
        """Return whether this process has to finish migrations before it stops executing."""
        watched = self.rescheduler.watched
        return self.rescheduler.controller is not None and bool(
            watched.being_requested or migrations_to_finish(watched)
        )

    @contextlib.asynccontextmanager
    async def _leading(self) -> AsyncIterator[None]:
        """Run everything else that needs the Lease while the body runs."""
        self.listener.leads(True)
        try:
            recovering = self.rescheduler.recovering(self.listener)
            responder = EvictionResponder(
                self.rescheduler.client, self.rescheduler.watched, self.runtime, self._options.now
            )
            async with (
                self._events.running(),
                self._status_writer.running(),
                self._maintenance.running(),
                self._journal.running(),
                self._notifier.running(),
                self._node_evictions.running(),
                responder.running(),
                recovering.running(),
                self._checks.running(),
            ):
                yield
        finally:
            self.listener.leads(False)

    @contextlib.asynccontextmanager
    async def _reporting(self) -> AsyncIterator[None]:
        """Check and write the status while this replica holds the Lease of dry runs."""
        self._tally.restore(self.state.dry_run_moves)
        log_event(log, logging.INFO, "DryRun", "this process checks and moves no pods")
        async with self._status_writer.running(), self._checks.running():
            yield

    async def _finish_started_migrations(self) -> None:
        """Finish migrations that another process started and left, such as the daemon before an upgrade."""
        watched = self.rescheduler.watched
        while True:
            await asyncio.sleep(_POLL_INTERVAL_S)
            if watched.is_without_migrations or not migrations_to_finish(watched):
                continue
            async with self.rescheduler.executing(self._events.running):
                while migrations_to_finish(watched) and not self.rescheduler.is_broken:  # noqa: ASYNC110 - no event
                    await asyncio.sleep(_POLL_INTERVAL_S)

    # -- events

    def _requested(self, call: ApiCall, code: int, seconds: float) -> None:
        has_failed = self._api_responses.note(call, code, asyncio.get_running_loop().time())
        self.listener.requested(call, code, seconds)
        if has_failed:
            self.halt_monitor.evaluate_soon()

    def _on_migration(self, old: Object | None, new: Object | None) -> None:
        self.listener.migration_changed(self._migration(old), self._migration(new))

    def _migration(self, item: Object | None) -> Migration | None:
        return None if item is None else self.rescheduler.watched.records.migration(item)

    # -- the configuration

    async def _follow_file(self, file: Path) -> None:
        watched = WatchedConfigurationFile(file, frozenset(known_strategies()))
        await watched.follow(self._use, lambda error: self.listener.configuration_refused(str(error)))

    def _use(self, loaded: LoadedConfiguration) -> None:
        before, now = self.rescheduler.configuration, loaded.configuration
        for note in loaded.notes:
            log_event(log, logging.INFO, "ConfigurationNote", note)
        if (before.leader_election, before.client_connection) != (now.leader_election, now.client_connection):
            words = "changes of leaderElection and clientConnection take effect after a restart"
            log_event(log, logging.WARNING, "ConfigurationNote", words)
        self._use_policy(self._options.overridden(now.policy))

    def _use_policy(self, policy: Policy) -> None:
        """Use a new policy. Without the PodMigration CRD, it is a dry run, whatever the policy says."""
        if self.rescheduler.watched.is_without_migrations:
            words = (
                f"{MissingPodMigrationCRD()} Until you do that and restart the daemon, it runs as a dry run."
            )
            level = logging.INFO if policy.dry_run else logging.ERROR
            log_event(log, level, "DefinitionMissing", words)
            policy = replace(policy, dry_run=True)
        if not policy.dry_run:
            self._tally.clear()
        self.runtime.update(policy=policy)
        self.listener.configured(policy)


def _why_not_fresh(informer: Informer[Any]) -> str:
    if not informer.is_synced:
        return f"not listed yet{f': {informer.failure}' if informer.failure else ''}"
    why = f": {informer.failure}" if informer.failure else ""
    return f"no watch is open; the API server last sent something {informer.staleness():.0f} s ago{why}"
