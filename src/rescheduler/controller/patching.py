"""What our writes to pods say. The version is the lock where two must not both win; elsewhere the uid."""

from typing import Any, Final

import msgspec

from rescheduler.kube.patches import Patch, merge_patch, strategic_patch
from rescheduler.migrations import marks
from rescheduler.migrations.budget_sync import SYNC_REQUESTED
from rescheduler.migrations.copies import GATE
from rescheduler.migrations.marks import MarkStatus
from rescheduler.migrations.scene import Scene
from rescheduler.model.migrations import Migration, OwnerReference
from rescheduler.model.pods import PodRecord

__all__ = [
    "completed",
    "gate_opened",
    "marked",
    "nominated",
    "offered",
    "released",
    "returned",
    "sync_requested",
    "unmarked",
]

_DELETE: Final = {"$patch": "delete"}


def marked(scene: Scene, source: PodRecord, version: str) -> Patch:
    return merge_patch(
        {
            "metadata": {
                "resourceVersion": version,
                "uid": source.uid,
                "labels": marks.labels(scene.migration, MarkStatus.IN_PROGRESS),
                "annotations": marks.source_annotations(source, scene.now),
            }
        }
    )


def unmarked(source: PodRecord, version: str) -> Patch:
    labels, annotations = marks.superfluous(source)
    return merge_patch(
        {
            "metadata": {
                "resourceVersion": version,
                "uid": source.uid,
                "labels": dict.fromkeys(labels),
                "annotations": dict.fromkeys(annotations),
            }
        }
    )


def completed(pod: PodRecord) -> Patch:
    """Of a copy whose migration is no more: nothing but that it is over."""
    labels = {marks.STATUS: MarkStatus.COMPLETED}
    return merge_patch(
        {"metadata": {"resourceVersion": pod.resource_version, "uid": pod.uid, "labels": labels}}
    )


def nominated(uid: str, node: str) -> Patch:
    return merge_patch({"metadata": {"uid": uid}, "status": {"nominatedNodeName": node}})


def gate_opened(uid: str) -> Patch:
    gates = [_DELETE | {"name": GATE}]
    return strategic_patch({"metadata": {"uid": uid}, "spec": {"schedulingGates": gates}})


def sync_requested(uid: str, value: str) -> Patch:
    return merge_patch({"metadata": {"uid": uid, "annotations": {SYNC_REQUESTED: value}}})


def offered(migration: Migration, uid: str) -> Patch:
    """Without a version: nothing that others write in this moment may delay it."""
    owners = [{"uid": migration.uid, "controller": False}]
    return strategic_patch({"metadata": {"uid": uid, "ownerReferences": owners}})


def returned(migration: Migration, uid: str, owner: OwnerReference) -> Patch:
    """The last one that has anything to do with it is an owner that is no more."""
    reference = msgspec.to_builtins(owner) | {"controller": False, "blockOwnerDeletion": False}
    owners = [_DELETE | {"uid": migration.uid}, reference]
    return strategic_patch({"metadata": {"uid": uid, "ownerReferences": owners}})


def released(scene: Scene, target: PodRecord) -> Patch:
    original = marks.original_name(scene.migration.spec.pod.name, target.marks)
    metadata: dict[str, Any] = {
        "uid": target.uid,
        "labels": marks.labels(scene.migration, MarkStatus.COMPLETED),
        "annotations": marks.annotations(scene.migration, original, scene.now),
    }
    if SYNC_REQUESTED in target.marks:
        metadata["annotations"][SYNC_REQUESTED] = None
    if any(owner.uid == scene.migration.uid for owner in target.owners):
        metadata["ownerReferences"] = [_DELETE | {"uid": scene.migration.uid}]
    return strategic_patch({"metadata": metadata})
