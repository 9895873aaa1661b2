"""Build the PodMigration for a move, and find moves of two hops that are not complete.

The second hop can't be requested before the first has finished, because the name and uid of the pod are not
known until then. So an annotation of the first PodMigration names the final target. The process that leads
when the first hop finishes requests the second.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from rescheduler.api.podmigration import Migration, MigrationPhase, MigrationSpec, PodReference
from rescheduler.api.well_known_names import CONTINUES_ANNOTATION, FINALIZER, NEXT_HOP_ANNOTATION
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS, WatchedObjects, nested_field
from rescheduler.kube.api_resources import Object
from rescheduler.migrations.labels_and_names import migration_name
from rescheduler.planner.plan import Move, Plan

__all__ = [
    "InterruptedHops",
    "group_name",
    "interrupted_hops",
    "podmigration_for",
]


class InterruptedHops(NamedTuple):
    """Two legs, of which nobody has asked for the second."""

    plan: Plan
    first_hop: str
    """Key of the migration."""


def interrupted_hops(watched: WatchedObjects, now: datetime, within: timedelta) -> Iterator[InterruptedHops]:
    """Of first legs that are under way, or came to their end so lately: older ones are history, and planned
    anew like any other pod. In a fixed order."""
    items = list(watched.migrations.informer)
    continued = {
        (item["metadata"]["namespace"], nested_field(item, "metadata", "annotations", CONTINUES_ANNOTATION))
        for item in items
    }
    for item in sorted(items, key=lambda item: (item["metadata"]["namespace"], item["metadata"]["name"])):
        node = nested_field(item, "metadata", "annotations", NEXT_HOP_ANNOTATION)
        migration = watched.records.migration(item) if node else None
        if migration is None or (migration.namespace, migration.name) in continued:
            continue
        # Members of a group go together: one of them alone is not taken on.
        if not migration.spec.group and _may_arrive(migration, now - within):
            yield InterruptedHops(_plan_of_both_hops(migration, node), migration.key)


def _may_arrive(migration: Migration, after: datetime) -> bool:
    """Or has arrived."""
    status = migration.status
    if not migration.is_finished:
        return True
    return (
        status.phase is MigrationPhase.COMPLETED
        and status.finished_at is not None
        and status.finished_at > after
    )


def _plan_of_both_hops(migration: Migration, node: str) -> Plan:
    spec = migration.spec

    def hop(source: str, target: str, *, is_first: bool) -> Move:
        return Move(
            pod=migration.pod_key,
            uid=spec.pod.uid,
            source=source,
            target=target,
            strategy=spec.strategy,
            handover=spec.handover,
            reason=spec.reason,
            gain=0.0,
            wave=0 if is_first else 1,
            hop=is_first,
        )

    hops = (
        hop(spec.source_node, spec.target_node, is_first=True),
        hop(spec.target_node, node, is_first=False),
    )
    return Plan(taken_at_s=migration.created.timestamp(), moves=hops)


_MAX_GROUP_NAME: Final = 200


def podmigration_for(
    move: Move,
    moment_s: float,
    *,
    group: str = "",
    group_size: int = 0,
    continues: str = "",
    next_hop: str = "",
    annotations: Mapping[str, str] | None = None,
) -> Object:
    """The same for the same move at the same moment: who asks twice asks for one thing.

    With our finalizer from the beginning, so that it can't be deleted without being undone.
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
    )
    metadata: Object = {
        "namespace": namespace,
        "name": migration_name(pod, move.uid, moment_s),
        "finalizers": [FINALIZER],
    }
    hops = {CONTINUES_ANNOTATION: continues, NEXT_HOP_ANNOTATION: next_hop}
    said = {**(annotations or {}), **{key: value for key, value in hops.items() if value}}
    if said:
        metadata["annotations"] = said
    return {
        "apiVersion": POD_MIGRATIONS.api_version,
        "kind": POD_MIGRATIONS.kind,
        "metadata": metadata,
        "spec": msgspec.to_builtins(spec),
    }


def group_name(move: Move, moment_s: float) -> str:
    """Another for each plan and wave: members of long ago have nothing to do with those of now."""
    if not move.group:
        return ""
    name = move.group.partition("/")[2]
    return f"{name[:_MAX_GROUP_NAME]}.{moment_s:.0f}.{move.wave}"
