"""Migrations that are handed over together or not at all.

A group is identified by namespace, `spec.group`, `spec.groupSize` and `spec.strategy`. Its members are the
first `groupSize` migrations with that identity: first those that have started, then the oldest. All others
are refused.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple

from rescheduler.api.podmigration import Migration, MigrationPhase
from rescheduler.migrations.observation import Observation, Transition, Wait
from rescheduler.migrations.transition_table import MigrationStep, Trigger

__all__ = [
    "GroupId",
    "MigrationGroup",
    "group_member_failed",
    "group_of",
    "is_group_settled",
    "waiting_for_group",
]

_SETTLED = frozenset(
    {
        MigrationStep.SETTLING,
        MigrationStep.EVICTING,
        MigrationStep.ADOPTING,
        MigrationStep.RELEASING,
        MigrationStep.COMPLETED,
    }
)
_HANDED_OVER = frozenset(
    {MigrationStep.ADOPTING, MigrationStep.REPLACING, MigrationStep.RELEASING, MigrationStep.COMPLETED}
)


class GroupId(NamedTuple):
    namespace: str
    name: str
    size: int
    strategy: str


def group_of(migration: Migration) -> GroupId | None:
    spec = migration.spec
    if not spec.group:
        return None
    return GroupId(migration.namespace, spec.group, max(1, spec.group_size), spec.strategy)


class MigrationGroup:
    """Keys of all migrations of one identity, in the order that decides who is a member."""

    def __init__(self, group: GroupId) -> None:
        self.id = group
        self._queue: list[tuple[bool, float, str]] = []
        self._places: dict[str, tuple[bool, float, str]] = {}

    def __bool__(self) -> bool:
        return bool(self._queue)

    def put(self, migration: Migration) -> None:
        self.remove(migration.key)
        status = migration.status
        has_begun = status.attempts > 0 or status.phase is MigrationPhase.IN_PROGRESS
        place = self._places[migration.key] = (not has_begun, migration.created.timestamp(), migration.key)
        insort(self._queue, place)

    def remove(self, key: str) -> None:
        place = self._places.pop(key, None)
        if place is not None:
            del self._queue[bisect_left(self._queue, place)]

    def members(self) -> Iterator[str]:
        return (key for _, _, key in self._queue[: self.id.size])


def waiting_for_group(observation: Observation) -> Transition | Wait | None:
    """Why a migration that has not begun can't, as far as its group is the reason; None if it is not."""
    migration, group = observation.migration, group_of(observation.migration)
    if group is None:
        return None
    if migration.key not in {each.key for each in observation.group}:
        words = f"group {group.name} already has its {group.size} members; use another group name"
        return _group_refused(words, "GroupFull")
    for each in _other_members(observation):
        if each.status.phase is MigrationPhase.FAILED:
            return _group_refused(
                f"{each.name} of the same group failed: {each.status.message}", "PartnerFailed"
            )
    if missing := group.size - len(observation.group):
        deadline = migration.created + observation.policy.migration_timeout
        words = f"group {group.name} has {group.size - missing} of {group.size} members"
        if observation.now >= deadline:
            return _group_refused(f"{words}; create all of them within migrationTimeout", "GroupIncomplete")
        return Wait(deadline, f"waiting for the rest of its group: {words}")
    if observation.obstacle:
        return _group_refused(
            f"group {group.name} can't start together: {observation.obstacle}", "GroupTooLarge"
        )
    return None


def _group_refused(words: str, failure: str) -> Transition:
    return Transition(Trigger.REFUSED, words, failure, final=True)


def is_group_settled(observation: Observation) -> bool:
    """As the others have recorded it: being settled is written down by members of a group."""
    group = group_of(observation.migration)
    if group is None:
        return True
    arrived = sum(each.status.step in _SETTLED for each in _other_members(observation))
    return 1 + arrived >= group.size


def group_member_failed(observation: Observation) -> Transition | None:
    """As long as none has been handed over, one that fails calls off all."""
    others = _other_members(observation)
    if any(each.status.step in _HANDED_OVER for each in others):
        return None
    for each in others:
        if each.status.phase is MigrationPhase.FAILED or each.status.step == MigrationStep.ROLLING_BACK:
            why = f"{each.name} of the same group failed: {each.status.message}"
            return Transition(Trigger.PARTNER_FAILED, why, "PartnerFailed", each.status.failure_is_final)
    return None


def _other_members(observation: Observation) -> list[Migration]:
    return [each for each in observation.group if each.key != observation.migration.key]
