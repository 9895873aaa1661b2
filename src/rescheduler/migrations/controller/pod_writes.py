"""The writes to pods: create a copy and verify that admission did not change it; and patches, as data."""

import asyncio
import math
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from rescheduler.api.podmigration import ControllerReference, Handover, Migration
from rescheduler.api.well_known_names import (
    DO_NOT_DISRUPT_ADDED_ANNOTATION,
    KARPENTER_DO_NOT_DISRUPT_ANNOTATION,
    SCHEDULING_GATE,
    SYNC_REQUESTED_ANNOTATION,
)
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.sources.watched_objects import WatchedObjects
from rescheduler.kube import errors
from rescheduler.kube.api_resources import REPLICA_SETS, Object, Patch, merge_patch, strategic_patch
from rescheduler.kube.client import Client
from rescheduler.kube.transport import loop_s
from rescheduler.migrations import effects, labels_and_names
from rescheduler.migrations.copy_manifest import admission_differences, adoptable_copy, bare_copy
from rescheduler.migrations.labels_and_names import MigrationLabelStatus, may_be_copy
from rescheduler.migrations.observation import Observation, Transition, Wait
from rescheduler.migrations.transition_table import Trigger

__all__ = [
    "REFUSAL_ERRORS",
    "CopyCreator",
    "complete_copy_patch",
    "lacks_permission",
    "mark_source_patch",
    "nominate_node_patch",
    "offer_for_adoption_patch",
    "protect_source_patch",
    "release_target_patches",
    "remove_gate_patch",
    "remove_labels_patch",
    "request_budget_sync_patch",
    "return_to_owner_patch",
    "unmark_source_patch",
]

REFUSAL_ERRORS: Final = (errors.Forbidden, errors.Invalid, errors.BadRequest)
"""Quota, LimitRange, PodSecurity, policies and webhooks: the same request would fail again."""


def lacks_permission(refusal: errors.KubeError) -> bool:
    """Return whether RBAC refuses. That is not final: an API server that has just started refuses requests
    until it has read its roles."""
    return isinstance(refusal, errors.Forbidden) and refusal.lacks_permission


_MIN_VERSION_MESSAGE: Final = "Adopt and Copy need Kubernetes 1.30 or newer"

_INFORMER_DELAY: Final = timedelta(seconds=5)
"""After this time, informers have observed what a live read returned."""

_MAX_COMPARED: Final = 10_000

_LIVE_S: Final = 1.0
"""How long the answer to a write counts as a live read."""

_MAX_MARKED: Final = 1_000


