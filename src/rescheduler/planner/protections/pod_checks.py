"""Protect a pod because of its own state or template: one small function per protection."""

import fnmatch
from collections.abc import Iterator
from datetime import datetime, timedelta

from kubevalues.duration import parse_duration, short_duration
from rescheduler.api.podmigration import Handover
from rescheduler.api.well_known_names import (
    DO_NOT_DISRUPT_ADDED_ANNOTATION,
    KARPENTER_DO_NOT_DISRUPT_ANNOTATION,
    MIGRATION_TIME_ANNOTATION,
    PRIVILEGED_COPIES_LABEL,
    RESCHEDULING_LABEL,
)
from rescheduler.cluster.pod_classes import owner_chain
from rescheduler.cluster.pod_record import HOST_PATH_VOLUME, handles_own_eviction, is_rescheduler_pod
from rescheduler.cluster.snapshot import is_selected_namespace, is_selected_node
from rescheduler.cluster.workload_record import controller_of
from rescheduler.planner.handover_choice import exclusive_claims, local_data, unknown_claim
from rescheduler.planner.protections.pod_candidate import PodCandidate, Protection
from rescheduler.planner.reasons import Reason
from rescheduler.recovery.failing_pods import find_failing_pods, is_healthy

__all__ = [
    "already_moving",
    "bare_pod",
    "claim_shared",
    "cooling_down",
    "copy_restricted",
    "daemon_set_pod",
    "do_not_disrupt",
    "eviction_handled",
    "excluded_by_selector",
    "excluded_namespace",
    "failing",
    "finished",
    "gated",
    "job_pod",
    "local_storage",
    "marks_in_template",
    "mirror_pod",
    "moves_system_pods",
    "namespace_not_selected",
    "node_name_in_template",
    "node_not_selected",
    "node_unknown",
    "not_safe_to_evict",
    "opted_out",
    "other_scheduler",
    "own_pod",
    "owner_unknown",
    "prefers_no_eviction",
    "priority_too_high",
    "recovered",
    "resource_claims",
    "scheduling_group",
    "system_pod",
    "terminating",
    "too_young",
    "unscheduled",
    "volume_unknown",
]

_MIRROR = "kubernetes.io/config.mirror"
_SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_EVICT = "descheduler.alpha.kubernetes.io/evict"
_PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"


def mirror_pod(candidate: PodCandidate) -> Protection | None:
    if _MIRROR in candidate.pod.annotations or candidate.is_owned_by("Node"):
        return Protection("it is a static pod of its kubelet")
    return None


def daemon_set_pod(candidate: PodCandidate) -> Protection | None:
    if candidate.is_owned_by("DaemonSet"):
        return Protection("its DaemonSet runs it on this node", candidate.owner_name)
    return None


def finished(candidate: PodCandidate) -> Protection | None:
    if candidate.context.recovering and candidate.owner is None and candidate.pod.phase == "Failed":
        return None  # no controller recreates it
    return Protection(f"its phase is {candidate.pod.phase}") if candidate.pod.is_finished else None


def terminating(candidate: PodCandidate) -> Protection | None:
    if candidate.pod.is_terminating:
        return Protection("it is being deleted")
    for each in owner_chain(candidate.pod.namespace, candidate.owner, candidate.snapshot.controllers):
        if each.deleted_s is not None:
            return Protection(f"its {each.kind} is being deleted", f"{each.kind}/{each.name}")
    return None


def copy_restricted(candidate: PodCandidate) -> Protection | None:
    """Refuse a pod whose copy the admission policy for copies would refuse (`install/copy_policies.py`). Only
    the API server knows what the pod's service account may do, so this does not predict everything."""
    if not candidate.policy.restricted_copies or candidate.handover not in {Handover.ADOPT, Handover.COPY}:
        return None
    labels = candidate.snapshot.namespaces.get(candidate.pod.namespace) or {}
    if labels.get(PRIVILEGED_COPIES_LABEL) == "true":
        return None
    paths = (f"hostPath {each.name}" for each in candidate.pod.volumes if each.kind == HOST_PATH_VOLUME)
    access = candidate.pod.shape.host_access or next(paths, "")
    return Protection(f"its copy would have access to the host: {access}") if access else None


