"""Make one plan per check, from the cluster as it will be when all running migrations have finished.

A check does not wait for the moves of the previous one. In load, a pod that is being moved counts on its
target, so that its node is not relieved twice, and a terminating pod counts nowhere. In requests, both also
count where they are, because it is not known when they leave.

Usage averages and the history of hot nodes go from one check to the next. Planning runs in a thread on frozen
values, so that it does not block the event loop.
"""

import asyncio
import contextlib
import gc
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np

from rescheduler.api.podmigration import EVACUATION, Migration, MigrationPhase, traits_of
from rescheduler.cluster.node_record import is_cordoned_by
from rescheduler.cluster.snapshot import NO_ROW, PodTable, Rows, Snapshot, profile_of
from rescheduler.cluster.snapshot_tables import group_by_node, sum_by_node
from rescheduler.cluster.sources.usage_sources import measures_the_same, usage_reader
from rescheduler.cluster.sources.watched_cluster import WatchedCluster
from rescheduler.cluster.sources.watched_objects import WatchedObjects
from rescheduler.cluster.trusted_usage import HotNodeHistory, UsageReader, usage_for_check
from rescheduler.cluster.usage_readings import Smoothing, UsageOutcome
from rescheduler.config.policy import Policy, UsageSource
from rescheduler.kube.client import Client
from rescheduler.migrations.controller.observation_builder import (
    running_migrations,
    target_of,
    unfinished_migrations,
)
from rescheduler.migrations.runtime_state import RuntimeState, RuntimeStateHolder
from rescheduler.planner.plan import Plan, Rejection
from rescheduler.planner.plan_builder import build_plan, too_hot_nodes
from rescheduler.strategies.fair_shares import QueuedMigrations
from rescheduler.strategies.node_maintenance import Evacuation
from rescheduler.strategies.strategy_registry import strategies_of, strategies_of_others

__all__ = [
    "CheckResult",
    "Checker",
    "MoveUnderWay",
    "UnfinishedMigrations",
    "expected_snapshot",
    "heating_nodes",
    "moves_under_way",
    "queued_by_profile",
    "unfinished_now",
]


@dataclass(frozen=True, slots=True)
class MoveUnderWay:
    """A migration that has not finished."""

    pod: str
    uid: str
    target: str
    """Empty if it has not been chosen yet."""
    copies: tuple[str, ...] = ()
    """The keys of its successors that exist already."""
    has_started: bool = True
    strategy: str = ""


@dataclass(frozen=True, slots=True)
class UnfinishedMigrations:
    """The migrations that have not finished, as they were at one moment; there may be thousands.

    Creating this takes little time on the event loop; call `moves` in a thread.
    """

    migrations: Sequence[Migration]
    """The migrations, in a fixed order."""
    successors: Mapping[str, str]
    """The keys of existing successors, by the key of the migration."""

    def moves(self) -> list[MoveUnderWay]:
        return [self._move(each) for each in self.migrations]

    def _move(self, migration: Migration) -> MoveUnderWay:
        successor = self.successors.get(migration.key)
        return MoveUnderWay(
            migration.pod_key,
            migration.spec.pod.uid,
            migration.target_node,
            () if successor is None else (successor,),
            has_started=migration.status.phase is MigrationPhase.IN_PROGRESS,
            strategy=migration.spec.strategy,
        )


def unfinished_now(watched: WatchedObjects) -> UnfinishedMigrations:
    targets = ((each.key, target_of(each, watched)) for each in running_migrations(watched))
    return UnfinishedMigrations(
        unfinished_migrations(watched), {key: pod.key for key, pod in targets if pod is not None}
    )


def moves_under_way(watched: WatchedObjects) -> list[MoveUnderWay]:
    """Return all moves that are requested or running, in a fixed order."""
    return unfinished_now(watched).moves()


def expected_snapshot(snapshot: Snapshot, moves: Sequence[MoveUnderWay]) -> Snapshot:
    """Return the snapshot with moving pods at their targets; `snapshot.moving` excludes them from plans."""
    node = snapshot.pods.node.copy()
    leaving: list[int] = []
    arriving = 0
    for move in moves:
        row = snapshot.pods.row.get(move.pod)
        if row is None or snapshot.pods.records[row].uid != move.uid:
            arriving += _pending_at_target(snapshot, node, move)
            continue
        if node[row] == NO_ROW:
            continue
        there = any(_has_node(snapshot, copy) for copy in move.copies)
        target = NO_ROW if there else snapshot.nodes.row.get(move.target, int(node[row]))
        if target != node[row]:
            leaving.append(row)
            node[row] = target
    ending = [
        row
        for row, pod in enumerate(snapshot.pods.records)
        if pod.deleted_s is not None and node[row] != NO_ROW
    ]
    found = _with_pods_at_targets(snapshot, node, leaving) if leaving or arriving else snapshot
    return _without_terminating_load(found, ending) if ending else found