class CopyCreator:
    def __init__(self, client: Client, watched: WatchedObjects) -> None:
        self._client = client
        self._watched = watched
        self._compared: dict[str, None] = {}
        """Copies that this process has compared, by uid. The next leader compares again."""
        self._marked: dict[str, tuple[Object, float]] = {}
        """Sources as the server returned them with our labels, by uid, and when it did."""

    async def mark(self, observation: Observation, patch: Patch) -> PodRecord:
        """Mark the source. The response is also a live read, from which the copy is created next."""
        source = await self._client.patch(PODS.as_json, observation.migration.pod_key, patch)
        if observation.migration.status.handover is not Handover.EVICT:
            while len(self._marked) >= _MAX_MARKED:
                del self._marked[next(iter(self._marked))]
            self._marked[source["metadata"]["uid"]] = source, loop_s()
        return self._watched.learn_pod(source)

    async def _live_source(self, migration: Migration) -> Object:
        source, read_s = self._marked.pop(migration.spec.pod.uid, ({}, -math.inf))
        if loop_s() - read_s <= _LIVE_S:
            return source
        return await self._client.get(PODS.as_json, migration.pod_key)

    async def create(self, observation: Observation, name: str) -> Transition | Wait | None:
        """Create the copy from a live read of the source; return None to observe again."""
        migration = observation.migration
        live = await self._live(observation)
        if not isinstance(live, tuple):
            return live
        source, replica_set = live
        if replica_set is not None and replica_set["spec"]["template"]["spec"].get("nodeName"):
            why = f"the template of ReplicaSet {replica_set['metadata']['name']} sets nodeName"
            return _copy_refused("NodeNameInTemplate", why)
        if replica_set is None:
            wanted = bare_copy(source, migration, name, observation.now)
        else:
            wanted = adoptable_copy(replica_set, source, migration, name, observation.now)
        key = f"{migration.namespace}/{name}"
        try:
            made = await self._client.create(PODS.as_json, wanted)
        except errors.AlreadyExists:
            await self._watched.read_pod(key, "")
            there = self._watched.pods.get(key)
            if there is None or may_be_copy(there, migration):
                return None
            return _copy_refused("CopyNameTaken", f"another pod already has the name of the copy, {name}")
        except REFUSAL_ERRORS as refusal:
            if lacks_permission(refusal):
                raise
            return _copy_refused("CopyRefused", f"the copy was refused: {refusal.why}")
        record = self._watched.learn_pod(made)
        if SCHEDULING_GATE not in record.shape.scheduling_gates:
            return _copy_refused(
                "GateMissing", f"the server did not keep the scheduling gate; {_MIN_VERSION_MESSAGE}"
            )
        return self._compare(source, made, replica_set)

    def ignored(self, observation: Observation, node: str) -> Transition | None:
        """Return a refusal if admission dropped the nomination, without which the copy may go anywhere."""
        assert observation.target is not None
        copy = self._watched.pods.get(observation.target.key)
        if copy is None or copy.uid != observation.target.uid or copy.node or copy.nominated_node == node:
            return None
        return _copy_refused(
            "NominationIgnored", f"the server did not keep status.nominatedNodeName; {_MIN_VERSION_MESSAGE}"
        )

    async def difference(self, observation: Observation) -> Transition | None:
        """Compare the copy before it may be scheduled; its creator may have stopped before that."""
        assert observation.target is not None
        if observation.target.uid in self._compared:
            return None
        key = f"{observation.migration.namespace}/{observation.target.name}"
        owner = observation.migration.status.owner
        try:
            source, copy = await asyncio.gather(
                self._client.get(PODS.as_json, observation.migration.pod_key),
                self._client.get(PODS.as_json, key),
            )
            replica_set: Object | None = None
            if owner is not None:
                replica_set = await self._client.get(
                    REPLICA_SETS, f"{observation.migration.namespace}/{owner.name}"
                )
        except errors.NotFound:
            await asyncio.gather(
                self._watched.read_pod(observation.migration.pod_key, observation.migration.spec.pod.uid),
                self._watched.read_pod(key, observation.target.uid),
            )
            return None
        return self._compare(source, copy, replica_set)

    def _compare(self, source: Object, copy: Object, replica_set: Object | None) -> Transition | None:
        template = None if replica_set is None else replica_set["spec"]["template"]["spec"]
        differences = admission_differences(source, copy, template)
        if differences:
            return _copy_refused("AdmissionDiffers", f"admission changed the pod: {'; '.join(differences)}")
        while len(self._compared) >= _MAX_COMPARED:
            del self._compared[next(iter(self._compared))]
        self._compared[copy["metadata"]["uid"]] = None
        return None

    async def _live(self, observation: Observation) -> tuple[Object, Object | None] | Wait | None:
        """Return the source and its ReplicaSet; if something has changed, return what to do instead."""
        migration, owner = observation.migration, observation.migration.status.owner
        try:
            source = await self._live_source(migration)
        except errors.NotFound:
            self._watched.pods.observe_deleted(migration.pod_key, migration.spec.pod.uid)
            return None
        assert observation.source is not None
        if self._watched.learn_pod(source).resource_version != observation.source.resource_version:
            return None
        if migration.status.handover is Handover.COPY or owner is None:
            return source, None
        # The cache is enough: the copy is compared with its source, which was read live, and the attempt is
        # rolled back when the cache shows that the ReplicaSet has changed (decision 38).
        replica_set = self._watched.workloads["ReplicaSet"].get(f"{migration.namespace}/{owner.name}")
        if replica_set is None or replica_set["metadata"]["uid"] != owner.uid:
            return Wait(observation.now + _INFORMER_DELAY, f"{owner.kind} {owner.name} no longer exists")
        return source, replica_set