def unscheduled(candidate: PodCandidate) -> Protection | None:
    return None if candidate.pod.node else Protection("it has no node yet")


def node_unknown(candidate: PodCandidate) -> Protection | None:
    node = candidate.pod.node
    if node and node not in candidate.snapshot.nodes.row:
        return Protection(f"its node {node} does not exist", node)
    return None


def node_not_selected(candidate: PodCandidate) -> Protection | None:
    if is_selected_node(candidate.snapshot, candidate.policy, candidate.pod.node):
        return None
    detail = f"nodeSelector {candidate.policy.node_selector} does not match node {candidate.pod.node}"
    return Protection(detail, candidate.pod.node)


def already_moving(candidate: PodCandidate) -> Protection | None:
    return Protection("it is being migrated") if candidate.pod.uid in candidate.snapshot.moving else None


def cooling_down(candidate: PodCandidate) -> Protection | None:
    if candidate.context.recovering:
        return None  # its retry allowance limits how often it moves
    rest = candidate.policy.pod_cooldown.total_seconds()
    for moment_s, words in _last_moves(candidate):
        ago = candidate.snapshot.taken_at_s - moment_s
        if moment_s and ago < rest:
            return Protection(f"{words} {_span(ago)} ago; podCooldown is {_span(rest)}")
    return None


def _last_moves(candidate: PodCandidate) -> Iterator[tuple[float, str]]:
    """Yield when the pod moved last, in seconds since 1970 (0 for never), with the words that describe it."""
    if candidate.urgent:
        # It has to leave although it came recently. But a move that failed a minute ago would fail again.
        yield candidate.snapshot.failed_moves.get(candidate.pod.uid, 0.0), "its migration failed"
        return
    yield _seconds(candidate.pod.annotations.get(MIGRATION_TIME_ANNOTATION)), "it was moved"
    # A failed migration leaves no annotation on the pod.
    yield candidate.snapshot.recent_moves.get(candidate.pod.uid, 0.0), "its migration ended"


def too_young(candidate: PodCandidate) -> Protection | None:
    if candidate.urgent:
        return None  # a pod that a drain moved here a minute ago must also leave this node
    now_s, least = candidate.snapshot.taken_at_s, candidate.policy.min_pod_age.total_seconds()
    age = now_s - candidate.pod.created_s
    if age < least:
        return Protection(f"it is {_span(age)} old; minPodAge is {_span(least)}")
    ready = candidate.pod.condition("Ready")
    # Its copy would probably flap, too. If that lies far ahead, the clock of its node is wrong.
    ago = least if ready is None else now_s - ready.since_s
    if abs(ago) >= least:
        return None
    return Protection(f"its readiness changed {_span(ago)} ago; minPodAge is {_span(least)}")


def failing(candidate: PodCandidate) -> Protection | None:
    """Leave a failing pod whose owner asks for recovery to the strategy FailedPods."""
    if candidate.urgent or is_healthy(candidate.snapshot, candidate.row):
        return None
    found = find_failing_pods(candidate.snapshot, candidate.policy.failed_pods)
    replica = found.failing.get(candidate.row)
    return Protection(replica.failure.message) if replica is not None and replica.retries else None


def recovered(candidate: PodCandidate) -> Protection | None:
    """Keep a pod that has recovered since its move was planned."""
    is_well = candidate.context.recovering and is_healthy(candidate.snapshot, candidate.row)
    return Protection("it is ready now") if is_well else None


def not_safe_to_evict(candidate: PodCandidate) -> Protection | None:
    if candidate.pod.annotations.get(_SAFE_TO_EVICT) == "false":
        return Protection(f'it has the annotation {_SAFE_TO_EVICT}: "false"')
    return None


