"""`rescheduler run`: all is known before anything is decided, and nothing is left half done at the end.

start   the pause switch ─▶ caches ─▶ halts ─▶ the Lease ─▶ migrations ─▶ checks
end     checks ─▶ migrations: their present steps ─▶ the Lease is given back ─▶ caches

A dry run writes nothing at all, not even a Lease: it checks for itself alone.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rescheduler.config.faults import ConfigurationError
from rescheduler.config.loading import Loaded
from rescheduler.config.policy import Configuration, Policy
from rescheduler.config.strategies import known_strategies
from rescheduler.controller.answering import Answering
from rescheduler.controller.events import EventWriter
from rescheduler.controller.known_cluster import MissingDefinition
from rescheduler.controller.observing import held
from rescheduler.controller.recovering.recovering import Hooks
from rescheduler.controller.reloading import ConfigurationFile
from rescheduler.controller.state import StateFollowed
from rescheduler.controller.telling import Several, Told
from rescheduler.controller.webhook_presence import WebhookPresence
from rescheduler.daemon.announcing import Announcer
from rescheduler.daemon.background import BrokenOff, broken_off_by, in_background
from rescheduler.daemon.keeping import StatusKeeper
from rescheduler.daemon.logbook import Logbook
from rescheduler.daemon.maintaining import MaintenanceKeeper
from rescheduler.daemon.rescheduler import Rescheduler
from rescheduler.daemon.rounds import Rounds
from rescheduler.daemon.watchman import Watchman
from rescheduler.daemon.whereabouts import who_we_are
from rescheduler.kube.call import Call
from rescheduler.kube.client import Client, Observer
from rescheduler.kube.informer import Informer
from rescheduler.kube.resources import Object
from rescheduler.model.migrations import Migration
from rescheduler.model.saying import say
from rescheduler.usage.reading import UsageReader

__all__ = ["Daemon", "DaemonOptions"]

log: Final = logging.getLogger(__name__)

_LOOK_AGAIN_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonOptions:
    lease_at: str
    """As `lease_key` says it; our other objects are in the same namespace."""
    file: Path | None = None
    """The configuration file, to be followed."""
    listeners: Sequence[Told] = ()
    me: str = ""
    """Must differ from the name of every other process."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    usage: UsageReader | None = None
    """In place of where the policy says that it comes from."""
    overridden: Callable[[Policy], Policy] = lambda policy: policy
    """What the command line says in spite of the file."""


