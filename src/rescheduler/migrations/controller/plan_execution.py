"""Execute a plan: one PodMigration per move, and the next wave when the previous one has finished.

The leader executes the PodMigrations, in this process or another; this module creates and watches them. If
the same plan is executed again, it finds the existing PodMigrations and continues.
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Final

import msgspec

from rescheduler.api.podmigration import (
    Migration,
    MigrationPhase,
    MigrationSpec,
    PodReference,
    RoomReference,
    traits_of,
)
from rescheduler.api.well_known_names import CONTINUES_ANNOTATION, FINALIZER, NEXT_HOP_ANNOTATION
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS, WatchedObjects, object_key
from rescheduler.kube import errors
from rescheduler.kube.api_resources import Object
from rescheduler.kube.client import Client
from rescheduler.kube.request_sender import Backoff
from rescheduler.migrations.controller.node_cordon import NodeCordoner
from rescheduler.migrations.controller.observation_builder import migration_at
from rescheduler.migrations.labels_and_names import MIGRATION_ID_LABEL, copy_name, migration_name
from rescheduler.planner.plan import Move, Plan, plan_annotations

__all__ = ["MoveProgress", "PlanExecution", "RecordAttempt", "podmigration_for"]

RecordAttempt = Callable[[Move, float], Awaitable[str]]
"""Records a move that was planned at that time; returns why it must not be made, or an empty string."""

_MAX_CREATE_ATTEMPTS: Final = 6
_MAX_GROUP_NAME: Final = 200
_MIN_RETRY_DELAY_S, _MAX_RETRY_DELAY_S = 0.5, 10.0


@dataclass(slots=True)
class MoveProgress:
    """One move of the plan, and its progress."""

    move: Move
    key: str = ""
    """The key of its migration, once there is one."""
    migration: Migration | None = None
    """The migration as last seen."""
    cancelled_because: str = ""
    """Why there is no migration, or none any more."""
    copy: PodRecord | None = None
    """The copy as last seen."""

    @property
    def is_over(self) -> bool:
        """Return whether nothing is left to do: it finished and was released, or it was cancelled."""
        migration = self.migration
        is_done = migration is not None and migration.is_finished and FINALIZER not in migration.finalizers
        return bool(self.cancelled_because) or is_done

    @property
    def is_completed(self) -> bool:
        return self.migration is not None and self.migration.status.phase is MigrationPhase.COMPLETED

    @property
    def is_under_way(self) -> bool:
        return not self.is_over and bool(self.key)


class PlanExecution:
    def __init__(
        self,
        client: Client,
        watched: WatchedObjects,
        plan: Plan,
        on_progress: Callable[[MoveProgress], None] | None = None,
        *,
        record: RecordAttempt | None = None,
        annotations: Mapping[str, str] | None = None,
        deadlines: Mapping[str, datetime] | None = None,
    ) -> None:
        """Call `on_progress` for every change of a move, and `record` before each move starts.

        `annotations` are for all of its migrations; `deadlines` are those of evacuated nodes, by name.
        """
        self.plan = plan
        self.moves = [MoveProgress(move) for move in plan.moves]
        self._client = client
        self._watched = watched
        self._on_progress = on_progress or (lambda _: None)
        self._is_followed = on_progress is not None
        self._record = record
        self._annotations = {**plan_annotations(plan), **(annotations or {})}
        self._deadlines = deadlines or {}
        self._changed = asyncio.Event()
        self._stopped = False
        self._superseded = False

    async def run(self) -> None:
        """Run the plan wave by wave until every move is completed, has failed, or was cancelled."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._watched.migrations.informer.subscribe(self._on_change))
            if self._is_followed:
                stack.callback(self._watched.pods.informer.subscribe(self._on_pod))
            if self.plan.changes:
                await NodeCordoner(self._client, self._watched.nodes.get).make(self.plan.changes)
            for _, wave in groupby(self.moves, key=lambda progress: progress.move.wave):
                await self._run_wave(list(wave))

    def stop(self) -> None:
        """Start nothing new: cancel waiting moves, and let running moves finish."""
        self._stopped = True
        self._changed.set()

    def supersede(self) -> None:
        """Start no further wave, because another plan takes over. Requested moves finish, and second hops are
        still requested, because no other plan would."""
        self._superseded = True

    def resume_after(self, migration: str) -> None:
        """Continue after a first move that another process requested as the migration with this key."""
        self.moves[0].key = migration

    # -- a wave

    async def _run_wave(self, wave: Sequence[MoveProgress]) -> None:
        for progress in wave:
            await self._begin(progress, wave)
        await self._drop_incomplete_groups(wave)
        is_cancelled = False
        while not all(progress.is_over for progress in wave):
            await self._changed.wait()
            self._changed.clear()
            if self._stopped and not is_cancelled:
                is_cancelled = True
                await self._cancel_pending(wave)
            for progress in wave:
                self._refresh(progress)

    async def _begin(self, progress: MoveProgress, wave: Sequence[MoveProgress]) -> None:
        if progress.key:
            self._refresh(progress)
            return
        if self._stopped:
            self._cancel(progress, "cancelled before it started")
            return
        hops = self._hops_before(progress)
        if self._superseded and not hops:
            self._cancel(progress, "cancelled before it started: a newer plan replaces it")
            return
        move = progress.move
        moment_s = self.plan.taken_at_s
        if hops:
            arrived = self._arrived(hops[-1])
            if arrived is None:
                self._cancel(progress, "the first hop failed")
                return
            move = replace(move, pod=arrived.key, uid=arrived.uid)
            # Any process that requests the second hop uses the same name.
            moment_s = arrived.first_hop_created_s
        item = self._manifest(progress, wave, move, moment_s)
        key = object_key(item)
        if why := await self._request(move, key, item):
            self._cancel(progress, why)
            return
        progress.key = key
        self._refresh(progress)

    def _manifest(
        self, progress: MoveProgress, wave: Sequence[MoveProgress], move: Move, moment_s: float
    ) -> Object:
        hops = self._hops_before(progress)
        group = _group_name(move, self.plan.taken_at_s)
        return podmigration_for(
            move,
            moment_s,
            group=group,
            group_size=sum(each.move.group == move.group for each in wave) if group else 0,
            continues=hops[-1].key.partition("/")[2] if hops else "",
            next_hop=self._next_hop(progress),
            annotations=self._annotations,
            deadline=self._deadlines.get(move.source) if traits_of(move.strategy).evacuates else None,
        )

    def manifests(self) -> list[Object]:
        """Return the PodMigrations that this plan will create, except those of second hops: the names of
        their pods are not known before the first hops are over."""
        found = []
        for _, moves in groupby(self.moves, key=lambda progress: progress.move.wave):
            wave = list(moves)
            found += [
                self._manifest(each, wave, each.move, self.plan.taken_at_s)
                for each in wave
                if not self._hops_before(each)
            ]
        return found

    async def _request(self, move: Move, key: str, item: Object) -> str:
        """Create the PodMigration; return an empty string, or why there is none.

        If a check is due before all moves of the previous one are requested, it plans some of them again.
        """
        if why := self._why_already_requested(move, key):
            return why
        asking = self._watched.being_requested
        asking.add(move.uid)
        try:
            if self._record is not None and (why := await self._record(move, self.plan.taken_at_s)):
                return why
            await self._create(item)
        except errors.KubeError as error:
            return f"its migration can't be created: {error}"
        finally:
            asking.remove(move.uid)
        return ""

    def _why_already_requested(self, move: Move, key: str) -> str:
        if move.uid in self._watched.being_requested:
            return "cancelled before it started: another request moves the pod"
        namespace, _, name = move.pod.partition("/")
        for other in self._watched.migrations.find("pod", (namespace, name)):
            migration = self._watched.records.migration(other)
            if migration is None or migration.spec.pod.uid != move.uid or migration.key == key:
                continue
            if not migration.is_finished:
                return f"cancelled before it started: {migration.name} already moves the pod"
        return ""

    def _hops_before(self, progress: MoveProgress) -> list[MoveProgress]:
        return [
            each
            for each in self.moves
            if each.move.uid == progress.move.uid and each.move.hop and each.move.wave < progress.move.wave
        ]

    def _next_hop(self, progress: MoveProgress) -> str:
        """Return the final target if this move is a first hop."""
        further = (
            each.move.target or ""
            for each in self.moves
            if each.move.uid == progress.move.uid and each.move.wave > progress.move.wave
        )
        return next(further, "") if progress.move.hop else ""

    def _arrived(self, hop: MoveProgress) -> "_FirstHopResult | None":
        """Return the pod that arrived after the first hop, if it exists."""
        successor = hop.migration.status.target_pod if hop.is_completed and hop.migration else None
        if successor is None or hop.migration is None:
            return None
        key = f"{hop.migration.namespace}/{successor.name}"
        pod = self._watched.pods.get(key)
        if pod is None or pod.uid != successor.uid or pod.node != hop.move.target:
            return None
        return _FirstHopResult(key, pod.uid, hop.migration.created.timestamp())

    async def _create(self, item: Object) -> None:
        """Create the object; one that already exists is the same, because its name follows from the plan."""
        backoff = Backoff(_MIN_RETRY_DELAY_S, _MAX_RETRY_DELAY_S, random.Random())  # noqa: S311 - jitter
        for last in (*(False,) * (_MAX_CREATE_ATTEMPTS - 1), True):
            try:
                if item["spec"].get("rooms"):
                    self._watched.made_here.add(object_key(item))  # before its first event
                self._watched.migrations.observe(await self._client.create(POD_MIGRATIONS, item))
            except errors.AlreadyExists:
                self._watched.made_here.discard(object_key(item))
                await self._watched.read_migration(object_key(item), "")
            except errors.Retriable:
                if last:
                    raise
                await asyncio.sleep(backoff.next_delay_s())
                continue
            return

    # -- watching

    def _on_change(self, _old: Object | None, _new: Object | None) -> None:
        self._changed.set()

    def _on_pod(self, _old: PodRecord | None, new: PodRecord | None) -> None:
        if new is None or not (name := new.labels.get(MIGRATION_ID_LABEL)):
            return
        for progress in self.moves:
            migration = progress.migration
            if progress.key != f"{new.namespace}/{name}" or migration is None:
                continue
            if new.name == copy_name(migration):
                progress.copy = new
                self._on_progress(progress)

    def _refresh(self, progress: MoveProgress) -> None:
        if not progress.key or progress.cancelled_because:
            return
        migration = migration_at(progress.key, self._watched)
        if migration is None:
            if not progress.is_over:
                self._cancel(progress, "cancelled")
            return
        before, progress.migration = progress.migration, migration
        if self._is_followed and progress.copy is None:
            progress.copy = self._watched.pods.get(f"{migration.namespace}/{copy_name(migration)}")
        if before is None or migration.status != before.status:
            self._on_progress(progress)

    def _cancel(self, progress: MoveProgress, why: str) -> None:
        progress.cancelled_because = why
        self._on_progress(progress)

    async def _drop_incomplete_groups(self, wave: Sequence[MoveProgress]) -> None:
        """Cancel groups that lost a member: they are handed over together or not at all."""
        incomplete = {progress.move.group for progress in wave if progress.cancelled_because} - {""}
        for progress in wave:
            if progress.move.group in incomplete and progress.is_under_way:
                with contextlib.suppress(errors.NotFound):
                    await self._client.delete(POD_MIGRATIONS, progress.key)

    async def _cancel_pending(self, wave: Sequence[MoveProgress]) -> None:
        """Cancel moves that have not started; the version is a precondition, so a move that just starts
        continues."""
        for progress in wave:
            migration = migration_at(progress.key, self._watched) if progress.key else None
            if (
                migration is None
                or migration.status.phase is not MigrationPhase.PENDING
                or migration.is_cancelled
            ):
                continue
            with contextlib.suppress(errors.Conflict, errors.NotFound):
                await self._client.delete(
                    POD_MIGRATIONS, progress.key, uid=migration.uid, version=migration.resource_version
                )


