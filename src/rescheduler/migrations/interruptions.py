"""The events that end an attempt: changes of the workload, a lost target node, cancellation and timeouts."""

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


def interrupted(observation: Observation) -> Transition | None:
    """Why the attempt must end, at any step between the mark and the eviction; None if it may go on."""
    if observation.migration.is_cancelled:
        return Transition(
            Trigger.CANCELLED, "cancelled: the PodMigration was deleted", "Cancelled", final=True
        )
    if observation.copy_is_all_that_is_left:
        return _timed_out(observation)
    if not observation.source_stands:
        why = f"pod {observation.migration.spec.pod.name} is {observation.source_end}"
        return Transition(Trigger.SOURCE_GONE, why, SOURCE_GONE, final=True)
    assert observation.source is not None
    if observation.source.node != observation.migration.spec.source_node:
        node, expected = observation.source.node or "no node", observation.migration.spec.source_node
        where = f"the pod is on {node}, not on {expected}"
        return _workload_transition(where, "SourceElsewhere", final=True)
    return workload_changed(observation) or _timed_out(observation)


def workload_changed(observation: Observation) -> Transition | None:
    """The copy was made for a workload as it was: with another template it no longer fits in.

    Another size is no reason: the workload counts its pods by itself, before and after.
    """
    owner = observation.migration.status.owner
    if owner is None:
        return None
    name = f"{owner.kind} {owner.name}"
    controller = observation.source.owner if observation.source is not None else None
    if observation.source_stands and (controller is None or controller.uid != owner.uid):
        return _workload_transition(f"{name} no longer controls the pod", "WorkloadGone", final=True)
    if observation.owner_is_gone:
        return _workload_transition(f"{name} no longer exists", "WorkloadGone", final=True)
    if observation.owner is None:
        return None
    if observation.owner.replicas == 0:
        return _workload_transition(f"{name} was scaled to zero", "ScaledDown", final=True)
    if _is_replacing_pods(observation.owner) and not _is_recovered_by_eviction(observation):
        return _workload_transition(f"{name} is rolling out", "RollingOut")
    return _deployment_changed(observation)


def wants_no_pods(observation: Observation) -> bool:
    """Whether the workload wants no pod any more, so that no budget is a reason to keep one of them."""
    if observation.owner_is_gone:
        return not observation.pods_are_orphaned
    return observation.owner is not None and observation.owner.replicas == 0


def _deployment_changed(observation: Observation) -> Transition | None:
    deployment = observation.deployment
    if observation.workload_is_gone:
        return _workload_transition("its Deployment no longer exists", "WorkloadGone", final=True)
    if deployment is None:
        return None
    # A paused one does nothing about it yet: until it is resumed the pods are wanted as they are.
    if observation.is_superseded and not deployment.paused:
        return _workload_transition(f"Deployment {deployment.name} is rolling out", "RollingOut")
    return None


def _is_replacing_pods(owner: WorkloadRecord) -> bool:
    """StatefulSets and DaemonSets exchange their pods themselves; ReplicaSets never do."""
    return owner.kind != "ReplicaSet" and is_rolling_out(owner)


def _is_recovered_by_eviction(observation: Observation) -> bool:
    """A rollout that is stuck because of this very pod would never end otherwise."""
    migration = observation.migration
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


def time_left(observation: Observation) -> timedelta:
    """How much time is left until the attempt is rolled back; negative when it is over."""
    began = observation.migration.status.started_at
    if began is None:
        return observation.policy.migration_timeout
    return began + observation.policy.migration_timeout - observation.now


def _timed_out(observation: Observation) -> Transition | None:
    if time_left(observation) > timedelta():
        return None
    step, limit = observation.migration.status.step, observation.policy.migration_timeout
    return Transition(
        Trigger.TIMED_OUT,
        f"not handed over within {limit} (migrationTimeout); the last step was {step}",
        "TimedOut",
    )


TARGET_LOST: Final = "TargetLost"

_READINESS_TAINTS: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Taints that follow the condition Ready with some delay. The condition itself is newer."""


def target_lost(observation: Observation) -> Transition | None:
    """Return the end of an attempt whose target node can't keep the pod; None if it can."""
    if loss := why_target_lost(observation):
        return Transition(Trigger.TARGET_LOST, loss, TARGET_LOST)
    return None


def why_target_lost(observation: Observation) -> str:
    """Say why the target node can't keep the pod; empty if it can, or if none was chosen (Evict)."""
    copy = observation.target
    name = copy.node if copy is not None and copy.node else observation.migration.target_node
    if not name:
        return ""
    node = observation.nodes.get(name)
    if node is None:
        return f"target node {name} no longer exists"
    if not node.is_ready:
        return f"target node {name} is not ready"
    if node.deleted_s is not None:
        return f"target node {name} is being deleted"
    pod = copy or observation.source
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
