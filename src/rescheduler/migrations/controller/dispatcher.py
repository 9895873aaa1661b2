"""Keep the fair queue up to date with the cluster, and enqueue the migrations whose turn has come.

informers ──observe──▶ FairQueue ──grant──▶ wake(key) ──▶ WorkQueue

Waiting migrations are not polled one by one. A turn comes when a migration ends, is new or is due for a
retry, and when conditions change. Windows open without an event, so everything that waits is reconsidered
every `DISPATCH_EVERY_S`.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from typing import Final

from rescheduler.api.podmigration import Migration, MigrationPhase
from rescheduler.cluster.sources.watched_objects import WatchedObjects
from rescheduler.kube.work_queue import background_task
from rescheduler.migrations.controller.fair_queue import FairQueue
from rescheduler.migrations.controller.observation_builder import migration_at, source_of, workload_key
from rescheduler.migrations.runtime_state import RuntimeStateHolder

__all__ = ["DISPATCH_EVERY_S", "Dispatcher"]

DISPATCH_EVERY_S: Final = 10.0
_RETRY_UNUSED_TURN_AFTER: Final = timedelta(seconds=30)
"""How long a migration waits after a turn that it did not use, though nothing failed."""

_STUCK_AFTER: Final = 3
"""Times `migrationTimeout`. An attempt, its rollback and its wait for a replacement take less."""


class Dispatcher:
    def __init__(
        self,
        watched: WatchedObjects,
        runtime: RuntimeStateHolder,
        now: Callable[[], datetime],
        wake: Callable[[str], None],
    ) -> None:
        self.runtime = runtime
        self._watched = watched
        self._now = now
        self._wake = wake
        self._turns = FairQueue(runtime)

    def policy_changed(self) -> None:
        self._turns.policy_changed()

    # -- observing

    def observe(self, key: str) -> None:
        """Update what is known of a migration, from an informer or from the answer to a write."""
        migration = migration_at(key, self._watched)
        if migration is None:
            self._turns.remove(key)
        else:
            self.begin(migration)

    def begin(self, migration: Migration) -> None:
        """Count a migration as running, just before that is recorded."""
        if self._is_stuck(migration):
            self._turns.remove(migration.key)
            return
        source = source_of(migration, self._watched)
        label = self.runtime.current.policy.pod_group_label
        pod_group = "" if source is None else source.labels.get(label, "")
        self._turns.put(migration, workload_key(migration, self._watched), pod_group)

    def _is_stuck(self, migration: Migration) -> bool:
        """Return whether something keeps a migration from ending, such as writes that are refused: it must
        not keep others from starting, too."""
        started_at = migration.status.started_at
        if migration.status.phase is not MigrationPhase.IN_PROGRESS or started_at is None:
            return False
        return self._now() - started_at > _STUCK_AFTER * self.runtime.current.policy.migration_timeout

    def dispatch_if_freed(self) -> None:
        if self._turns.is_freed:
            self.dispatch()

    def dispatch(self, *, everything: bool = False, but: str = "") -> None:
        """Wake all migrations whose turn has come, except for `but`, which is awake."""
        if not self._watched.is_fresh:
            return
        for key in self._turns.grant(self._now(), everything=everything):
            if key != but:
                self._wake(key)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Reconsider what waits while the body runs."""
        async with background_task(self._dispatch_periodically(), "dispatcher"):
            yield

    async def _dispatch_periodically(self) -> None:
        while True:
            await asyncio.sleep(DISPATCH_EVERY_S)
            for key in self.under_way():
                self.observe(key)  # it may be stuck by now
            self.dispatch(everything=True)

    # -- queries of the reconciler

    def has_turn(self, migration: Migration) -> bool:
        """Return whether a waiting migration may start. It is reconciled now, so its hold ends."""
        self.observe(migration.key)
        self._turns.ready(migration.key, self._now())
        if not self._turns.has_turn(migration.key):
            self.dispatch(but=migration.key)
        return self._turns.has_turn(migration.key)

    def obstacle(self, migration: Migration) -> str:
        """Return why the limits will never let its group start; empty if they may."""
        return self._turns.obstacle(migration)

    def has_room_at(self, migration: Migration, node: str) -> bool:
        return self._turns.has_room_at(migration.key, node)

    def may_wait_for_room(self, migration: Migration) -> bool:
        """Return whether its copy may be created before any node has room for it."""
        return self._turns.may_wait_for_room(migration.namespace)

    def group(self, migration: Migration) -> tuple[Migration, ...]:
        """Return all members of its group, including itself if it is one."""
        found = (migration_at(key, self._watched) for key in self._turns.members(migration))
        return tuple(each for each in found if each is not None)

    def wake_group(self, migration: Migration) -> None:
        for key in self._turns.members(migration):
            self._wake(key)

    def under_way(self) -> list[str]:
        """Return the keys of running migrations."""
        return self._turns.running()

    def unfinished(self) -> list[str]:
        """Return the keys of migrations that wait or run."""
        return self._turns.unfinished()

    def reconciled(self, key: str, *, failed: bool) -> None:
        """Give an unused turn to another migration. After a failure the queue says when to try again."""
        self.observe(key)
        self._turns.hold(key, None if failed else self._now() + _RETRY_UNUSED_TURN_AFTER)
        self.dispatch_if_freed()
