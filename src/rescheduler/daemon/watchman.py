"""Keeps an eye on what brings the program to a halt: collects the facts that `halting` judges."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from rescheduler.controller.answering import Answering
from rescheduler.controller.followed import minute_of
from rescheduler.controller.halting import RECENT, Facts, StaleCache, continued, halts_of
from rescheduler.controller.state import StateFollowed
from rescheduler.controller.telling import Told
from rescheduler.daemon.rescheduler import Rescheduler
from rescheduler.kube.informer import Informer
from rescheduler.kube.resources import Object
from rescheduler.model.migrations import MANUAL, Migration
from rescheduler.model.status import Halt, HaltReason

__all__ = ["Watchman"]

LOOK_EVERY_S: Final = 2.0
_BLIND: Final = frozenset({HaltReason.API_FAILING, HaltReason.CACHES_STALE})


class Watchman:
    def __init__(
        self,
        rescheduler: Rescheduler,
        state: StateFollowed,
        answering: Answering,
        *,
        now: Callable[[], datetime],
        told: Told,
    ) -> None:
        self.halts: tuple[Halt, ...] = ()
        """Those that hold for the whole cluster."""
        self.namespace_halts: tuple[Halt, ...] = ()
        """Those that hold back the pods of one namespace each."""
        self.is_ending = False
        """From the signal to end on, nothing is begun."""
        self._rescheduler = rescheduler
        self._state = state
        self._answering = answering
        self._now = now
        self._told = told

    @property
    def blindness(self) -> Halt | None:
        """Set while not even a plan can be made: it would be made of what is no longer true."""
        return next((halt for halt in self.halts if halt.reason in _BLIND), None)

    def may_begin(self, migration: Migration) -> bool:
        if self.is_ending or self._rescheduler.configuration.policy.dry_run:
            return False
        if migration.spec.strategy == MANUAL:
            return not any(halt.reason.holds_up_people for halt in self.halts)
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
                await asyncio.sleep(LOOK_EVERY_S)
        finally:
            end()

    def _on_switch(self, _old: Object | None, _new: Object | None) -> None:
        self.look()

    def look(self) -> tuple[Halt, ...]:
        """What holds for the whole cluster now. A change of that, or of which namespaces are held back, is
        told; when a halt ends, what has waited for that is tried at once."""
        before = (*self.halts, *self.namespace_halts)
        limits = self._rescheduler.configuration.policy.halt_when
        now = continued(before, halts_of(self._facts(), limits))
        self.halts = tuple(halt for halt in now if not halt.namespace)
        self.namespace_halts = tuple(halt for halt in now if halt.namespace)
        if _what(before) != _what(now):
            self._told.halted(now)
            if self._rescheduler.controller is not None and _what(before) - _what(now):
                self._rescheduler.controller.look_again()
        return self.halts

    def _facts(self) -> Facts:
        followed, now = self._rescheduler.followed, self._now()
        return Facts(
            now=now,
            pause=self._state.pause,
            migrations=list(self._finished(now - RECENT)),
            nodes=len(followed.nodes),
            not_ready=[node.name for node in followed.nodes if not node.is_ready],
            answers=self._answering.lately(asyncio.get_running_loop().time()),
            stale=[_stale(each) for each in self._caches() if not each.is_fresh],
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


def _what(halts: Iterable[Halt]) -> frozenset[tuple[HaltReason, str]]:
    return frozenset((halt.reason, halt.namespace) for halt in halts)


def _stale(informer: Informer[Any]) -> StaleCache:
    why = str(informer.failure) if informer.failure is not None else ""
    return StaleCache(informer.resource.label, informer.staleness(), why)
