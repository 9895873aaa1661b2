"""Which pod a controller made in the place of an evicted one."""

from collections.abc import Container, Iterable

from rescheduler.model.migrations import Migration
from rescheduler.model.pods import PodRecord
from rescheduler.model.steering import STEERED_BY

__all__ = ["replacement_of"]


def replacement_of(
    migration: Migration, siblings: Iterable[PodRecord], spoken_for: Container[str]
) -> PodRecord | None:
    """Of the pods of the same controller: the one of the same name, the one that was steered for this
    migration, or else the first that came after the eviction and is nobody else's (`spoken_for`, by uid)."""
    after_s = int((migration.status.handed_over_at or migration.created).timestamp())
    owner, name = migration.status.owner, migration.spec.pod.name
    # Times of creation are whole seconds: a sibling may be as old as the eviction. Names don't lie.
    is_named = owner is not None and owner.kind == "StatefulSet"
    found = [
        pod
        for pod in siblings
        if pod.uid != migration.spec.pod.uid
        and pod.created_s >= after_s
        and pod.uid not in spoken_for
        and (pod.name == name or not is_named)
    ]
    return min(found, key=lambda pod: _preference(migration, pod), default=None)


def _preference(migration: Migration, pod: PodRecord) -> tuple[bool, bool, bool, int, str]:
    steered_for = pod.marks.get(STEERED_BY)
    return (
        pod.name != migration.spec.pod.name,
        steered_for != migration.name,
        # One that another migration steered, and one on its way out, only for want of any other.
        pod.is_terminating or (steered_for is not None and steered_for != migration.name),
        pod.created_s,
        pod.name,
    )
