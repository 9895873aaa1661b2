"""Clean up after PodMigrations that were removed by force, and cancel all migrations for an uninstallation.

The last state of the PodMigration that this process watched shows which pods belong to it, by name and uid.
Labels alone never cause a change: every user can write them into a pod template, and the controller would
recreate the pods as fast as they are changed. If no process watched the PodMigration, its pods are only
reported. Kubernetes handles a copy for adoption: the garbage collector removes the owner reference to the
PodMigration, and the ReplicaSet adopts the copy and removes one surplus pod.

A cancelled migration rolls back, or completes if its pod has left already. The leader does that; this module
only requests it and waits.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from rescheduler.api.podmigration import (
    MAX_TEXT_LENGTH,
    Handover,
    Migration,
    MigrationPhase,
    PodReference,
    label_value,
)
from rescheduler.api.well_known_names import (
    BALANCE_ANNOTATION,
    CONTINUES_ANNOTATION,
    FINALIZER,
    INCLUDES_SYSTEM_ANNOTATION,
    NEXT_HOP_ANNOTATION,
    PLAN_ANNOTATION,
    POD_MIGRATION_KIND,
    REQUESTED_BY_ANNOTATION,
)
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.sources.watched_objects import (
    POD_MIGRATIONS,
    WatchedObjects,
    is_watched,
    nested_field,
)
from rescheduler.kube import errors
from rescheduler.kube.api_resources import Object, Patch, merge_patch
from rescheduler.kube.client import Client
from rescheduler.kube.event_recorder import EventCorrelator
from rescheduler.migrations.controller.migration_log import MigrationLog
from rescheduler.migrations.controller.observation_builder import source_of
from rescheduler.migrations.controller.pod_writes import complete_copy_patch, unmark_source_patch
from rescheduler.migrations.labels_and_names import STATUS_LABEL, MigrationLabelStatus, copy_of, lock_of

__all__ = ["ForcedRemovalCleanup", "cancel_all_migrations", "remove_foreign_metadata"]

_MAX_REMEMBERED: Final = 1000
_RETRY_AFTER: Final = timedelta(minutes=1)

_OWN_ANNOTATIONS: Final = frozenset(
    {
        BALANCE_ANNOTATION,
        CONTINUES_ANNOTATION,
        INCLUDES_SYSTEM_ANNOTATION,
        NEXT_HOP_ANNOTATION,
        PLAN_ANNOTATION,
        REQUESTED_BY_ANNOTATION,
    }
)
"""The annotations that rescheduler itself writes on a PodMigration."""


class ForcedRemovalCleanup:
    def __init__(
        self,
        client: Client,
        watched: WatchedObjects,
        migration_log: MigrationLog,
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._watched = watched
        self._migration_log = migration_log
        self._now = now
        self.removed: OrderedDict[str, Migration] = OrderedDict()
        """The last state of each, by its key."""
        self._unexplained: OrderedDict[str, PodRecord] = OrderedDict()
        """Pods that carry the lock of a migration that is not known, by the key that it would have."""
        self._limits = EventCorrelator()

    # -- event handlers

    def remember(self, item: Object) -> None:
        """Keep the last state of a deleted PodMigration that had started and was not completed.

        This includes failed and cancelled ones: a request of a process that has ended may arrive late.
        """
        migration = self._watched.records.migration(item)
        if (
            migration is not None
            and migration.status.attempts
            and migration.status.phase is not MigrationPhase.COMPLETED
        ):
            _remember(self.removed, migration.key, migration)

    def suspect(self, key: str, pod: PodRecord) -> None:
        """Keep a bare pod that carries the lock of the migration `key`, which is not known."""
        _remember(self._unexplained, key, pod)

    # -- cleanup

    async def handle(self, key: str) -> datetime | None:
        """Clean up after the migration `key`, which does not exist; return when to check again.

        Raises `KubeError` if it must be tried again.
        """
        migration, pod = self.removed.get(key), self._unexplained.pop(key, None)
        if pod is None and (migration is None or not self._is_anything_left(migration)):
            return None
        namespace = key.partition("/")[0]
        if not self._limits.admit(namespace, "", self._now().timestamp()):
            if pod is not None:
                self.suspect(key, pod)
            return self._now() + _RETRY_AFTER
        await self._watched.read_migration(key, "" if migration is None else migration.uid)
        there = self._watched.migrations.get(key)
        if migration is None:
            if pod is not None and there is None:
                self._migration_log.unexplained(pod)
            return None
        if there is None or there["metadata"]["uid"] != migration.uid:
            return await self._clean_up(migration)
        del self.removed[key]
        return None

    def _is_anything_left(self, migration: Migration) -> bool:
        """Return whether the cache has a pod to clean up, so that forged labels cost no request."""
        source, copy = source_of(migration, self._watched), copy_of(migration, self._watched.pods.get)
        is_locked = source is not None and self._is_locked(source, migration)
        return is_locked or (
            copy is not None and copy.labels.get(STATUS_LABEL) != MigrationLabelStatus.COMPLETED
        )

    async def _clean_up(self, migration: Migration) -> datetime | None:
        await self._watched.read_pod(migration.pod_key, migration.spec.pod.uid)
        source = source_of(migration, self._watched)
        copy = copy_of(migration, self._watched.pods.get)
        if copy is not None:
            await self._watched.read_pod(copy.key, copy.uid)
            # It is the copy, even if the garbage collector has removed its owner reference meanwhile.
            read = self._watched.pods.get(copy.key)
            copy = read if read is not None and read.uid == copy.uid else None
        # The lock first: an eviction request that arrives later names the old version of the pod, and is
        # refused. Only then is the copy surplus.
        if source is not None and not source.is_terminating and self._is_locked(source, migration):
            await self._patch(
                migration, source, unmark_source_patch(source, source.resource_version), "unlocked"
            )
        if copy is None or copy.is_terminating or migration.status.handover is Handover.EVICT:
            return None
        if copy.owner is not None and copy.owner.kind == POD_MIGRATION_KIND:
            # The garbage collector or the ReplicaSet takes care of the copy. Afterwards its label must say
            # that the move is over, and no owner reference identifies the pod any more, so it is recorded.
            known = msgspec.structs.replace(migration.status, target_pod=PodReference(copy.name, copy.uid))
            _remember(self.removed, migration.key, msgspec.structs.replace(migration, status=known))
            return self._now() + _RETRY_AFTER
        if migration.status.owner is not None or not self._is_spare(copy, source):
            await self._patch(migration, copy, complete_copy_patch(copy), "kept")
        else:
            await self._remove(migration, copy)
        return None

    def _is_spare(self, copy: PodRecord, source: PodRecord | None) -> bool:
        """Return whether the copy is not needed: it never ran, or its source is active and as ready as the
        copy."""
        if source is None or not source.is_active or not copy.node:
            return not copy.node
        return self._is_serving(source) or not self._is_serving(copy)

    def _is_serving(self, pod: PodRecord) -> bool:
        node = self._watched.nodes.get(pod.node)
        return pod.is_ready and node is not None and node.is_ready

    def _is_locked(self, source: PodRecord, migration: Migration) -> bool:
        """Return whether the label is the lock of this migration, and not one that its workload gives its
        pods."""
        if lock_of(source) != label_value(migration.name):
            return False
        owner = source.owner
        if owner is None or not is_watched(owner):
            return True
        item = self._watched.workloads[owner.kind].get(f"{source.namespace}/{owner.name}")
        return item is None or not self._watched.records.workload(item, owner.kind).own_migration_labels

    async def _remove(self, migration: Migration, copy: PodRecord) -> None:
        with contextlib.suppress(errors.NotFound):
            if copy.is_ready:
                # Within its budget: others may have been evicted because it was there.
                await self._client.evict(copy.key, uid=copy.uid)
            else:
                # Only if it is unchanged: otherwise it may run by now.
                await self._client.delete(PODS, copy.key, uid=copy.uid, version=copy.resource_version)
        self._migration_log.cleaned_up(
            migration, copy, "removed, because its source still runs or the copy never ran"
        )
        await self._watched.read_pod(copy.key, copy.uid)

    async def _patch(self, migration: Migration, pod: PodRecord, patch: Patch, what: str) -> None:
        """Patch the pod; raise `Conflict` if it has changed since it was read. Then everything is checked
        again."""
        try:
            self._watched.pods.observe(await self._client.patch(PODS, pod.key, patch))
        except errors.NotFound:
            self._watched.pods.observe_deleted(pod.key, pod.uid)
            return
        except errors.Conflict:
            await self._watched.read_pod(pod.key, pod.uid)
            raise
        self._migration_log.cleaned_up(migration, pod, what)


def _remember(
    where: OrderedDict[str, Migration] | OrderedDict[str, PodRecord], key: str, what: object
) -> None:
    where[key] = what  # type: ignore[assignment]  # both hold what their methods put in
    if len(where) > _MAX_REMEMBERED:
        where.popitem(last=False)


async def cancel_all_migrations(client: Client, watched: WatchedObjects) -> None:
    """Cancel all migrations, and return when none is unfinished. Raises `KubeError`."""
    changed = asyncio.Event()

    def note(_old: Object | None, _new: Object | None) -> None:
        changed.set()

    end = watched.migrations.informer.subscribe(note)
    try:
        while running := _migrations_to_await(watched):
            changed.clear()
            for migration in running:
                if not migration.is_cancelled and not migration.is_finished:
                    with contextlib.suppress(errors.NotFound, errors.Conflict):
                        await _cancel(client, watched, migration)
            await changed.wait()
    finally:
        end()


async def _cancel(client: Client, watched: WatchedObjects, migration: Migration) -> None:
    try:
        await client.delete(POD_MIGRATIONS, migration.key, uid=migration.uid)
    except errors.TooLarge:
        # A deletion that a finalizer holds back writes a timestamp into the object.
        smaller = await remove_foreign_metadata(client, watched, migration)
        # By its new version: the server's watch cache may still have the object that is too large.
        version = smaller["metadata"]["resourceVersion"]
        await client.delete(POD_MIGRATIONS, migration.key, uid=migration.uid, version=version)


async def remove_foreign_metadata(client: Client, watched: WatchedObjects, migration: Migration) -> Object:
    """Remove the metadata that other clients added to an object too large for etcd; return what is left.

    Without room for its status, a migration could not end, and would hold its turn forever. Annotations can
    fill it, too: the limit of the API server counts their characters, and JSON escapes some with six bytes.
    The server removes `managedFields` itself if a write makes an object too large, not if a deletion does.
    """
    item = watched.migrations.get(migration.key) or {}
    annotations: dict[str, str] = nested_field(item, "metadata", "annotations") or {}
    fills = {
        name
        for name, value in annotations.items()
        if name not in _OWN_ANNOTATIONS or len(value) > MAX_TEXT_LENGTH
    }
    metadata: Object = {
        "resourceVersion": migration.resource_version,
        "labels": None,
        "annotations": dict.fromkeys(fills),
        "ownerReferences": None,
        "managedFields": [{}],  # which resets them
        "finalizers": [each for each in migration.finalizers if each == FINALIZER],
    }
    patch = merge_patch({"metadata": metadata})
    written = await client.patch(POD_MIGRATIONS, migration.key, patch)
    watched.migrations.observe(written)
    return written


def _migrations_to_await(watched: WatchedObjects) -> list[Migration]:
    """Return the migrations that are not finished, or finished but not released."""
    found = (watched.records.migration(item) for item in watched.migrations.informer)
    return [each for each in found if each and (not each.is_finished or FINALIZER in each.finalizers)]
