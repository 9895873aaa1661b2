"""Informers under observation: what their handlers received, and which staleness they reported."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.api_resources import ApiResource
from rescheduler.kube.client import Client
from rescheduler.kube.informer import Informer, ListOptions, ReflectorTiming
from tests.e2e.client_truth.churn import WIDGETS

__all__ = ["SELECTIONS", "Follower", "following", "following_all"]

SELECTIONS: tuple[tuple[ApiResource[Any], ListOptions], ...] = (
    (PODS, ListOptions()),
    (PODS, ListOptions(labels="colour=red")),
    (PODS, ListOptions(namespace="default", fields="spec.nodeName=node-1")),
    (NODES, ListOptions()),
    (NODES, ListOptions(labels="colour in (green, blue)")),
    (WIDGETS, ListOptions()),
    (WIDGETS, ListOptions(namespace="default", labels="colour!=red")),
)
LOOK_EVERY_S = 0.1


class Follower:
    """An informer, and a replica built only from what its handler received."""

    def __init__(
        self, client: Client, resource: ApiResource[Any], selection: ListOptions, pace: ReflectorTiming
    ) -> None:
        self._client = client
        self._selection = selection
        self.resource = resource
        self.informer: Informer[Any] = Informer(client, resource, selection, timing=pace)
        self.replica: dict[str, Any] = {}
        self.faults: list[str] = []
        """Where a change did not follow on what the handler had received before."""
        self.worst_staleness_s = 0.0
        self.was_stale = False
        self.gave_failure = False
        self.informer.subscribe(self._received)

    def __str__(self) -> str:
        chosen = self._selection
        return f"{self.resource.label} {chosen.namespace} {chosen.labels} {chosen.fields}".strip()

    @property
    def held(self) -> dict[str, Any]:
        return self._by_key(self.informer)

    async def listed(self) -> dict[str, Any]:
        """What the server has now, read with a quorum."""
        chosen = self._selection
        page = await self._client.list(
            self.resource, namespace=chosen.namespace, labels=chosen.labels, fields=chosen.fields
        )
        return self._by_key(page.items)

    def differing(self, listed: dict[str, Any]) -> set[str]:
        """Keys of what is not in the cache as it is in that list."""
        held = self.held
        return {key for key in {*held, *listed} if held.get(key) != listed.get(key)}

    def look(self) -> None:
        staleness_s = self.informer.staleness()
        if self.informer.is_synced:
            self.worst_staleness_s = max(self.worst_staleness_s, staleness_s)
            self.was_stale |= not self.informer.is_fresh
            self.gave_failure |= self.informer.failure is not None

    def _by_key(self, items: Iterable[Any]) -> dict[str, Any]:
        return {self.resource.identify(item).key: item for item in items}

    def _received(self, old: Any | None, new: Any | None) -> None:
        identity = self.resource.identify(new if old is None else old)
        if self.replica.get(identity.key) is not old:
            self.faults.append(f"{identity.key}: change of an object that was never added")
        if old is not None and new is not None:
            newer = self.resource.identify(new)
            if newer.uid != identity.uid or int(newer.version) <= int(identity.version):
                self.faults.append(f"{identity.key}: from {identity} to {newer}")
        if new is None:
            self.replica.pop(identity.key, None)
        else:
            self.replica[identity.key] = new


@contextlib.asynccontextmanager
async def following(followers: list[Follower]) -> AsyncIterator[None]:
    """All synced; looked at all the time."""

    async def observe() -> None:
        while True:
            for follower in followers:
                follower.look()
            await asyncio.sleep(LOOK_EVERY_S)

    async with contextlib.AsyncExitStack() as stack:
        for follower in followers:
            await stack.enter_async_context(follower.informer.running())
        for follower in followers:
            await follower.informer.synced()
        observing = asyncio.create_task(observe())
        try:
            yield
        finally:
            observing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await observing


def following_all(client: Client, pace: ReflectorTiming) -> list[Follower]:
    return [Follower(client, resource, selection, pace) for resource, selection in SELECTIONS]