def _pending_at_target(snapshot: Snapshot, node: Rows, move: MoveUnderWay) -> int:
    """Count the pending replacement of an evicted pod on its target, so that no other move takes its room.

    Return how many pods were counted.
    """
    target = snapshot.nodes.row.get(move.target, NO_ROW)
    found = (snapshot.pods.row.get(copy, NO_ROW) for copy in move.copies)
    rows = [row for row in found if row != NO_ROW and node[row] == NO_ROW]
    if target == NO_ROW:
        return 0
    node[rows] = target
    return len(rows)


def _has_node(snapshot: Snapshot, pod: str) -> bool:
    row = snapshot.pods.row.get(pod)
    return row is not None and snapshot.pods.node[row] != NO_ROW


def _with_pods_at_targets(snapshot: Snapshot, node: Rows, leaving: list[int]) -> Snapshot:
    by_node, first_on = group_by_node(node, len(snapshot.nodes))
    before, nodes = snapshot.pods, snapshot.nodes
    pods: PodTable = replace(before, node=node, by_node=by_node, first_on=first_on)
    requested = sum_by_node(pods.requests, pods)
    np.add.at(requested, before.node[leaving], before.requests[leaving])
    for column in (node, by_node, first_on, requested):
        column.setflags(write=False)
    load = sum_by_node(pods.load, pods)
    load.setflags(write=False)
    return replace(snapshot, pods=pods, nodes=replace(nodes, requested=requested, load=load))


def _without_terminating_load(snapshot: Snapshot, ending: list[int]) -> Snapshot:
    """Remove the load of terminating pods from their nodes; for the scheduler rules they still count."""
    load = snapshot.nodes.load.copy()
    np.subtract.at(load, snapshot.pods.node[ending], snapshot.pods.load[ending])
    load.setflags(write=False)
    return replace(snapshot, nodes=replace(snapshot.nodes, load=load))


@dataclass(frozen=True, slots=True)
class CheckResult:
    number: int
    """The number of the check, from 1."""
    began: datetime
    snapshot: Snapshot
    plan: Plan
    planning_s: float = 0.0
    usage_source: str = ""
    heating: tuple[str, ...] = ()
    """Nodes that are too hot, but not for enough checks to move pods."""


@dataclass(frozen=True, slots=True)
class _CheckHistory:
    smoothing: Smoothing | None = field(default_factory=Smoothing)
    heat: HotNodeHistory = field(default_factory=HotNodeHistory)


class Checker:
    def __init__(
        self,
        client: Client,
        cluster: WatchedCluster,
        runtime: RuntimeStateHolder,
        *,
        now: Callable[[], datetime],
        usage: UsageReader | None = None,
    ) -> None:
        """Create the checker; `usage` replaces the source that the policy names."""
        self._client = client
        self._cluster = cluster
        self._runtime = runtime
        self._now = now
        self._fixed_usage = usage
        self._reader: tuple[Policy, UsageReader] | None = None
        self._history = _CheckHistory()
        self._number = 0

    async def checks(self) -> AsyncIterator[CheckResult]:
        """Check once per `reschedulingInterval`; a check starts only when the caller requests its result."""
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            yield await self.check()
            rest_s = (
                began_s + self._runtime.current.policy.rescheduling_interval.total_seconds() - loop.time()
            )
            await asyncio.sleep(max(0.0, rest_s))

    async def check(self) -> CheckResult:
        """Plan as if the running moves had finished, so that none is planned twice."""
        self._number += 1
        began, state = self._now(), self._runtime.current
        outcome = await (await self._usage(state.policy)).read()
        await self._cluster.observe_autoscalers()
        under_way = unfinished_now(self._cluster.watched)
        decide = _Planning(self._cluster, state, self._history)
        with _without_collections():
            decided = await asyncio.to_thread(decide, outcome, under_way, self._now().timestamp())
        self._history = decided.history
        took_s, source = decided.planning_s, decided.usage_source
        heating = heating_nodes(decided.history.heat, state.policy.hot_checks)
        return CheckResult(self._number, began, decided.snapshot, decided.plan, took_s, source, heating)

    async def measure(self) -> None:
        """Read usage for plans that users request: their snapshots then have the load that `plan` shows."""
        now_s, policy = self._now().timestamp(), self._runtime.current.policy
        outcome = await (await self._usage(policy)).read()
        usage, _ = usage_for_check(
            outcome,
            self._cluster.usage_subjects(now_s),
            now_s=now_s,
            half_life_s=policy.usage_half_life.total_seconds(),
            smoothing=None,
        )
        self._cluster.measure(usage.pods, usage.notes, outcome.custom)

    async def close(self) -> None:
        if self._fixed_usage is not None:
            await self._fixed_usage.close()
        if self._reader is not None:
            await self._reader[1].close()

    async def _usage(self, policy: Policy) -> UsageReader:
        """Return the reader of the source that the policy names; a new one if that has changed."""
        if self._fixed_usage is not None:
            return self._fixed_usage
        if self._reader is not None:
            before, reader = self._reader
            if measures_the_same(before, policy):
                return reader
            self._reader = None
            await reader.close()
        reader = usage_reader(policy, self._client)
        self._reader = policy, reader
        return reader


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Disable garbage collection while a plan is made.

    A plan makes many objects and no cycles. Collections would traverse all of them repeatedly and block the
    event loop; reference counts free them when the check is over.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True, slots=True)
