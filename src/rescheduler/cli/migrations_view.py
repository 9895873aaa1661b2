"""Migrations as text: a list, the details of one, and single changes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from rescheduler.api.podmigration import (
    ConditionType,
    Migration,
    MigrationPhase,
    UnreadableMigration,
    decode_migration,
)
from rescheduler.cli.terminal import Cell, Terminal, counted, detailed_table, rounded_duration, table, wrapped
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.migrations.make_before_break import with_live_step
from rescheduler.migrations.release_and_rollback import SOURCE_LOST
from rescheduler.migrations.state_machine import invalid_status

__all__ = ["LiveSteps", "migration_change_line", "migration_detail_lines", "migration_list_lines"]

Object = dict[str, Any]

_COLOURS = {
    MigrationPhase.COMPLETED: "green",
    MigrationPhase.FAILED: "red",
    MigrationPhase.IN_PROGRESS: "cyan",
}


class LiveSteps(NamedTuple):
    """The data that shows the current step of a running migration."""

    copies: Mapping[str, PodRecord]
    """The pods that running migrations have created, by the key of the migration."""
    settle_time: timedelta


_HEADS: Final = ("MIGRATION", "FROM", "TO", "PHASE", "STEP", "AGE", "STRATEGY", "MESSAGE")
_WIDE_HEADS: Final = ("POD", "NEW POD", "HANDOVER", "ATTEMPTS", "FAILURE")
_BRIEF: Final = (0, 3, 5)
"""The columns on a narrow terminal; nodes, step and message are below each row."""
_MIN_MESSAGE: Final = 24


def migration_list_lines(
    items: Sequence[Object],
    terminal: Terminal,
    now: datetime,
    live: LiveSteps | None = None,
    *,
    is_wide: bool = False,
) -> Iterator[str]:
    """Yield a table of the migrations; a wide one has more columns and shortens nothing."""
    found = [_read(item, live, now) for item in items]
    rows = [_row(item, each, now) for item, each in zip(items, found, strict=True)]
    if is_wide:
        more = [_wide_cells(each) for each in found]
        rows = [[*row[:-1], *cells, row[-1]] for row, cells in zip(rows, more, strict=True)]
        yield from table(replace(terminal, width=None), (*_HEADS[:-1], *_WIDE_HEADS, _HEADS[-1]), rows)
    else:
        details = [_details(each, terminal) for each in found]
        yield from detailed_table(
            terminal, _HEADS, rows, min_last=_MIN_MESSAGE, brief=_BRIEF, details=details
        )
    under_way = sum(each is not None and not each.is_finished for each in found)
    if under_way:
        yield terminal.dim(f"{counted(under_way, 'migration')} not finished")


def _row(item: Object, migration: Migration | None, now: datetime) -> list[Cell]:
    key = f"{item['metadata']['namespace']}/{item['metadata']['name']}"
    if migration is None:
        return [Cell(key), *[Cell("")] * 6, Cell("not readable")]
    status = migration.status
    return [
        Cell(key),
        Cell(migration.spec.source_node),
        Cell(migration.target_node or "not chosen yet"),
        Cell(status.phase, {"fg": _COLOURS[status.phase]} if status.phase in _COLOURS else {}),
        Cell(status.step or "Queued"),
        Cell(rounded_duration(now - migration.created)),
        Cell(migration.spec.strategy),
        Cell(invalid_status(migration) or status.message),
    ]


def _details(migration: Migration | None, terminal: Terminal) -> tuple[str, ...]:
    """Return the parts below a row of a narrow table: `worker-1 → worker-2`, `Settling: copy ready`."""
    if migration is None:
        return ("not readable",)
    status = migration.status
    nodes = f"{migration.spec.source_node} {terminal.arrow} {migration.target_node or 'not chosen yet'}"
    step = "" if migration.is_finished else status.step or "Queued"
    words = ": ".join(filter(None, (step, invalid_status(migration) or status.message)))
    return (nodes, words) if words else (nodes,)


def _wide_cells(migration: Migration | None) -> list[Cell]:
    if migration is None:
        return [Cell("")] * len(_WIDE_HEADS)
    status = migration.status
    return [
        Cell(migration.spec.pod.name),
        Cell(status.target_pod.name if status.target_pod else ""),
        Cell(str(status.handover or migration.spec.handover)),
        Cell(str(status.attempts)),
        Cell(status.failure),
    ]


def migration_detail_lines(
    item: Object,
    events: Sequence[Object],
    terminal: Terminal,
    now: datetime,
    live: LiveSteps | None = None,
) -> Iterator[str]:
    """Yield the fields of one migration and its timeline."""
    migration = _read(item, live, now)
    if migration is None:
        yield "This migration can't be read."
        return
    spec, status = migration.spec, migration.status
    target = migration.target_node or "not chosen yet"
    yield terminal.bold(migration.key) + (" (being cancelled)" if migration.is_cancelled else "")
    fields = [
        ("Pod", migration.pod_key),
        ("Nodes", f"{spec.source_node} {terminal.arrow} {target}"),
        ("Why", f"{spec.strategy}{f': {spec.reason}' if spec.reason else ''}"),
        ("Handover", str(status.handover or spec.handover)),
        ("Group", f"{spec.group}, {counted(spec.group_size, 'member')}" if spec.group else ""),
        (
            "Phase",
            status.phase if status.phase == status.step else f"{status.phase}, {status.step or 'Queued'}",
        ),
        ("Attempts", str(status.attempts)),
        ("New pod", status.target_pod.name if status.target_pod else ""),
        ("Failure", status.failure),
        ("Message", invalid_status(migration) or status.message),
    ]
    for name, value in fields:
        if value and terminal.is_narrower_than(12 + max(map(len, value.split()))):
            yield from (f"  {name}", *wrapped(terminal, value, indent="    "))
        elif value:
            yield from wrapped(terminal, value, first=f"  {name:<10}", indent=" " * 12)
    yield from _timeline_lines(migration, events, terminal)


def _handed_over(migration: Migration) -> str:
    condition = migration.status.condition(ConditionType.HANDED_OVER)
    if condition is not None and condition.reason == SOURCE_LOST:
        return "handed over: the copy replaced the pod"
    return "handed over: the pod was evicted"


def _timeline_lines(migration: Migration, events: Sequence[Object], terminal: Terminal) -> Iterator[str]:
    """Yield what happened, in order. Events have only seconds, so an order is known of the same second."""
    status = migration.status
    moments = [
        (migration.created, 0, "created"),
        (status.started_at, 1, "started"),
        (status.handed_over_at, 4, _handed_over(migration)),
        (status.finished_at, 7, f"finished: {status.phase}"),
        *(
            (
                each.last_transition_time,
                5 if each.type == ConditionType.HANDED_OVER else 3,
                f"{each.type} is {each.status} ({each.reason})",
            )
            for each in status.conditions
        ),
        *(
            (
                _event_time(each),
                _EVENT_RANKS.get(each.get("reason", ""), 3),
                f"{each.get('reason')}: {_event_message(migration, each.get('message', ''))}",
            )
            for each in events
        ),
    ]
    known = [(at.replace(microsecond=0), rank, words) for at, rank, words in moments if at is not None]
    yield ""
    yield terminal.bold("Timeline")
    for at, _, words in sorted(known, key=lambda each: each[:2]):
        yield from wrapped(terminal, words, first=f"  {at:%H:%M:%S}  ", indent=" " * 12)


_EVENT_RANKS: Final = {
    "MigrationStarted": 2,
    "MigrationHandedOver": 5,
    "MigrationCompleted": 6,
    "MigrationFailed": 6,
}


def _event_message(migration: Migration, message: str) -> str:
    """Return the message without the names of migration, pod and nodes, which are above the timeline."""
    is_about_it = message.startswith(f"{migration.name} (")
    return message.partition(": ")[2] if is_about_it and ": " in message else message


def _event_time(event: Object) -> datetime | None:
    written = event.get("firstTimestamp") or event.get("eventTime")
    return datetime.fromisoformat(written) if written else None


def migration_change_line(old: Object | None, new: Object | None, terminal: Terminal) -> str:
    """Return one line about a change, or an empty string if nothing relevant changed."""
    item = old if new is None else new
    assert item is not None
    migration = _read(item)
    if migration is None:
        return ""
    key = migration.key
    if new is None:
        return f"{key}  deleted"
    before, status = None if old is None else _read(old), migration.status
    if before is not None and before.status == status and before.is_cancelled == migration.is_cancelled:
        return ""
    phase = terminal.styled(
        status.phase, {"fg": _COLOURS[status.phase]} if status.phase in _COLOURS else {}
    )  # fmt: skip
    nodes = f"{migration.spec.source_node} {terminal.arrow} {migration.target_node or '?'}"
    message = f": {status.message}" if status.message else ""
    cancelled = " (being cancelled)" if migration.is_cancelled else ""
    return f"{key}  {nodes}  {phase} {status.step or 'Queued'}{cancelled}{message}"


def _read(item: Object, live: LiveSteps | None = None, now: datetime | None = None) -> Migration | None:
    try:
        migration = decode_migration(item)
    except UnreadableMigration:
        return None
    if live is None or now is None:
        return migration
    return with_live_step(migration, live.copies.get(migration.key), live.settle_time, now)
