"""The labels and annotations that a migration writes on its pods, and the names that it derives.

Labels are hints for people, never authority: everybody who may change a pod can remove or forge them.
`successors` decides which pods belong to a migration. Names follow from the PodMigration, so that another
process that continues it finds what the first one created.
"""

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

from rescheduler.api.podmigration import Migration
from rescheduler.api.well_known_names import (
    MIGRATED_FROM_LABEL,
    MIGRATION_ID_LABEL,
    ORIGINAL_POD_ANNOTATION,
    ORIGINAL_POD_NAME_ANNOTATION,
    label_value,
)
from rescheduler.api.well_known_names import MIGRATION_LABELS as LABELS
from rescheduler.api.well_known_names import MIGRATION_REASON_LABEL as REASON_LABEL
from rescheduler.api.well_known_names import MIGRATION_STATUS_LABEL as STATUS_LABEL
from rescheduler.api.well_known_names import MIGRATION_TIME_ANNOTATION as TIME_ANNOTATION
from rescheduler.cluster.pod_record import PodRecord

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
    "labels_of_template",
    "lock_of",
    "metadata_to_remove",
    "migration_labels",
    "migration_name",
    "original_pod_name",
    "source_annotations",
]

ANNOTATIONS: Final = (TIME_ANNOTATION, ORIGINAL_POD_ANNOTATION, ORIGINAL_POD_NAME_ANNOTATION)

TOPOLOGY_LABEL_PREFIX: Final = "topology.kubernetes.io/"
"""Of labels that newer servers copy from the node onto a pod: no template has them."""


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
    """A pod that was moved before keeps what it says of its origin."""
    annotations = {TIME_ANNOTATION: _timestamp(now)}
    if ORIGINAL_POD_ANNOTATION not in pod.annotations:
        annotations |= {ORIGINAL_POD_ANNOTATION: pod.uid, ORIGINAL_POD_NAME_ANNOTATION: pod.name}
    return annotations


def metadata_to_remove(pod: PodRecord) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The labels and annotations that a roll-back takes off the source."""
    moved_before = pod.annotations.get(ORIGINAL_POD_ANNOTATION, pod.uid) != pod.uid
    return LABELS, (TIME_ANNOTATION,) if moved_before else ANNOTATIONS


def labels_of_template(pod: PodRecord) -> dict[str, str]:
    """Those that its template gave it, and so all its siblings: without ours, and without the node's."""
    return {
        name: value
        for name, value in pod.labels.items()
        if name not in LABELS and not name.startswith(TOPOLOGY_LABEL_PREFIX)
    }


def lock_of(pod: PodRecord) -> str:
    """The migration that moves this pod now, as its label says; empty if none does."""
    if pod.labels.get(STATUS_LABEL) == MigrationLabelStatus.COMPLETED:
        return ""
    return pod.labels.get(MIGRATION_ID_LABEL, "")


def original_pod_name(name: str, marks: Mapping[str, str]) -> str:
    """What the pod was called before it was ever moved."""
    return marks.get(ORIGINAL_POD_NAME_ANNOTATION, name)


def _timestamp(now: datetime) -> str:
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""As Kubernetes completes names: no vowels, so no words; nothing that is easily misread."""

BUDGET_SUFFIX: Final = "-rescheduler-pdb"
"""What the name of every temporary budget ends with."""

_SUFFIX_LENGTH: Final = 5
_NAME_OF_COPY: Final = re.compile(rf"rescheduled-(?P<original>.+)-[{_ALPHABET}]{{{_SUFFIX_LENGTH}}}")
_MAX_ATTEMPTS_NAMED: Final = 20
"""Requests of attempts that lie further back have arrived long ago, or never will."""
_MAX_POD_NAME_LENGTH: Final = 253
_MAX_LABEL_LENGTH: Final = 63


def migration_name(pod: str, uid: str, moment_s: float) -> str:
    """One per wish: short enough to be a label value, which it is on both pods."""
    return _suffixed(pod, _suffix(f"{uid}/{moment_s}", 8), _MAX_LABEL_LENGTH)


def copy_name(migration: Migration) -> str:
    """Return the name of the copy of this attempt. It follows from the migration's own record alone.

    Nobody can know it before the migration exists, because it depends on the migration's uid.
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


def _suffix(of: str, length: int) -> str:
    digest = int.from_bytes(hashlib.sha256(of.encode()).digest()[:8])
    letters = []
    for _ in range(length):
        digest, letter = divmod(digest, len(_ALPHABET))
        letters.append(_ALPHABET[letter])
    return "".join(letters)
