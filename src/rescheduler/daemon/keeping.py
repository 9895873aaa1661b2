"""What the leader writes down for `rescheduler status`, in the ConfigMap `rescheduler-state`."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import Final

import msgspec
import numpy as np

from rescheduler.config.policy import Policy
from rescheduler.controller.state import write_status
from rescheduler.controller.telling import Checked, Told
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.model.saying import say
from rescheduler.model.status import (
    Balance,
    FailingPod,
    Halt,
    LastCheck,
    NodeInMaintenance,
    NodeLoad,
    Status,
    SuspectNode,
)
from rescheduler.model.version import our_version
from rescheduler.planner.outlook import percent
from rescheduler.snapshot.snapshot import Snapshot

__all__ = ["StatusKeeper", "balance_of"]

log: Final = logging.getLogger(__name__)

_MOST_LISTED: Final = 100
"""Of anything: a ConfigMap holds a megabyte."""
_MOST_ASSUMPTIONS: Final = 10
_WRITE_EVERY_S: Final = 1.0
"""At most: several things often change at once."""


class StatusKeeper(Told):
    """Hears what happens; while `running`, whatever has changed is written."""

    def __init__(self, client: Client, namespace: str, me: str, now: Callable[[], datetime]) -> None:
        self.status = Status(leader=me, version=our_version())
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

    def checked(self, check: Checked) -> None:
        self._note(
            last_check=LastCheck(
                at=check.at,
                took_seconds=round(check.took_s, 3),
                moves=len(check.plan.moves),
                refused=dict(check.plan.refused_counts),
                usage_source=check.usage_source,
                assumptions=check.plan.assumptions[:_MOST_ASSUMPTIONS],
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
        self._note(failing=tuple(pods[:_MOST_LISTED]))

    def suspects(self, nodes: Sequence[SuspectNode]) -> None:
        self._note(suspects=tuple(nodes[:_MOST_LISTED]))

    def maintenance(self, nodes: Sequence[NodeInMaintenance]) -> None:
        self._note(maintenance=tuple(nodes[:_MOST_LISTED]))

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
                say(log, logging.WARNING, "StatusNotWritten", f"{error} It is written with the next change.")
            await asyncio.sleep(_WRITE_EVERY_S)


def balance_of(snapshot: Snapshot, resources: Sequence[str]) -> tuple[Balance, ...]:
    """Over nodes that are Ready and have some of the resource."""
    nodes = snapshot.nodes
    load = percent(nodes.load, nodes.allocatable)
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
            found.append(Balance(resource, round(float(loads.mean()), 3), least, most))
    return tuple(found)
