"""Keep the room that moves make for a pending pod until the scheduler has placed the pod there.

Each migration names the pods that it makes room for (`spec.rooms`). As long as one of them is not finished,
`status.nominatedNodeName` of the pod is the node of its room: the scheduler counts the pod there when it
places others of the same or a lower priority, and tries that node first when it places the pod.

A nomination does not make the scheduler try the pod again; a pod that leaves the node does. If that was not
the last one, the try fails, and the scheduler clears the nomination: so it is set again. It is removed when
the moves have failed or don't start, or the pod is not placed in time: autoscalers ignore nominated pods.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final

from rescheduler.api.podmigration import Migration, MigrationPhase, RoomReference
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.sources.watched_objects import WatchedObjects
from rescheduler.kube import errors
from rescheduler.kube.api_resources import Object
from rescheduler.kube.client import Client
from rescheduler.kube.event_recorder import EventRecorder, InvolvedObject, log_event
from rescheduler.migrations.controller.pod_writes import nominate_node_patch

__all__ = ["RELEASE_AFTER", "RoomReservations", "RoomStep", "may_keep", "next_room_step"]

log: Final = logging.getLogger(__name__)

RELEASE_AFTER: Final = timedelta(seconds=60)
"""How long the room is kept while no move is in progress: the scheduler retries within 10 s, the next wave of
moves may need another check. A migration that waits in the queue for longer keeps its room from when it
starts, so that no one can withhold a node, or a pending pod from autoscalers, with moves that never start."""
_MIN_INTERVAL_S: Final = 0.2
_MAX_INTERVAL_S: Final = 10.0


class RoomStep(Enum):
    """The next action for a room."""

    WAIT = auto()
    NOMINATE = auto()
    RELEASE = auto()
    """The room is not kept any longer."""
    USED = auto()
    """The pod has been scheduled."""
    FORGET = auto()
    """The pod does not exist any more."""


def next_room_step(
    room: RoomReference, pod: PodRecord | None, migrations: Sequence[Migration], now: datetime
) -> RoomStep:
    """Return the next action for the room; `migrations` are those that make it, at least one."""
    if pod is None or pod.uid != room.uid or not pod.is_active:
        return RoomStep.FORGET
    if pod.node:
        return RoomStep.USED
    if all(migration.status.phase is not MigrationPhase.IN_PROGRESS for migration in migrations):
        last = max(migrations, key=_finished)
        has_failed = last.is_finished and last.status.phase is not MigrationPhase.COMPLETED
        if has_failed or now - _finished(last) > RELEASE_AFTER:
            return RoomStep.RELEASE
    # Another nomination is the scheduler's own: pods leave that node for it already.
    return RoomStep.WAIT if pod.nominated_node else RoomStep.NOMINATE


def may_keep(room: RoomReference, migration: Migration, made_here: Set[str]) -> bool:
    """Return whether the room may be kept. Anyone who may create PodMigrations can write rooms, so those of
    other processes count only for pods of their own namespace, and only on the node that their own pod is
    leaving, once the move was approved. Otherwise a tenant could withhold nodes that it may not use."""
    if migration.key in made_here:
        return True
    has_begun = migration.status.phase is not MigrationPhase.PENDING
    return has_begun and room.namespace == migration.namespace and room.node == migration.spec.source_node


def _finished(migration: Migration) -> datetime:
    """Return when the migration finished, or when it was created if it has not."""
    return migration.status.finished_at or migration.created


@dataclass(slots=True)
class _TrackedRoom:
    room: RoomReference
    migrations: set[str]
    """Keys of those that make it."""
    is_reported: bool = False


class RoomReservations:
    def __init__(
        self,
        client: Client,
        watched: WatchedObjects,
        events: EventRecorder,
        now: Callable[[], datetime],
        changes: "asyncio.Queue[Object | None]",
    ) -> None:
        """`changes` has migrations that make room, whenever they change; None is for any other change."""
        self._client = client
        self._watched = watched
        self._events = events
        self._now = now
        self._changes = changes
        self._rooms: dict[tuple[str, str], _TrackedRoom] = {}
        """The rooms by namespace and uid of the pod: a uid alone could be that of a pod elsewhere."""

    async def keep_rooms(self, first: Object | None) -> None:
        """Keep rooms, from this change on."""
        self._observe(first)
        while True:
            # Pods change all the time: their events are of interest only as long as there are rooms.
            end = self._watched.pods.informer.subscribe(self._on_pod)
            try:
                while self._rooms:
                    await self._keep_all()
            finally:
                end()
            self._observe(await self._changes.get())

    def _on_pod(self, old: PodRecord | None, new: PodRecord | None) -> None:
        pod = new or old
        if pod is not None and (pod.namespace, pod.uid) in self._rooms and self._changes.empty():
            self._changes.put_nowait(None)

    def _observe(self, item: Object | None) -> None:
        migration = None if item is None else self._watched.records.migration(item)
        if migration is None:
            return
        for room in migration.spec.rooms:
            if not may_keep(room, migration, self._watched.made_here):
                continue
            place = room.namespace, room.uid
            tracked = self._rooms.get(place)
            if tracked is None or tracked.room != room:
                ended_long_ago = self._now() - _finished(migration) > 2 * RELEASE_AFTER
                if migration.is_finished and (tracked is not None or ended_long_ago):
                    continue  # an earlier attempt
                tracked = self._rooms[place] = _TrackedRoom(room, set())
            tracked.migrations.add(migration.key)

    async def _keep_all(self) -> None:
        for tracked in list(self._rooms.values()):
            try:
                await self._keep(tracked)
            except errors.KubeError as error:
                words = f"{error} Until that succeeds, room on {tracked.room.node} is not kept for the pod."
                log_event(log, logging.WARNING, "RoomNotKept", words, pod=tracked.room.pod_key)
        await asyncio.sleep(_MIN_INTERVAL_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_MAX_INTERVAL_S):
                self._observe(await self._changes.get())
        while not self._changes.empty():
            self._observe(self._changes.get_nowait())

    async def _keep(self, tracked: _TrackedRoom) -> None:
        room = tracked.room
        pod = self._watched.pods.get(room.pod_key)
        found = (self._migration(key) for key in tracked.migrations)
        migrations = [migration for migration in found if migration is not None]
        step = next_room_step(room, pod, migrations, self._now()) if migrations else RoomStep.FORGET
        if step is RoomStep.NOMINATE:
            await self._nominate(room, room.node)
            if not tracked.is_reported:
                tracked.is_reported = True
                self._report(
                    room, "RoomKept", f"room on {room.node} is kept for the pod while others move away"
                )
        elif step is not RoomStep.WAIT:
            await self._end(tracked, pod, step)

    async def _end(self, tracked: _TrackedRoom, pod: PodRecord | None, step: RoomStep) -> None:
        room = tracked.room
        if step is RoomStep.USED and pod is not None:
            instead = "" if pod.node == room.node else f" instead of {room.node}"
            self._report(
                room, "RoomUsed", f"the pod for which room was made is scheduled on {pod.node}{instead}"
            )
        elif step is RoomStep.RELEASE and pod is not None:
            await self._release(tracked, pod)
        del self._rooms[room.namespace, room.uid]
        # A migration that has not started keeps the room once more when it does.
        waiting = {
            key for key in tracked.migrations if step is RoomStep.RELEASE and not self._is_finished(key)
        }
        self._watched.made_here.difference_update(tracked.migrations - waiting)

    async def _release(self, tracked: _TrackedRoom, pod: PodRecord) -> None:
        room = tracked.room
        if pod.nominated_node == room.node:
            await self._nominate(room, "")
        elif not tracked.is_reported:
            return  # it was not kept
        condition = pod.condition("PodScheduled")
        why = condition.message if condition is not None else "the scheduler gave no reason"
        words = f"room on {room.node} is not kept any longer, and the pod is not scheduled: {why}"
        self._report(room, "RoomReleased", words, warning=True)

    def _is_finished(self, key: str) -> bool:
        migration = self._migration(key)
        return migration is None or migration.is_finished

    def _migration(self, key: str) -> Migration | None:
        item = self._watched.migrations.get(key)
        return None if item is None else self._watched.records.migration(item)

    async def _nominate(self, room: RoomReference, node: str) -> None:
        patch = nominate_node_patch(room.uid, node)
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            self._watched.pods.observe(await self._client.patch(PODS.status, room.pod_key, patch))

    def _report(self, room: RoomReference, room_event: str, words: str, *, warning: bool = False) -> None:
        level = logging.WARNING if warning else logging.INFO
        log_event(log, level, room_event, words, pod=room.pod_key, node=room.node)
        subject = InvolvedObject("v1", "Pod", room.namespace, room.name, room.uid)
        self._events.record(subject, room_event, words, warning=warning)