def do_not_disrupt(candidate: PodCandidate) -> Protection | None:
    """Refuse as Karpenter does; the annotation is `true`, or a duration after the start of the pod."""
    value = candidate.pod.annotations.get(KARPENTER_DO_NOT_DISRUPT_ANNOTATION, "")
    if not value or DO_NOT_DISRUPT_ADDED_ANNOTATION in candidate.pod.annotations:
        return None  # our own migration has set it, so that Karpenter keeps the node
    if value == "true":
        return Protection(f'it has the annotation {KARPENTER_DO_NOT_DISRUPT_ANNOTATION}: "true"')
    try:
        length = parse_duration(value)
    except ValueError:
        return None
    started_s = candidate.pod.started_s
    ago_s = 0.0 if started_s is None else candidate.snapshot.taken_at_s - started_s
    if ago_s >= length.total_seconds():
        return None
    words = f'it has the annotation {KARPENTER_DO_NOT_DISRUPT_ANNOTATION}: "{short_duration(length)}"'
    return Protection(f"{words}, and started {_span(ago_s)} ago")


def prefers_no_eviction(candidate: PodCandidate) -> Protection | None:
    """Refuse a move that isn't urgent if the annotation is set; a drain moves the pod."""
    if candidate.urgent or _PREFER_NO_EVICTION not in candidate.pod.annotations:
        return None
    return Protection(f"it has the annotation {_PREFER_NO_EVICTION}")


def eviction_handled(candidate: PodCandidate) -> Protection | None:
    """Leave virtual machines to KubeVirt: a copy of a virt-launcher pod would be of no use."""
    if not handles_own_eviction(candidate.pod):
        return None
    return Protection("another component moves it when it is evicted", candidate.owner_name)


def _seconds(moment: str | None) -> float:
    """Parse a time; return 0 if there is none or it is invalid: a malformed annotation protects nothing."""
    try:
        found = datetime.fromisoformat(moment) if moment else None
    except ValueError:
        return 0.0
    return found.timestamp() if found is not None and found.tzinfo is not None else 0.0


def _span(seconds: float) -> str:
    """Format a duration. Clocks differ, so a negative one counts as zero."""
    return short_duration(timedelta(seconds=round(max(seconds, 0.0))))


_DEFAULT_SCHEDULER = "default-scheduler"
_SYSTEM_PRIORITY = 2_000_000_000
"""The lowest priority that is reserved for the priority classes of the system."""


def owner_unknown(candidate: PodCandidate) -> Protection | None:
    # Other checks give a better reason for these.
    if candidate.is_owned_by("DaemonSet") or candidate.is_owned_by("Node"):
        return None
    return candidate.impossible(Reason.OWNER_UNKNOWN)


def job_pod(candidate: PodCandidate) -> Protection | None:
    if (
        candidate.is_owned_by("Job")
        and not candidate.policy.include_jobs
        and not candidate.context.recovering
    ):
        return Protection("includeJobs is not set", candidate.owner_name)
    return None


def bare_pod(candidate: PodCandidate) -> Protection | None:
    if candidate.owner is not None:
        return None
    if not candidate.policy.include_bare_pods and not candidate.context.recovering:
        return Protection("includeBarePods is not set")
    policy = candidate.pod.shape.restart_policy or "Always"
    return None if policy == "Always" else Protection(f"its restartPolicy is {policy}")


def own_pod(candidate: PodCandidate) -> Protection | None:
    if is_rescheduler_pod(candidate.pod) and (not candidate.urgent or candidate.context.recovering):
        return Protection("it belongs to the rescheduler")
    return None


def excluded_namespace(candidate: PodCandidate) -> Protection | None:
    excluded = candidate.pod_class.namespace in candidate.policy.excluded_namespaces
    if excluded and not moves_system_pods(candidate):
        return Protection(f"namespace {candidate.pod_class.namespace} is excluded")
    return None


def namespace_not_selected(candidate: PodCandidate) -> Protection | None:
    name, selector = candidate.pod_class.namespace, candidate.policy.namespace_selector
    if is_selected_namespace(candidate.snapshot, candidate.policy, name) or moves_system_pods(candidate):
        return None
    if name not in candidate.snapshot.namespaces:
        return Protection(f"the labels of namespace {name} are not known; namespaceSelector is {selector}")
    return Protection(f"namespaceSelector {selector} does not match namespace {name}")


def system_pod(candidate: PodCandidate) -> Protection | None:
    name, priority = candidate.pod.shape.priority_class, candidate.pod.priority
    system = fnmatch.fnmatchcase(name, "system-*-critical") or priority >= _SYSTEM_PRIORITY
    if system and not moves_system_pods(candidate):
        return Protection(f"its priority class is {name}" if name else f"its priority is {priority}")
    return None


