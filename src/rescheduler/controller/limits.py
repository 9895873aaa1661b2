"""Whose turn it is: how many migrations may be under way at once, in all, per node and per workload.

Those that came first have theirs first; one that has to wait for its node or workload does not hold up
others. Members of a group that has begun are let through: the group is handed over together, or never.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from rescheduler.config.policy import Policy
from rescheduler.model.migrations import Migration, Phase

__all__ = ["Turns"]


class Turns:
    """Counts one state of affairs: made anew whenever somebody asks."""

    def __init__(
        self, migrations: Iterable[Migration], policy: Policy, workload_of: Callable[[Migration], str]
    ) -> None:
        """`workload_of` names what several pods have in common; empty if there is nothing."""
        self._policy = policy
        self._workload_of = workload_of
        self._total = 0
        self._nodes: Counter[str] = Counter()
        self._workloads: Counter[str] = Counter()
        self._groups: set[tuple[str, str]] = set()
        self._queued: list[Migration] = []
        for migration in migrations:
            if migration.status.phase is Phase.IN_PROGRESS:
                self.take(migration)
            elif migration.status.phase is Phase.PENDING:
                self._queued.append(migration)
        self._queued.sort(key=lambda each: (each.created, each.key))

    def take(self, migration: Migration) -> None:
        """It is under way."""
        self._total += 1
        self._nodes.update({migration.spec.source_node, migration.target_node} - {""})
        if migration.spec.group:
            self._groups.add(_group(migration))
        if workload := self._workload_of(migration):
            self._workloads[workload] += 1

    def allows(self, migration: Migration, target: str = "") -> bool:
        """Whether it may begin beside those that are under way; `target` once it is chosen."""
        if _group(migration) in self._groups:
            return True
        policy = self._policy
        nodes = {migration.spec.source_node, target or migration.target_node} - {""}
        return (
            self._total < policy.max_concurrent_migrations
            and all(self._nodes[node] < policy.max_concurrent_per_node for node in nodes)
            and self._workloads[self._workload_of(migration)] < policy.max_concurrent_per_workload
        )

    def next_ones(self) -> list[Migration]:
        """Those that wait and may begin now, all of them together."""
        found = []
        for migration in self._queued:
            if self._total >= self._policy.max_concurrent_migrations and not self._groups:
                break
            if self.allows(migration):
                self.take(migration)
                found.append(migration)
        return found


def _group(migration: Migration) -> tuple[str, str]:
    return migration.namespace, migration.spec.group
