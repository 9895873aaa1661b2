"""Which objects belong to a migration: decided by what its PodMigration records, never by labels.

The copy of a bare pod is recorded with name and uid before its scheduling gate is removed. A copy for
adoption is recorded before its source is evicted; until then its owner reference has the uid of the
PodMigration. Before that, only its name identifies it, which follows from the same uid. If another pod has
taken that name, the migration ignores that pod.

The replacement of an evicted pod is not identified by age, because clocks differ and timestamps have whole
seconds. The migration records the pods of the controller before the eviction; any other pod is newer.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Final

from rescheduler.api.podmigration import MAX_SIBLINGS, ConditionType, ControllerReference, Handover, Migration
from rescheduler.api.well_known_names import STEERED_BY_ANNOTATION
from rescheduler.cluster.budget_record import BudgetRecord
from rescheduler.cluster.pod_record import PodRecord, statefulset_ordinal
from rescheduler.cluster.workload_record import WorkloadRecord
from rescheduler.migrations.labels_and_names import ORIGINAL_POD_ANNOTATION, budget_name, copy_names
from rescheduler.migrations.transition_table import MigrationStep

__all__ = [
    "copy_of",
    "is_scaled_away",
    "is_temporary_budget",
    "keeps_names",
    "may_be_copy",
    "ready_seconds_lost",
    "recorded_siblings",
    "recorded_target",
    "replacement_of",
]

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
    is_undone = migration.status.step in {MigrationStep.ROLLING_BACK, MigrationStep.FAILED}
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
    is_bare_copy = (
        pod.owner is None and pod.annotations.get(ORIGINAL_POD_ANNOTATION) == migration.spec.pod.uid
    )
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


_SCALABLE_KINDS: Final = frozenset({"ReplicaSet", "StatefulSet"})
"""Those of which somebody says how many pods they have."""


def keeps_names(owner: ControllerReference | None) -> bool:
    """Whether a successor is called like the pod that it replaces, and needs no other sign."""
    return owner is not None and owner.kind == "StatefulSet"


def is_scaled_away(migration: Migration, owner: WorkloadRecord | None) -> bool:
    """Whether its controller wants no pod in its place any more: it was scaled to nothing, or a StatefulSet
    to fewer pods than the number of this one."""
    if owner is None or owner.kind not in _SCALABLE_KINDS:
        return False
    ordinal = (
        statefulset_ordinal(migration.spec.pod.name, owner.name) if owner.kind == "StatefulSet" else None
    )
    return owner.replicas == 0 or (
        ordinal is not None
        and ordinal not in range(owner.first_ordinal, owner.first_ordinal + owner.replicas)
    )


def recorded_siblings(siblings: Iterable[PodRecord]) -> tuple[str, ...]:
    """Their uids. Of very many only the youngest: older ones are known by their age, far from any doubt."""
    youngest = sorted(siblings, key=lambda pod: (-pod.created_s, pod.uid))[:MAX_SIBLINGS]
    return tuple(pod.uid for pod in youngest)


def replacement_of(
    migration: Migration, siblings: Sequence[PodRecord], spoken_for: Container[str]
) -> PodRecord | None:
    """Of the pods of the same controller: the one of the same name, the one that was steered for this
    migration, or else the first that came after the eviction and is nobody else's (`spoken_for`, by uid)."""
    is_named = keeps_names(migration.status.owner)
    known = frozenset(migration.status.siblings)
    oldest_s = _oldest_candidate_s(migration, [pod for pod in siblings if pod.uid in known])
    found = [
        pod
        for pod in siblings
        if pod.uid != migration.spec.pod.uid
        and pod.uid not in known
        and pod.uid not in spoken_for
        and (pod.name == migration.spec.pod.name if is_named else pod.created_s >= oldest_s)
    ]
    return min(found, key=lambda pod: _candidate_rank(migration, pod), default=None)


def _oldest_candidate_s(migration: Migration, recorded: Sequence[PodRecord]) -> float:
    """Nobody older than this has come since, if not all could be recorded."""
    if len(migration.status.siblings) < MAX_SIBLINGS:
        return 0.0
    return min((pod.created_s for pod in recorded), default=_evicted_s(migration))


def _evicted_s(migration: Migration) -> float:
    return (migration.status.handed_over_at or migration.created).timestamp() // 1


def _candidate_rank(migration: Migration, pod: PodRecord) -> tuple[bool, bool, bool, bool, int, str]:
    steered_for = pod.annotations.get(STEERED_BY_ANNOTATION)
    return (
        pod.name != migration.spec.pod.name,
        steered_for != migration.name,
        # One that another migration steered, and one on its way out, only for want of any other.
        pod.is_terminating or (steered_for is not None and steered_for != migration.name),
        # One that came while we waited for the eviction, if there is one that came because of it.
        pod.created_s < _evicted_s(migration),
        pod.created_s,
        pod.name,
    )


def ready_seconds_lost(migration: Migration) -> float:
    """From when the pod was handed over until its successor was ready; nothing if that was before.

    By our own clock on both sides: that of the API server may be another.
    """
    status = migration.status
    handed_over = status.condition(ConditionType.HANDED_OVER)
    if handed_over is None or handed_over.status != "True" or status.finished_at is None:
        return 0.0
    ready = status.condition(ConditionType.COPY_READY)
    is_copied = status.handover is not Handover.EVICT and ready is not None and ready.status == "True"
    until = ready.last_transition_time if is_copied and ready is not None else status.finished_at
    return max(0.0, (until - handed_over.last_transition_time).total_seconds())
