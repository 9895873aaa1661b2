"""Which objects are a migration's: by what its PodMigration records, and never by marks.

A bare pod's copy is recorded with name and uid before its scheduling gate is opened. A copy that is to be
adopted is recorded before its source is evicted; until then its owner reference has the PodMigration's uid.
Before a copy is recorded its name tells, which follows from the uid of the PodMigration. If another pod has
taken that name, that pod is left alone.
"""

from collections.abc import Callable

from rescheduler.migrations.marks import ORIGINAL_POD
from rescheduler.migrations.naming import budget_name, copy_names
from rescheduler.migrations.steps import Step
from rescheduler.model.budgets import BudgetRecord
from rescheduler.model.migrations import Migration
from rescheduler.model.pods import PodRecord

__all__ = ["copy_of", "is_temporary_budget", "may_be_copy", "recorded_target"]

_PodAt = Callable[[str], PodRecord | None]
"""Returns the pod of a key, `namespace/name`."""


def recorded_target(migration: Migration, pod_at: _PodAt) -> PodRecord | None:
    """Return the pod whose name and uid the migration has on record; None if it is gone or there is none."""
    known = migration.status.target_pod
    pod = None if known is None else pod_at(f"{migration.namespace}/{known.name}")
    return pod if pod is not None and known is not None and pod.uid == known.uid else None


def copy_of(migration: Migration, pod_at: _PodAt) -> PodRecord | None:
    """Return the copy that the migration has made, as far as it is there."""
    recorded = recorded_target(migration, pod_at)
    is_undone = migration.status.step in {Step.ROLLING_BACK, Step.FAILED}
    if recorded is not None or (migration.status.target_pod is not None and not is_undone):
        return recorded
    pods = (pod_at(f"{migration.namespace}/{name}") for name in copy_names(migration))
    found = [pod for pod in pods if pod is not None and may_be_copy(pod, migration)]
    return min(found, key=lambda pod: pod.is_terminating, default=None)


def may_be_copy(pod: PodRecord, migration: Migration) -> bool:
    """Whether a pod that is not on record is the copy whose creation was not answered.

    It has the name that the copy would have, and says what the copy would say: that the migration owns it,
    or that it is a bare copy of the migration's pod.
    """
    is_owned = any(owner.uid == migration.uid for owner in pod.owners)
    is_bare_copy = pod.owner is None and pod.marks.get(ORIGINAL_POD) == migration.spec.pod.uid
    return (
        pod.name in copy_names(migration) and pod.uid != migration.spec.pod.uid and (is_owned or is_bare_copy)
    )


def is_temporary_budget(budget: BudgetRecord, migration: Migration) -> bool:
    """Whether the migration has made this budget: it owns it, and it has the name that such a budget has."""
    workload = migration.status.workload or migration.status.owner
    return (
        workload is not None
        and budget.name == budget_name(workload.name)
        and any(owner.uid == migration.uid for owner in budget.owners)
    )
