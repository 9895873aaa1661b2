"""What others may do while a migration is under way, and what simply takes too long."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from rescheduler.migrations.scene import Happened, Scene
from rescheduler.migrations.steps import Event
from rescheduler.model.migrations import FAILED_PODS
from rescheduler.model.plan import Handover
from rescheduler.model.workloads import WorkloadRecord, is_rolling_out

__all__ = ["SOURCE_GONE", "deadline", "interrupted", "is_superseded", "is_unwanted", "workload_changed"]

SOURCE_GONE = "SourceGone"

_TEMPLATE_HASH = "pod-template-hash"


def interrupted(scene: Scene) -> Happened | None:
    """Why the attempt must end, at any step between the mark and the eviction; None if it may go on."""
    if scene.migration.is_cancelled:
        return Happened(Event.CANCELLED, "cancelled: the PodMigration was deleted", "Cancelled", final=True)
    if scene.copy_is_all_that_is_left:
        return _late(scene)
    if not scene.source_stands:
        why = f"pod {scene.migration.spec.pod.name} is {scene.source_end}"
        return Happened(Event.SOURCE_GONE, why, SOURCE_GONE, final=True)
    assert scene.source is not None
    if scene.source.node != scene.migration.spec.source_node:
        where = f"the pod is on {scene.source.node or 'no node'}, not on {scene.migration.spec.source_node}"
        return _changed(where, "SourceElsewhere", final=True)
    return workload_changed(scene) or _late(scene)


def workload_changed(scene: Scene) -> Happened | None:
    """The copy was made for a workload as it was: with another template it no longer fits in.

    Another size is no reason: the workload counts its pods by itself, before and after.
    """
    owner = scene.migration.status.owner
    if owner is None:
        return None
    name = f"{owner.kind} {owner.name}"
    controller = scene.source.owner if scene.source is not None else None
    if scene.source_stands and (controller is None or controller.uid != owner.uid):
        return _changed(f"{name} no longer controls the pod", "WorkloadGone", final=True)
    if scene.owner_is_gone:
        return _changed(f"{name} is gone", "WorkloadGone", final=True)
    if scene.owner is None:
        return None
    if scene.owner.replicas == 0:
        return _changed(f"{name} was scaled to zero", "ScaledDown", final=True)
    if _is_exchanging(scene.owner) and not _is_recovered_by_eviction(scene):
        return _changed(f"{name} is rolling out", "RollingOut")
    return _deployment_changed(scene)


def is_unwanted(scene: Scene) -> bool:
    """Whether the workload wants no pod any more, so that no budget is a reason to keep one of them."""
    if scene.owner_is_gone:
        return not scene.pods_are_orphaned
    return scene.owner is not None and scene.owner.replicas == 0


def _deployment_changed(scene: Scene) -> Happened | None:
    deployment = scene.deployment
    if scene.workload_is_gone:
        return _changed("its Deployment is gone", "WorkloadGone", final=True)
    if deployment is None:
        return None
    # A paused one does nothing about it yet: until it is resumed the pods are wanted as they are.
    if scene.is_superseded and not deployment.paused:
        return _changed(f"Deployment {deployment.name} is rolling out", "RollingOut")
    return None


def _is_exchanging(owner: WorkloadRecord) -> bool:
    """StatefulSets and DaemonSets exchange their pods themselves; ReplicaSets never do."""
    return owner.kind != "ReplicaSet" and is_rolling_out(owner)


def _is_recovered_by_eviction(scene: Scene) -> bool:
    """A rollout that is stuck because of this very pod would never end otherwise."""
    return scene.migration.spec.strategy == FAILED_PODS and scene.migration.status.handover is Handover.EVICT


def is_superseded(deployment: Mapping[str, Any], replica_set: Mapping[str, Any]) -> bool:
    """Whether the Deployment wants other pods than this ReplicaSet makes.

    By their templates, as its controller does: a change of size raises the generation too, and is none.
    """
    wanted, made = deployment["spec"]["template"], replica_set["spec"]["template"]
    return bool(wanted["spec"] != made["spec"] or _metadata(wanted) != _metadata(made))


def _metadata(template: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != _TEMPLATE_HASH}
    return labels, metadata.get("annotations") or {}


def _changed(message: str, failure: str, *, final: bool = False) -> Happened:
    return Happened(Event.WORKLOAD_CHANGED, message, failure, final)


def deadline(scene: Scene) -> timedelta:
    """How much time is left until the attempt is rolled back; negative when it is over."""
    began = scene.migration.status.started_at
    if began is None:
        return scene.policy.migration_timeout
    return began + scene.policy.migration_timeout - scene.now


def _late(scene: Scene) -> Happened | None:
    if deadline(scene) > timedelta():
        return None
    step, limit = scene.migration.status.step, scene.policy.migration_timeout
    return Happened(
        Event.TIMED_OUT, f"not handed over within {limit} (migrationTimeout), it was at {step}", "TimedOut"
    )
