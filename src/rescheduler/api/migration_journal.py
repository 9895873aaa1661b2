"""The journal of finished migrations, in the ConfigMap `rescheduler-history`, which outlives PodMigrations.

A PodMigration is deleted after `migrationTTL`. The leader records each one that finishes, with one key of the
ConfigMap per day, so that a write changes a day and not the whole journal. The journal is bounded in entries
and bytes: when it is full, namespaces share it, and the oldest entries of those with most entries go first.

Every user who may write to the ConfigMap can add, change and remove entries. Entries are read by people, and
by `undo`, whose plan obeys the same rules as every other plan. Invalid lines are ignored.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from rescheduler.api.daemon_status import SpreadChange
from rescheduler.api.podmigration import ConditionType, Handover, Migration, MigrationPhase

__all__ = [
    "HISTORY_CONFIG_MAP",
    "MAX_JOURNAL_ENTRIES",
    "JournalEntry",
    "bounded_journal",
    "decode_journal",
    "encode_journal",
    "journal_entry",
    "merged_journal",
    "ready_seconds_lost",
]

HISTORY_CONFIG_MAP: Final = "rescheduler-history"

MAX_JOURNAL_ENTRIES: Final = 2_000
_MAX_BYTES: Final = 700_000
"""A ConfigMap holds a megabyte."""
_MAX_LINES: Final = 2 * MAX_JOURNAL_ENTRIES
"""The most lines that are read from the ConfigMap, which other clients can fill."""
_MAX_TEXT: Final = 200
"""Length of a reason or of a user name, because an entry is a summary."""
_MAX_NAME: Final = 63 + 1 + 253
"""Length of `namespace/name`."""
_MAX_SPREADS: Final = 16
_MAX_SPREADS_TEXT: Final = 4_096
"""Length of the annotation with spreads, which every client that creates a PodMigration can set."""
_FIRST_YEAR: Final = 2000
_LAST_YEAR: Final = 9000
_MAX_CLOCK_DIFFERENCE: Final = timedelta(days=1)
"""Entries further in the future are invalid: otherwise they would stay the newest forever."""

_Time = Annotated[datetime, Meta(tz=True)]
_Name = Annotated[str, Meta(max_length=_MAX_NAME)]
_Text = Annotated[str, Meta(max_length=_MAX_TEXT)]
_Spreads = Annotated[tuple[SpreadChange, ...], Meta(max_length=_MAX_SPREADS)]


class JournalEntry(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One finished migration."""

    uid: _Name
    """The uid of the PodMigration."""
    migration: _Name
    """`namespace/name`."""
    pod: _Name
    """`namespace/name`."""
    pod_uid: _Name
    source: _Name
    target: _Name
    finished_at: _Time
    outcome: MigrationPhase
    strategy: _Text
    handover: Handover
    reason: _Text = ""
    failure: _Text = ""
    successor: _Name = ""
    """Name of the pod that replaced it."""
    successor_uid: _Name = ""
    plan: _Text = ""
    """Id of the plan that requested the move; empty if no plan did."""
    requested_by: _Text = ""
    """The user of the command that requested it; empty if the daemon did. It is a hint that every client can
    set."""
    spreads: _Spreads = ()
    """Spreads of node loads before the plan, and after it as expected by the plan."""
    ready_seconds_lost: Annotated[float, Meta(ge=0)] = 0.0

    @property
    def is_completed(self) -> bool:
        return self.outcome is MigrationPhase.COMPLETED

    @property
    def namespace(self) -> str:
        return self.migration.partition("/")[0]


def journal_entry(migration: Migration) -> JournalEntry | None:
    """Return the entry of a finished migration; None if it is not finished, or has an impossible finish time,
    which users who may change the status can set."""
    spec, status = migration.spec, migration.status
    if not migration.is_finished or status.finished_at is None:
        return None
    if not _FIRST_YEAR <= status.finished_at.year <= _LAST_YEAR:
        return None
    successor = status.target_pod
    return JournalEntry(
        uid=migration.uid,
        migration=migration.key,
        pod=migration.pod_key,
        pod_uid=spec.pod.uid,
        source=spec.source_node,
        target=migration.target_node,
        finished_at=status.finished_at,
        outcome=status.phase,
        strategy=spec.strategy[:_MAX_TEXT],
        handover=status.handover or spec.handover,
        reason=spec.reason[:_MAX_TEXT],
        failure=status.failure[:_MAX_TEXT],
        successor="" if successor is None else successor.name,
        successor_uid="" if successor is None else successor.uid,
        plan=migration.plan[:_MAX_TEXT],
        requested_by=migration.requested_by[:_MAX_TEXT],
        spreads=_decode_spreads(migration.balance),
        ready_seconds_lost=round(ready_seconds_lost(migration), 1),
    )