def moves_system_pods(candidate: PodCandidate) -> bool:
    return (
        candidate.urgent and not candidate.context.recovering and candidate.policy.maintenance_includes_system
    )


def priority_too_high(candidate: PodCandidate) -> Protection | None:
    most = candidate.policy.max_priority
    if most is None or candidate.pod.priority <= most:
        return None
    return Protection(f"its priority is {candidate.pod.priority}; maxPriority is {most}")


def opted_out(candidate: PodCandidate) -> Protection | None:
    if candidate.pod_class.labels.get(RESCHEDULING_LABEL) == "disabled":
        return Protection(f'it has the label {RESCHEDULING_LABEL}: "disabled"')
    return None


def excluded_by_selector(candidate: PodCandidate) -> Protection | None:
    selector = candidate.policy.excluded_pod_selector
    if selector.matches(candidate.pod_class.labels):
        return Protection(f"it matches excludedPodSelector {selector}")
    return None


def gated(candidate: PodCandidate) -> Protection | None:
    gates = candidate.pod.shape.scheduling_gates
    return Protection(f"it has the scheduling gates {', '.join(gates)}") if gates else None


def resource_claims(candidate: PodCandidate) -> Protection | None:
    claims = candidate.pod.shape.resource_claims
    return Protection(f"it holds the resource claims {', '.join(claims)}") if claims else None


def scheduling_group(candidate: PodCandidate) -> Protection | None:
    group = candidate.pod.shape.scheduling_group
    return None if group is None else Protection(f"the scheduler places it with {group or 'its group'}")


def other_scheduler(candidate: PodCandidate) -> Protection | None:
    name = candidate.pod.shape.scheduler_name or _DEFAULT_SCHEDULER
    return None if name in candidate.policy.known_schedulers else Protection(f"its schedulerName is {name}")


def node_name_in_template(candidate: PodCandidate) -> Protection | None:
    record = candidate.context.record(candidate.row)
    if record is None or not record.template_node:
        return None
    return Protection(f"the template of {record.kind} {record.name} sets nodeName: {record.template_node}")


def local_storage(candidate: PodCandidate) -> Protection | None:
    annotations = candidate.pod.annotations
    # These annotations say that the cluster autoscaler, or descheduler, may evict it although it has such
    # data.
    is_expendable = annotations.get(_SAFE_TO_EVICT) == "true" or _EVICT in annotations
    if candidate.policy.include_local_storage or is_expendable:
        return None
    # The emptyDir of a pod that keeps failing is of no use.
    replaceable = candidate.is_owned_by("ReplicaSet") or candidate.context.recovering
    kept = local_data(candidate.pod_class, candidate.snapshot.storage, replaceable=replaceable)
    return Protection(f"it has {kept}") if kept else None


def volume_unknown(candidate: PodCandidate) -> Protection | None:
    claim = unknown_claim(candidate.pod_class, candidate.snapshot.storage)
    if claim:
        return Protection(f"its claim {claim}, or the volume of that claim, does not exist", claim)
    return None


def claim_shared(candidate: PodCandidate) -> Protection | None:
    """Refuse if other pods use a claim whose volume can't be attached to a second node.

    The scheduler would allow it.
    """
    for claim in exclusive_claims(candidate.pod_class, candidate.snapshot.storage):
        others = candidate.context.users_of_claim(claim) - 1
        if others > 0:
            users = "1 more pod uses" if others == 1 else f"{others} more pods use"
            return Protection(f"{users} its claim {claim}, which can be attached to one node only", claim)
    return None


def marks_in_template(candidate: PodCandidate) -> Protection | None:
    """Refuse a pod whose workload uses migration labels in its selector or template: a migration sets and
    removes them, so the controller would no longer recognize the pod."""
    controller = controller_of(candidate.snapshot.controllers, candidate.pod.namespace, candidate.owner)
    for record in (controller, candidate.context.record(candidate.row)):
        if record is not None and record.own_migration_labels:
            labels = ", ".join(record.own_migration_labels)
            return Protection(f"its workload uses the labels {labels}", f"{record.kind}/{record.name}")
    return None
