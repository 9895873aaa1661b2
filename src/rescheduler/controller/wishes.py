"""A move as the PodMigration that asks for it."""

from collections.abc import Mapping
from typing import Final

import msgspec

from rescheduler.controller.followed import POD_MIGRATIONS
from rescheduler.controller.judging import CONTINUES
from rescheduler.controller.onward import GOES_ON_TO
from rescheduler.kube.resources import Object
from rescheduler.migrations.naming import migration_name
from rescheduler.model.migrations import FINALIZER, MigrationSpec, PodReference
from rescheduler.model.plan import Move

__all__ = ["group_of", "wish"]

_LONGEST_GROUP: Final = 200


def wish(
    move: Move,
    moment_s: float,
    *,
    group: str = "",
    group_size: int = 0,
    continues: str = "",
    goes_on_to: str = "",
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
    legs = {CONTINUES: continues, GOES_ON_TO: goes_on_to}
    said = {**(annotations or {}), **{key: value for key, value in legs.items() if value}}
    if said:
        metadata["annotations"] = said
    return {
        "apiVersion": POD_MIGRATIONS.api_version,
        "kind": POD_MIGRATIONS.kind,
        "metadata": metadata,
        "spec": msgspec.to_builtins(spec),
    }


def group_of(move: Move, moment_s: float) -> str:
    """Another for each plan and wave: members of long ago have nothing to do with those of now."""
    if not move.group:
        return ""
    name = move.group.partition("/")[2]
    return f"{name[:_LONGEST_GROUP]}.{moment_s:.0f}.{move.wave}"
