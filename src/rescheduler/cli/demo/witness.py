"""Somebody who watches the cluster from outside, as any client could, and believes only what is there.

Every change of a pod or a budget is looked at, so that not even a moment goes unnoticed.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from rescheduler.kube.client import Client
from rescheduler.kube.informer import Informer
from rescheduler.kube.resources import NODES, POD_DISRUPTION_BUDGETS, PODS, Object, custom
from rescheduler.migrations.definition import PLURAL
from rescheduler.migrations.losses import ready_seconds_lost
from rescheduler.model.migrations import (
    GROUP,
    KIND,
    VERSION,
    Migration,
    Phase,
    UnreadableMigration,
    migration_of,
)
from rescheduler.model.nodes import NodeRecord
from rescheduler.model.plan import Handover
from rescheduler.model.pods import PodRecord
from rescheduler.planner.emptying import has_to_go

__all__ = ["Witness"]


class Witness:
    def __init__(self, client: Client, hear: Callable[[Migration | None, Migration], None]) -> None:
        """`hear` is told of every change of a migration."""
        self.nodes: Informer[NodeRecord] = Informer(client, NODES)
        self.pods: Informer[PodRecord] = Informer(client, PODS)
        self._budgets: Informer[Object] = Informer(client, POD_DISRUPTION_BUDGETS)
        self._migrations: Informer[Object] = Informer(client, custom(GROUP, VERSION, PLURAL, KIND))
        self._hear = hear
        self.violated: dict[str, str] = {}
        """Budgets that were not kept, and how far."""
        self.spread_at_first = 0.0

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        informers: tuple[Informer[Any], ...] = (self.nodes, self.pods, self._budgets, self._migrations)
        async with contextlib.AsyncExitStack() as stack:
            for informer in informers:
                await stack.enter_async_context(informer.running())
            await asyncio.gather(*(informer.synced() for informer in informers))
            self.spread_at_first = self.spread()
            stack.callback(self._budgets.subscribe(self._on_budget))
            stack.callback(self._migrations.subscribe(self._on_migration))
            yield

    # -- what is heard

    def _on_budget(self, _old: Object | None, new: Object | None) -> None:
        status = (new or {}).get("status") or {}
        healthy, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        if new is not None and healthy < wanted:
            self.violated[new["metadata"]["name"]] = f"{healthy} of {wanted} pods"

    def _on_migration(self, old: Object | None, new: Object | None) -> None:
        if new is not None and (now := _read(new)) is not None:
            self._hear(_read(old) if old is not None else None, now)

    # -- what is the case

    @property
    def migrations(self) -> list[Migration]:
        """The newest last."""
        found = [each for item in self._migrations if (each := _read(item)) is not None]
        return sorted(found, key=lambda each: (each.created, each.key))

    @property
    def moved(self) -> dict[Handover, int]:
        """How many migrations were completed, by handover."""
        counts: dict[Handover, int] = {}
        for each in self.migrations:
            if each.status.phase is Phase.COMPLETED and each.status.handover is not None:
                counts[each.status.handover] = counts.get(each.status.handover, 0) + 1
        return counts

    def ready_seconds_lost(self, handover: Handover) -> float:
        return sum(ready_seconds_lost(each) for each in self.migrations if each.status.handover is handover)

    def spread(self) -> float:
        """Between the loads of nodes that take pods, in percent of their cpu, by requests."""
        loads = []
        for node in self.nodes:
            if node.is_ready and not node.unschedulable and node.allocatable.cpu_millis:
                here = [pod for pod in self.pods if pod.node == node.name and not pod.is_finished]
                used = sum(pod.requests.cpu_millis for pod in here)
                loads.append(100.0 * used / node.allocatable.cpu_millis)
        return max(loads) - min(loads) if loads else 0.0

    def movable_on(self, node: str) -> list[str]:
        return sorted(pod.key for pod in self.pods if pod.node == node and has_to_go(pod))

    def unready(self, namespace: str) -> list[str]:
        return sorted(pod.key for pod in self.pods if pod.namespace == namespace and not pod.is_ready)

    def is_cordoned(self, name: str) -> bool:
        node = self.nodes.get(name)
        return node is not None and node.unschedulable


def _read(item: Object) -> Migration | None:
    try:
        return migration_of(item)
    except UnreadableMigration:
        return None
