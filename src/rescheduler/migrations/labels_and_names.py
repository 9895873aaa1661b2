"""The labels, annotations and names of the objects of a migration, and which objects belong to it.

Labels are hints for people, never authority: every user who may change a pod can remove or forge them. Names
follow from the PodMigration, so that another process that continues it finds what the first one created.

Which objects belong to a migration is decided by what its PodMigration records. The copy of a bare pod is
recorded with name and uid before its scheduling gate is removed. A copy for adoption is recorded before its
source is evicted; until then its owner reference has the uid of the PodMigration. Before that, only its name
identifies it, which follows from the same uid. If another pod has taken that name, the migration ignores it.

The replacement of an evicted pod is not identified by age, because clocks differ and timestamps have whole
seconds. The migration records the pods of the controller before the eviction; any other pod is newer.
"""

import hashlib
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Final

from rescheduler.api.podmigration import (
    MAX_SIBLINGS,
    ControllerReference,
    Migration,
    label_value,
)
from rescheduler.api.well_known_names import (
    DO_NOT_DISRUPT_ADDED_ANNOTATION,
    KARPENTER_DO_NOT_DISRUPT_ANNOTATION,
    MIGRATED_FROM_LABEL,
    MIGRATION_ID_LABEL,
    ORIGINAL_POD_ANNOTATION,
    ORIGINAL_POD_NAME_ANNOTATION,
    STEERED_BY_ANNOTATION,
)
from rescheduler.api.well_known_names import MIGRATION_LABELS as LABELS
from rescheduler.api.well_known_names import MIGRATION_REASON_LABEL as REASON_LABEL
from rescheduler.api.well_known_names import MIGRATION_STATUS_LABEL as STATUS_LABEL
from rescheduler.api.well_known_names import MIGRATION_TIME_ANNOTATION as TIME_ANNOTATION
from rescheduler.cluster.budget_record import BudgetRecord
from rescheduler.cluster.pod_record import PodRecord, statefulset_ordinal
from rescheduler.cluster.workload_record import WorkloadRecord
from rescheduler.migrations.transition_table import MigrationStep

__all__ = [
    "ANNOTATIONS",
    "BUDGET_SUFFIX",
    "LABELS",
    "MIGRATED_FROM_LABEL",
    "MIGRATION_ID_LABEL",
    "ORIGINAL_POD_ANNOTATION",
    "ORIGINAL_POD_NAME_ANNOTATION",
    "REASON_LABEL",
    "STATUS_LABEL",
    "TIME_ANNOTATION",
    "TOPOLOGY_LABEL_PREFIX",
    "MigrationLabelStatus",
    "budget_name",
    "copy_annotations",
    "copy_name",
    "copy_names",
    "copy_of",
    "is_owned",
    "is_scaled_away",
    "is_temporary_budget",
    "keeps_names",
    "labels_of_template",
    "lock_of",
    "may_be_copy",
    "metadata_to_remove",
    "migration_labels",
    "migration_name",
    "original_pod_name",
    "recorded_siblings",
    "recorded_target",
    "replacement_of",
    "source_annotations",
]


ANNOTATIONS: Final = (TIME_ANNOTATION, ORIGINAL_POD_ANNOTATION, ORIGINAL_POD_NAME_ANNOTATION)

TOPOLOGY_LABEL_PREFIX: Final = "topology.kubernetes.io/"
"""The prefix of labels that newer servers copy from the node to a pod: no template has them."""


class MigrationLabelStatus(StrEnum):
    PENDING = "pending"
    IN_PROGRESS = "in-progress"
    COMPLETED = "completed"


def migration_labels(migration: Migration, status: MigrationLabelStatus) -> dict[str, str]:
    return {
        MIGRATION_ID_LABEL: label_value(migration.name),
        STATUS_LABEL: status,
        MIGRATED_FROM_LABEL: label_value(migration.spec.source_node),
        REASON_LABEL: label_value(migration.spec.strategy),
    }


def copy_annotations(migration: Migration, original_name: str, now: datetime) -> dict[str, str]:
    return {
        TIME_ANNOTATION: _timestamp(now),
        ORIGINAL_POD_ANNOTATION: migration.spec.pod.uid,
        ORIGINAL_POD_NAME_ANNOTATION: original_name,
    }


def source_annotations(pod: PodRecord, now: datetime) -> dict[str, str]:
    """Return the annotations of the source; a pod that was moved before keeps those about its origin."""
    annotations = {TIME_ANNOTATION: _timestamp(now)}
    if ORIGINAL_POD_ANNOTATION not in pod.annotations:
        annotations |= {ORIGINAL_POD_ANNOTATION: pod.uid, ORIGINAL_POD_NAME_ANNOTATION: pod.name}
    return annotations


