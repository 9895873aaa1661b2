"""Migrations as the page shows them: with steps, timers, a timeline, and the ready-seconds they lost."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from rescheduler.api.podmigration import (
    ConditionType,
    Handover,
    Migration,
    MigrationPhase,
)
from rescheduler.config.policy import Policy
from rescheduler.migrations.labels_and_names import ready_seconds_lost
from rescheduler.migrations.state_machine import invalid_status
from rescheduler.migrations.transition_table import MigrationStep
from rescheduler.web.plan_api_types import (
    MigrationDetail,
    MigrationList,
    MigrationsDelta,
    MigrationTimelineEntry,
    MigrationView,
)
from rescheduler.web.web_openapi import MigrationQuery
from rescheduler.web.web_viewer import Visibility

__all__ = ["migration_detail", "migration_list", "migration_view", "migrations_delta"]

_COPYING: Final = (
    MigrationStep.QUEUED,
    MigrationStep.CHECKING,
    MigrationStep.MARKING,
    MigrationStep.CREATING,
    MigrationStep.PLACING,
    MigrationStep.STARTING,
    MigrationStep.SETTLING,
    MigrationStep.EVICTING,
)
_STEPS: Final[Mapping[Handover, tuple[MigrationStep, ...]]] = {
    Handover.ADOPT: (*_COPYING, MigrationStep.ADOPTING, MigrationStep.RELEASING, MigrationStep.COMPLETED),
    Handover.COPY: (*_COPYING, MigrationStep.RELEASING, MigrationStep.COMPLETED),
    Handover.EVICT: (
        MigrationStep.QUEUED,
        MigrationStep.CHECKING,
        MigrationStep.MARKING,
        MigrationStep.PROTECTING,
        MigrationStep.EVICTING,
        MigrationStep.REPLACING,
        MigrationStep.RELEASING,
        MigrationStep.COMPLETED,
    ),
}
"""The steps of a move that succeeds."""


def migration_view(migration: Migration, policy: Policy) -> MigrationView:
    spec, status = migration.spec, migration.status
    handover = status.handover or spec.handover
    is_done = status.phase is MigrationPhase.COMPLETED
    return MigrationView(
        key=migration.key,
        uid=migration.uid,
        namespace=migration.namespace,
        pod=migration.pod_key,
        source=spec.source_node,
        target=migration.target_node,
        strategy=spec.strategy,
        reason=spec.reason,
        handover=str(handover),
        phase=status.phase.value,
        step=status.step or MigrationStep.QUEUED.value,
        steps=[str(step) for step in _STEPS.get(handover, ())],
        step_since=status.step_since,
        deadline=_deadline(migration, policy),
        created=migration.created,
        started=status.started_at,
        handed_over=status.handed_over_at,
        finished=status.finished_at,
        retry_at=status.retry_at,
        attempts=status.attempts,
        new_pod=status.target_pod.name if status.target_pod else "",
        group=spec.group,
        failure=status.failure,
        message=invalid_status(migration) or status.message,
        is_cancelled=migration.is_cancelled,
        ready_seconds_lost=round(ready_seconds_lost(migration), 3) if is_done else None,
        eviction_seconds_lost=_eviction_seconds_lost(migration) if is_done else None,
    )


def _deadline(migration: Migration, policy: Policy) -> datetime | None:
    status = migration.status
    if status.phase is not MigrationPhase.IN_PROGRESS or status.handed_over_at or status.started_at is None:
        return None
    return status.started_at + policy.migration_timeout


def _eviction_seconds_lost(migration: Migration) -> float | None:
    """Return how long the new pod took to get ready; None where that is not on record.

    A plain eviction loses at least this: its replacement starts when the old pod is already gone.
    """
    status = migration.status
    ready = status.condition(ConditionType.COPY_READY)
    if status.handover is Handover.EVICT:
        return round(ready_seconds_lost(migration), 3)
    if status.started_at is None or ready is None or ready.status != "True":
        return None
    return round(max(0.0, (ready.last_transition_time - status.started_at).total_seconds()), 3)


# --- lists


def migration_list(
    migrations: Iterable[Migration], wanted: MigrationQuery, policy: Policy, visibility: Visibility
) -> MigrationList:
    visible = [each for each in migrations if visibility.sees(each.namespace)]
    found = [each for each in visible if _matches(each, wanted)]
    found.sort(key=_newest_first)
    shown = _after(found, wanted.before)[: wanted.limit]
    views = [migration_view(each, policy) for each in found if each.status.phase is MigrationPhase.COMPLETED]
    return MigrationList(
        migrations=[migration_view(each, policy) for each in shown],
        total=len(found),
        running=sum(not each.is_finished for each in found),
        ready_seconds_lost=round(sum(each.ready_seconds_lost or 0.0 for each in views), 3),
        eviction_seconds_lost=round(sum(each.eviction_seconds_lost or 0.0 for each in views), 3),
        strategies=sorted({each.spec.strategy for each in visible}),
    )


def _newest_first(migration: Migration) -> tuple[float, str]:
    return -migration.created.timestamp(), migration.key


def _after(found: Sequence[Migration], key: str) -> Sequence[Migration]:
    """Return those that follow the one with this key; all if there is none."""
    place = next((number for number, each in enumerate(found) if each.key == key), None)
    return found if place is None else found[place + 1 :]


def _matches(migration: Migration, wanted: MigrationQuery) -> bool:
    status, spec = migration.status, migration.spec
    is_wanted_state = wanted.state == "all" or migration.is_finished == (wanted.state == "finished")
    return (
        is_wanted_state
        and wanted.phase in {"", status.phase.value}
        and wanted.namespace in {"", migration.namespace}
        and wanted.node in {"", spec.source_node, migration.target_node}
        and wanted.strategy in {"", spec.strategy}
        and wanted.handover in {"", str(status.handover or spec.handover)}
        and (wanted.q.lower() in migration.key or wanted.q.lower() in migration.pod_key)
    )


def migrations_delta(
    changed: Mapping[str, Migration | None], policy: Policy, visibility: Visibility
) -> MigrationsDelta | None:
    """Return what the viewer sees of these changes, by key; None if that is nothing."""
    seen = {key: each for key, each in changed.items() if visibility.sees_key(key)}
    if not seen:
        return None
    return MigrationsDelta(
        [migration_view(each, policy) for each in seen.values() if each is not None],
        [key for key, each in seen.items() if each is None],
    )


# --- one


def migration_detail(
    migration: Migration, events: Sequence[Mapping[str, Any]], policy: Policy, notes: Sequence[str] = ()
) -> MigrationDetail:
    """`events` are the Events about the migration, as the API server returns them."""
    entries = [*_milestones(migration), *_conditions(migration), *_event_entries(events)]
    entries.sort(key=lambda each: each.at)
    return MigrationDetail(migration_view(migration, policy), entries, list(notes))


def _milestones(migration: Migration) -> Iterator[MigrationTimelineEntry]:
    status = migration.status
    for at, reason in (
        (migration.created, "Created"),
        (status.started_at, "Started"),
        (status.eviction_requested_at, "EvictionRequested"),
        (status.handed_over_at, "HandedOver"),
        (migration.deleted, "CancelRequested"),
        (status.finished_at, status.phase.value),
    ):
        if at is not None:
            is_last = reason == status.phase.value
            yield MigrationTimelineEntry(at, "migration", reason, status.message if is_last else "")


def _conditions(migration: Migration) -> Iterator[MigrationTimelineEntry]:
    for each in migration.status.conditions:
        words = f"{each.type} is {each.status}" + (f": {each.message}" if each.message else "")
        yield MigrationTimelineEntry(each.last_transition_time, "condition", each.reason, words)


def _event_entries(events: Sequence[Mapping[str, Any]]) -> Iterator[MigrationTimelineEntry]:
    for each in events:
        written = each.get("firstTimestamp") or each.get("eventTime")
        try:
            at = datetime.fromisoformat(written) if isinstance(written, str) else None
        except ValueError:
            at = None
        if at is not None:
            at = at if at.tzinfo else at.replace(tzinfo=UTC)
            yield MigrationTimelineEntry(
                at, "event", str(each.get("reason", "")), str(each.get("message", ""))
            )
