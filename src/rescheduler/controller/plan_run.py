"""Carries a plan out: a PodMigration per move, a wave when the one before it is finished.

Somebody executes them, here or elsewhere; this only asks for them and watches. A run that is started again
with the same plan finds the migrations of the first one, and goes on from there.
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from rescheduler.controller.cordoning import Cordoning
from rescheduler.controller.followed import POD_MIGRATIONS, Followed, key_of_item
from rescheduler.controller.observing import migration_at
from rescheduler.controller.wishes import group_of, wish
from rescheduler.kube import errors
from rescheduler.kube.backoff import Backoff
from rescheduler.kube.client import Client
from rescheduler.kube.resources import Object
from rescheduler.model.migrations import FINALIZER, Migration, Phase
from rescheduler.model.plan import Move, Plan

__all__ = ["Errand", "PlanRun", "Record"]

Record = Callable[[Move, float], Awaitable[str]]
"""Puts a move that was planned at that time on record, or says why it must not be made."""

_TRIES: Final = 6
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 10.0


@dataclass(slots=True)
class Errand:
    """One move of the plan, and what has become of it."""

    move: Move
    key: str = ""
    """Of its migration, once there is one."""
    migration: Migration | None = None
    """As last seen."""
    given_up: str = ""
    """Why there is no migration, or none any more."""

    @property
    def is_over(self) -> bool:
        """Finished, and let go of by whoever executed it: nothing is left to be done."""
        migration = self.migration
        is_done = migration is not None and migration.is_finished and FINALIZER not in migration.finalizers
        return bool(self.given_up) or is_done

    @property
    def is_completed(self) -> bool:
        return self.migration is not None and self.migration.status.phase is Phase.COMPLETED

    @property
    def is_under_way(self) -> bool:
        return not self.is_over and bool(self.key)


class PlanRun:
    def __init__(
        self,
        client: Client,
        seen: Followed,
        plan: Plan,
        tell: Callable[[Errand], None] = lambda _: None,
        *,
        record: Record | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """`tell` hears of every change of an errand; `record` is asked before each one is begun.

        `annotations` are for all of its migrations.
        """
        self.plan = plan
        self.errands = [Errand(move) for move in plan.moves]
        self._client = client
        self._seen = seen
        self._tell = tell
        self._record = record
        self._annotations = annotations
        self._changed = asyncio.Event()
        self._stopped = False
        self._superseded = False

    async def run(self) -> None:
        """Returns when every move is made, has failed, or was given up."""
        end = self._seen.migrations.informer.subscribe(self._on_change)
        try:
            await Cordoning(self._client, self._seen.nodes.get).make(self.plan.changes)
            for _, wave in groupby(self.errands, key=lambda errand: errand.move.wave):
                await self._run_wave(list(wave))
        finally:
            end()

    def stop(self) -> None:
        """Nothing new is begun: what waits is called off, what is under way comes to its end."""
        self._stopped = True
        self._changed.set()

    def supersede(self) -> None:
        """Another plan takes over: no wave is begun any more. What was asked for comes to its end, and who
        has a stop on the way goes on from there: nobody else would."""
        self._superseded = True

    def take_on(self, migration: str) -> None:
        """The first of its moves was begun by somebody else, as the migration of this key."""
        self.errands[0].key = migration

    # -- a wave

    async def _run_wave(self, wave: Sequence[Errand]) -> None:
        for errand in wave:
            await self._begin(errand, wave)
        await self._drop_incomplete_groups(wave)
        called_off = False
        while not all(errand.is_over for errand in wave):
            await self._changed.wait()
            self._changed.clear()
            if self._stopped and not called_off:
                called_off = True
                await self._call_off(wave)
            for errand in wave:
                self._look(errand)

    async def _begin(self, errand: Errand, wave: Sequence[Errand]) -> None:
        if errand.key:
            self._look(errand)
            return
        if self._stopped:
            self._give_up(errand, "not begun: stopped before its turn")
            return
        legs = self._legs_before(errand)
        if self._superseded and not legs:
            self._give_up(errand, "not begun: a newer plan takes over")
            return
        move = errand.move
        asked_s = moment_s = self.plan.taken_at_s
        if legs:
            arrived = self._arrived(legs[-1])
            if arrived is None:
                self._give_up(errand, "its stop on the way was not reached")
                return
            move = replace(move, pod=arrived.key, uid=arrived.uid)
            # Whoever else takes it on from there asks for the same thing.
            asked_s = arrived.journey_began_s
        group = group_of(move, moment_s)
        item = wish(
            move,
            asked_s,
            group=group,
            group_size=sum(each.move.group == move.group for each in wave) if group else 0,
            continues=legs[-1].key.partition("/")[2] if legs else "",
            goes_on_to=self._onward(errand),
            annotations=self._annotations,
        )
        key = key_of_item(item)
        if why := await self._ask(move, key, item):
            self._give_up(errand, why)
            return
        errand.key = key
        self._look(errand)

    async def _ask(self, move: Move, key: str, item: Object) -> str:
        """Empty once its migration is there; else why there is none.

        A check that is due before all moves of the one before it are asked for plans some of them again.
        """
        if why := self._asked_by_another(move, key):
            return why
        asking = self._seen.being_asked_for
        asking.add(move.uid)
        try:
            if self._record is not None and (why := await self._record(move, self.plan.taken_at_s)):
                return why
            await self._create(item)
        except errors.KubeError as error:
            return f"its migration can't be created: {error}"
        finally:
            asking.remove(move.uid)
        return ""

    def _asked_by_another(self, move: Move, key: str) -> str:
        if move.uid in self._seen.being_asked_for:
            return "not begun: its move is being asked for already"
        namespace, _, name = move.pod.partition("/")
        for other in self._seen.migrations.find("pod", (namespace, name)):
            migration = self._seen.records.migration(other)
            if migration is None or migration.spec.pod.uid != move.uid or migration.key == key:
                continue
            if not migration.is_finished:
                return f"not begun: {migration.name} moves it already"
        return ""

    def _legs_before(self, errand: Errand) -> list[Errand]:
        return [
            each
            for each in self.errands
            if each.move.uid == errand.move.uid and each.move.hop and each.move.wave < errand.move.wave
        ]

    def _onward(self, errand: Errand) -> str:
        """Where its pod goes on to, if this is only a stop."""
        further = (
            each.move.target or ""
            for each in self.errands
            if each.move.uid == errand.move.uid and each.move.wave > errand.move.wave
        )
        return next(further, "") if errand.move.hop else ""

    def _arrived(self, leg: Errand) -> "_Arrived | None":
        """Who came to the stop, if it is there."""
        successor = leg.migration.status.target_pod if leg.is_completed and leg.migration else None
        if successor is None or leg.migration is None:
            return None
        key = f"{leg.migration.namespace}/{successor.name}"
        pod = self._seen.pods.get(key)
        if pod is None or pod.uid != successor.uid or pod.node != leg.move.target:
            return None
        return _Arrived(key, pod.uid, leg.migration.created.timestamp())

    async def _create(self, item: Object) -> None:
        """One that is there already is the same one: its name follows from the plan."""
        backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S, random.Random())  # noqa: S311 - jitter
        for last in (*(False,) * (_TRIES - 1), True):
            try:
                self._seen.migrations.learn(await self._client.create(POD_MIGRATIONS, item))
            except errors.AlreadyExists:
                await self._seen.read_migration(key_of_item(item), "")
            except errors.Retriable:
                if last:
                    raise
                await asyncio.sleep(backoff.next_delay_s())
                continue
            return

    # -- watching

    def _on_change(self, _old: Object | None, _new: Object | None) -> None:
        self._changed.set()

    def _look(self, errand: Errand) -> None:
        if not errand.key or errand.given_up:
            return
        migration = migration_at(errand.key, self._seen)
        if migration is None:
            if not errand.is_over:
                self._give_up(errand, "cancelled")
            return
        before, errand.migration = errand.migration, migration
        if before is None or migration.status != before.status:
            self._tell(errand)

    def _give_up(self, errand: Errand, why: str) -> None:
        errand.given_up = why
        self._tell(errand)

    async def _drop_incomplete_groups(self, wave: Sequence[Errand]) -> None:
        """They are handed over together or not at all: without one of them the others would wait in vain."""
        incomplete = {errand.move.group for errand in wave if errand.given_up} - {""}
        for errand in wave:
            if errand.move.group in incomplete and errand.is_under_way:
                with contextlib.suppress(errors.NotFound):
                    await self._client.delete(POD_MIGRATIONS, errand.key)

    async def _call_off(self, wave: Sequence[Errand]) -> None:
        """Those that have not begun. With the version as precondition: one that begins just now goes on."""
        for errand in wave:
            migration = migration_at(errand.key, self._seen) if errand.key else None
            if migration is None or migration.status.phase is not Phase.PENDING or migration.is_cancelled:
                continue
            with contextlib.suppress(errors.Conflict, errors.NotFound):
                await self._client.delete(
                    POD_MIGRATIONS, errand.key, uid=migration.uid, version=migration.resource_version
                )


@dataclass(frozen=True, slots=True)
class _Arrived:
    key: str
    uid: str
    journey_began_s: float
