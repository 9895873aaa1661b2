"""Recover failing pods while this process leads, without polling and without requests in steady state.

    informers ──▶ RecoveryEventRouter ──▶ WorkQueue ──▶ WorkerPool ──▶ RecoveryReconciler

Work items are the keys of owner trees. `rescheduler.recovery` decides which pods fail and what to do about
them.
"""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from rescheduler.api.podmigration import traits_of
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.sources.watched_cluster import WatchedCluster
from rescheduler.cluster.sources.watched_objects import nested_field
from rescheduler.kube.api_resources import Object
from rescheduler.kube.client import Client
from rescheduler.kube.event_recorder import EventRecorder
from rescheduler.kube.informer import ChangeHandler, Informer
from rescheduler.kube.work_queue import WorkerPool, WorkQueue
from rescheduler.migrations.runtime_state import RuntimeState, RuntimeStateHolder
from rescheduler.recovery.controller.owner_trees import RECOVERY_ANNOTATIONS, OwnerTrees
from rescheduler.recovery.controller.recovery_reconciler import RecoveryReconciler
from rescheduler.recovery.controller.recovery_report import (
    ExaminationCache,
    FailureListener,
    ObservedFailures,
    RecoveryEvents,
    RecoveryReport,
)
from rescheduler.recovery.failing_pods import started_there

__all__ = [
    "LOST_NODES_KEY",
    "SUSPECT_NODES_KEY",
    "RecoveryController",
    "RecoveryEventRouter",
    "RecoveryReport",
]

LOST_NODES_KEY: Final = "nodes"
"""The work item for all owner trees with pods on nodes that are not ready."""
SUSPECT_NODES_KEY: Final = "suspects"
"""The work item for suspect nodes, which may change although no owner tree does."""