class Daemon:
    def __init__(
        self,
        connect: Callable[[Observer], Client],
        configuration: Configuration,
        options: DaemonOptions,
    ) -> None:
        """`connect` makes the client, given who is to be told of every request."""
        self._options = options
        self._answering = Answering()
        client = connect(self._requested)
        me = options.me or who_we_are()
        namespace = options.lease_at.partition("/")[0]
        self._webhook = WebhookPresence(client, namespace, is_extended=self._is_extended)
        self.rescheduler = Rescheduler(
            client,
            configuration,
            lease_at=options.lease_at,
            webhook=self._webhook,
            now=options.now,
            me=me,
        )
        self._state = StateFollowed(client, namespace)
        self._events = EventWriter(client, options.now)
        self._keeper = StatusKeeper(client, namespace, me, options.now)
        announcer = Announcer(self._events, self._state)
        self._maintenance = MaintenanceKeeper(client, self.rescheduler.followed, self._events, options.now)
        self.told = Several((Logbook(), self._keeper, announcer, self._maintenance, *options.listeners))
        self.watchman = Watchman(
            self.rescheduler, self._state, self._answering, now=options.now, told=self.told
        )  # fmt: skip
        self.rescheduler.may_begin = self.watchman.may_begin
        self.rescheduler.is_winding_up = lambda: self._is_dry_run
        self._rounds = Rounds(self.rescheduler, self.watchman, self.told, options.usage)
        self.told.listeners.append(self._rounds)

    @property
    def not_ready(self) -> list[str]:
        """What is not known yet, or no more, in words; empty if all is."""
        silent = [each for each in self.rescheduler.followed.informers if not each.is_fresh]
        return [f"{each.resource.plural}: {_silence(each)}" for each in silent]

    @property
    def lags(self) -> dict[str, float]:
        """Since when nothing was heard, in seconds, by kind."""
        known = [each for each in self.rescheduler.followed.informers if each.is_synced]
        return {each.resource.kind: each.staleness() for each in known}

    @property
    def queue_depth(self) -> int:
        controller = self.rescheduler.controller
        return 0 if controller is None else controller.queue_depth

    async def run_until(self, ended: asyncio.Event) -> None:
        """Raises `MissingDefinition`, and `KubeError` for what it can't do without."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with broken_off_by(ended):
                    await stack.enter_async_context(self._state.running())
                    await stack.enter_async_context(self.rescheduler.looking(only=self._is_dry_run))
                    await stack.enter_async_context(self._webhook.running())
            except BrokenOff:
                return
            stack.callback(self.rescheduler.followed.migrations.informer.subscribe(self._on_migration))
            self._use_policy(self.rescheduler.configuration.policy)
            background = await stack.enter_async_context(in_background(ended))
            background(self.watchman.run(), "halts")
            if self._options.file is not None:
                background(self._follow_file(self._options.file), "configuration file")
            say(log, logging.INFO, "Started", "the cluster is known", namespace=self._state.namespace)
            while not ended.is_set():
                await self._act_until(ended)
            say(log, logging.INFO, "Ended", "nothing of ours is at work any more")

    async def _act_until(self, ended: asyncio.Event) -> None:
        """Until the end, or until the configuration makes a dry run of it, or of a dry run more than that."""
        is_dry_run = self._is_dry_run
        acting = self._rounds.running if is_dry_run else lambda: self.rescheduler.executing(self._leading)
        async with acting():
            while (self._is_dry_run == is_dry_run or self._is_busy) and not self.rescheduler.is_broken:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_AGAIN_S):
                        await ended.wait()
                        self.watchman.is_ending = True
                        return

    @property
    def _is_dry_run(self) -> bool:
        return self.rescheduler.configuration.policy.dry_run

    @property
    def _is_busy(self) -> bool:
        """Whether something is under way that only we go on with: it is not left half done, and nothing
        that is held by us is left without anybody who lets it go."""
        followed = self.rescheduler.followed
        return self.rescheduler.controller is not None and bool(followed.being_asked_for or held(followed))

    @contextlib.asynccontextmanager
    async def _leading(self) -> AsyncIterator[None]:
        """What runs while the Lease is ours, beside executing."""
        self.told.leads(True)
        try:
            recovering = self.rescheduler.recovering(Hooks(self._may_act, self.told))
            async with (
                self._events.running(),
                self._keeper.running(),
                self._maintenance.running(),
                recovering.running(),
                self._rounds.running(),
            ):
                yield
        finally:
            self.told.leads(False)

    def _is_extended(self) -> bool:
        return self.rescheduler.configuration.policy.scheduler_extender

    def _may_act(self) -> bool:
        return not self.watchman.look() and not self.watchman.is_ending and not self._is_dry_run

    # -- what is heard

    def _requested(self, call: Call, code: int, seconds: float) -> None:
        self._answering.note(call, code, asyncio.get_running_loop().time())
        self.told.requested(call, code, seconds)

    def _on_migration(self, old: Object | None, new: Object | None) -> None:
        self.told.migration_changed(self._migration(old), self._migration(new))

    def _migration(self, item: Object | None) -> Migration | None:
        return None if item is None else self.rescheduler.followed.records.migration(item)

    # -- the configuration

    async def _follow_file(self, file: Path) -> None:
        await ConfigurationFile(file, frozenset(known_strategies())).follow(self._use, self._refuse)

    def _use(self, loaded: Loaded) -> None:
        before, now = self.rescheduler.configuration, loaded.configuration
        for note in loaded.notes:
            say(log, logging.INFO, "ConfigurationNote", note)
        if (before.leader_election, before.client_connection) != (now.leader_election, now.client_connection):
            words = "changes of leaderElection and clientConnection take effect with the next start"
            say(log, logging.WARNING, "ConfigurationNote", words)
        self._use_policy(self._options.overridden(now.policy))

    def _use_policy(self, policy: Policy) -> None:
        """Without a place where moves are recorded it stays a dry run, whatever is wanted."""
        if self.rescheduler.followed.is_without_migrations:
            words = f"{MissingDefinition()} Until that is done, and this is started anew, it is a dry run."
            level = logging.INFO if policy.dry_run else logging.ERROR
            say(log, level, "DefinitionMissing", words)
            policy = replace(policy, dry_run=True)
        self.rescheduler.use(policy)
        self.told.configured(policy)

    def _refuse(self, error: ConfigurationError) -> None:
        self.told.configuration_refused(str(error))


def _silence(informer: Informer[Any]) -> str:
    if not informer.is_synced:
        return f"not known yet{f': {informer.failure}' if informer.failure else ''}"
    why = f": {informer.failure}" if informer.failure else ""
    return f"no watch is open; the API server last sent something {informer.staleness():.0f} s ago{why}"
