"""Checks, one after the other: look at the cluster, and plan.

What one check leaves to the next is kept here and passed in: averages of usage, and how many checks in a
row a node was too hot. All the rest is read from the cluster each time.

What takes long is done in a thread, on values that nobody changes: the event loop goes on meanwhile.

The cluster as it will be when everything that is under way has arrived: what the next check plans with.

A check does not wait until the moves of the last one are over. By load, a pod that is being moved counts
where it goes, or its node would be relieved twice; and one that is terminating counts nowhere, however long
it takes to end. By room both count where they are, too: nobody knows how soon they leave, and whether they
arrive.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np

from rescheduler.api.podmigration import Migration, MigrationPhase
from rescheduler.api.strategy_traits import traits_of
from rescheduler.cluster.snapshot import NO_ROW, PodTable, Rows, Snapshot
from rescheduler.cluster.snapshot_tables import group_by_node, sum_by_node
from rescheduler.cluster.sources.usage_sources import UsageReader
from rescheduler.cluster.sources.watched_cluster import WatchedCluster
from rescheduler.cluster.sources.watched_objects import WatchedObjects
from rescheduler.cluster.trusted_usage import usage_for_check
from rescheduler.cluster.usage_readings import UsageOutcome
from rescheduler.cluster.usage_smoothing import Smoothing
from rescheduler.config.policy import Policy
from rescheduler.kube.client import Client
from rescheduler.migrations.controller.observation_builder import (
    running_migrations,
    target_of,
    unfinished_migrations,
)
from rescheduler.migrations.controller.plan_execution import PlanExecution
from rescheduler.planner.plan import HotNodeHistory, Plan
from rescheduler.planner.plan_builder import build_plan, too_hot_nodes
from rescheduler.recovery.controller.attempt_recorder import AttemptRecorder
from rescheduler.steering.webhook.webhook_presence import SteeringPresence
from rescheduler.strategies.fair_shares import QueuedMigrations
from rescheduler.strategies.strategy import Strategy
from rescheduler.strategies.strategy_registry import strategies_of

__all__ = [
    "CheckResult",
    "Checker",
    "MoveUnderWay",
    "UnfinishedMigrations",
    "expected_snapshot",
    "moves_under_way",
    "unfinished_now",
]


@dataclass(frozen=True, slots=True)
class MoveUnderWay:
    """A migration that is not over."""

    pod: str
    uid: str
    target: str
    """Empty if it is still open."""
    copies: tuple[str, ...] = ()
    """Keys of pods that take its place, as far as there are any yet."""
    is_begun: bool = True
    strategy: str = ""


@dataclass(frozen=True, slots=True)
class UnfinishedMigrations:
    """Migrations that are not over, as they were at one moment: thousands of them may wait.

    To put it together costs the event loop little; `coming` is for a thread.
    """

    migrations: Sequence[Migration]
    """In a fixed order."""
    successors: Mapping[str, str]
    """Keys of pods that take the place of others, by the migration's key. One that waits has none."""

    def coming(self) -> list[MoveUnderWay]:
        return [self._coming(each) for each in self.migrations]

    def _coming(self, migration: Migration) -> MoveUnderWay:
        successor = self.successors.get(migration.key)
        return MoveUnderWay(
            migration.pod_key,
            migration.spec.pod.uid,
            migration.target_node,
            () if successor is None else (successor,),
            is_begun=migration.status.phase is MigrationPhase.IN_PROGRESS,
            strategy=migration.spec.strategy,
        )


def unfinished_now(seen: WatchedObjects) -> UnfinishedMigrations:
    targets = ((each.key, target_of(each, seen)) for each in running_migrations(seen))
    return UnfinishedMigrations(
        unfinished_migrations(seen), {key: pod.key for key, pod in targets if pod is not None}
    )


def moves_under_way(seen: WatchedObjects) -> list[MoveUnderWay]:
    """All that are asked for or under way, in a fixed order."""
    return unfinished_now(seen).coming()


def expected_snapshot(snapshot: Snapshot, moves: Sequence[MoveUnderWay]) -> Snapshot:
    """Pods that are under way can't be chosen, wherever they are: `snapshot.moving` has them."""
    node = snapshot.pods.node.copy()
    leaving: list[int] = []
    for move in moves:
        row = snapshot.pods.row.get(move.pod)
        if row is None or snapshot.pods.records[row].uid != move.uid or node[row] == NO_ROW:
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
    found = _with_pods_at_targets(snapshot, node, leaving) if leaving else snapshot
    return _without_terminating_load(found, ending) if ending else found


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
    """For rules they are still there; for those who even out loads, they are as good as gone."""
    load = snapshot.nodes.load.copy()
    np.subtract.at(load, snapshot.pods.node[ending], snapshot.pods.load[ending])
    load.setflags(write=False)
    return replace(snapshot, nodes=replace(snapshot.nodes, load=load))