class RecoveryEventRouter:
    """Enqueues the owner trees that a change is about. Changes of healthy pods are ignored."""

    def __init__(self, cluster: WatchedCluster, trees: OwnerTrees, enqueue: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._trees = trees
        self._enqueue = enqueue

    def subscribe(self) -> Callable[[], None]:
        """Enqueue everything that may need recovery, now and at every change; return the function that
        unsubscribes."""
        ends = [informer.subscribe(handler) for informer, handler in self._handlers()]

        def end() -> None:
            for each in ends:
                each()

        return end

    def enqueue_all(self) -> None:
        """Enqueue everything that may need recovery."""
        for informer, handler in self._handlers():
            for each in informer:
                handler(None, each)

    def _handlers(self) -> Iterator[tuple[Informer[Any], ChangeHandler[Any]]]:
        seen = self._cluster.watched
        for kind, known in self._cluster.workloads.items():
            yield known.informer, self._of_workload(kind)
        yield seen.pods.informer, self._pod
        yield seen.nodes, self._node
        yield seen.migrations.informer, self._migration

    def enqueue_pods_of_lost_nodes(self) -> None:
        ready = {node.name for node in self._cluster.watched.nodes if node.is_ready}
        for pod in self._cluster.watched.pods.informer:
            if pod.node and pod.node not in ready:
                self._enqueue_tree(pod)

    def _pod(self, old: PodRecord | None, new: PodRecord | None) -> None:
        if new is not None and _is_healthy(new) and (old is None or _is_healthy(old)):
            return
        for pod in (old, new):
            if pod is not None:
                self._enqueue_tree(pod)

    def _enqueue_tree(self, pod: PodRecord) -> None:
        self._enqueue_known(self._trees.key_of(pod))

    def _enqueue_known(self, key: str) -> None:
        # A tree whose topmost workload is not in the cache yet is enqueued when that workload arrives.
        if key:
            self._enqueue(key)

    def _enqueue_if_failing(self, key: str) -> None:
        """Enqueue the tree of a new workload if one of its pods arrived earlier and fails."""
        if not all(map(_is_healthy, self._trees.pods(key))):
            self._enqueue(key)

    def _of_workload(self, kind: str) -> Callable[[Object | None, Object | None], None]:
        def changed(old: Object | None, new: Object | None) -> None:
            for item in (new, old):
                if item is not None and RECOVERY_ANNOTATIONS.intersection(_annotations(item)):
                    self._enqueue_known(self._trees.key_of_workload(kind, item))
                    return
            if old is None and new is not None:
                key = self._trees.key_of_workload(kind, new)
                # Only the topmost workload: every old ReplicaSet would go through all pods of its Deployment.
                if key.startswith(f"{kind}/"):
                    self._enqueue_if_failing(key)

        return changed

    def _node(self, old: NodeRecord | None, new: NodeRecord | None) -> None:
        if old is None or new is None:
            self._enqueue(SUSPECT_NODES_KEY)
        is_well = new is not None and new.is_ready
        if is_well and (old is None or old.is_ready):
            return
        if old is None or new is None or old.is_ready != new.is_ready or old.taints != new.taints:
            self._enqueue(LOST_NODES_KEY)

    def _migration(self, _: Object | None, new: Object | None) -> None:
        """Enqueue source and copy of a finished migration: a failed copy counts, and is now a pod like any
        other."""
        if new is None or not nested_field(new, "status", "finishedAt"):
            return
        namespace, known = new["metadata"]["namespace"], self._cluster.watched.pods
        source = known.get(f"{namespace}/{nested_field(new, 'spec', 'pod', 'name')}")
        if source is not None and traits_of(str(nested_field(new, "spec", "strategy"))).recovers:
            self._enqueue_tree(source)
        copy = known.get(f"{namespace}/{nested_field(new, 'status', 'targetPod', 'name')}")
        if copy is not None and not _is_healthy(copy):
            self._enqueue_tree(copy)


def _is_healthy(pod: PodRecord) -> bool:
    return pod.is_ready and not pod.is_terminating and not _has_recovery_annotation(pod)


def _has_recovery_annotation(pod: PodRecord) -> bool:
    """Return whether a pod without a controller has a ledger or an annotation to check."""
    return pod.owner is None and bool(RECOVERY_ANNOTATIONS.intersection(pod.annotations))


def _annotations(item: Object) -> Mapping[str, str]:
    return item["metadata"].get("annotations") or {}


_WORKERS: Final = 2
_SOON_S: Final = 0.1
"""Pods of a tree often change together: one examination is enough for all of them."""
_ASK_AGAIN_S: Final = 30.0
"""Seconds between two attempts while recovery is paused or the caches are stale."""


class RecoveryController:
    def __init__(
        self,
        client: Client,
        cluster: WatchedCluster,
        runtime: RuntimeStateHolder,
        now: Callable[[], datetime],
        listener: FailureListener,
    ) -> None:
        """Prepare the controller. The caller runs `cluster`, which must outlive the controller."""
        self._cluster = cluster
        self._runtime = runtime
        self._now = now
        self._listener = listener
        self._queue = WorkQueue()
        self._workers = WorkerPool(self._queue, self._process, now, count=_WORKERS, task="recovery of")
        self._events = EventRecorder(client, now)
        trees = OwnerTrees(cluster)
        self._recovery_events = RecoveryEvents(self._events, trees)
        self._reconciler = RecoveryReconciler(client, cluster, runtime, self._recovery_events, now)
        self._router = RecoveryEventRouter(cluster, trees, self._enqueue)
        self._examinations = ExaminationCache()
        self._observed = ObservedFailures(cluster.watched)

    def report(self) -> RecoveryReport:
        """Return which pods fail, which have no attempts left, and which nodes are suspect."""
        made_s = {node.name: node.created_s for node in self._cluster.watched.nodes}
        terms, now_s = self._runtime.current.policy.failed_pods, self._now().timestamp()
        started = started_there(self._cluster.present, terms)
        return self._examinations.report(terms, made_s, self._observed, now_s, started)

    def _state_changed(self, before: RuntimeState, after: RuntimeState) -> None:
        """Examine everything again after a change of the policy, from the caches."""
        if after.policy != before.policy:
            self._router.enqueue_all()
            self._enqueue(SUSPECT_NODES_KEY)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Recover pods while the body runs. Workers can stop at any point: the next process continues from
        the ledgers."""
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._events.running())
            stack.callback(self._cluster.watched.migrations.informer.subscribe(self._observed.changed))
            stack.callback(self._router.subscribe())
            stack.callback(self._runtime.subscribe(self._state_changed))
            await stack.enter_async_context(self._workers.working())
            yield

    def _enqueue(self, key: str) -> None:
        self._queue.add_after(key, _SOON_S)

    async def _process(self, key: str) -> datetime | None:
        check_again_at_s = await self._reconcile(key)
        return None if check_again_at_s is None else datetime.fromtimestamp(check_again_at_s, UTC)

    async def _reconcile(self, key: str) -> float | None:
        if key == LOST_NODES_KEY:
            self._router.enqueue_pods_of_lost_nodes()
            return None
        if key == SUSPECT_NODES_KEY:
            await self._publish_report()
            return None
        if not self._cluster.is_fresh:
            # Nothing is started from stale caches.
            return self._now().timestamp() + _ASK_AGAIN_S
        seen, check_again_at_s = await self._reconciler.reconcile(key)
        if self._examinations.observe(key, seen):
            await self._publish_report()
        return check_again_at_s

    async def _publish_report(self) -> None:
        report = self.report()
        if report.suspects:
            # Other pods may have started there since the last snapshot, which may be that of the last check.
            await self._cluster.refresh()
            report = self.report()
        self._recovery_events.suspects(report.suspects)
        self._listener.failing(report.failing)
        self._listener.suspects(report.suspect_nodes)
        if report.changes_s is not None:
            self._queue.add_after(SUSPECT_NODES_KEY, report.changes_s - self._now().timestamp())
