"""What the leader writes down for `rescheduler status`, in the ConfigMap `rescheduler-state`."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import Final

import msgspec
import numpy as np

from rescheduler.api.daemon_status import (
    DaemonStatus,
    FailingPod,
    Halt,
    LastCheck,
    NodeInMaintenance,
    NodeLoad,
    ResourceBalance,
    SuspectNode,
    program_version,
)
from rescheduler.api.structured_log import log_event
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.config.policy import Policy
from rescheduler.daemon.listeners import CheckReport, DaemonListener
from rescheduler.daemon.own_objects import write_status
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.planner.plan_builder import percent_of_allocatable

__all__ = ["StatusWriter", "balance_of"]

log: Final = logging.getLogger(__name__)

_MAX_LISTED: Final = 100
"""Of anything: a ConfigMap holds a megabyte."""
_MAX_ASSUMPTIONS: Final = 10
_MIN_WRITE_INTERVAL_S: Final = 1.0
"""At most: several things often change at once."""


class StatusWriter(DaemonListener):
    """Hears what happens; while `running`, whatever has changed is written."""

    def __init__(self, client: Client, namespace: str, me: str, now: Callable[[], datetime]) -> None:
        self.status = DaemonStatus(leader=me, version=program_version())
        self._client = client
        self._namespace = namespace
        self._now = now
        self._changed = asyncio.Event()
        self._resources: tuple[str, ...] = ()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Only whoever leads writes."""
        task = asyncio.create_task(self._write_for_ever(), name="status")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # -- what is heard

    def checked(self, check: CheckReport) -> None:
        self._note(
            last_check=LastCheck(
                at=check.at,
                took_seconds=round(check.took_s, 3),
                moves=len(check.plan.moves),
                refused=dict(check.plan.refused_counts),
                usage_source=check.usage_source,
                assumptions=check.plan.assumptions[:_MAX_ASSUMPTIONS],
            ),
            balance=balance_of(check.snapshot, self._resources),
        )

    def halted(self, halts: tuple[Halt, ...]) -> None:
        self._note(halts=halts)

    def configured(self, policy: Policy) -> None:
        self._resources = policy.balance_resources
        self._note(configuration="")

    def configuration_refused(self, why: str) -> None:
        self._note(configuration=why)

    def failing(self, pods: Sequence[FailingPod]) -> None:
        self._note(failing=tuple(pods[:_MAX_LISTED]))

    def suspects(self, nodes: Sequence[SuspectNode]) -> None:
        self._note(suspects=tuple(nodes[:_MAX_LISTED]))

    def maintenance(self, nodes: Sequence[NodeInMaintenance]) -> None:
        self._note(maintenance=tuple(nodes[:_MAX_LISTED]))

    def _note(self, **changes: object) -> None:
        after = msgspec.structs.replace(self.status, **changes)
        if after != self.status:
            self.status = after
            self._changed.set()

    # -- writing

    async def _write_for_ever(self) -> None:
        self._changed.set()  # who has just begun to lead says so
        while True:
            await self._changed.wait()
            self._changed.clear()
            status = msgspec.structs.replace(self.status, updated=self._now())
            try:
                await write_status(self._client, self._namespace, status)
            except errors.KubeError as error:
                log_event(
                    log, logging.WARNING, "StatusNotWritten", f"{error} It is written with the next change."
                )
            await asyncio.sleep(_MIN_WRITE_INTERVAL_S)


def balance_of(snapshot: Snapshot, resources: Sequence[str]) -> tuple[ResourceBalance, ...]:
    """Over nodes that are Ready and have some of the resource."""
    nodes = snapshot.nodes
    load = percent_of_allocatable(nodes.load, nodes.allocatable)
    found = []
    for resource in resources:
        if resource not in snapshot.resources:
            continue
        column = snapshot.resources.index(resource)
        rows = np.flatnonzero(nodes.ready & (nodes.allocatable[:, column] > 0))
        if len(rows):
            loads = load[rows, column]
            least, most = (
                NodeLoad(nodes.records[rows[at]].name, float(loads[at]))
                for at in (int(loads.argmin()), int(loads.argmax()))
            )
            found.append(ResourceBalance(resource, round(float(loads.mean()), 3), least, most))
    return tuple(found)