@dataclass(frozen=True, slots=True)
class _FirstHopResult:
    key: str
    uid: str
    first_hop_created_s: float


def podmigration_for(  # noqa: PLR0913 - one per field
    move: Move,
    moment_s: float,
    *,
    group: str = "",
    group_size: int = 0,
    continues: str = "",
    next_hop: str = "",
    annotations: Mapping[str, str] | None = None,
    deadline: datetime | None = None,
) -> Object:
    """Return the PodMigration of a move; it is the same for the same move at the same moment.

    It has our finalizer from the start, so that it can't be deleted before it is rolled back.
    """
    namespace, _, pod = move.pod.partition("/")
    spec = MigrationSpec(
        pod=PodReference(pod, move.uid),
        source_node=move.source,
        target_node=move.target or "",
        strategy=move.strategy,
        reason=move.reason,
        handover=move.handover,
        group=group,
        group_size=group_size,
        deadline=deadline,
        rooms=tuple(RoomReference(*room.pod.partition("/")[::2], room.uid, room.node) for room in move.rooms),
    )
    metadata: Object = {
        "namespace": namespace,
        "name": migration_name(pod, move.uid, moment_s),
        "finalizers": [FINALIZER],
    }
    hops = {CONTINUES_ANNOTATION: continues, NEXT_HOP_ANNOTATION: next_hop}
    all_annotations = {**(annotations or {}), **{key: value for key, value in hops.items() if value}}
    if all_annotations:
        metadata["annotations"] = all_annotations
    return {
        "apiVersion": POD_MIGRATIONS.api_version,
        "kind": POD_MIGRATIONS.kind,
        "metadata": metadata,
        "spec": msgspec.to_builtins(spec),
    }


def _group_name(move: Move, moment_s: float) -> str:
    """Return a name that differs for each plan and wave; empty if the move belongs to no group."""
    if not move.group:
        return ""
    name = move.group.partition("/")[2]
    return f"{name[:_MAX_GROUP_NAME]}.{moment_s:.0f}.{move.wave}"
