"""Keeps an eye on what brings the program to a halt: collects the facts that `halting` judges."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from rescheduler.api.daemon_status import Halt, HaltReason
from rescheduler.api.podmigration import MANUAL, Migration
from rescheduler.cluster.sources.watched_objects import minute_of
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
_NO_PLAN_REASONS: Final = frozenset({HaltReason.API_FAILING, HaltReason.CACHES_STALE})


class HaltMonitor:
    def __init__(
        self,
        rescheduler: Rescheduler,
        state: WatchedState,
        answering: ApiResponseWindow,
        *,
        now: Callable[[], datetime],
        listener: DaemonListener,
    ) -> None:
        self.halts: tuple[Halt, ...] = ()
        """Those that hold for the whole cluster."""
        self.namespace_halts: tuple[Halt, ...] = ()
        """Those that hold back the pods of one namespace each."""
        self.is_ending = False
        """From the signal to end on, nothing is begun."""
        self._rescheduler = rescheduler
        self._state = state
        self._api_responses = answering
        self._now = now
        self._listener = listener

    @property
    def no_plan_reason(self) -> Halt | None:
        """Set while not even a plan can be made: it would be made of what is no longer true."""
        return next((halt for halt in self.halts if halt.reason in _NO_PLAN_REASONS), None)

    def may_begin(self, migration: Migration) -> bool:
        if self.is_ending or self._rescheduler.configuration.policy.dry_run:
            return False
        if migration.spec.strategy == MANUAL:
            return not any(halt.reason.blocks_manual_moves for halt in self.halts)
        return not self.halts and migration.namespace not in self.held_namespaces

    @property
    def held_namespaces(self) -> frozenset[str]:
        return frozenset(halt.namespace for halt in self.namespace_halts)

    async def run(self) -> None:
        """For ever; turning the switch is noticed at once."""
        end = self._state.informer.subscribe(self._on_switch)
        try:
            while True:
                self.look()
                await asyncio.sleep(HALT_CHECK_INTERVAL_S)
        finally:
            end()

    def _on_switch(self, _old: Object | None, _new: Object | None) -> None:
        self.look()

    def look(self) -> tuple[Halt, ...]:
        """What holds for the whole cluster now. A change of that, or of which namespaces are held back, is
        told; when a halt ends, what has waited for that is tried at once."""
        before = (*self.halts, *self.namespace_halts)
        limits = self._rescheduler.configuration.policy.halt_when
        now = with_original_start(before, current_halts(self._facts(), limits))
        self.halts = tuple(halt for halt in now if not halt.namespace)
        self.namespace_halts = tuple(halt for halt in now if halt.namespace)
        if _halt_keys(before) != _halt_keys(now):
            self._listener.halted(now)
            if self._rescheduler.controller is not None and _halt_keys(before) - _halt_keys(now):
                self._rescheduler.controller.look_again()
        return self.halts

    def _facts(self) -> HaltFacts:
        followed, now = self._rescheduler.followed, self._now()
        return HaltFacts(
            now=now,
            pause=self._state.pause,
            migrations=list(self._finished(now - FAILURE_WINDOW)),
            nodes=len(followed.nodes),
            not_ready=[node.name for node in followed.nodes if not node.is_ready],
            answers=self._api_responses.lately(asyncio.get_running_loop().time()),
            stale=[_stale_cache(each) for each in self._caches() if not each.is_fresh],
        )

    def _caches(self) -> Iterator[Informer[Any]]:
        yield from self._rescheduler.cluster.informers
        yield self._state.informer

    def _finished(self, after: datetime) -> Iterator[Migration]:
        followed = self._rescheduler.followed
        for minute in range(minute_of(after), minute_of(self._now()) + 2):
            for item in followed.migrations.informer.find("finished", minute):
                migration = followed.records.migration(item)
                if migration is not None:
                    yield migration


def _halt_keys(halts: Iterable[Halt]) -> frozenset[tuple[HaltReason, str]]:
    return frozenset((halt.reason, halt.namespace) for halt in halts)


def _stale_cache(informer: Informer[Any]) -> StaleCache:
    why = str(informer.failure) if informer.failure is not None else ""
    return StaleCache(informer.resource.label, informer.staleness(), why)
