"""Checks, one after the other: look at the cluster, and plan.

What one check leaves to the next is kept here and passed in: averages of usage, and how many checks in a
row a node was too hot. All the rest is read from the cluster each time.

What takes long is done in a thread, on values that nobody changes: the event loop goes on meanwhile.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from rescheduler.config.policy import Policy
from rescheduler.config.strategies import FAILED_PODS
from rescheduler.controller.anticipating import Coming, Unfinished, anticipated, unfinished_now
from rescheduler.controller.known_cluster import KnownCluster
from rescheduler.controller.plan_run import PlanRun
from rescheduler.controller.recovering.recording import Recording
from rescheduler.controller.webhook_presence import Presence
from rescheduler.kube.client import Client
from rescheduler.model.plan import Plan
from rescheduler.planner.planning import plan, too_hot
from rescheduler.snapshot.snapshot import Snapshot
from rescheduler.strategies.fair_shares import Queue
from rescheduler.strategies.registry import strategies_of
from rescheduler.strategies.strategy import Strategy
from rescheduler.usage.heat import Heat
from rescheduler.usage.one_check import usage_of_check
from rescheduler.usage.reading import UsageReader
from rescheduler.usage.readings import Outcome
from rescheduler.usage.smoothing import Smoothing

__all__ = ["Check", "CheckLoop"]


@dataclass(frozen=True, slots=True)
class Check:
    number: int
    """From 1."""
    began: datetime
    snapshot: Snapshot
    plan: Plan
    run: PlanRun
    planning_s: float = 0.0
    usage_source: str = ""


@dataclass(frozen=True, slots=True)
class _Memory:
    smoothing: Smoothing | None = field(default_factory=Smoothing)
    heat: Heat = field(default_factory=Heat)


class CheckLoop:
    def __init__(
        self,
        client: Client,
        cluster: KnownCluster,
        usage: UsageReader,
        policy: Policy,
        *,
        now: Callable[[], datetime],
        webhook: Presence,
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
        self._memory = _Memory()
        self._number = 0

    async def checks(self) -> AsyncIterator[Check]:
        """One per `reschedulingInterval`, for ever. Whoever takes one has its plan carried out: `run.run()`.

        The next one waits for that: nothing is under way when it plans. The daemon does not wait.
        """
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            yield await self.check()
            rest_s = began_s + self.policy.rescheduling_interval.total_seconds() - loop.time()
            await asyncio.sleep(max(0.0, rest_s))

    async def check(self) -> Check:
        """Plans as if what is under way were done already: else it would be done twice."""
        self._number += 1
        began = self._now()
        outcome = await self.usage.read()
        under_way = unfinished_now(self._cluster.followed)
        decide = _Deciding(
            self._cluster,
            self.policy,
            self._memory,
            self._webhook.steers,
            self._webhook.guards,
            self.held_namespaces,
        )
        decided = await asyncio.to_thread(decide, outcome, under_way, self._now().timestamp())
        self._memory = decided.memory
        record = Recording(self._client, self._cluster, lambda: self.policy, self._now).record
        run = PlanRun(self._client, self._cluster.followed, decided.plan, record=record)
        took_s, source = decided.planning_s, decided.usage_source
        return Check(self._number, began, decided.snapshot, decided.plan, run, took_s, source)


@dataclass(frozen=True, slots=True)
class _Decided:
    snapshot: Snapshot
    """As the cluster is, without what is under way."""
    plan: Plan
    memory: _Memory
    planning_s: float
    usage_source: str


@dataclass(frozen=True, slots=True)
class _Deciding:
    """The part of a check that takes long. Runs in a thread."""

    cluster: KnownCluster
    policy: Policy
    memory: _Memory
    steered: bool
    guarded: bool
    held_namespaces: frozenset[str]

    def __call__(self, outcome: Outcome, unfinished: Unfinished, now_s: float) -> _Decided:
        under_way = unfinished.coming()
        strategies = strategies_of(self.policy)
        usage, smoothing = usage_of_check(
            outcome,
            self.cluster.tenants(now_s),
            now_s=now_s,
            half_life_s=self.policy.usage_half_life.total_seconds(),
            smoothing=self.memory.smoothing,
        )
        self.cluster.measure(usage.pods, usage.notes)
        snapshot = self.cluster.snapshot(now_s)
        expected = anticipated(snapshot, under_way)
        hot = too_hot(expected, self.policy, strategies)
        memory = _Memory(smoothing, self.memory.heat.after(hot, usage.source))
        began_s = time.perf_counter()
        made = plan(
            expected,
            self.policy,
            strategies,
            heat=memory.heat,
            steered=self.steered,
            guarded=self.guarded,
            queue=_queue(under_way, strategies),
            held_namespaces=self.held_namespaces,
        )
        return _Decided(snapshot, made, memory, time.perf_counter() - began_s, usage.source)


def _queue(under_way: Sequence[Coming], strategies: Sequence[Strategy]) -> Queue:
    """What still waits for its turn takes up room: the queue must not grow with every check."""
    waiting = [each for each in under_way if not each.is_begun]
    emptying = {each.name for each in strategies if each.urgent and each.name != FAILED_PODS}
    by_namespace = Counter(each.pod.partition("/")[0] for each in waiting)
    return Queue(by_namespace, maintenance=sum(each.strategy in emptying for each in waiting))