@dataclass(frozen=True, slots=True)
class CheckResult:
    number: int
    """From 1."""
    began: datetime
    snapshot: Snapshot
    plan: Plan
    run: PlanExecution
    planning_s: float = 0.0
    usage_source: str = ""


@dataclass(frozen=True, slots=True)
class _CheckHistory:
    smoothing: Smoothing | None = field(default_factory=Smoothing)
    heat: HotNodeHistory = field(default_factory=HotNodeHistory)


class Checker:
    def __init__(
        self,
        client: Client,
        cluster: WatchedCluster,
        usage: UsageReader,
        policy: Policy,
        *,
        now: Callable[[], datetime],
        webhook: SteeringPresence,
    ) -> None:
        self.usage = usage
        self.policy = policy
        """May be exchanged between two checks, as may `usage`."""
        self.held_namespaces: frozenset[str] = frozenset()
        """Whose pods the next check leaves where they are."""
        self._client = client
        self._cluster = cluster
        self._now = now
        self._webhook = webhook
        self._history = _CheckHistory()
        self._number = 0

    async def checks(self) -> AsyncIterator[CheckResult]:
        """One per `reschedulingInterval`, for ever. Whoever takes one has its plan carried out: `run.run()`.

        The next one waits for that: nothing is under way when it plans. The daemon does not wait.
        """
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            yield await self.check()
            rest_s = began_s + self.policy.rescheduling_interval.total_seconds() - loop.time()
            await asyncio.sleep(max(0.0, rest_s))

    async def check(self) -> CheckResult:
        """Plans as if what is under way were done already: else it would be done twice."""
        self._number += 1
        began = self._now()
        outcome = await self.usage.read()
        under_way = unfinished_now(self._cluster.followed)
        decide = _Planning(
            self._cluster,
            self.policy,
            self._history,
            self._webhook.steers,
            self._webhook.guards,
            self.held_namespaces,
        )
        decided = await asyncio.to_thread(decide, outcome, under_way, self._now().timestamp())
        self._history = decided.history
        record = AttemptRecorder(self._client, self._cluster, lambda: self.policy, self._now).record
        run = PlanExecution(self._client, self._cluster.followed, decided.plan, record=record)
        took_s, source = decided.planning_s, decided.usage_source
        return CheckResult(self._number, began, decided.snapshot, decided.plan, run, took_s, source)


@dataclass(frozen=True, slots=True)
class _PlanningResult:
    snapshot: Snapshot
    """As the cluster is, without what is under way."""
    plan: Plan
    history: _CheckHistory
    planning_s: float
    usage_source: str


@dataclass(frozen=True, slots=True)
class _Planning:
    """The part of a check that takes long. Runs in a thread."""

    cluster: WatchedCluster
    policy: Policy
    history: _CheckHistory
    steered: bool
    guarded: bool
    held_namespaces: frozenset[str]

    def __call__(
        self, outcome: UsageOutcome, unfinished: UnfinishedMigrations, now_s: float
    ) -> _PlanningResult:
        under_way = unfinished.coming()
        strategies = strategies_of(self.policy)
        usage, smoothing = usage_for_check(
            outcome,
            self.cluster.tenants(now_s),
            now_s=now_s,
            half_life_s=self.policy.usage_half_life.total_seconds(),
            smoothing=self.history.smoothing,
        )
        self.cluster.measure(usage.pods, usage.notes)
        snapshot = self.cluster.snapshot(now_s)
        expected = expected_snapshot(snapshot, under_way)
        hot = too_hot_nodes(expected, self.policy, strategies)
        history = _CheckHistory(smoothing, self.history.heat.after(hot, usage.source))
        began_s = time.perf_counter()
        made = build_plan(
            expected,
            self.policy,
            strategies,
            heat=history.heat,
            steered=self.steered,
            guarded=self.guarded,
            queue=_queue(under_way, strategies),
            held_namespaces=self.held_namespaces,
        )
        return _PlanningResult(snapshot, made, history, time.perf_counter() - began_s, usage.source)


def _queue(under_way: Sequence[MoveUnderWay], strategies: Sequence[Strategy]) -> QueuedMigrations:
    """What still waits for its turn takes up room: the queue must not grow with every check."""
    waiting = [each for each in under_way if not each.is_begun]
    emptying = {each.name for each in strategies if each.urgent and not traits_of(each.name).recovers}
    by_namespace = Counter(each.pod.partition("/")[0] for each in waiting)
    return QueuedMigrations(by_namespace, maintenance=sum(each.strategy in emptying for each in waiting))
