"""What is told of nodes in maintenance, on the nodes themselves: a condition, and Events when it changes.

Marks of cordons that are no more are removed here, too: after every check.

The condition `rescheduler.dev/Empty` is `True` when a node is empty, so that scripts can wait for it:

    kubectl wait node/worker-3 --for=condition=rescheduler.dev/Empty
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import Final

from rescheduler.api.daemon_status import NodeInMaintenance
from rescheduler.api.structured_log import log_event
from rescheduler.api.well_known_names import EMPTY_CONDITION
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.sources.watched_objects import WatchedObjects
from rescheduler.daemon.listeners import DaemonListener
from rescheduler.kube import errors
from rescheduler.kube.api_resources import Object
from rescheduler.kube.client import Client
from rescheduler.kube.event_recorder import EventRecorder, InvolvedObject
from rescheduler.kube.patches import strategic_patch
from rescheduler.migrations.controller.node_cordon import remove_stale_cordon_annotation

__all__ = ["MaintenanceConditionWriter"]

log: Final = logging.getLogger(__name__)

_MAX_MESSAGE: Final = 1024


class MaintenanceConditionWriter(DaemonListener):
    """Hears how far nodes are; while `running`, what has changed is written."""

    def __init__(
        self, client: Client, seen: WatchedObjects, events: EventRecorder, now: Callable[[], datetime]
    ) -> None:
        self._client = client
        self._seen = seen
        self._events = events
        self._now = now
        self._nodes: Sequence[NodeInMaintenance] = ()
        self._changed = asyncio.Event()

    def maintenance(self, nodes: Sequence[NodeInMaintenance]) -> None:
        self._nodes = nodes
        self._changed.set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._write_for_ever(), name="maintenance")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

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
        told = {each.node: each for each in self._nodes}
        for node in list(self._seen.nodes):
            if node.name in told:
                await self._write(node, told[node.name])
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
            self._events.tell(
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
