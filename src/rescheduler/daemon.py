"""The one place that wires things together: what the commands that move pods run on, and later the daemon.

client ──▶ Followed ──▶ KnownCluster ──▶ CheckLoop: plans ──▶ PodMigrations
               │              └────────▶ Judging ─┐
               └──────────────▶ Controller ◀──────┘      only while the Lease is ours
"""

import asyncio
import contextlib
import logging
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, Final

from rescheduler.config.policy import Configuration
from rescheduler.controller.check_loop import CheckLoop
from rescheduler.controller.controller import Controller
from rescheduler.controller.followed import Followed
from rescheduler.controller.judging import Judging
from rescheduler.controller.known_cluster import KnownCluster
from rescheduler.controller.lease import Lease
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.resources import LEASES, MUTATING_WEBHOOKS
from rescheduler.strategies.registry import strategies_of
from rescheduler.usage.reading import UsageReader, usage_reader

__all__ = ["Rescheduler", "is_webhook_installed", "lease_key", "who_we_are"]

log = logging.getLogger(__name__)

_OURS: Final = "app.kubernetes.io/name=rescheduler"
_NAMESPACE_OF_LAST_RESORT: Final = "default"


def _wall_clock() -> datetime:
    return datetime.now(UTC)


def who_we_are() -> str:
    """Another name for every process: who starts again on the same machine is somebody else."""
    return f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"


async def lease_key(client: Client, configuration: Configuration, own_namespace: str = "") -> str:
    """Where the Lease is: as configured, in our own namespace inside a cluster, else where there is one.

    Whoever runs a command does not know in which namespace the daemon was installed. There may be several
    of that name: then the one that somebody holds.
    """
    terms = configuration.leader_election
    namespace = terms.resource_namespace or own_namespace
    if not namespace:
        try:
            found = (await client.list(LEASES, fields=f"metadata.name={terms.resource_name}")).items
        except errors.Forbidden:
            found = []
        found.sort(key=lambda item: (not item["spec"].get("holderIdentity"), item["metadata"]["namespace"]))
        namespace = found[0]["metadata"]["namespace"] if found else _NAMESPACE_OF_LAST_RESORT
    return f"{namespace}/{terms.resource_name}"


async def is_webhook_installed(client: Client) -> bool:
    """Whether something tells replacements of evicted pods where to go."""
    try:
        return bool((await client.list(MUTATING_WEBHOOKS, labels=_OURS)).items)
    except errors.Forbidden:
        return False


class Rescheduler:
    """Everything that a process has which moves pods."""

    def __init__(
        self,
        client: Client,
        configuration: Configuration,
        *,
        lease_at: str,
        steered: bool = False,
        now: Callable[[], datetime] = _wall_clock,
        me: str = "",
    ) -> None:
        """`lease_at` as `lease_key` says it."""
        policy = configuration.policy
        self.client = client
        self.configuration = configuration
        self.followed = Followed(client)
        self.cluster = KnownCluster(client, self.followed, now)
        self.steered = steered
        urgent = [strategy.name for strategy in strategies_of(policy) if strategy.urgent]
        self.judging = Judging(self.cluster, policy, urgent, self.is_steered, now)
        self.lease = Lease(client, lease_at, me or who_we_are(), configuration.leader_election, now=now)
        self._now = now

    def is_steered(self) -> bool:
        return self.steered

    @contextlib.asynccontextmanager
    async def looking(self) -> AsyncIterator[None]:
        """Follows the cluster. Raises `MissingDefinition`, and `KubeError` for what it can't do without."""
        async with self.cluster.running():
            yield

    @contextlib.asynccontextmanager
    async def executing(self) -> AsyncIterator[None]:
        """Executes migrations whenever the Lease is ours, while the body runs within `looking()`.

        Otherwise whoever has the Lease executes them. Raises `KubeError` if it can't even be asked for.
        """
        if not self.configuration.leader_election.leader_elect:
            async with self._controller().running():
                yield
            return
        async with self.lease.contending():
            await self.lease.looked()
            if isinstance(self.lease.failure, errors.Final):
                raise self.lease.failure
            ended = asyncio.Event()
            leading = asyncio.create_task(self._lead(ended), name="leading")
            try:
                yield
            finally:
                ended.set()
                await leading

    async def _lead(self, ended: asyncio.Event) -> None:
        while not ended.is_set():
            await _first(self.lease.acquired(), ended.wait())
            if not ended.is_set():
                async with self._controller().running():
                    await _first(self.lease.lost(), ended.wait())

    def _controller(self) -> Controller:
        return Controller(
            self.client,
            self.configuration.policy,
            self.judging.judge,
            followed=self.followed,
            now=self._now,
            is_steered=self.is_steered,
        )

    @contextlib.asynccontextmanager
    async def checking(self, usage: UsageReader | None = None) -> AsyncIterator[CheckLoop]:
        """Checks, within `looking()`; load comes from `usage`, or from where the policy says."""
        async with contextlib.AsyncExitStack() as stack:
            usage = usage or usage_reader(self.configuration.policy, self.client)
            stack.push_async_callback(usage.close)
            yield CheckLoop(
                self.client,
                self.cluster,
                usage,
                self.configuration.policy,
                now=self._now,
                is_steered=self.is_steered,
            )


async def _first(*awaitables: Coroutine[Any, Any, Any]) -> None:
    """Until one of them is done; the others are dropped."""
    tasks = [asyncio.ensure_future(each) for each in awaitables]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
