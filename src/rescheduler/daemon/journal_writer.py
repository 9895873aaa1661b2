"""Write the journal of finished migrations while this process leads, and read it for `history` and `undo`."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Final

from rescheduler.api.migration_journal import (
    HISTORY_CONFIG_MAP,
    MAX_JOURNAL_ENTRIES,
    JournalEntry,
    bounded_journal,
    decode_journal,
    encode_journal,
    journal_entry,
    merged_journal,
)
from rescheduler.api.podmigration import Migration, UnreadableMigration, decode_migration
from rescheduler.api.well_known_names import install_labels
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.daemon.listeners import DaemonListener
from rescheduler.kube import errors
from rescheduler.kube.api_resources import CONFIG_MAPS, Object, merge_patch
from rescheduler.kube.client import Client
from rescheduler.kube.event_recorder import log_event
from rescheduler.kube.work_queue import background_task

__all__ = ["JournalWriter", "read_history"]

log: Final = logging.getLogger(__name__)

_WRITE_INTERVAL_S: Final = 10.0
"""Time between two writes: moves often finish soon after each other."""
_CONFLICT_RETRY_S: Final = 1.0
_RETRY_S: Final = 60.0


class JournalWriter(DaemonListener):
    """Collects migrations as they finish, and writes them while `running`.

    At its start a process receives all migrations that exist. So it also records those that finished while
    there was no leader, such as moves of a command.
    """

    def __init__(self, client: Client, namespace: str, now: Callable[[], datetime]) -> None:
        self._client = client
        self._namespace = namespace
        self._now = now
        self._unwritten: dict[str, JournalEntry] = {}
        """The entries by uid, the oldest first. Bounded, because a process that doesn't lead writes
        nothing."""
        self._changed = asyncio.Event()

    def migration_changed(self, before: Migration | None, now: Migration | None) -> None:
        if now is None or (before is not None and before.is_finished):
            return
        entry = journal_entry(now)
        if entry is not None:
            self._unwritten[entry.uid] = entry
            if len(self._unwritten) > MAX_JOURNAL_ENTRIES:
                del self._unwritten[next(iter(self._unwritten))]
            self._changed.set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with background_task(self._write_for_ever(), "journal"):
            yield

    async def _write_for_ever(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await asyncio.sleep(await self._write_or_report())

    async def _write_or_report(self) -> float:
        """Return the seconds to wait before the next attempt."""
        try:
            await self._write()
        except (errors.Conflict, errors.AlreadyExists):
            self._changed.set()
            return _CONFLICT_RETRY_S
        except errors.KubeError as error:
            words = f"{error} The next attempt is in {_RETRY_S:.0f} s."
            log_event(log, logging.WARNING, "JournalNotWritten", words)
            self._changed.set()
            return _RETRY_S
        return _WRITE_INTERVAL_S

    async def _write(self) -> None:
        """Write the days that change, and delete the days that are no longer in the journal."""
        stored = await _read_config_map(self._client, self._namespace)
        before = {} if stored is None else stored.get("data") or {}
        new = dict(self._unwritten)
        data = encode_journal(bounded_journal((*decode_journal(before, self._now()), *new.values())))
        labels = {**install_labels(self._namespace), "app.kubernetes.io/managed-by": "rescheduler"}
        if stored is None:
            about = {"namespace": self._namespace, "name": HISTORY_CONFIG_MAP, "labels": labels}
            item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": data}
            await self._client.create(CONFIG_MAPS, item)
        elif data != before:
            changes: dict[str, str | None] = dict.fromkeys(before.keys() - data.keys())
            changes |= {day: text for day, text in data.items() if before.get(day) != text}
            # The version is a precondition: a process that has just lost the Lease may write, too.
            about = {"labels": labels, "resourceVersion": stored["metadata"]["resourceVersion"]}
            patch = merge_patch({"metadata": about, "data": changes})
            await self._client.patch(CONFIG_MAPS, f"{self._namespace}/{HISTORY_CONFIG_MAP}", patch)
        for uid in new:
            self._unwritten.pop(uid, None)


async def _read_config_map(client: Client, namespace: str) -> Object | None:
    return await client.get_or_none(CONFIG_MAPS, f"{namespace}/{HISTORY_CONFIG_MAP}")


async def read_history(
    client: Client, home: str, now: datetime, namespace: str = ""
) -> tuple[list[JournalEntry], str]:
    """Return the finished migrations of the namespace, or of all, newest first, and why some may be missing.

    `home` is the namespace of the journal; empty if it is unknown. A PodMigration that still exists counts
    instead of its journal entry. Raises `KubeError`.
    """
    try:
        items = (await client.list(POD_MIGRATIONS, namespace=namespace)).items
    except errors.NotFound:
        items = []
    present = [entry for item in items if (entry := _entry(item)) is not None]
    try:
        stored = await _read_config_map(client, home) if home else None
    except errors.Forbidden as error:
        return merged_journal(present), f"the journal can't be read, only PodMigrations are shown: {error}"
    data = {} if stored is None else stored.get("data") or {}
    recorded = [entry for entry in decode_journal(data, now) if namespace in {"", entry.namespace}]
    return merged_journal(recorded, present), ""


def _entry(item: Object) -> JournalEntry | None:
    try:
        return journal_entry(decode_migration(item))
    except UnreadableMigration:
        return None
