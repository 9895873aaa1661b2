"""What others may do while a migration is under way, and what simply takes too long.

Whether the target node can keep the copy, or the replacement that is to come.

A pod on a lost node still says that it is ready, for a while.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from rescheduler.api.podmigration import Handover
from rescheduler.api.strategy_traits import traits_of
from rescheduler.cluster.node_record import Taint
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.workload_record import WorkloadRecord, is_rolling_out
from rescheduler.migrations.observation import Observation, Transition
from rescheduler.migrations.transition_table import Trigger
from rescheduler.rules.taint_toleration import tolerates

__all__ = [
    "SOURCE_GONE",
    "TARGET_LOST",
    "interrupted",
    "is_superseded",
    "target_lost",
    "time_left",
    "wants_no_pods",
    "why_target_lost",
    "workload_changed",
]

SOURCE_GONE = "SourceGone"

_TEMPLATE_HASH_LABEL = "pod-template-hash"


def interrupted(scene: Observation) -> Transition | None:
    """Why the attempt must end, at any step between the mark and the eviction; None if it may go on."""
    if scene.migration.is_cancelled:
        return Transition(
            Trigger.CANCELLED, "cancelled: the PodMigration was deleted", "Cancelled", final=True
        )
    if scene.copy_is_all_that_is_left:
        return _timed_out(scene)
    if not scene.source_stands:
        why = f"pod {scene.migration.spec.pod.name} is {scene.source_end}"
        return Transition(Trigger.SOURCE_GONE, why, SOURCE_GONE, final=True)
    assert scene.source is not None
    if scene.source.node != scene.migration.spec.source_node:
        where = f"the pod is on {scene.source.node or 'no node'}, not on {scene.migration.spec.source_node}"
        return _workload_transition(where, "SourceElsewhere", final=True)
    return workload_changed(scene) or _timed_out(scene)


def workload_changed(scene: Observation) -> Transition | None:
    """The copy was made for a workload as it was: with another template it no longer fits in.

    Another size is no reason: the workload counts its pods by itself, before and after.
    """
    owner = scene.migration.status.owner
    if owner is None:
        return None
    name = f"{owner.kind} {owner.name}"
    controller = scene.source.owner if scene.source is not None else None
    if scene.source_stands and (controller is None or controller.uid != owner.uid):
        return _workload_transition(f"{name} no longer controls the pod", "WorkloadGone", final=True)
    if scene.owner_is_gone:
        return _workload_transition(f"{name} is gone", "WorkloadGone", final=True)
    if scene.owner is None:
        return None
    if scene.owner.replicas == 0:
        return _workload_transition(f"{name} was scaled to zero", "ScaledDown", final=True)
    if _is_replacing_pods(scene.owner) and not _is_recovered_by_eviction(scene):
        return _workload_transition(f"{name} is rolling out", "RollingOut")
    return _deployment_changed(scene)


def wants_no_pods(scene: Observation) -> bool:
    """Whether the workload wants no pod any more, so that no budget is a reason to keep one of them."""
    if scene.owner_is_gone:
        return not scene.pods_are_orphaned
    return scene.owner is not None and scene.owner.replicas == 0


def _deployment_changed(scene: Observation) -> Transition | None:
    deployment = scene.deployment
    if scene.workload_is_gone:
        return _workload_transition("its Deployment is gone", "WorkloadGone", final=True)
    if deployment is None:
        return None
    # A paused one does nothing about it yet: until it is resumed the pods are wanted as they are.
    if scene.is_superseded and not deployment.paused:
        return _workload_transition(f"Deployment {deployment.name} is rolling out", "RollingOut")
    return None


def _is_replacing_pods(owner: WorkloadRecord) -> bool:
    """StatefulSets and DaemonSets exchange their pods themselves; ReplicaSets never do."""
    return owner.kind != "ReplicaSet" and is_rolling_out(owner)


def _is_recovered_by_eviction(scene: Observation) -> bool:
    """A rollout that is stuck because of this very pod would never end otherwise."""
    migration = scene.migration
    return traits_of(migration.spec.strategy).recovers and migration.status.handover is Handover.EVICT


def is_superseded(deployment: Mapping[str, Any], replica_set: Mapping[str, Any]) -> bool:
    """Whether the Deployment wants other pods than this ReplicaSet makes.

    By their templates, as its controller does: a change of size raises the generation too, and is none.
    """
    wanted, made = deployment["spec"]["template"], replica_set["spec"]["template"]
    return bool(wanted["spec"] != made["spec"] or _metadata(wanted) != _metadata(made))


def _metadata(template: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    metadata = template.get("metadata") or {}
    labels = {
        key: value for key, value in (metadata.get("labels") or {}).items() if key != _TEMPLATE_HASH_LABEL
    }
    return labels, metadata.get("annotations") or {}


def _workload_transition(message: str, failure: str, *, final: bool = False) -> Transition:
    return Transition(Trigger.WORKLOAD_CHANGED, message, failure, final)


def time_left(scene: Observation) -> timedelta:
    """How much time is left until the attempt is rolled back; negative when it is over."""
    began = scene.migration.status.started_at
    if began is None:
        return scene.policy.migration_timeout
    return began + scene.policy.migration_timeout - scene.now


def _timed_out(scene: Observation) -> Transition | None:
    if time_left(scene) > timedelta():
        return None
    step, limit = scene.migration.status.step, scene.policy.migration_timeout
    return Transition(
        Trigger.TIMED_OUT, f"not handed over within {limit} (migrationTimeout), it was at {step}", "TimedOut"
    )


TARGET_LOST: Final = "TargetLost"

_READINESS_TAINTS: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Taints that follow the condition Ready with some delay. The condition itself is newer."""


def target_lost(scene: Observation) -> Transition | None:
    """Return the end of an attempt whose target node can't keep the pod; None if it can."""
    if loss := why_target_lost(scene):
        return Transition(Trigger.TARGET_LOST, loss, TARGET_LOST)
    return None


def why_target_lost(scene: Observation) -> str:
    """Say why the target node can't keep the pod; empty if it can, or if none was chosen (Evict)."""
    copy = scene.target
    name = copy.node if copy is not None and copy.node else scene.migration.target_node
    if not name:
        return ""
    node = scene.nodes.get(name)
    if node is None:
        return f"target node {name} is gone"
    if not node.is_ready:
        return f"target node {name} is not ready"
    if node.deleted_s is not None:
        return f"target node {name} is being deleted"
    pod = copy or scene.source
    evicting = [taint for taint in node.taints if pod is not None and _evicts(taint, pod)]
    if evicting:
        return f"target node {name} has the taint {evicting[0].key}:NoExecute, which evicts the pod"
    return ""


def _evicts(taint: Taint, pod: PodRecord) -> bool:
    """Tolerating it for some seconds only delays the eviction."""
    if taint.effect != "NoExecute" or taint.key in _READINESS_TAINTS:
        return False
    return not any(
        tolerates(toleration, taint) and toleration.toleration_seconds is None
        for toleration in pod.constraints.tolerations
    )
