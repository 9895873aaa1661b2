"""What others may do while a migration is under way, and what simply takes too long."""

from datetime import timedelta

from rescheduler.migrations.scene import Happened, Scene
from rescheduler.migrations.steps import Event
from rescheduler.model.workloads import is_rolling_out

__all__ = ["deadline", "interrupted", "workload_changed"]


def interrupted(scene: Scene) -> Happened | None:
    """Why the attempt must end, at any step between the mark and the eviction; None if it may go on."""
    if scene.migration.is_cancelled:
        return Happened(Event.CANCELLED, "cancelled: the PodMigration was deleted", "Cancelled", final=True)
    if not scene.source_stands:
        return Happened(
            Event.SOURCE_GONE, f"pod {scene.migration.spec.pod.name} went by itself", "SourceGone", final=True
        )
    if scene.source is not None and scene.source.node != scene.migration.spec.source_node:
        return Happened(
            Event.SOURCE_GONE,
            f"the pod is on {scene.source.node or 'no node'}, not on {scene.migration.spec.source_node}",
            "SourceGone",
            final=True,
        )
    return workload_changed(scene) or _late(scene)


def workload_changed(scene: Scene) -> Happened | None:
    """The copy was made for a workload as it was: with another template or size it no longer fits in."""
    if scene.migration.status.owner is None:
        return None
    owner = scene.migration.status.owner
    name = f"{owner.kind} {owner.name}"
    if scene.owner is None or scene.owner.deleted_s is not None:
        return Happened(Event.WORKLOAD_CHANGED, f"{name} is gone", "WorkloadGone", final=True)
    if scene.source is not None and (scene.source.owner is None or scene.source.owner.uid != owner.uid):
        return Happened(
            Event.WORKLOAD_CHANGED, f"{name} no longer controls the pod", "WorkloadGone", final=True
        )
    if scene.deployment is not None:
        if scene.deployment.deleted_s is not None:
            return Happened(
                Event.WORKLOAD_CHANGED,
                f"Deployment {scene.deployment.name} is gone",
                "WorkloadGone",
                final=True,
            )
        if is_rolling_out(scene.deployment) and not scene.deployment.paused:
            return Happened(
                Event.WORKLOAD_CHANGED, f"Deployment {scene.deployment.name} is rolling out", "RollingOut"
            )
    if scene.owner.kind == "ReplicaSet" and scene.owner.replicas == 0:
        return Happened(Event.WORKLOAD_CHANGED, f"{name} was scaled to zero", "ScaledDown", final=True)
    return None


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
