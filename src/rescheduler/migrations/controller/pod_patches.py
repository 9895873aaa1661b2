"""What our writes to pods say. The version is the lock where two must not both win; elsewhere the uid."""

from typing import Any, Final

import msgspec

from rescheduler.api.podmigration import ControllerReference, Migration
from rescheduler.api.well_known_names import SCHEDULING_GATE, SYNC_REQUESTED_ANNOTATION
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.kube.patches import Patch, merge_patch, strategic_patch
from rescheduler.migrations import labels_and_names
from rescheduler.migrations.labels_and_names import MigrationLabelStatus
from rescheduler.migrations.observation import Observation

__all__ = [
    "complete_copy_patch",
    "mark_source_patch",
    "nominate_node_patch",
    "offer_for_adoption_patch",
    "release_target_patch",
    "remove_gate_patch",
    "request_budget_sync_patch",
    "return_to_owner_patch",
    "unmark_source_patch",
]

_DELETE: Final = {"$patch": "delete"}


def mark_source_patch(scene: Observation, source: PodRecord, version: str) -> Patch:
    return merge_patch(
        {
            "metadata": {
                "resourceVersion": version,
                "uid": source.uid,
                "labels": labels_and_names.migration_labels(
                    scene.migration, MigrationLabelStatus.IN_PROGRESS
                ),
                "annotations": labels_and_names.source_annotations(source, scene.now),
            }
        }
    )


def unmark_source_patch(source: PodRecord, version: str) -> Patch:
    labels, annotations = labels_and_names.metadata_to_remove(source)
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


def complete_copy_patch(pod: PodRecord) -> Patch:
    """Of a copy whose migration is no more: nothing but that it is over."""
    labels = {labels_and_names.STATUS_LABEL: MigrationLabelStatus.COMPLETED}
    return merge_patch(
        {"metadata": {"resourceVersion": pod.resource_version, "uid": pod.uid, "labels": labels}}
    )


def nominate_node_patch(uid: str, node: str) -> Patch:
    return merge_patch({"metadata": {"uid": uid}, "status": {"nominatedNodeName": node}})


def remove_gate_patch(uid: str) -> Patch:
    gates = [_DELETE | {"name": SCHEDULING_GATE}]
    return strategic_patch({"metadata": {"uid": uid}, "spec": {"schedulingGates": gates}})


def request_budget_sync_patch(uid: str, value: str) -> Patch:
    return merge_patch({"metadata": {"uid": uid, "annotations": {SYNC_REQUESTED_ANNOTATION: value}}})


def offer_for_adoption_patch(migration: Migration, uid: str) -> Patch:
    """Without a version: nothing that others write in this moment may delay it."""
    owners = [{"uid": migration.uid, "controller": False}]
    return strategic_patch({"metadata": {"uid": uid, "ownerReferences": owners}})


def return_to_owner_patch(migration: Migration, uid: str, owner: ControllerReference) -> Patch:
    """The last one that has anything to do with it is an owner that is no more."""
    reference = msgspec.to_builtins(owner) | {"controller": False, "blockOwnerDeletion": False}
    owners = [_DELETE | {"uid": migration.uid}, reference]
    return strategic_patch({"metadata": {"uid": uid, "ownerReferences": owners}})


def release_target_patch(scene: Observation, target: PodRecord) -> Patch:
    original = labels_and_names.original_pod_name(scene.migration.spec.pod.name, target.annotations)
    metadata: dict[str, Any] = {
        "uid": target.uid,
        "labels": labels_and_names.migration_labels(scene.migration, MigrationLabelStatus.COMPLETED),
        "annotations": labels_and_names.copy_annotations(scene.migration, original, scene.now),
    }
    if SYNC_REQUESTED_ANNOTATION in target.annotations:
        metadata["annotations"][SYNC_REQUESTED_ANNOTATION] = None
    if any(owner.uid == scene.migration.uid for owner in target.owners):
        metadata["ownerReferences"] = [_DELETE | {"uid": scene.migration.uid}]
    return strategic_patch({"metadata": metadata})