def _copy_refused(failure: str, message: str) -> Transition:
    return Transition(Trigger.COPY_REFUSED, message, failure, final=True)


_DELETE: Final = {"$patch": "delete"}


def mark_source_patch(migration: Migration, source: PodRecord, version: str, now: datetime) -> Patch:
    return merge_patch(
        {
            "metadata": {
                "resourceVersion": version,
                "uid": source.uid,
                "labels": labels_and_names.migration_labels(migration, MigrationLabelStatus.IN_PROGRESS),
                "annotations": labels_and_names.source_annotations(source, now),
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


def protect_source_patch(effect: effects.ProtectSource) -> Patch:
    annotations = {
        KARPENTER_DO_NOT_DISRUPT_ANNOTATION: f"{effect.seconds_after_start}s",
        DO_NOT_DISRUPT_ADDED_ANNOTATION: "true",
    }
    metadata = {"resourceVersion": effect.version, "uid": effect.pod.uid, "annotations": annotations}
    return merge_patch({"metadata": metadata})


def remove_labels_patch(uid: str) -> Patch:
    return merge_patch({"metadata": {"uid": uid, "labels": dict.fromkeys(labels_and_names.LABELS)}})


def complete_copy_patch(pod: PodRecord) -> Patch:
    """Return the patch that marks a copy as completed after its migration was deleted."""
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
    owners = [{"uid": migration.uid, "controller": False}]
    return strategic_patch({"metadata": {"uid": uid, "ownerReferences": owners}})


def return_to_owner_patch(migration: Migration, uid: str, owner: ControllerReference) -> Patch:
    """Return the patch that restores the copy's former owner, so that it is garbage collected."""
    reference = msgspec.to_builtins(owner) | {"controller": False, "blockOwnerDeletion": False}
    owners = [_DELETE | {"uid": migration.uid}, reference]
    return strategic_patch({"metadata": {"uid": uid, "ownerReferences": owners}})


def release_target_patches(migration: Migration, target: PodRecord, now: datetime) -> list[Patch]:
    """Return patches that release the successor; the first that the server accepts is enough.

    They have no version as precondition, so that nothing delays the adoption; the copy must only still name
    its ReplicaSet. Other clients may have left no room for annotations, and a policy may refuse labels: the
    ReplicaSet must be able to adopt the copy all the same.
    """
    original = labels_and_names.original_pod_name(migration.spec.pod.name, target.annotations)
    labels = labels_and_names.migration_labels(migration, MigrationLabelStatus.COMPLETED)
    annotations: dict[str, Any] = labels_and_names.copy_annotations(migration, original, now)
    no_longer = dict.fromkeys({SYNC_REQUESTED_ANNOTATION} & target.annotations.keys())
    least: dict[str, Any] = {"uid": target.uid}
    owners = {owner.uid for owner in target.owners}
    if migration.uid in owners:
        least["ownerReferences"] = [_DELETE | {"uid": migration.uid}]
        if migration.status.owner is not None and migration.status.owner.uid in owners:
            # This changes nothing in a reference that exists. If it is gone, this adds one without kind and
            # name, which the server refuses.
            least["ownerReferences"].append({"uid": migration.status.owner.uid})
    versions = [
        least | {"labels": labels, "annotations": annotations | no_longer},
        least | {"labels": labels, "annotations": no_longer},
        *([least] if "ownerReferences" in least else []),
    ]
    return [strategic_patch({"metadata": each}) for each in versions]
