"""Migrations as the page shows them, with steps, timers and what they cost; drains; pending pods."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from rescheduler.api.migration_journal import ready_seconds_lost
from rescheduler.api.podmigration import (
    EVICTION,
    ConditionType,
    Handover,
    Migration,
    MigrationPhase,
    RoomReference,
)
from rescheduler.cluster.pod_record import PodRecord, belongs_to_node
from rescheduler.cluster.snapshot import NO_ROW, Snapshot
from rescheduler.config.policy import Policy
from rescheduler.kube.api_resources import EVENTS, Object
from rescheduler.kube.client import Client
from rescheduler.migrations.state_machine import invalid_status
from rescheduler.migrations.transition_table import MigrationStep
from rescheduler.planner.plan import Plan, PlannedRoom, Rejection
from rescheduler.web.node_page import HIDDEN_ROOM, refusal_view
from rescheduler.web.plan_api_types import (
    MigrationDetail,
    MigrationList,
    MigrationsDelta,
    MigrationTimelineEntry,
    MigrationView,
    NodeDrainView,
    PendingPodView,
)
from rescheduler.web.web_openapi import MigrationQuery
from rescheduler.web.web_viewer import EVERYTHING_VISIBLE, Visibility

__all__ = [
    "migration_detail",
    "migration_list",
    "migration_view",
    "migrations_delta",
    "node_drains",
    "pending_pods",
    "read_events",
]

_EVENTS_PER_PAGE: Final = 20
_MOST_EVENT_PAGES: Final = 100
_MOST_EVENTS: Final = 100

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


def migration_view(migration: Migration, policy: Policy, visibility: Visibility) -> MigrationView:
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
        reason=_visible_reason(migration, visibility),
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
        message=visibility.visible_text(invalid_status(migration) or status.message),
        is_cancelled=migration.is_cancelled,
        ready_seconds_lost=round(ready_seconds_lost(migration), 3) if is_done else None,
        eviction_seconds_lost=_eviction_seconds_lost(migration) if is_done else None,
    )


def _visible_reason(migration: Migration, visibility: Visibility) -> str:
    """Return the reason, which names the pods that it makes room for, as far as the viewer may see them."""
    rooms = migration.spec.rooms
    if not all(visibility.sees(room.namespace) for room in rooms):
        return HIDDEN_ROOM
    return visibility.visible_text(migration.spec.reason)


def _deadline(migration: Migration, policy: Policy) -> datetime | None:
    status = migration.status
    if status.phase is not MigrationPhase.IN_PROGRESS or status.handed_over_at or status.started_at is None:
        return None
    return status.started_at + policy.migration_timeout


def _eviction_seconds_lost(migration: Migration) -> float | None:
    """Return how long the new pod took to get ready; None if that is not recorded.

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
    views = [
        migration_view(each, policy, visibility)
        for each in found
        if each.status.phase is MigrationPhase.COMPLETED
    ]
    return MigrationList(
        migrations=[migration_view(each, policy, visibility) for each in shown],
        total=len(found),
        running=sum(not each.is_finished for each in found),
        ready_seconds_lost=round(sum(each.ready_seconds_lost or 0.0 for each in views), 3),
        eviction_seconds_lost=round(sum(each.eviction_seconds_lost or 0.0 for each in views), 3),
        strategies=sorted({each.spec.strategy for each in visible}),
    )


def _newest_first(migration: Migration) -> tuple[bool, float, str]:
    """Order running migrations by when they were created, then others by when they finished."""
    finished = migration.status.finished_at if migration.is_finished else None
    return finished is not None, -(finished or migration.created).timestamp(), migration.key


def _after(migrations: Sequence[Migration], key: str) -> Sequence[Migration]:
    """Return the migrations after the one with this key; all if there is none."""
    place = next((number for number, each in enumerate(migrations) if each.key == key), None)
    return migrations if place is None else migrations[place + 1 :]


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
        [migration_view(each, policy, visibility) for each in seen.values() if each is not None],
        [key for key, each in seen.items() if each is None],
    )


# --- one


def migration_detail(
    migration: Migration,
    events: Sequence[Mapping[str, Any]],
    policy: Policy,
    visibility: Visibility,
    notes: Sequence[str] = (),
) -> MigrationDetail:
    """Return the migration with its timeline; `events` are its Events, as the API server returns them."""
    entries = [*_milestones(migration), *_conditions(migration), *_event_entries(events)]
    entries = [
        msgspec.structs.replace(each, message=visibility.visible_text(each.message)) for each in entries
    ]
    entries.sort(key=_order_in_time)
    return MigrationDetail(migration_view(migration, policy, visibility), entries, list(notes))


_USUAL_ORDER: Final[Mapping[str, int]] = {
    "Created": 0,
    "Started": 1,
    "MigrationStarted": 2,
    "Ready": 3,
    "EvictionRequested": 4,
    "HandedOver": 6,
    "MigrationHandedOver": 7,
    "Completed": 8,
    "Failed": 8,
    "MigrationCompleted": 9,
    "MigrationFailed": 9,
}


