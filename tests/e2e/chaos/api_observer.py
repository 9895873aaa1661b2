"""Observe the cluster with a separate client, by list and watch, without knowledge of rescheduler's
internals.

It survives restarts of the API server: a watch is resumed after the last revision that it has seen, and where
the server has forgotten that revision, everything is listed again.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Self

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    REPLICA_SETS,
    STATEFUL_SETS,
    ApiResource,
    Object,
    api_resource,
)
from rescheduler.kube.client import Client
from tests.e2e.chaos.object_versions import (
    Budget,
    History,
    MigrationState,
    NodeState,
    PodState,
    WorkloadState,
)

__all__ = ["ApiObserver"]

POD_MIGRATIONS = api_resource("rescheduler.dev", "v1alpha1", "podmigrations", "PodMigration")
RETRY_S = 0.2


class ApiObserver:
    def __init__(self, client: Client, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """`now` is the time of the cluster, virtual or real."""
        self._client = client
        self.pods: History[PodState] = History(now=now)
        self.nodes: History[NodeState] = History(now=now)
        self.workloads: History[WorkloadState] = History(now=now)
        """Those that nothing else controls, and ReplicaSets."""
        self.budgets: History[Budget] = History(now=now)
        self.migrations: History[MigrationState] = History(now=now)
        self.relists = 0
        self._listed = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        kinds: list[tuple[ApiResource[Object], History[Any], Callable[[Object], Any]]] = [
            (PODS.as_json, self.pods, PodState.of),
            (NODES.as_json, self.nodes, NodeState.of),
            *(
                (each, self.workloads, partial(WorkloadState.of, each.kind))
                for each in (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, REPLICA_SETS)
            ),
            (POD_DISRUPTION_BUDGETS, self.budgets, Budget.of),
            (POD_MIGRATIONS, self.migrations, MigrationState.of),
        ]
        tasks = [asyncio.create_task(self._follow(*kind)) for kind in kinds]
        try:
            async with asyncio.timeout(60):
                while self._listed < len(kinds):  # noqa: ASYNC110 - at the start only
                    await asyncio.sleep(0.05)
            yield self
        finally:
            for task in tasks:
                task.cancel()
            for ended in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(ended, Exception):
                    raise ended

    async def _follow(
        self, resource: ApiResource[Object], history: History[Any], read: Callable[[Object], Any]
    ) -> None:
        version, mine = "", set[str]()
        while True:
            try:
                if not version:
                    version = await self._list(resource, history, read, mine)
                version = await self._watch(resource, history, read, mine, version)
            except errors.Gone:
                version = ""
                self.relists += 1
            except errors.KubeError:
                await asyncio.sleep(RETRY_S)

    async def _list(
        self,
        resource: ApiResource[Object],
        history: History[Any],
        read: Callable[[Object], Any],
        mine: set[str],
    ) -> str:
        page = await self._client.list(resource)
        listed = {item["metadata"]["uid"] for item in page.items}
        for uid in mine - listed:
            history.note(uid, int(page.resource_version), None)
        for item in page.items:
            self._note(history, read, item, mine)
        self._listed += 1
        return page.resource_version

    async def _watch(
        self,
        resource: ApiResource[Object],
        history: History[Any],
        read: Callable[[Object], Any],
        mine: set[str],
        version: str,
    ) -> str:
        try:
            async with self._client.watch(resource, version=version) as events:
                async for event in events:
                    version = event.resource_version or version
                    if event.object is None:
                        continue
                    item = event.object
                    version = item["metadata"]["resourceVersion"]
                    self._note(history, read, item, mine, is_gone=event.type == "DELETED")
        except errors.Gone:
            raise
        except errors.KubeError:
            await asyncio.sleep(RETRY_S)
        return version

    def _note(
        self,
        history: History[Any],
        read: Callable[[Object], Any],
        item: Object,
        mine: set[str],
        *,
        is_gone: bool = False,
    ) -> None:
        state = read(item)
        uid, revision = item["metadata"]["uid"], int(item["metadata"]["resourceVersion"])
        if is_gone:
            mine.discard(uid)
            if uid in history.versions:
                # The last state, in which it may have been deleted at once, and then nothing.
                history.note(uid, revision - 1, state)
            history.note(uid, revision, None)
        else:
            mine.add(uid)
            history.note(uid, revision, state)