def _decode_spreads(annotation: str) -> tuple[SpreadChange, ...]:
    """Return the spreads in the annotation; nothing if it is invalid or too long."""
    if len(annotation) > _MAX_SPREADS_TEXT:
        return ()
    try:
        return msgspec.json.decode(annotation, type=_Spreads)
    except (msgspec.DecodeError, RecursionError):
        return ()


def ready_seconds_lost(migration: Migration) -> float:
    """Return the seconds from the handover until the successor was ready; 0 if it was ready before.

    Both times are from our own clock, which may differ from the clock of the API server.
    """
    status = migration.status
    handed_over = status.condition(ConditionType.HANDED_OVER)
    if handed_over is None or handed_over.status != "True" or status.finished_at is None:
        return 0.0
    ready = status.condition(ConditionType.COPY_READY)
    is_copied = status.handover is not Handover.EVICT and ready is not None and ready.status == "True"
    until = ready.last_transition_time if is_copied and ready is not None else status.finished_at
    return max(0.0, (until - handed_over.last_transition_time).total_seconds())


def merged_journal(*journals: Iterable[JournalEntry]) -> list[JournalEntry]:
    """Return each migration once, newest first."""
    by_uid = {entry.uid: entry for journal in journals for entry in journal}
    return sorted(by_uid.values(), key=lambda entry: (entry.finished_at, entry.uid), reverse=True)


def bounded_journal(entries: Iterable[JournalEntry]) -> list[JournalEntry]:
    """Return the entries that fit into the ConfigMap, newest first: the newest of each namespace, then the
    second newest of each, and so on. A namespace with many moves must not erase the history of others."""
    turns: Counter[str] = Counter()
    ranked: list[tuple[int, int, JournalEntry]] = []
    for place, entry in enumerate(merged_journal(entries)):
        ranked.append((turns[entry.namespace], place, entry))
        turns[entry.namespace] += 1
    kept: list[tuple[int, JournalEntry]] = []
    size = 0
    for _, place, entry in sorted(ranked, key=lambda each: each[:2])[:MAX_JOURNAL_ENTRIES]:
        size += len(msgspec.json.encode(entry)) + 1
        if size > _MAX_BYTES:
            break
        kept.append((place, entry))
    return [entry for _, entry in sorted(kept, key=lambda each: each[0])]


def encode_journal(entries: Iterable[JournalEntry]) -> dict[str, str]:
    """Return the data of the ConfigMap: one key per day, one line per migration."""
    days: dict[str, list[str]] = {}
    for entry in sorted(entries, key=lambda entry: (entry.finished_at, entry.uid)):
        day = entry.finished_at.astimezone(UTC).strftime("%Y-%m-%d")
        days.setdefault(day, []).append(msgspec.json.encode(entry).decode())
    return {day: "\n".join(lines) for day, lines in days.items()}


def decode_journal(data: Mapping[str, str], now: datetime) -> list[JournalEntry]:
    """Return all valid entries, newest first; a damaged or edited line must not hide the others."""
    latest = now + _MAX_CLOCK_DIFFERENCE
    found = []
    for line in islice(_newest_lines(data), _MAX_LINES):
        try:
            entry = msgspec.json.decode(line, type=JournalEntry)
        except (msgspec.DecodeError, RecursionError):
            continue
        if entry.finished_at.year >= _FIRST_YEAR and entry.finished_at <= latest:
            found.append(entry)
    return merged_journal(found)


def _newest_lines(data: Mapping[str, str]) -> Iterator[str]:
    for day in sorted(data, reverse=True):
        # Not `splitlines`: JSON escapes no other line separators, such as U+2028, in a reason.
        yield from reversed(data[day].split("\n"))