def metadata_to_remove(pod: PodRecord) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the labels and annotations that a rollback removes from the source."""
    moved_before = pod.annotations.get(ORIGINAL_POD_ANNOTATION, pod.uid) != pod.uid
    annotations: tuple[str, ...] = (TIME_ANNOTATION,) if moved_before else ANNOTATIONS
    if DO_NOT_DISRUPT_ADDED_ANNOTATION in pod.annotations:
        annotations += (KARPENTER_DO_NOT_DISRUPT_ANNOTATION, DO_NOT_DISRUPT_ADDED_ANNOTATION)
    return LABELS, annotations


def labels_of_template(pod: PodRecord) -> dict[str, str]:
    """Return the labels from the pod's template, without ours and without the node's."""
    return {
        name: value
        for name, value in pod.labels.items()
        if name not in LABELS and not name.startswith(TOPOLOGY_LABEL_PREFIX)
    }


def lock_of(pod: PodRecord) -> str:
    """Return the migration that moves this pod now, by its label; empty if none does."""
    if pod.labels.get(STATUS_LABEL) == MigrationLabelStatus.COMPLETED:
        return ""
    return pod.labels.get(MIGRATION_ID_LABEL, "")


def original_pod_name(name: str, annotations: Mapping[str, str]) -> str:
    """Return the name of the pod before its first move."""
    return annotations.get(ORIGINAL_POD_NAME_ANNOTATION, name)


def _timestamp(now: datetime) -> str:
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""The characters of generated names, as in Kubernetes: no vowels, so no words, and none that is easily
misread."""

BUDGET_SUFFIX: Final = "-rescheduler-pdb"
"""The suffix of the name of every temporary budget."""

_SUFFIX_LENGTH: Final = 5
_NAME_OF_COPY: Final = re.compile(rf"rescheduled-(?P<original>.+)-[{_ALPHABET}]{{{_SUFFIX_LENGTH}}}")
_MAX_ATTEMPTS_NAMED: Final = 20
"""Requests of earlier attempts arrived long ago, or never will."""
_MAX_POD_NAME_LENGTH: Final = 253
_MAX_LABEL_LENGTH: Final = 63


def migration_name(pod: str, uid: str, moment_s: float) -> str:
    """Return the name of the PodMigration; it is also a label value on both pods, so it is short."""
    return _suffixed(pod, _suffix(f"{uid}/{moment_s}", 8), _MAX_LABEL_LENGTH)


def copy_name(migration: Migration) -> str:
    """Return the name of the copy of this attempt. It follows from the migration's own record alone.

    It can't be known before the migration exists, because it depends on the migration's uid.
    """
    return _copy_name(migration, migration.status.attempts)


def copy_names(migration: Migration) -> tuple[str, ...]:
    """Return the names of the copies of all attempts, the latest first.

    A request of an earlier attempt may arrive late.
    """
    last = migration.status.attempts
    return tuple(
        _copy_name(migration, attempt) for attempt in range(last, max(last - _MAX_ATTEMPTS_NAMED, 0), -1)
    )


def _copy_name(migration: Migration, attempt: int) -> str:
    suffix = _suffix(f"{migration.uid}/{attempt}", _SUFFIX_LENGTH)
    owner = migration.status.owner
    if owner is not None:
        return _suffixed(owner.name, suffix, _MAX_POD_NAME_LENGTH)
    name = migration.spec.pod.name
    moved_before = _NAME_OF_COPY.fullmatch(name)
    original = name if moved_before is None else moved_before["original"]
    return _suffixed(f"rescheduled-{original}", suffix, _MAX_POD_NAME_LENGTH)


def budget_name(workload: str) -> str:
    return f"{workload[: _MAX_POD_NAME_LENGTH - len(BUDGET_SUFFIX)]}{BUDGET_SUFFIX}"


def _suffixed(stem: str, suffix: str, longest: int) -> str:
    return f"{stem[: longest - len(suffix) - 1].rstrip('.-')}-{suffix}"


@lru_cache(maxsize=8192)
def _suffix(of: str, length: int) -> str:
    digest = int.from_bytes(hashlib.sha256(of.encode()).digest()[:8])
    letters = []
    for _ in range(length):
        digest, letter = divmod(digest, len(_ALPHABET))
        letters.append(_ALPHABET[letter])
    return "".join(letters)


_PodAt = Callable[[str], PodRecord | None]
"""Returns the pod of a key, `namespace/name`."""


def recorded_target(migration: Migration, pod_at: _PodAt) -> PodRecord | None:
    """Return the pod whose name and uid the migration has on record; None if it is gone or none is
    recorded."""
    known = migration.status.target_pod
    pod = None if known is None else pod_at(f"{migration.namespace}/{known.name}")
    return pod if pod is not None and known is not None and pod.uid == known.uid else None


