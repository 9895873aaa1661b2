"""Migrations that are handed over together or not at all: pods that are of no use one by one.

A group is known by its namespace, `spec.group`, `spec.groupSize` and `spec.strategy`: migrations that differ
in any of them have nothing to do with each other. Its members are the first `groupSize` migrations of that
identity: those that have begun, then by age. Any that comes later is a stranger, and is refused.
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


def waiting_for_group(scene: Observation) -> Transition | Wait | None:
    """Why a migration that has not begun can't, as far as its group is the reason; None if it is not."""
    migration, group = scene.migration, group_of(scene.migration)
    if group is None:
        return None
    if migration.key not in {each.key for each in scene.group}:
        words = f"group {group.name} has its {group.size} members already; use another name for another group"
        return _group_refused(words, "GroupFull")
    for each in _other_members(scene):
        if each.status.phase is MigrationPhase.FAILED:
            return _group_refused(
                f"{each.name} of the same group failed: {each.status.message}", "PartnerFailed"
            )
    if missing := group.size - len(scene.group):
        given_up_at = migration.created + scene.policy.migration_timeout
        words = f"group {group.name} has {group.size - missing} of {group.size} members"
        if scene.now >= given_up_at:
            return _group_refused(f"{words}; create all of them within migrationTimeout", "GroupIncomplete")
        return Wait(given_up_at, f"waits for the rest of its group: {words}")
    if scene.obstacle:
        return _group_refused(f"group {group.name} can't begin together: {scene.obstacle}", "GroupTooLarge")
    return None


def _group_refused(words: str, failure: str) -> Transition:
    return Transition(Trigger.REFUSED, words, failure, final=True)


def is_group_settled(scene: Observation) -> bool:
    """As the others have recorded it: being settled is written down by members of a group."""
    group = group_of(scene.migration)
    if group is None:
        return True
    arrived = sum(each.status.step in _SETTLED for each in _other_members(scene))
    return 1 + arrived >= group.size


def group_member_failed(scene: Observation) -> Transition | None:
    """As long as none has been handed over, one that fails calls off all."""
    others = _other_members(scene)
    if any(each.status.step in _HANDED_OVER for each in others):
        return None
    for each in others:
        if each.status.phase is MigrationPhase.FAILED or each.status.step == MigrationStep.ROLLING_BACK:
            why = f"{each.name} of the same group failed: {each.status.message}"
            return Transition(Trigger.PARTNER_FAILED, why, "PartnerFailed", each.status.failure_is_final)
    return None


def _other_members(scene: Observation) -> list[Migration]:
    return [each for each in scene.group if each.key != scene.migration.key]
