"""Pods that only stop on their way: where they go on to is on record from the beginning.

A plan may take a pod to its place in two legs. The second can't be asked for before the first has arrived, as
nobody knows the pod's next name and uid until then. So the first says where to, in an annotation; whoever
leads when it arrives takes the pod on from its stop, also if that is not who made the plan.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from rescheduler.controller.followed import Followed, said
from rescheduler.controller.judging import CONTINUES
from rescheduler.model.migrations import Migration, Phase
from rescheduler.model.plan import Move, Plan

__all__ = ["GOES_ON_TO", "BrokenJourney", "broken_journeys"]

GOES_ON_TO: Final = "rescheduler.dev/goes-on-to"
"""Annotation of a migration that brings a pod to a stop: the node that it goes on to from there."""


class BrokenJourney(NamedTuple):
    """Two legs, of which nobody has asked for the second."""

    plan: Plan
    first_leg: str
    """Key of the migration."""


def broken_journeys(seen: Followed, now: datetime, within: timedelta) -> Iterator[BrokenJourney]:
    """Of first legs that are under way, or came to their end so lately: older ones are history, and planned
    anew like any other pod. In a fixed order."""
    items = list(seen.migrations.informer)
    continued = {
        (item["metadata"]["namespace"], said(item, "metadata", "annotations", CONTINUES)) for item in items
    }
    for item in sorted(items, key=lambda item: (item["metadata"]["namespace"], item["metadata"]["name"])):
        node = said(item, "metadata", "annotations", GOES_ON_TO)
        migration = seen.records.migration(item) if node else None
        if migration is None or (migration.namespace, migration.name) in continued:
            continue
        # Members of a group go together: one of them alone is not taken on.
        if not migration.spec.group and _may_arrive(migration, now - within):
            yield BrokenJourney(_both_legs(migration, node), migration.key)


def _may_arrive(migration: Migration, after: datetime) -> bool:
    """Or has arrived."""
    status = migration.status
    if not migration.is_finished:
        return True
    return status.phase is Phase.COMPLETED and status.finished_at is not None and status.finished_at > after


def _both_legs(migration: Migration, node: str) -> Plan:
    spec = migration.spec

    def leg(source: str, target: str, *, is_first: bool) -> Move:
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

    legs = (
        leg(spec.source_node, spec.target_node, is_first=True),
        leg(spec.target_node, node, is_first=False),
    )
    return Plan(taken_at_s=migration.created.timestamp(), moves=legs)
