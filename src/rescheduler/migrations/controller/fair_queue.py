"""Decide which migration starts next, over everything that waits and runs.

    put ──▶ waiting ──grant──▶ granted ──put: InProgress──▶ running ──put: finished──▶ forgotten
              ▲ │ hold, retryAt   │
    due, ready│ ▼                 │ hold, put: postponed
             held ◀───────────────┘

The order, among all that `concurrency_limits` allows to start:

1. namespaces below their fair share of `maxConcurrentMigrations` (divided by the namespaces in which
   something runs or waits), so that no long queue keeps out another namespace
2. urgent strategies before others
3. the namespace with the fewest running migrations, then the one whose last turn was longest ago: round-robin
4. within a namespace urgent migrations first, then the oldest

A migration that waits for its node or workload does not block others. A group gets its turn as a whole: when
all members exist and wait, and all of them fit together. Until none of them runs any more, each member has a
turn and a reserved slot.

The queue examines everything only when something was freed, or when the caller says that conditions changed.
Otherwise it examines only what is new: the rest could not start before, and still can't.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import heappop, heappush
from itertools import chain
from typing import Final, NamedTuple

from rescheduler.api.podmigration import Migration, MigrationPhase, traits_of
from rescheduler.migrations.controller.concurrency_limits import (
    ConcurrencyLimits,
    SlotClaim,
    raised_node_limits,
)
from rescheduler.migrations.interruptions import GroupId, MigrationGroup, group_of
from rescheduler.migrations.runtime_state import RuntimeState, RuntimeStateHolder
from rescheduler.migrations.state_machine import invalid_status
from rescheduler.migrations.transition_table import MigrationStep

__all__ = ["FairQueue"]

_INDEFINITELY: Final = datetime.max.replace(tzinfo=UTC)

_QueuePosition = tuple[bool, float, str]
"""The position in the queue of a namespace: not urgent, when it came, which unit."""


@dataclass(slots=True)
class _QueuedMigration:
    migration: Migration
    claim: SlotClaim
    pod_group: str
    """The group that its pod declares; empty if none."""
    held_until: datetime | None = None
    is_granted: bool = False
    starts_with_group: bool = False
    """Whether it still waits although its group has started."""

    @property
    def is_running(self) -> bool:
        return self.migration.status.phase is MigrationPhase.IN_PROGRESS

    @property
    def is_pending(self) -> bool:
        return self.migration.status.phase is MigrationPhase.PENDING and not self.migration.is_cancelled

    @property
    def is_waiting(self) -> bool:
        return self.is_pending and not self.is_granted and self.held_until is None


class _WaitingUnit(NamedTuple):
    """A unit that waits for one turn: a migration, or all members of a group."""

    place: _QueuePosition
    migration: Migration
    """The youngest member."""
    members: tuple[str, ...]
    claims: list[SlotClaim]


class FairQueue:
    def __init__(self, runtime: RuntimeStateHolder) -> None:
        self._runtime = runtime
        self._slots = ConcurrencyLimits(runtime)
        self._entries: dict[str, _QueuedMigration] = {}
        self._evictions: dict[str, Migration] = {}
        """Moves on eviction by key: only they can raise the limit of a node."""
        self._groups: dict[GroupId, MigrationGroup] = {}
        self._group_members: dict[GroupId, tuple[str, ...]] = {}
        self._waiting: dict[str, _WaitingUnit] = {}
        self._lines: dict[str, list[_QueuePosition]] = {}
        """The positions of waiting units by namespace, in order."""
        self._held: list[tuple[datetime, str]] = []
        self._new: dict[str, None] = {}
        """Units that were not reconciled since they started to wait."""
        self._is_freed = False
        self._served: dict[str, int] = {}
        """When each namespace last had a turn, counted in turns."""
        self._turns_given = 0

    # -- what there is

    def policy_changed(self) -> None:
        """Sort everything again: limits and urgent strategies may be different now."""
        self._is_freed = True
        for key in self._entries:
            self._update_position(key)

    @property
    def is_freed(self) -> bool:
        """Return whether something has ended since the last `grant`."""
        return self._is_freed

    def put(self, migration: Migration, workload: str = "", pod_group: str = "") -> None:
        """Add or update a migration; `workload` and `pod_group` are those of its pod; empty if none."""
        key, group = migration.key, group_of(migration)
        known = self._entries.get(key)
        if known is not None and known.migration.uid != migration.uid:
            self.remove(key)
            known = None
        if (migration.is_finished and group is None) or invalid_status(migration):
            # A migration with an invalid status is left alone, so it would hold its slot forever.
            self.remove(key)
            return
        waits = _waits_for_room(migration)
        nodes = {"" if waits else migration.spec.source_node, migration.target_node} - {""}
        claim = SlotClaim(key, migration.namespace, frozenset(nodes), workload, waits)
        entry = self._entries[key] = known or _QueuedMigration(migration, claim, pod_group)
        retry_at, before = migration.status.retry_at, entry.migration.status.retry_at
        if migration.status.phase is not MigrationPhase.PENDING:
            entry.is_granted, entry.held_until = False, None
        elif retry_at is not None and (known is None or retry_at != before):
            self._hold(entry, retry_at)
        entry.migration, entry.claim, entry.pod_group = migration, claim, pod_group
        traits = traits_of(migration.spec.strategy)
        if traits.on_eviction or traits.evacuates:
            self._evictions[key] = migration
        if group is not None:
            self._groups.setdefault(group, MigrationGroup(group)).put(migration)
        self._update_position(key)

    def remove(self, key: str) -> None:
        entry = self._entries.pop(key, None)
        self._evictions.pop(key, None)
        if entry is None:
            return
        self._release(key)
        self._take_out(key)
        group = group_of(entry.migration)
        if group is not None:
            self._groups[group].remove(key)
            self._update_group_position(group)

    def members(self, migration: Migration) -> tuple[str, ...]:
        """Return the keys of all members of its group, even finished ones; the migration may not be one of
        them."""
        group = group_of(migration)
        known = None if group is None else self._groups.get(group)
        return () if known is None else tuple(known.members())

    def running(self) -> list[str]:
        return [key for key, entry in self._entries.items() if entry.is_running]

    def unfinished(self) -> list[str]:
        return [key for key, entry in self._entries.items() if not entry.migration.is_finished]

    # -- turns

    def has_turn(self, key: str) -> bool:
        entry = self._entries.get(key)
        return entry is not None and (entry.is_granted or entry.starts_with_group)

    def obstacle(self, migration: Migration) -> str:
        """Return which limit its group exceeds by itself, so that it can never start; empty if none."""
        members = self.members(migration)
        if migration.key not in members:
            return ""
        return self._slots.exceeded(self._claims(members), alone=True)

    def has_room_at(self, key: str, node: str) -> bool:
        """Return whether a migration that has its turn may use that target node."""
        return self._slots.has_room_at(key, node)

    def may_wait_for_room(self, namespace: str) -> bool:
        return self._slots.may_wait_for_room(namespace)

    def hold(self, key: str, until: datetime | None = None) -> None:
        """Take back an unused turn: the migration waits again after that time.

        Without a time, it waits again when it is `ready`. This also holds if its turn is over because its
        start could not be recorded: with a new turn, it would be tried again at once.
        """
        entry = self._entries.get(key)
        if entry is not None and (entry.is_granted or (until is None and entry.is_waiting)):
            self._hold(entry, until or _INDEFINITELY)
            self._update_position(key)

    def ready(self, key: str, now: datetime) -> None:
        """End the hold of a migration, unless it waits for its time of retry."""
        entry = self._entries.get(key)
        if entry is None or entry.held_until is None:
            return
        retry_at = entry.migration.status.retry_at
        if retry_at is None or retry_at <= now:
            entry.held_until = None
            self._update_position(key)

    def grant(self, now: datetime, *, everything: bool = False) -> list[str]:
        """Give turns, and return the keys in order; consider `everything` if conditions changed."""
        self._end_holds(now)
        state = self._runtime.current
        self._slots.raised = raised_node_limits(
            self._evictions.values(), state.policy, now, state.node_deadlines
        )
        lines = self._lines if everything or self._is_freed else self._lines_of_new()
        self._new, self._is_freed = {}, False
        if not lines or self._slots.is_full:
            return []
        granted: list[str] = []
        for unit in self._chosen(lines, now):
            for key in unit.members:
                self._entries[key].is_granted = True
            granted += unit.members
            self._update_position(unit.migration.key)
        return granted

    def _chosen(self, lines: Mapping[str, list[_QueuePosition]], now: datetime) -> list[_WaitingUnit]:
        """Choose the units that start now, and take slots for each of them."""
        may_start = _cached_by_kind(self._runtime.current, now)
        share = self._fair_share()
        heads: list[tuple[tuple[object, ...], str, Iterator[_WaitingUnit]]] = []

        def push(namespace: str, rest: Iterator[_WaitingUnit]) -> None:
            for unit in rest if not self._slots.is_full else ():
                if may_start(unit.migration) and self._slots.fits(unit.claims):
                    heappush(
                        heads, (self._precedence(namespace, unit, share), namespace, chain([unit], rest))
                    )
                    return

        for namespace, line in lines.items():
            push(namespace, (self._waiting[name] for _, _, name in line))
        chosen: list[_WaitingUnit] = []
        while heads and not self._slots.is_full:
            _, namespace, rest = heappop(heads)
            unit = next(rest)
            if self._slots.fits(unit.claims):
                for key, claim in zip(unit.members, unit.claims, strict=True):
                    self._slots.take(key, claim)
                self._turns_given += 1
                self._served[namespace] = self._turns_given
                chosen.append(unit)
            push(namespace, rest)
        return chosen

    def _precedence(self, namespace: str, unit: _WaitingUnit, share: int) -> tuple[object, ...]:
        running = self._slots.running[namespace]
        not_urgent, came, name = unit.place
        return running >= share, not_urgent, running, self._served.get(namespace, 0), came, name

    def _fair_share(self) -> int:
        namespaces = len(self._lines.keys() | self._slots.running.keys())
        return max(1, self._runtime.current.policy.max_concurrent_migrations // max(1, namespaces))

    def _lines_of_new(self) -> dict[str, list[_QueuePosition]]:
        found: dict[str, list[_QueuePosition]] = {}
        for name in self._new:
            unit = self._waiting[name]
            insort(found.setdefault(unit.migration.namespace, []), unit.place)
        return found

    # -- bookkeeping

    def _hold(self, entry: _QueuedMigration, until: datetime) -> None:
        entry.is_granted, entry.held_until = False, until
        if until is not _INDEFINITELY:
            heappush(self._held, (until, entry.migration.key))

    def _end_holds(self, now: datetime) -> None:
        while self._held and self._held[0][0] <= now:
            until, key = heappop(self._held)
            entry = self._entries.get(key)
            if entry is not None and entry.held_until == until:
                entry.held_until = None
                self._update_position(key)

    def _update_position(self, key: str) -> None:
        """Count the migration if it runs or may run, and put it into its queue if it waits."""
        entry = self._entries[key]
        group = group_of(entry.migration)
        if group is not None:
            self._update_group_position(group)
            if key not in self._group_members.get(group, ()):
                self._update_single_position(key)
            return
        self._count(entry, entry.claim if entry.is_running or entry.is_granted else None)
        if entry.is_waiting:
            self._put_in(key, entry.migration, (key,))
        else:
            self._take_out(key)

    def _update_group_position(self, group: GroupId) -> None:
        known = self._groups[group]
        keys = tuple(known.members())
        members = [self._entries[key] for key in keys]
        is_complete = len(members) == group.size
        has_begun = is_complete and any(each.is_running or each.is_granted for each in members)
        for each, claim in zip(members, self._claims(keys), strict=True):
            each.starts_with_group = has_begun and each.is_pending
            counts = each.is_running or each.is_granted or each.starts_with_group
            self._count(each, claim if counts else None)
        if is_complete and not has_begun and all(each.is_waiting for each in members):
            youngest = max(members, key=lambda each: (each.migration.created, each.migration.key))
            self._put_in(repr(group), youngest.migration, keys)
        else:
            self._take_out(repr(group))
        for key in set(self._group_members.get(group, ())).difference(keys):
            self._update_single_position(key)
        self._group_members[group] = keys
        if not known:
            del self._groups[group], self._group_members[group]

    def _update_single_position(self, key: str) -> None:
        """Update a migration that is not, or no longer, a member of its group."""
        entry = self._entries.get(key)
        if entry is not None:
            entry.starts_with_group = entry.is_granted = False
            self._count(entry, entry.claim if entry.is_running else None)

    def _claims(self, keys: Iterable[str]) -> list[SlotClaim]:
        """Return the slots of these migrations; members of a pod group count as one unit."""
        members = [self._entries[key] for key in keys]
        if len(members) > 1 and members[0].pod_group and len({each.pod_group for each in members}) == 1:
            unit = repr(group_of(members[0].migration))
            return [each.claim._replace(unit=unit) for each in members]
        return [each.claim for each in members]

    def _count(self, entry: _QueuedMigration, claim: SlotClaim | None) -> None:
        key = entry.migration.key
        if claim is None:
            self._release(key)
        elif (before := self._slots.claim(key)) != claim:
            self._slots.take(key, claim)
            self._is_freed |= before is not None and claim.waits_for_room

    def _release(self, key: str) -> None:
        self._is_freed |= self._slots.free(key)

    def _put_in(self, name: str, youngest: Migration, members: tuple[str, ...]) -> None:
        is_urgent = traits_of(youngest.spec.strategy).urgent
        place = (not is_urgent, youngest.created.timestamp(), name)
        known = self._waiting.get(name)
        if known is None or known.place != place:
            self._take_out(name)
            insort(self._lines.setdefault(youngest.namespace, []), place)
        unit = self._waiting[name] = _WaitingUnit(place, youngest, members, self._claims(members))
        if known is None or known.claims != unit.claims:
            self._new[name] = None

    def _take_out(self, name: str) -> None:
        unit = self._waiting.pop(name, None)
        if unit is None:
            return
        namespace = unit.migration.namespace
        line = self._lines[namespace]
        del line[bisect_left(line, unit.place)]
        if not line:
            del self._lines[namespace]
        self._new.pop(name, None)


def _waits_for_room(migration: Migration) -> bool:
    """Return whether its copy was created without a target, and no node is recorded for it."""
    status = migration.status
    return (
        status.phase is MigrationPhase.IN_PROGRESS
        and status.handover is not None
        and status.handover.source_stays
        and not migration.target_node
        and status.step != MigrationStep.ROLLING_BACK
    )


def _cached_by_kind(state: RuntimeState, now: datetime) -> Callable[[Migration], bool]:
    """Return `may_start`, which depends only on namespace and strategy, with its results kept."""
    known: dict[tuple[str, str], bool] = {}

    def may_start(migration: Migration) -> bool:
        kind = migration.namespace, migration.spec.strategy
        if kind not in known:
            known[kind] = state.may_start(migration, now)
        return known[kind]

    return may_start
