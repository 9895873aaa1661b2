"""Execute PodMigrations: changes in the cluster become keys, and workers reconcile them.

informers ──▶ EventRouter: keys ──▶ WorkQueue ──▶ WorkerPool ──▶ Reconciler
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import datetime
from typing import Final

from rescheduler.api.podmigration import Handover
from rescheduler.api.well_known_names import POD_MIGRATION_KIND
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.object_meta import owner_key, owner_keys_of_object
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.sources.watched_objects import (
    WatchedObjects,
    is_under_way,
    nested_field,
    object_key,
    owner_key_of_workload,
)
from rescheduler.kube.api_resources import Object
from rescheduler.kube.client import Client
from rescheduler.kube.event_recorder import EventRecorder
from rescheduler.kube.informer import ChangeHandler
from rescheduler.kube.transport import wall_clock
from rescheduler.kube.work_queue import WorkerPool, WorkQueue, background_task
from rescheduler.migrations.controller.dispatcher import Dispatcher
from rescheduler.migrations.controller.migration_log import MigrationLog
from rescheduler.migrations.controller.migration_removal import ForcedRemovalCleanup
from rescheduler.migrations.controller.observation_builder import source_of
from rescheduler.migrations.controller.reconciler import Reconciler, Revalidator
from rescheduler.migrations.controller.room_reservation import RoomReservations
from rescheduler.migrations.labels_and_names import lock_of
from rescheduler.migrations.runtime_state import RuntimeState, RuntimeStateHolder
from rescheduler.steering.webhook.webhook_presence import AssumedSteering, SteeringProbe

__all__ = ["MIGRATION_WORKERS", "EventRouter", "MigrationController"]


class EventRouter:
    def __init__(
        self,
        watched: WatchedObjects,
        wake: Callable[[str], None],
        dispatcher: Dispatcher,
        removals: ForcedRemovalCleanup,
        room_changes: "asyncio.Queue[Object | None]",
    ) -> None:
        self._room_changes = room_changes
        self._watched = watched
        self._removals = removals
        self._wake = wake
        self._dispatcher = dispatcher

    def subscribe(self) -> Callable[[], None]:
        """Reconcile every migration once now, and again whenever something about it changes."""
        watched = self._watched
        ends = [
            watched.migrations.informer.subscribe(self._migration),
            watched.pods.informer.subscribe(self._pod),
            watched.budgets.informer.subscribe(self._budget),
            watched.nodes.subscribe(self._node),
            *(informer.subscribe(self._of_workload(kind)) for kind, informer in watched.workloads.items()),
        ]

        def end() -> None:
            for each in ends:
                each()

        return end

    def _migration(self, old: Object | None, new: Object | None) -> None:
        item = old if new is None else new
        assert item is not None
        if new is None:
            self._removals.remember(item)
        key = object_key(item)
        if nested_field(item, "spec", "rooms"):
            self._room_changes.put_nowait(item)
        self._dispatcher.observe(key)
        self._wake(key)
        migration = self._watched.records.migration(item) if nested_field(item, "spec", "group") else None
        if migration is not None:
            self._dispatcher.wake_group(migration)
        self._dispatcher.dispatch_if_freed()

    def _pod(self, old: PodRecord | None, new: PodRecord | None) -> None:
        for pod in (old, new):
            if pod is not None:
                self._wake_all(self._moving(pod))
        marked = old if new is None else new
        if marked is not None and lock_of(marked):
            self._wake_named(marked, is_new=old is None)
        pod = old if new is None else new
        assert pod is not None
        if new is None or not new.is_active:
            # Migrations that wait to move it can't succeed any more.
            for item in self._watched.migrations.find("pod", (pod.namespace, pod.name)):
                self._wake(object_key(item))

    def _wake_named(self, pod: PodRecord, *, is_new: bool) -> None:
        """Wake the migration that the pod's label names, even a finished one: its request may arrive late."""
        holders = self._watched.migrations.find("mark", (pod.namespace, lock_of(pod)))
        for each in holders:
            self._wake(object_key(each))
        key = f"{pod.namespace}/{lock_of(pod)}"
        if not holders and is_new and pod.owner is None:
            self._removals.suspect(key, pod)
            self._wake(key)
        elif key in self._removals.removed:
            self._wake(key)

    def _moving(self, pod: PodRecord) -> list[Object]:
        """Return the migrations whose source, target or expected replacement is this pod."""
        find = self._watched.migrations.find
        found = find("pod", (pod.namespace, pod.name))
        if pod.owner is not None:
            waiting = find("owner", owner_key(pod.namespace, pod.owner))
            found += [each for each in waiting if nested_field(each, "status", "handover") == Handover.EVICT]
        return found

    def _of_workload(self, kind: str) -> ChangeHandler[Object]:
        def changed(old: Object | None, new: Object | None) -> None:
            item = old if new is None else new
            assert item is not None
            owner, find = owner_key_of_workload(kind, item), self._watched.migrations.find
            self._wake_all(find("owner", owner))
            for replica_set in self._watched.workloads["ReplicaSet"].find("owner", owner):
                self._wake_all(find("owner", owner_key_of_workload("ReplicaSet", replica_set)))

        return changed

    def _budget(self, old: Object | None, new: Object | None) -> None:
        """Wake migrations whose pod the budget covers, covered before, or would cover if the pod existed."""
        item = old if new is None else new
        assert item is not None
        covers = [self._watched.records.protection(each) for each in (old, new) if each is not None]
        for found in self._watched.migrations.find("running", item["metadata"]["namespace"]):
            migration = self._watched.records.migration(found)
            source = None if migration is None else source_of(migration, self._watched)
            if source is None or any(
                each is not None and each.pods.matches(source.labels) for each in covers
            ):
                self._wake_all([found])
        for owner in owner_keys_of_object(item) if new is not None else ():
            # One of our temporary budgets: if its migration has finished by now, it must be removed.
            if owner.kind == POD_MIGRATION_KIND:
                self._wake(f"{owner.namespace}/{owner.name}")

    def _node(self, old: NodeRecord | None, new: NodeRecord | None) -> None:
        if old is not None and new is not None and old.is_ready == new.is_ready:
            return
        node = old if new is None else new
        assert node is not None
        self._wake_all(self._watched.migrations.find("node", node.name))

    def _wake_all(self, items: Iterable[Object]) -> None:
        """Wake running migrations; a queued one is woken by its turn or its own time."""
        for item in items:
            if is_under_way(item):
                self._wake(object_key(item))