class _PlanningResult:
    snapshot: Snapshot
    """The cluster as it is, with moving pods where they are now."""
    plan: Plan
    history: _CheckHistory
    planning_s: float
    usage_source: str


@dataclass(frozen=True, slots=True)
class _Planning:
    """The part of a check that takes long and runs in a thread."""

    cluster: WatchedCluster
    state: RuntimeState
    """The state at the start of the check, although it may change meanwhile."""
    history: _CheckHistory

    def __call__(
        self, outcome: UsageOutcome, unfinished: UnfinishedMigrations, now_s: float
    ) -> _PlanningResult:
        policy, under_way = self.state.policy, unfinished.moves()
        strategies, others = strategies_of(policy), strategies_of_others(policy)
        usage, smoothing = usage_for_check(
            outcome,
            self.cluster.usage_subjects(now_s),
            now_s=now_s,
            half_life_s=policy.usage_half_life.total_seconds(),
            smoothing=self.history.smoothing,
        )
        self.cluster.measure(usage.pods, usage.notes, outcome.custom)
        snapshot = self.cluster.snapshot(now_s)
        if not policy.evacuate_on and any(
            is_cordoned_by(each, EVACUATION) for each in snapshot.nodes.records
        ):
            # The signals were removed from the configuration: uncordon the nodes.
            for each in (strategies, *others):  # a profile sees only the nodes that it selects
                each.insert(0, Evacuation())
        expected = expected_snapshot(snapshot, under_way)
        failures: list[Rejection] = []
        by_profile = zip(policy.every_profile, (strategies, *others), strict=True)
        hot = [
            subject
            for number, (profile, own) in enumerate(by_profile)
            for subject in too_hot_nodes(expected, profile, own, failures, profile=number)
        ]
        # Custom metrics are measured also where usage is not.
        is_measured = usage.source is not UsageSource.REQUESTS or not outcome.custom.metrics
        source = usage.source if is_measured else UsageSource.PROMETHEUS
        history = _CheckHistory(smoothing, self.history.heat.after(hot, source))
        began_s = time.perf_counter()
        made = build_plan(
            expected,
            policy,
            strategies,
            heat=history.heat,
            steered=self.state.steers,
            guarded=self.state.guards,
            queues=queued_by_profile(snapshot, policy, under_way),
            held_namespaces=self.state.halted_namespaces,
            failures=failures,
            others=others,
        )
        return _PlanningResult(snapshot, made, history, time.perf_counter() - began_s, usage.source)


def queued_by_profile(
    snapshot: Snapshot, policy: Policy, under_way: Sequence[MoveUnderWay]
) -> list[QueuedMigrations]:
    """Return the queued migrations by profile. They count against the limits, so that the queue does not grow
    with every check."""
    profiles = policy.every_profile
    waiting: list[list[MoveUnderWay]] = [[] for _ in profiles]
    for each in under_way:
        if not each.has_started:
            row = snapshot.pods.row.get(each.pod)
            node = "" if row is None else snapshot.pods.records[row].node
            own = profile_of(snapshot, policy, each.pod.partition("/")[0], node)
            waiting[next(number for number, profile in enumerate(profiles) if profile is own)].append(each)
    return [
        QueuedMigrations(
            Counter(each.pod.partition("/")[0] for each in moves),
            maintenance=sum(_empties_nodes(each.strategy) for each in moves),
        )
        for moves in waiting
    ]


def _empties_nodes(strategy: str) -> bool:
    traits = traits_of(strategy)
    return traits.urgent and not traits.recovers and not traits.requested


def heating_nodes(heat: HotNodeHistory, hot_checks: int) -> tuple[str, ...]:
    """Return each node that is too hot, but not for `hot_checks` checks yet, with its count."""
    if heat.source in {None, UsageSource.REQUESTS}:
        return ()
    counts = {
        str(subject[-1] if isinstance(subject, tuple) else subject): count
        for subject, count in heat.in_a_row.items()
    }
    return tuple(
        f"{name} in {count} of {hot_checks} checks"
        for name, count in sorted(counts.items())
        if count < hot_checks
    )
