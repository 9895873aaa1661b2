"""Checks, one after the other: look at the cluster, plan, have the plan carried out, look again.

What one check leaves to the next is kept here and passed in: averages of usage, and how many checks in a
row a node was too hot. All the rest is read from the cluster each time.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime

from rescheduler.config.policy import Policy
from rescheduler.controller.known_cluster import KnownCluster
from rescheduler.controller.plan_run import PlanRun
from rescheduler.kube.client import Client
from rescheduler.model.plan import Plan
from rescheduler.planner.planning import plan, too_hot
from rescheduler.snapshot.snapshot import Snapshot
from rescheduler.strategies.registry import strategies_of
from rescheduler.usage.heat import Heat
from rescheduler.usage.one_check import usage_of_check
from rescheduler.usage.reading import UsageReader
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


@dataclass(slots=True)
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
        is_steered: Callable[[], bool],
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._usage = usage
        self._policy = policy
        self._now = now
        self._is_steered = is_steered
        self._memory = _Memory()

    async def checks(self) -> AsyncIterator[Check]:
        """One per `reschedulingInterval`, for ever. Whoever takes one has its plan carried out: `run.run()`.

        The next one waits for that. A plan reckons with all of its moves, so one that is half made is
        finished before another is begun.
        """
        loop, number = asyncio.get_running_loop(), 0
        while True:
            began_s = loop.time()
            number += 1
            yield await self._check(number)
            rest_s = began_s + self._policy.rescheduling_interval.total_seconds() - loop.time()
            await asyncio.sleep(max(0.0, rest_s))

    async def _check(self, number: int) -> Check:
        began = self._now()
        await self._measure(began)
        snapshot = self._cluster.snapshot()
        strategies = strategies_of(self._policy)
        made = plan(
            snapshot,
            self._policy,
            strategies,
            heat=self._memory.heat,
            steered=self._is_steered(),
        )
        return Check(number, began, snapshot, made, PlanRun(self._client, self._cluster.followed, made))

    async def _measure(self, now: datetime) -> None:
        outcome = await self._usage.read()
        trusted, self._memory.smoothing = usage_of_check(
            outcome,
            self._cluster.tenants(),
            now_s=now.timestamp(),
            half_life_s=self._policy.usage_half_life.total_seconds(),
            smoothing=self._memory.smoothing,
        )
        self._cluster.measure(trusted.pods, trusted.notes)
        hot = too_hot(self._cluster.snapshot(), self._policy, strategies_of(self._policy))
        self._memory.heat = self._memory.heat.after(hot, trusted.source)
