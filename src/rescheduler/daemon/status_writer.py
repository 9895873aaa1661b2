"""Write the status of the leader: for `rescheduler status`, and on nodes in maintenance.

The status is in the ConfigMap `rescheduler-state`. A node in maintenance gets Events and the condition
`rescheduler.dev/Empty`, which is `True` when the node is empty, so that scripts can wait for it:

    kubectl wait node/worker-3 --for=condition=rescheduler.dev/Empty

After every check, annotations of cordons that no longer exist are removed, too.
"""

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
from rescheduler.api.well_known_names import EMPTY_CONDITION
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.cluster.sources.watched_objects import WatchedObjects
from rescheduler.config.policy import Policy
from rescheduler.daemon.listeners import CheckReport, DaemonListener
from rescheduler.daemon.own_objects import write_status
from rescheduler.kube import errors
from rescheduler.kube.api_resources import Object, strategic_patch
from rescheduler.kube.client import Client
from rescheduler.kube.event_recorder import EventRecorder, InvolvedObject
from rescheduler.kube.work_queue import background_task
from rescheduler.migrations.controller.node_cordon import remove_stale_cordon_annotation
from rescheduler.planner.plan_builder import percent_of_allocatable

__all__ = ["MaintenanceConditionWriter", "StatusWriter", "balance_of"]

log: Final = logging.getLogger(__name__)

_MAX_LISTED: Final = 100
"""Of anything: a ConfigMap holds a megabyte."""
_MAX_ASSUMPTIONS: Final = 10
_MIN_WRITE_INTERVAL_S: Final = 1.0
"""At most: several things often change at once."""


class StatusWriter(DaemonListener):
    """Collects the status, and writes its changes while `running`."""

    def __init__(self, client: Client, namespace: str, me: str, now: Callable[[], datetime]) -> None:
        self.status = DaemonStatus(leader=me, version=program_version())
        self._client = client
        self._namespace = namespace
        self._now = now
        self._changed = asyncio.Event()
        self._resources: tuple[str, ...] = ()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write the status while the body runs; only the leader does so."""
        async with background_task(self._write_for_ever(), "status"):
            yield

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
                    log, logging.WARNING, "StatusNotWritten", f"{error} The next change writes it again."
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


_MAX_MESSAGE: Final = 1024


class MaintenanceConditionWriter(DaemonListener):
    """Collects the progress of nodes in maintenance, and writes its changes while `running`."""

    def __init__(
        self, client: Client, watched: WatchedObjects, events: EventRecorder, now: Callable[[], datetime]
    ) -> None:
        self._client = client
        self._watched = watched
        self._events = events
        self._now = now
        self._nodes: Sequence[NodeInMaintenance] = ()
        self._changed = asyncio.Event()

    def maintenance(self, nodes: Sequence[NodeInMaintenance]) -> None:
        self._nodes = nodes
        self._changed.set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with background_task(self._write_for_ever(), "maintenance"):
            yield

    async def _write_for_ever(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._write_all()
            except errors.KubeError as error:
                log_event(
                    log, logging.WARNING, "MaintenanceNotWritten", f"{error} The next check tries again."
                )

    async def _write_all(self) -> None:
        conditions = {each.node: each for each in self._nodes}
        for node in list(self._watched.nodes):
            if node.name in conditions:
                await self._write(node, conditions[node.name])
            elif node.condition(EMPTY_CONDITION) is not None:
                await self._patch(node.name, {"$patch": "delete", "type": EMPTY_CONDITION})
            # If it is out of date, or the node is gone, the next check sees what is there then.
            with contextlib.suppress(errors.Conflict, errors.NotFound):
                await remove_stale_cordon_annotation(self._client, node)

    async def _write(self, node: NodeRecord, state: NodeInMaintenance) -> None:
        """Only what is another than before: a check every half minute must not be a write each."""
        reason = "Empty" if not state.left else "Blocked" if state.blocked else "Emptying"
        status = "True" if reason == "Empty" else "False"
        message = "; ".join((state.message, *state.blocked))[:_MAX_MESSAGE]
        before = node.condition(EMPTY_CONDITION)
        if before is not None and (before.status, before.reason, before.message) == (status, reason, message):
            return
        now = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {
            "type": EMPTY_CONDITION,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
        }
        if before is None or before.status != status:
            condition["lastTransitionTime"] = now
        await self._patch(node.name, condition)
        if before is None or before.reason != reason:
            log_event(log, logging.INFO, f"Maintenance{reason}", message, node=node.name)
            self._events.record(
                InvolvedObject.of_node(node.name),
                f"Maintenance{reason}",
                message,
                warning=reason == "Blocked",
            )

    async def _patch(self, node: str, condition: Object) -> None:
        with contextlib.suppress(errors.NotFound):
            await self._client.patch(
                NODES.status, node, strategic_patch({"status": {"conditions": [condition]}})
            )