def copy_of(migration: Migration, pod_at: _PodAt) -> PodRecord | None:
    """Return the copy that the migration has created, if it exists.

    The name of a copy follows from the uid of its migration. So a user who may write the status can't have
    any other pod removed as a copy.
    """
    recorded = recorded_target(migration, pod_at)
    if recorded is not None and recorded.name not in copy_names(migration):
        recorded = None
    is_undone = migration.status.step in {MigrationStep.ROLLING_BACK, MigrationStep.FAILED}
    if recorded is not None or (migration.status.target_pod is not None and not is_undone):
        return recorded
    pods = (pod_at(f"{migration.namespace}/{name}") for name in copy_names(migration))
    found = [
        pod
        for pod in pods
        if pod is not None and (may_be_copy(pod, migration) or (is_undone and _was_adopted(pod, migration)))
    ]
    return min(found, key=lambda pod: pod.is_terminating, default=None)


def may_be_copy(pod: PodRecord, migration: Migration) -> bool:
    """Return whether a pod that is not on record is a copy whose creation was not answered.

    Such a copy has a name that follows from the migration. It is owned by the migration, or its annotation
    says that it is a bare copy of the migration's pod.
    """
    is_bare_copy = pod.owner is None and _names_source(pod, migration)
    return (
        pod.name in copy_names(migration)
        and pod.uid != migration.spec.pod.uid
        and (is_owned(pod, migration) or is_bare_copy)
    )


def _was_adopted(pod: PodRecord, migration: Migration) -> bool:
    """Return whether the pod is the copy, which its ReplicaSet has adopted because the garbage collector
    removed the reference to the migration, before any process recorded which pod the copy is."""
    owner = migration.status.owner
    return (
        owner is not None
        and pod.owner is not None
        and pod.owner.uid == owner.uid
        and _names_source(pod, migration)
    )


def _names_source(pod: PodRecord, migration: Migration) -> bool:
    return pod.annotations.get(ORIGINAL_POD_ANNOTATION) == migration.spec.pod.uid


def is_owned(pod: PodRecord, migration: Migration) -> bool:
    """Return whether the pod has an owner reference to the migration."""
    return any(owner.uid == migration.uid for owner in pod.owners)


def is_temporary_budget(budget: BudgetRecord, migration: Migration) -> bool:
    """Return whether the migration created this budget: it owns the budget, which has the name of a temporary
    budget."""
    workload = migration.status.workload or migration.status.owner
    return (
        workload is not None
        and budget.name == budget_name(workload.name)
        and any(owner.uid == migration.uid for owner in budget.owners)
    )


_SCALABLE_KINDS: Final = frozenset({"ReplicaSet", "StatefulSet"})
"""Kinds whose number of pods is set by a user or an autoscaler."""


def keeps_names(owner: ControllerReference | None) -> bool:
    """Return whether a successor has the name of the pod that it replaces: in StatefulSets of any API
    group."""
    return owner is not None and owner.kind == "StatefulSet"


def is_scaled_away(migration: Migration, owner: WorkloadRecord | None) -> bool:
    """Return whether the controller no longer wants a pod in place of the source: it was scaled to zero, or
    it is a StatefulSet that was scaled below the ordinal of the source."""
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
    """Return the uids of these pods; of more than `MAX_SIBLINGS` only the youngest, because their age
    identifies the others."""
    youngest = sorted(siblings, key=lambda pod: (-pod.created_s, pod.uid))[:MAX_SIBLINGS]
    return tuple(pod.uid for pod in youngest)


def replacement_of(
    migration: Migration, siblings: Sequence[PodRecord], other_targets: Container[str]
) -> PodRecord | None:
    """Return, of the pods of the same controller, the one of the same name, the one that was steered for this
    migration, or the first after the eviction that belongs to no other migration (`other_targets`, by
    uid)."""
    is_named = keeps_names(migration.status.owner)
    known = frozenset(migration.status.siblings)
    oldest_s = _oldest_candidate_s(migration, [pod for pod in siblings if pod.uid in known])
    found = [
        pod
        for pod in siblings
        if pod.uid != migration.spec.pod.uid
        and pod.uid not in known
        and pod.uid not in other_targets
        and (pod.name == migration.spec.pod.name if is_named else pod.created_s >= oldest_s)
    ]
    return min(found, key=lambda pod: _candidate_rank(migration, pod), default=None)


def _oldest_candidate_s(migration: Migration, recorded: Sequence[PodRecord]) -> float:
    """Return the creation time before which no pod is new, if not all pods could be recorded."""
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
        # Pods that another migration steered, and terminating pods, come last.
        pod.is_terminating or (steered_for is not None and steered_for != migration.name),
        # Pods that were created while we waited for the eviction come after those created because of it.
        pod.created_s < _evicted_s(migration),
        pod.created_s,
        pod.name,
    )
