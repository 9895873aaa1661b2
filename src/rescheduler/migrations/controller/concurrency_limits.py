"""Count running migrations against the limits: in all, per node and per workload.

The limits count *units*: a migration, or a group that is handed over together.

- `maxConcurrentMigrations` counts every member of a group.
- `maxConcurrentPerNode` and `maxConcurrentPerWorkload` count a group once if its pods declare it: all
  have the same value of `podGroupLabel`. The planner counts in the same way, and makes no other groups.
- Members of any other group count one by one: `spec.group` alone gives no privilege.
- A move whose copy waits Pending for a node does nothing. Only its workload counts it, or a few pods without
  room would hold up all others. As many copies may wait as moves may run, and half as many of one namespace.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, NamedTuple

from rescheduler.api.podmigration import Migration
from rescheduler.config.policy import Policy
from rescheduler.migrations.interruptions import longest_deadline_of
from rescheduler.migrations.runtime_state import RuntimeStateHolder

__all__ = ["ConcurrencyLimits", "SlotClaim", "raised_node_limits"]


_TIME_PER_MOVE: Final = timedelta(seconds=30)
"""An estimate of how long a copy takes until it is ready; `settleTime` is added."""


def raised_node_limits(
    migrations: Iterable[Migration],
    policy: Policy,
    now: datetime,
    node_deadlines: Mapping[str, datetime] = MappingProxyType({}),
) -> dict[str, int]:
    """Return how many moves must run at the same time so that a drain by another client ends before its
    deadline, by source node. `node_deadlines` says when nodes are removed, even if pods still run on them.

    `maxConcurrentMigrations` still holds for all nodes together.
    """
    counts: Counter[str] = Counter()
    earliest: dict[str, datetime] = {}
    for each in migrations:
        deadline = None if each.is_finished else longest_deadline_of(each, policy)
        if deadline is not None:
            node = each.spec.source_node
            counts[node] += 1
            removed_at = node_deadlines.get(node, deadline)
            earliest[node] = min(deadline, removed_at, earliest.get(node, deadline))
    per_move = _TIME_PER_MOVE + policy.settle_time
    # A move that starts just before the deadline is too late: one move's time is left at the end.
    return {
        node: math.ceil(count * per_move / max(earliest[node] - now - per_move, per_move))
        for node, count in counts.items()
    }


class SlotClaim(NamedTuple):
    """The slots that one migration takes while it runs."""

    unit: str
    """Shared by the members of a declared group, else its own key."""
    namespace: str
    nodes: frozenset[str]
    workload: str
    """The workload of the pod; empty if it has none."""
    waits_for_room: bool = False
    """Whether its copy waits Pending until some node has room."""


class ConcurrencyLimits:
    def __init__(self, runtime: RuntimeStateHolder) -> None:
        self._runtime = runtime
        self.running: Counter[str] = Counter()
        """The number of running migrations by namespace."""
        self._waiting: Counter[str] = Counter()
        """The number of migrations that wait for room, by namespace."""
        self._claims: dict[str, SlotClaim] = {}
        self._nodes: dict[str, Counter[str]] = {}
        self._workloads: dict[str, Counter[str]] = {}
        self.raised: Mapping[str, int] = {}
        """Higher limits of single nodes, whose pods must be gone before a deadline."""

    def __len__(self) -> int:
        """Return how many run, without those that wait for room."""
        return len(self._claims) - self._waiting.total()

    def claim(self, key: str) -> SlotClaim | None:
        return self._claims.get(key)

    @property
    def is_full(self) -> bool:
        return len(self) >= self._runtime.current.policy.max_concurrent_migrations

    def may_wait_for_room(self, namespace: str) -> bool:
        """Return whether one more copy may wait Pending."""
        most = self._runtime.current.policy.max_concurrent_migrations
        return self._waiting.total() < most and self._waiting[namespace] < max(1, most // 2)

    def take(self, key: str, claim: SlotClaim) -> None:
        self.free(key)
        self._claims[key] = claim
        self._count(claim)[claim.namespace] += 1
        for units in self._units(claim):
            units[claim.unit] += 1

    def free(self, key: str) -> bool:
        """Free the slots of a migration, and return whether it had taken any."""
        claim = self._claims.pop(key, None)
        if claim is None:
            return False
        by_namespace = self._count(claim)
        for counts, name in ((by_namespace, claim.namespace), *((u, claim.unit) for u in self._units(claim))):
            counts[name] -= 1
            if not counts[name]:
                del counts[name]
        for by_name, names in ((self._nodes, claim.nodes), (self._workloads, (claim.workload,))):
            for name in names:
                if name in by_name and not by_name[name]:
                    del by_name[name]
        return True

    def fits(self, claims: Sequence[SlotClaim]) -> bool:
        """Return whether all of them may start together, beside those that run."""
        if len(claims) == 1:
            return self._fits_alone(claims[0])
        return not self.exceeded(claims)

    def _fits_alone(self, claim: SlotClaim) -> bool:
        """Return whether one migration may start. This is called for every waiting migration, so it is
        fast."""
        policy = self._runtime.current.policy
        if self.is_full:
            return False
        for node in claim.nodes:
            if len(self._nodes.get(node, ())) >= max(
                policy.max_concurrent_per_node, self.raised.get(node, 0)
            ):
                return False
        return len(self._workloads.get(claim.workload, ())) < policy.max_concurrent_per_workload

    def exceeded(self, claims: Sequence[SlotClaim], *, alone: bool = False) -> str:
        """Return which limit they would exceed, in words; empty if none.

        `alone` counts as if nothing else ran: claims that don't fit then never will.
        """
        policy = self._runtime.current.policy
        needed = len(claims) + (0 if alone else len(self))
        if needed > policy.max_concurrent_migrations:
            return (
                f"maxConcurrentMigrations allows {policy.max_concurrent_migrations}, and {needed} are needed"
            )
        for node, units in _units_by_name(claims, lambda claim: claim.nodes).items():
            count = len(units if alone else units | self._nodes.get(node, {}).keys())
            if count > policy.max_concurrent_per_node:
                return (
                    f"maxConcurrentPerNode allows {policy.max_concurrent_per_node}, and {node} needs {count}"
                )
        for workload, units in _units_by_name(claims, lambda claim: {claim.workload} - {""}).items():
            count = len(units if alone else units | self._workloads.get(workload, {}).keys())
            if count > policy.max_concurrent_per_workload:
                limit = policy.max_concurrent_per_workload
                return f"maxConcurrentPerWorkload allows {limit}, and one workload needs {count}"
        return ""

    def has_room_at(self, key: str, node: str) -> bool:
        """Return whether a started migration may use that node, which was chosen only after its start."""
        claim = self._claims.get(key)
        others = self._nodes.get(node, {}).keys() - ({claim.unit} if claim is not None else set())
        # If more pods may leave a node at once, more must be able to arrive at a target.
        raised = (
            max((self.raised.get(each, 0) for each in claim.nodes), default=0) if claim is not None else 0
        )
        return len(others) < max(self._runtime.current.policy.max_concurrent_per_node, raised)

    def _count(self, claim: SlotClaim) -> Counter[str]:
        return self._waiting if claim.waits_for_room else self.running

    def _units(self, claim: SlotClaim) -> list[Counter[str]]:
        found = [self._nodes.setdefault(node, Counter()) for node in claim.nodes]
        if claim.workload:
            found.append(self._workloads.setdefault(claim.workload, Counter()))
        return found


def _units_by_name(
    claims: Iterable[SlotClaim], names_of: Callable[[SlotClaim], Iterable[str]]
) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for claim in claims:
        for name in names_of(claim):
            found.setdefault(name, set()).add(claim.unit)
    return found
