"""Drain nodes on request, even if the daemon does not empty nodes.

A drain does the same as NodeMaintenance, but only for these nodes and without waiting for the next interval:
label ─▶ plan ─▶ cordon and migrations ─▶ plan again, until the nodes are empty or no pod can be moved.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from datetime import datetime
from typing import Final

from rescheduler.api.daemon_status import NodeInMaintenance
from rescheduler.api.well_known_names import (
    INCLUDES_SYSTEM_ANNOTATION,
    MAINTENANCE_LABEL,
    REQUESTED_BY_ANNOTATION,
)
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.cluster.node_record import in_maintenance
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.sources.watched_cluster import WatchedCluster
from rescheduler.cluster.sources.watched_objects import WatchedObjects
from rescheduler.config.profiles import replace_settings
from rescheduler.daemon.checker import expected_snapshot, moves_under_way
from rescheduler.daemon.node_evictions import EvictionCause, EvictionResult, due_evictions, evict_pod
from rescheduler.daemon.status_writer import empty_condition, patch_conditions, removed_conditions
from rescheduler.kube import errors
from rescheduler.kube.api_resources import Object, merge_patch
from rescheduler.kube.client import Client
from rescheduler.migrations.controller.node_cordon import NodeCordoner
from rescheduler.migrations.controller.plan_execution import MoveProgress, PlanExecution
from rescheduler.migrations.runtime_state import RuntimeStateHolder
from rescheduler.planner.maintenance_status import is_stuck_terminating, maintenance_status, must_leave_node
from rescheduler.planner.plan import Plan
from rescheduler.planner.plan_builder import build_plan
from rescheduler.strategies.node_maintenance import NodeMaintenance

__all__ = [
    "NodeDrain",
    "end_maintenance",
    "maintenance_changes",
    "start_maintenance",
    "wait_for_labels",
]

_REPLAN_INTERVAL_S: Final = 5.0
"""How often to plan again, because budgets and free room change without an event that is watched."""


class NodeDrain:
    def __init__(
        self,
        client: Client,
        cluster: WatchedCluster,
        nodes: Collection[str],
        *,
        runtime: RuntimeStateHolder,
        on_progress: Callable[[MoveProgress], None] = lambda _: None,
        requested_by: str = "",
    ) -> None:
        """Prepare a drain. The maximum number of moves and maintenance windows don't apply to it.

        `requested_by` is the user that `rescheduler history` names.
        """
        self._client = client
        self._cluster = cluster
        self._policy = replace_settings(runtime.current.policy, max_reschedule_pods=10_000, windows=())
        self._nodes = frozenset(nodes)
        self._runtime = runtime
        self._on_progress = on_progress
        self._requested_by = requested_by
        self._run: PlanExecution | None = None
        self._is_stopped = False

    async def states(self, *, wait: bool) -> AsyncIterator[tuple[NodeInMaintenance, ...]]:
        """Yield the progress of each node whenever it changes, until all are empty.

        Without `wait`, also end when nothing more can be done now.
        """
        while True:
            made = self._plan()
            yield self._state(made)
            # A node without pods is cordoned, too: otherwise the scheduler could place the next pod there.
            if self._is_stopped or not (made.changes or any(each.left for each in self._state(made))):
                return
            if made.moves or made.changes:
                self._run = self._execution_of(made)
                await self._run.run()
                yield self._state(self._plan())
            elif await self._evict_handled() or wait or self._is_under_way():
                await self._wait_until_a_pod_left()
            else:
                return

    async def _evict_handled(self) -> bool:
        """Evict the pods that another component moves when they are evicted; return whether it moves any."""
        due = due_evictions(self._cluster.snapshot(), self._policy, only=self._nodes)
        results = [
            (await evict_pod(self._client, each, self._policy.grace_period_seconds))[0]
            for each in due
            if each.cause is EvictionCause.HANDLED
        ]
        return any(each is not EvictionResult.REFUSED for each in results)

    async def _wait_until_a_pod_left(self) -> None:
        """Wait until a pod has left one of the nodes, but only for a few seconds, because other things
        change, too."""
        left = asyncio.Event()

        def note(old: PodRecord | None, new: PodRecord | None) -> None:
            if new is None and old is not None and old.node in self._nodes:
                left.set()

        end = self._cluster.watched.pods.informer.subscribe(note)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_REPLAN_INTERVAL_S):
                    await left.wait()
        finally:
            end()

    def stop(self) -> None:
        """Start nothing more, and let running moves finish."""
        self._is_stopped = True
        if self._run is not None:
            self._run.stop()

    @property
    def has_running_moves(self) -> bool:
        return self._run is not None and any(each.is_under_way for each in self._run.moves)

    async def write_conditions(self, states: Iterable[NodeInMaintenance], now: datetime) -> None:
        """Write the progress as conditions of the nodes, as the daemon does, for `kubectl wait`.

        The drain also works if the user may not write the status of nodes.
        """
        for state in states:
            node = self._cluster.watched.nodes.get(state.node)
            if node is not None and (condition := empty_condition(node, state, now)) is not None:
                with contextlib.suppress(errors.Forbidden):
                    await patch_conditions(self._client, node.name, condition)

    def now(self) -> tuple[NodeInMaintenance, ...]:
        """Return the progress of each node now."""
        return maintenance_status(
            self._cluster.snapshot(), Plan(taken_at_s=0.0), self._policy, only=self._nodes
        )

    def _plan(self) -> Plan:
        under_way = moves_under_way(self._cluster.watched)
        expected = expected_snapshot(self._cluster.snapshot(), under_way)
        state = self._runtime.current
        strategies = [NodeMaintenance(self._nodes)]
        return build_plan(expected, self._policy, strategies, steered=state.steers, guarded=state.guards)

    def _state(self, made: Plan) -> tuple[NodeInMaintenance, ...]:
        return maintenance_status(self._cluster.snapshot(), made, self._policy, only=self._nodes)

    def _execution_of(self, made: Plan) -> PlanExecution:
        annotations = {}
        if self._policy.maintenance_includes_system:
            annotations[INCLUDES_SYSTEM_ANNOTATION] = "true"
        if self._requested_by:
            annotations[REQUESTED_BY_ANNOTATION] = self._requested_by
        return PlanExecution(
            self._client, self._cluster.watched, made, self._on_progress, annotations=annotations
        )

    def _is_under_way(self) -> bool:
        """Return whether another process moves pods of these nodes, or pods of them are terminating."""
        pods = self._cluster.watched.pods
        moving = any(
            (pod := pods.get(each.pod)) is not None and pod.node in self._nodes
            for each in moves_under_way(self._cluster.watched)
        )
        return moving or self._are_terminating()

    def _are_terminating(self) -> bool:
        """Return whether some pods are terminating and not stuck."""
        snapshot = self._cluster.snapshot()
        return any(
            pod.is_terminating
            and pod.node in self._nodes
            and must_leave_node(pod)
            and not is_stuck_terminating(pod, snapshot.taken_at_s)
            for pod in snapshot.pods.records
        )


async def start_maintenance(client: Client, nodes: Iterable[str], requested_by: str = "") -> None:
    """Label the nodes, and annotate them with the user, so that the daemon's moves can name them.

    Raises `KubeError`, and `NotFound` for a node that does not exist.
    """
    for node in nodes:
        await client.patch(NODES, node, merge_patch(maintenance_changes(requested_by)))


def maintenance_changes(requested_by: str) -> Object:
    """Return what `start_maintenance` changes of a node."""
    changes: Object = {"labels": {MAINTENANCE_LABEL: "true"}}
    if requested_by:
        changes["annotations"] = {REQUESTED_BY_ANNOTATION: requested_by}
    return {"metadata": changes}


async def wait_for_labels(watched: WatchedObjects, names: Collection[str]) -> None:
    """Wait until the informer has the labels that `start_maintenance` wrote, because plans use its cache."""
    changed, informer = asyncio.Event(), watched.nodes
    end = informer.subscribe(lambda _old, _new: changed.set())
    try:
        while not all((node := informer.get(name)) is None or in_maintenance(node) for name in names):
            await changed.wait()
            changed.clear()
    finally:
        end()


async def end_maintenance(client: Client, names: Iterable[str]) -> dict[str, str]:
    """Remove the label, uncordon the nodes that we cordoned, and return a message for each.

    Raises `KubeError`, and `NotFound` for a node that does not exist.
    """
    done: dict[str, str] = {}
    for name in names:
        gone = {"labels": {MAINTENANCE_LABEL: None}, "annotations": {REQUESTED_BY_ANNOTATION: None}}
        await client.patch(NODES, name, merge_patch({"metadata": gone}))
        node = await client.get(NODES, name)
        if changes := removed_conditions(node):
            with contextlib.suppress(errors.Forbidden):
                await patch_conditions(client, name, *changes)
        if not node.unschedulable:
            done[name] = "in service"
        elif await NodeCordoner(client, {name: node}.get).uncordon(name, NodeMaintenance.name):
            done[name] = "in service again"
        else:
            done[name] = (
                "no longer in maintenance, but still cordoned: another client cordoned it. "
                f"To make it schedulable, run `kubectl uncordon {name}`."
            )
    return done