MIGRATION_WORKERS: Final = 32
"""Workers mostly wait for the API server. Each watch and each worker uses a connection of
`http_transport`."""


class MigrationController:
    def __init__(
        self,
        client: Client,
        runtime: RuntimeStateHolder,
        revalidator: Revalidator,
        *,
        watched: WatchedObjects | None = None,
        now: Callable[[], datetime] = wall_clock,
        webhook: SteeringProbe | None = None,
        workers: int = MIGRATION_WORKERS,
    ) -> None:
        """Pass `watched` if the caller runs the informers; `now` is the wall clock."""
        self._owns_informers = watched is None
        self.watched = watched or WatchedObjects(client)
        self._runtime = runtime
        self._events = EventRecorder(client, now)
        self._queue = WorkQueue()
        self._dispatcher = Dispatcher(self.watched, runtime, now, self._queue.add)
        self.migration_log = MigrationLog(self._events)
        self._reconciler = Reconciler(
            client,
            self.watched,
            self.migration_log,
            self._dispatcher,
            revalidator,
            now,
            webhook=webhook or AssumedSteering(runtime),
        )
        self._room_changes: asyncio.Queue[Object | None] = asyncio.Queue()
        self._client, self._now = client, now
        self._event_router = EventRouter(
            self.watched,
            self._queue.add,
            self._dispatcher,
            self._reconciler.forced_removals,
            self._room_changes,
        )
        self._workers = WorkerPool(
            self._queue, self._reconciler.reconcile, now, count=workers, task="migration"
        )

    @property
    def queue_depth(self) -> int:
        """Return how many migrations wait for a worker."""
        return len(self._queue)

    def _state_changed(self, before: RuntimeState, after: RuntimeState) -> None:
        is_other_policy = after.policy != before.policy
        if is_other_policy:
            self._dispatcher.policy_changed()
        if is_other_policy or before.halt_keys - after.halt_keys:
            self.reconcile_all()
        elif after.node_deadlines != before.node_deadlines:
            self._dispatcher.dispatch(everything=True)

    def reconcile_all(self) -> None:
        """Reconcile all migrations that may start or continue now, although nothing about them changed."""
        is_winding_down = self._runtime.current.is_winding_down
        for key in self._dispatcher.unfinished() if is_winding_down else self._dispatcher.under_way():
            self._queue.add(key)
        self._dispatcher.dispatch(everything=True)

    async def finish_steps(self, within_s: float) -> None:
        """Start no further key, and give running reconciliations this time to finish."""
        await self._workers.finish(within_s)

    async def _keep_rooms(self) -> None:
        first = await self._room_changes.get()
        rooms = RoomReservations(self._client, self.watched, self._events, self._now, self._room_changes)
        await rooms.keep_rooms(first)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Execute migrations while the body runs. At its end every worker stops where it is: the next process
        continues from the status."""
        async with contextlib.AsyncExitStack() as stack:
            if self._owns_informers:
                await stack.enter_async_context(self.watched.running())
            await stack.enter_async_context(self._events.running())
            await stack.enter_async_context(background_task(self._keep_rooms(), "room reservations"))
            stack.callback(self._event_router.subscribe())
            await stack.enter_async_context(self._workers.working())
            await stack.enter_async_context(self._dispatcher.running())
            stack.callback(self._runtime.subscribe(self._state_changed))
            yield