def _order_in_time(entry: MigrationTimelineEntry) -> tuple[int, int, float]:
    """Order by seconds, then by the usual order of reasons, because many of the times have no fractions."""
    at_s = entry.at.timestamp()
    return int(at_s), _USUAL_ORDER.get(entry.reason, 5), at_s


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


async def read_events(client: Client, namespace: str, name: str) -> tuple[list[Object], list[str]]:
    """Return the Events of a migration, and notes. Raises `KubeError`.

    Tenants can create any number of Events of any size, so few are in memory at a time.
    """
    found: list[Object] = []
    number, fields = 0, "involvedObject.kind=Pod"
    pages = client.with_quick_retries().pages(
        EVENTS, namespace=namespace, fields=fields, page_size=_EVENTS_PER_PAGE
    )
    async for page in pages:
        number += 1
        found += (each for each in page.items if _is_of_migration(each, name))
        if number >= _MOST_EVENT_PAGES or len(found) >= _MOST_EVENTS:
            return found, ["The namespace has very many Events: not all of them were read."]
    return found, []


def _is_of_migration(event: Object, name: str) -> bool:
    is_ours = (event.get("source") or {}).get("component") == "rescheduler"
    return is_ours and str(event.get("message", "")).startswith(f"{name} ")


# --- pending pods


def pending_pods(
    snapshot: Snapshot, rows: Sequence[int], migrations: Iterable[Migration], plan: Plan | None
) -> list[PendingPodView]:
    """Return the pods of these rows, which wait to be scheduled, with the room that is made for each."""
    making: dict[str, list[tuple[RoomReference, Migration]]] = {}
    for migration in migrations if rows else ():
        for room in migration.spec.rooms:
            making.setdefault(room.uid, []).append((room, migration))
    planned: dict[str, list[PlannedRoom]] = {}
    for move in plan.moves if plan is not None and rows else ():
        for each in move.rooms:
            planned.setdefault(each.uid, []).append(each)
    refused = {each.subject: each for each in plan.refused} if plan is not None and rows else {}
    pods = (snapshot.pods.records[row] for row in rows)
    return [
        _pending_pod(pod, making.get(pod.uid, ()), planned.get(pod.uid, ()), refused.get(pod.key))
        for pod in pods
    ]


def _pending_pod(
    pod: PodRecord,
    made: Sequence[tuple[RoomReference, Migration]],
    planned: Sequence[PlannedRoom],
    refused: Rejection | None,
) -> PendingPodView:
    condition = pod.condition("PodScheduled")
    view = PendingPodView(
        pod=pod.key,
        uid=pod.uid,
        since=datetime.fromtimestamp(condition.since_s, UTC) if condition and condition.since_s else None,
        message="" if condition is None else condition.message,
        room="none",
        node="",
        moves=0,
        moves_done=0,
        refusal=None,
    )
    # Ignore earlier rooms: the room is on the nominated node, or its moves are still running.
    current = [room for room, each in made if not each.is_finished or room.node == pod.nominated_node]
    if current:
        node = current[-1].node
        own = [each for room, each in made if room.node == node]
        view.node, view.moves = node, len(own)
        view.moves_done = sum(each.status.phase is MigrationPhase.COMPLETED for each in own)
        if pod.nominated_node != node:
            view.room = "planned"
        else:
            view.room = "kept" if all(each.is_finished for each in own) else "making"
    elif planned:
        view.node, view.moves, view.room = planned[0].node, len(planned), "planned"
    elif refused is not None:
        view.refusal = refusal_view(refused, EVERYTHING_VISIBLE)
    return view


# --- evictions by other clients


def node_drains(snapshot: Snapshot, migrations: Iterable[Migration]) -> list[NodeDrainView]:
    """Return the nodes that other clients empty: those from which a pod moves for an eviction, and cordoned
    ones from which pods have moved in this way, until all are gone."""
    by_node: dict[str, list[Migration]] = {}
    for each in migrations:
        if each.spec.strategy == EVICTION:
            by_node.setdefault(each.spec.source_node, []).append(each)
    return [
        view for node in sorted(by_node) if (view := _node_drain(snapshot, node, by_node[node])) is not None
    ]


def _node_drain(snapshot: Snapshot, node: str, moves: Sequence[Migration]) -> NodeDrainView | None:
    row = snapshot.nodes.row.get(node, NO_ROW)
    pods = () if row == NO_ROW else (snapshot.pods.records[pod] for pod in snapshot.pods.on(row).tolist())
    left = sum(not belongs_to_node(pod) for pod in pods)
    running = [each for each in moves if not each.is_finished]
    is_cordoned = row != NO_ROW and not snapshot.nodes.schedulable[row]
    if not running and not (is_cordoned and left):
        return None
    latest = max(moves, key=lambda each: (each.created, each.key))
    completed = sum(each.status.phase is MigrationPhase.COMPLETED for each in moves)
    return NodeDrainView(
        node=node,
        reason=latest.spec.reason,
        moving=len(running),
        moved=completed,
        failed=len(moves) - len(running) - completed,
        left=left,
        deadline=min((each.spec.deadline for each in running if each.spec.deadline), default=None),
    )
