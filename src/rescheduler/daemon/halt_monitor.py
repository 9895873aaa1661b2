"""Collect the facts for `halts`, and keep the halts of the runtime state up to date."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final

from rescheduler.api.podmigration import Migration
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.sources.watched_objects import minute_of, nested_field
from rescheduler.daemon.components import Rescheduler
from rescheduler.daemon.halts import (
    FAILURE_WINDOW,
    ApiResponseWindow,
    HaltFacts,
    StaleCache,
    current_halts,
    with_original_start,
)
from rescheduler.daemon.listeners import DaemonListener
from rescheduler.daemon.own_objects import WatchedState
from rescheduler.kube.api_resources import Object
from rescheduler.kube.informer import Informer

__all__ = ["HaltMonitor"]

HALT_CHECK_INTERVAL_S: Final = 2.0


class HaltMonitor:
    def __init__(
        self,
        rescheduler: Rescheduler,
        state: WatchedState,
        api_responses: ApiResponseWindow,
        *,
        now: Callable[[], datetime],
        listener: DaemonListener,
    ) -> None:
        self._rescheduler = rescheduler
        self._state = state
        self._api_responses = api_responses
        self._now = now
        self._listener = listener
        self._is_running = False
        self._is_scheduled = False
        self._known_finished: tuple[int, list[Migration]] | None = None
        """The migrations that finished recently, with the minute in which they were looked up."""

    async def run(self) -> None:
        """Evaluate every two seconds, and as soon as an informer reports something that may cause a halt."""
        watched = self._rescheduler.watched
        self._is_running = True
        ends = [
            self._state.informer.subscribe(lambda _old, _new: self.evaluate()),
            watched.nodes.subscribe(self._on_node),
            watched.migrations.informer.subscribe(self._on_migration),
        ]
        try:
            while True:
                self.evaluate()
                await asyncio.sleep(HALT_CHECK_INTERVAL_S)
        finally:
            self._is_running = False
            for end in ends:
                end()

    def evaluate_soon(self) -> None:
        """Evaluate in the next turn of the event loop, once for all changes that arrive together."""
        # Before the caches are filled and after they are closed, they would all count as stale.
        if self._is_running and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._evaluate_scheduled)

    def _evaluate_scheduled(self) -> None:
        self._is_scheduled = False
        if self._is_running:
            self.evaluate()

    def evaluate(self) -> None:
        """Update the halts of the runtime state, and report which have started or ended."""
        runtime = self._rescheduler.runtime
        before = runtime.current
        halts = current_halts(self._facts(), before.policy.halt_when)
        runtime.update(halts=with_original_start(before.halts, halts))
        if runtime.current.halt_keys != before.halt_keys:
            self._listener.halted(runtime.current.halts)

    def _on_node(self, old: NodeRecord | None, new: NodeRecord | None) -> None:
        if (old is not None and old.is_ready) != (new is not None and new.is_ready):
            self.evaluate_soon()

    def _on_migration(self, _old: Object | None, new: Object | None) -> None:
        self._known_finished = None
        if new is not None and nested_field(new, "status", "finishedAt"):
            self.evaluate_soon()

    def _facts(self) -> HaltFacts:
        watched, now = self._rescheduler.watched, self._now()
        return HaltFacts(
            now=now,
            pause=self._state.pause,
            migrations=self._finished(now),
            nodes=len(watched.nodes),
            not_ready=[node.name for node in watched.nodes if not node.is_ready],
            responses=self._api_responses.lately(asyncio.get_running_loop().time()),
            stale=[_stale_cache(each) for each in self._caches() if not each.is_fresh],
        )

    def _caches(self) -> Iterator[Informer[Any]]:
        yield from self._rescheduler.cluster.informers
        yield self._state.informer

    def _finished(self, now: datetime) -> list[Migration]:
        minute = minute_of(now)
        if self._known_finished is None or self._known_finished[0] != minute:
            self._known_finished = minute, list(self._find_finished(now))
        return self._known_finished[1]

    def _find_finished(self, now: datetime) -> Iterator[Migration]:
        watched = self._rescheduler.watched
        for minute in range(minute_of(now - FAILURE_WINDOW), minute_of(now) + 2):
            for item in watched.migrations.informer.find("finished", minute):
                migration = watched.records.migration(item)
                if migration is not None:
                    yield migration


def _stale_cache(informer: Informer[Any]) -> StaleCache:
    why = str(informer.failure) if informer.failure is not None else ""
    return StaleCache(informer.resource.label, informer.staleness(), why)
