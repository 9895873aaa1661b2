"""Handovers by Adopt that are about to happen: for a moment, their ReplicaSet must not create a pod.

When the source is evicted, the ReplicaSet sees one pod too few, although the copy that it is about to adopt
is ready. The pod that it would create is deleted again at once; but meanwhile it may be scheduled, started,
and, with a high priority, preempt others. So its creation is refused, from the request for the eviction on
and for a few seconds at most, whatever becomes of the migration.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from rescheduler.migrations.steps import Step
from rescheduler.model.migrations import Migration, Phase
from rescheduler.model.plan import Handover

__all__ = ["LONGEST_S", "HandingOver", "handing_over"]

LONGEST_S: Final = 10.0
"""How long a ReplicaSet is held up at most. Adoption takes milliseconds; the rest is for slow servers.

A migration whose evictions keep being refused does not hold it up again before `GUARD_INTERVAL` has passed:
then the ReplicaSet can create pods that it really needs."""

_STEPS: Final = frozenset({Step.EVICTING, Step.ADOPTING})


@dataclass(frozen=True, slots=True)
class HandingOver:
    namespace: str
    owner_uid: str
    """Of the ReplicaSet."""
    migration: str
    pod: str
    copy: str
    requested_at: datetime
    """When the source's eviction was asked for, by the clock of whoever did."""


def handing_over(migration: Migration) -> HandingOver | None:
    """None unless its source may have been evicted, and its copy is not yet known to be adopted."""
    status = migration.status
    if (
        status.phase is not Phase.IN_PROGRESS
        or status.handover is not Handover.ADOPT
        or status.step not in _STEPS
        or status.owner is None
        or status.eviction_requested_at is None
    ):
        return None
    return HandingOver(
        namespace=migration.namespace,
        owner_uid=status.owner.uid,
        migration=migration.name,
        pod=migration.spec.pod.name,
        copy=status.target_pod.name if status.target_pod is not None else "",
        requested_at=status.eviction_requested_at,
    )
