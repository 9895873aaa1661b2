"""What a migration writes onto the two pods, so that anybody who looks at them knows.

Hints for people, and never authority: anybody who may change a pod can remove or forge them. Which pods are a
migration's is for `identity` to say.
"""

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

from rescheduler.model.metadata import MIGRATION_LABELS
from rescheduler.model.migrations import Migration
from rescheduler.model.pods import PodRecord

__all__ = [
    "ANNOTATIONS",
    "ID",
    "LABELS",
    "MIGRATED_FROM",
    "ORIGINAL_POD",
    "ORIGINAL_POD_NAME",
    "REASON",
    "STATUS",
    "TIME",
    "TOPOLOGY",
    "MarkStatus",
    "annotations",
    "label_value",
    "labels",
    "lock_of",
    "original_name",
    "source_annotations",
    "superfluous",
    "unmarked_labels",
]

PREFIX: Final = "scheduler.alpha.kubernetes.io/"

LABELS: Final = MIGRATION_LABELS
ID, STATUS, MIGRATED_FROM, REASON = LABELS
"""The first is the lock on the source pod, as long as it names a migration of that pod that is under way."""

TIME: Final = f"{PREFIX}migration-time"
ORIGINAL_POD: Final = f"{PREFIX}original-pod"
ORIGINAL_POD_NAME: Final = f"{PREFIX}original-pod-name"
ANNOTATIONS: Final = (TIME, ORIGINAL_POD, ORIGINAL_POD_NAME)

TOPOLOGY: Final = "topology.kubernetes.io/"
"""Of labels that newer servers copy from the node onto a pod: no template has them."""


class MarkStatus(StrEnum):
    PENDING = "pending"
    IN_PROGRESS = "in-progress"
    COMPLETED = "completed"


_LONGEST_VALUE: Final = 63
_VALID_VALUE: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_HASH_LENGTH: Final = 8


def label_value(text: str) -> str:
    """The text itself where it is a valid label value, else as much of it as is, and a hash of all of it."""
    if not text or (len(text) <= _LONGEST_VALUE and _VALID_VALUE.fullmatch(text)):
        return text
    kept = re.sub(r"[^A-Za-z0-9._-]", "-", text).strip("._-")[: _LONGEST_VALUE - _HASH_LENGTH - 1]
    digest = hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{kept.rstrip('._-')}-{digest}".lstrip("-")


def labels(migration: Migration, status: MarkStatus) -> dict[str, str]:
    return {
        ID: label_value(migration.name),
        STATUS: status,
        MIGRATED_FROM: label_value(migration.spec.source_node),
        REASON: label_value(migration.spec.strategy),
    }


def annotations(migration: Migration, original_name: str, now: datetime) -> dict[str, str]:
    return {
        TIME: _written(now),
        ORIGINAL_POD: migration.spec.pod.uid,
        ORIGINAL_POD_NAME: original_name,
    }


def source_annotations(pod: PodRecord, now: datetime) -> dict[str, str]:
    """A pod that was moved before keeps what it says of its origin."""
    told = {TIME: _written(now)}
    if ORIGINAL_POD not in pod.marks:
        told |= {ORIGINAL_POD: pod.uid, ORIGINAL_POD_NAME: pod.name}
    return told


def superfluous(pod: PodRecord) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The labels and annotations that a roll-back takes off the source."""
    moved_before = pod.marks.get(ORIGINAL_POD, pod.uid) != pod.uid
    return LABELS, (TIME,) if moved_before else ANNOTATIONS


def unmarked_labels(pod: PodRecord) -> dict[str, str]:
    """Those that its template gave it, and so all its siblings: without ours, and without the node's."""
    return {
        name: value
        for name, value in pod.labels.items()
        if name not in LABELS and not name.startswith(TOPOLOGY)
    }


def lock_of(pod: PodRecord) -> str:
    """The migration that moves this pod now, as its label says; empty if none does."""
    if pod.labels.get(STATUS) == MarkStatus.COMPLETED:
        return ""
    return pod.labels.get(ID, "")


def original_name(name: str, marks: Mapping[str, str]) -> str:
    """What the pod was called before it was ever moved."""
    return marks.get(ORIGINAL_POD_NAME, name)


def _written(now: datetime) -> str:
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")
