"""Keeps `Turns` in step with the cluster, and wakes the migrations whose turn has come.

informers ──observe──▶ Turns ──grant──▶ wake(key) ──▶ WorkQueue

What waits is not polled one by one. A turn comes when something ends, when a migration is new or its time to
try again has come, and when conditions change: windows open and servers recover without an event, so every
`RECONSIDER_EVERY_S` everything that waits is reconsidered in one pass.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

from rescheduler.api.podmigration import Migration
from rescheduler.api.strategy_traits import traits_of
from rescheduler.cluster.sources.watched_objects import WatchedObjects
from rescheduler.config.policy import Policy
from rescheduler.migrations.controller.fair_queue import FairQueue
from rescheduler.migrations.controller.observation_builder import migration_at, source_of, workload_key

__all__ = ["DISPATCH_EVERY_S", "Dispatcher"]

DISPATCH_EVERY_S: Final = 10.0
_RETRY_UNUSED_TURN_AFTER: Final = timedelta(seconds=30)
"""After a turn that was not used, though nothing failed."""


class Dispatcher:
    def __init__(
        self,
        seen: WatchedObjects,
        policy: Policy,
        now: Callable[[], datetime],
        wake: Callable[[str], None],
    ) -> None:
        self.may_begin: Callable[[Migration], bool] = lambda _: True
        """Whether halts allow it. May be exchanged; may depend on namespace and strategy only."""
        self.policy = policy
        self._seen = seen
        self._now = now
        self._wake = wake
        self._turns = FairQueue(policy)

    def use(self, policy: Policy, urgent: Iterable[str]) -> None:
        self.policy = policy
        self._turns.use(policy, urgent)

    # -- what is seen

    def observe(self, key: str) -> None:
        """As it is known now, from an informer or from the answer to a write of ours."""
        migration = migration_at(key, self._seen)
        if migration is None:
            self._turns.remove(key)
        else:
            self.begin(migration)

    def begin(self, migration: Migration) -> None:
        """As it is about to be recorded: from now on it counts like that."""
        source = source_of(migration, self._seen)
        gang = "" if source is None else source.labels.get(self.policy.pod_group_label, "")
        self._turns.put(migration, workload_key(migration, self._seen), gang)

    def dispatch_if_freed(self) -> None:
        if self._turns.is_freed:
            self.dispatch()

    def dispatch(self, *, everything: bool = False, but: str = "") -> None:
        """Wakes all whose turn has come, `but` one that is awake."""
        if not self._seen.is_fresh:
            return
        for key in self._turns.grant(self._now(), self._may_begin_now, everything=everything):
            if key != but:
                self._wake(key)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Reconsiders what waits while the body runs."""
        task = asyncio.create_task(self._reconsider_for_ever(), name="turns")
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _reconsider_for_ever(self) -> None:
        while True:
            await asyncio.sleep(DISPATCH_EVERY_S)
            self.dispatch(everything=True)

    def _may_begin_now(self, migration: Migration) -> bool:
        """Windows are for what the program decides: a person who requests a move chooses the time. Nor do
        failing pods wait: they serve nobody until they are elsewhere."""
        ignores_windows = traits_of(migration.spec.strategy).ignores_windows
        is_time = ignores_windows or self.policy.in_window(self._now())
        return is_time and self.may_begin(migration)

    # -- what the reconciler asks

    def has_turn(self, migration: Migration) -> bool:
        """Asked whenever a migration that waits is looked at: so nothing else holds it any more."""
        self.observe(migration.key)
        self._turns.ready(migration.key, self._now())
        if not self._turns.has_turn(migration.key):
            self.dispatch(but=migration.key)
        return self._turns.has_turn(migration.key)

    def obstacle(self, migration: Migration) -> str:
        """Why the limits will never let its group begin; empty if they may."""
        return self._turns.obstacle(migration)

    def has_room_at(self, migration: Migration, node: str) -> bool:
        return self._turns.has_room_at(migration.key, node)

    def group(self, migration: Migration) -> tuple[Migration, ...]:
        """All members of its group, itself included if it is one."""
        found = (migration_at(key, self._seen) for key in self._turns.members(migration))
        return tuple(each for each in found if each is not None)

    def wake_group(self, migration: Migration) -> None:
        for key in self._turns.members(migration):
            self._wake(key)

    def under_way(self) -> list[str]:
        """Keys."""
        return self._turns.running()

    def unfinished(self) -> list[str]:
        """Keys of those that wait or are under way."""
        return self._turns.unfinished()

    def looked_at(self, key: str, *, failed: bool) -> None:
        """A turn that was not used is given to another. After a failure the queue says when to try again."""
        self.observe(key)
        self._turns.hold(key, None if failed else self._now() + _RETRY_UNUSED_TURN_AFTER)
        self.dispatch_if_freed()
