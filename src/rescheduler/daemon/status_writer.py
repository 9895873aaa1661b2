"""Write the status of the leader: into a ConfigMap for `rescheduler status`, and into the conditions of
nodes.

The status is in the ConfigMap `rescheduler-state`. A node in maintenance gets Events and the condition
`rescheduler.dev/Empty`, which is `True` when the node is empty, so that scripts can wait for it:

    kubectl wait node/worker-3 --for=condition=rescheduler.dev/Empty

From Kubernetes 1.37 on, the well-known conditions `DrainInProgress` and `Drained` say the same.

After every check, annotations of cordons that no longer exist are removed, too.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import datetime
from typing import Final

import msgspec
import numpy as np

from rescheduler.api.daemon_status import (
    DaemonStatus,
    DetectedAutoscaler,
    FailingPod,
    Halt,
    LastCheck,
    NodeInMaintenance,
    NodeLoad,
    ResourceBalance,
    SuspectNode,
    program_version,
)
from rescheduler.api.podmigration import EVACUATION
from rescheduler.api.well_known_names import DRAIN_CONDITIONS, DRAIN_REASON, EMPTY_CONDITION
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.cluster.node_record import SIGNAL_GONE, NodeCondition, NodeRecord, is_cordoned_by
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.cluster.sources.watched_objects import WatchedObjects
from rescheduler.config.policy import NodeAutoscaler, Policy
from rescheduler.daemon.listeners import CheckReport, DaemonListener
from rescheduler.daemon.own_objects import write_status
from rescheduler.kube import errors
from rescheduler.kube.api_resources import Object, strategic_patch
from rescheduler.kube.client import Client
from rescheduler.kube.event_recorder import EventRecorder, InvolvedObject, log_event
from rescheduler.kube.server_capabilities import server_release
from rescheduler.kube.work_queue import background_task
from rescheduler.migrations.controller.node_cordon import remove_stale_cordon_annotation
from rescheduler.planner.plan import Plan, percent_of_allocatable
from rescheduler.planner.reasons import Reason

__all__ = [
    "MaintenanceConditionWriter",
    "StatusWriter",
    "balance_of",
    "empty_condition",
    "patch_conditions",
    "removed_conditions",
]

log: Final = logging.getLogger(__name__)

_MAX_LISTED: Final = 100
"""The most entries of any list in the status: a ConfigMap holds a megabyte."""
_MAX_ASSUMPTIONS: Final = 10
_MAX_LIMITS: Final = 5
_TIMED_REASONS: Final = frozenset({Reason.HOURLY_LIMIT, Reason.OUTSIDE_WINDOW})
_MIN_WRITE_INTERVAL_S: Final = 1.0
"""The shortest time between two writes, because several things often change at once."""


class StatusWriter(DaemonListener):
    """Collects the status, and writes its changes while `running`."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        me: str,
        now: Callable[[], datetime],
        *,
        dry_run_moves: Callable[[], str] = str,
    ) -> None:
        """`dry_run_moves` returns what the next process needs to continue the count of a dry run."""
        self.status = DaemonStatus(leader=me, version=program_version())
        self._client = client
        self._namespace = namespace
        self._now = now
        self._dry_run_moves = dry_run_moves
        self._changed = asyncio.Event()
        self._resources: tuple[str, ...] = ()
        self._autoscaler = NodeAutoscaler.AUTO

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write the status while the body runs; only the leader does so."""
        async with background_task(self._write_for_ever(), "status"):
            yield

    # -- events

    def checked(self, check: CheckReport) -> None:
        self._note(
            last_check=LastCheck(
                at=check.at,
                took_seconds=round(check.took_s, 3),
                moves=len(check.plan.moves),
                refused=dict(check.plan.refused_counts),
                usage_source=check.usage_source,
                assumptions=check.plan.assumptions[:_MAX_ASSUMPTIONS],
                limits=_limits(check.plan),
            ),
            balance=balance_of(check.snapshot, self._resources),
            dry_run=check.dry_run,
            autoscalers=tuple(
                DetectedAutoscaler(name, how)
                for name, how in check.snapshot.autoscalers().as_configured(self._autoscaler).evidence.items()
            ),
        )

    def halted(self, halts: tuple[Halt, ...]) -> None:
        self._note(halts=halts)

    def configured(self, policy: Policy) -> None:
        self._resources = policy.balance_resources
        self._autoscaler = policy.node_autoscaler
        self._note(configuration="", **({} if policy.dry_run else {"dry_run": None}))

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
        self._changed.set()  # a new leader writes its status at once
        while True:
            await self._changed.wait()
            self._changed.clear()
            status = msgspec.structs.replace(self.status, updated=self._now())
            try:
                moves = self._dry_run_moves() if status.dry_run is not None else ""
                await write_status(self._client, self._namespace, status, moves)
            except errors.KubeError as error:
                log_event(
                    log, logging.WARNING, "StatusNotWritten", f"{error} The next change writes it again."
                )
            await asyncio.sleep(_MIN_WRITE_INTERVAL_S)


def _limits(plan: Plan) -> tuple[str, ...]:
    found = (each.detail for each in plan.refused if each.reason in _TIMED_REASONS)
    return tuple(dict.fromkeys(found))[:_MAX_LIMITS]


def balance_of(snapshot: Snapshot, resources: Sequence[str]) -> tuple[ResourceBalance, ...]:
    """Return the balance over nodes that are Ready and have the resource."""
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
_DRAIN_CONDITIONS_SINCE: Final = (1, 37)
_SIGNAL_GONE_CONDITION: Final = NodeCondition(
    EMPTY_CONDITION,
    "Unknown",
    SIGNAL_GONE,
    "the node gives no signal of evacuateOn any more. It stays cordoned for 5 minutes, in case the signal"
    " comes again. To use it at once, uncordon it.",
)


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
        self._knows_drains = False

    def maintenance(self, nodes: Sequence[NodeInMaintenance]) -> None:
        self._nodes = nodes
        self._changed.set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with background_task(self._write_for_ever(), "maintenance"):
            yield

    async def _write_for_ever(self) -> None:
        self._knows_drains = await server_release(self._client) >= _DRAIN_CONDITIONS_SINCE
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
        states = {each.node: each for each in self._nodes}
        for node in list(self._watched.nodes):
            if node.name in states:
                state = states[node.name]
                await self._write(node, [_progress_condition(state), *self._drain_conditions(node, state)])
            elif is_cordoned_by(node, EVACUATION):
                await self._write(node, [_SIGNAL_GONE_CONDITION])
            else:
                await self._write(node, [])
            # After a conflict, or if the node was deleted, the next check tries again.
            with contextlib.suppress(errors.Conflict, errors.NotFound):
                await remove_stale_cordon_annotation(self._client, node)

    async def _write(self, node: NodeRecord, wanted: list[NodeCondition]) -> None:
        """Write only the conditions that have changed, so that most checks write nothing."""
        types = {each.type for each in wanted}
        changes = [_condition_manifest(node, each, self._now()) for each in wanted if not _is_set(node, each)]
        changes += [
            {"$patch": "delete", "type": each.type}
            for each in node.conditions
            if _is_our_condition(each) and each.type not in types
        ]
        if not changes:
            return
        await patch_conditions(self._client, node.name, *changes)
        before = node.condition(EMPTY_CONDITION)
        for each in wanted:
            if each.type == EMPTY_CONDITION and (before is None or before.reason != each.reason):
                log_event(log, logging.INFO, f"Maintenance{each.reason}", each.message, node=node.name)
                self._events.record(
                    InvolvedObject.of_node(node.name),
                    f"Maintenance{each.reason}",
                    each.message,
                    warning=each.reason == "Blocked",
                )

    def _drain_conditions(self, node: NodeRecord, state: NodeInMaintenance) -> Iterator[NodeCondition]:
        """Yield the conditions of KEP-5683, unless the server is too old or another client sets them."""
        others = any(
            each.type in DRAIN_CONDITIONS and not _is_our_condition(each) for each in node.conditions
        )
        if self._knows_drains and not others:
            for kind, holds in zip(DRAIN_CONDITIONS, (state.left > 0, not state.left), strict=True):
                yield NodeCondition(kind, str(holds), DRAIN_REASON, "rescheduler empties the node")


def _is_our_condition(condition: NodeCondition) -> bool:
    is_drain = condition.type in DRAIN_CONDITIONS and condition.reason == DRAIN_REASON
    return condition.type == EMPTY_CONDITION or is_drain


def _is_set(node: NodeRecord, wanted: NodeCondition) -> bool:
    found = node.condition(wanted.type)
    return found is not None and (found.status, found.reason, found.message) == (
        wanted.status,
        wanted.reason,
        wanted.message,
    )


def _progress_condition(state: NodeInMaintenance) -> NodeCondition:
    reason = "Empty" if not state.left else "Blocked" if state.blocked else "Emptying"
    message = "; ".join((state.message, *state.blocked))[:_MAX_MESSAGE]
    return NodeCondition(EMPTY_CONDITION, str(reason == "Empty"), reason, message)


def _condition_manifest(node: NodeRecord, condition: NodeCondition, now: datetime) -> Object:
    written = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    manifest = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastHeartbeatTime": written,
    }
    before = node.condition(condition.type)
    if before is None or before.status != condition.status:
        manifest["lastTransitionTime"] = written
    return manifest


def empty_condition(node: NodeRecord, state: NodeInMaintenance, now: datetime) -> Object | None:
    """Return the condition to write; None if the node has it, so that most checks write nothing."""
    wanted = _progress_condition(state)
    return None if _is_set(node, wanted) else _condition_manifest(node, wanted, now)


async def patch_conditions(client: Client, node: str, *changes: Object) -> None:
    """Write or remove conditions. Raises `KubeError`; a node that is gone needs none."""
    with contextlib.suppress(errors.NotFound):
        await client.patch(NODES.status, node, strategic_patch({"status": {"conditions": list(changes)}}))


def removed_conditions(node: NodeRecord) -> list[Object]:
    """Return the changes that remove all conditions that we have set."""
    return [{"$patch": "delete", "type": each.type} for each in node.conditions if _is_our_condition(each)]
