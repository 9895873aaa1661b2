"""What kind of pod it is: the same for all pods of a template."""

import fnmatch

from rescheduler.model.workloads import controller_of
from rescheduler.planner.claims import exclusive_claims, local_data, unknown_claim
from rescheduler.planner.protections.case import Because, Case
from rescheduler.planner.reasons import Reason
from rescheduler.strategies.tenants import is_ours

__all__ = [
    "bare_pod",
    "claim_shared",
    "excluded_by_selector",
    "excluded_namespace",
    "gated",
    "job_pod",
    "local_storage",
    "marks_in_template",
    "moves_system_pods",
    "node_name_in_template",
    "opted_out",
    "other_scheduler",
    "own_pod",
    "owner_unknown",
    "priority_too_high",
    "resource_claims",
    "scheduling_group",
    "system_pod",
    "volume_unknown",
]

_RESCHEDULING = "scheduler.alpha.kubernetes.io/rescheduling"
_DEFAULT_SCHEDULER = "default-scheduler"
_SYSTEM_PRIORITY = 2_000_000_000
"""Priorities from here on are reserved for the system's own classes."""


def owner_unknown(case: Case) -> Because | None:
    # Said already, and better.
    if case.is_owned_by("DaemonSet") or case.is_owned_by("Node"):
        return None
    return case.impossible(Reason.OWNER_UNKNOWN)


def job_pod(case: Case) -> Because | None:
    if case.is_owned_by("Job") and not case.policy.include_jobs and not case.around.recovering:
        return Because("includeJobs is not set", case.owner_name)
    return None


def bare_pod(case: Case) -> Because | None:
    if case.owner is not None:
        return None
    if not case.policy.include_bare_pods and not case.around.recovering:
        return Because("includeBarePods is not set")
    policy = case.pod.shape.restart_policy or "Always"
    return None if policy == "Always" else Because(f"its restartPolicy is {policy}")


def own_pod(case: Case) -> Because | None:
    if is_ours(case.pod) and (not case.urgent or case.around.recovering):
        return Because("it is one of ours")
    return None


def excluded_namespace(case: Case) -> Because | None:
    excluded = case.shared.namespace in case.policy.excluded_namespaces
    if excluded and not moves_system_pods(case):
        return Because(f"the namespace {case.shared.namespace} is excluded")
    return None


def system_pod(case: Case) -> Because | None:
    name, priority = case.pod.shape.priority_class, case.pod.priority
    system = fnmatch.fnmatchcase(name, "system-*-critical") or priority >= _SYSTEM_PRIORITY
    if system and not moves_system_pods(case):
        return Because(f"its priority is {name or priority}")
    return None


def moves_system_pods(case: Case) -> bool:
    return case.urgent and not case.around.recovering and case.policy.maintenance_includes_system


def priority_too_high(case: Case) -> Because | None:
    most = case.policy.max_priority
    if most is None or case.pod.priority <= most:
        return None
    return Because(f"its priority is {case.pod.priority}, of {most} at most")


def opted_out(case: Case) -> Because | None:
    return Because("it says so itself") if case.shared.labels.get(_RESCHEDULING) == "disabled" else None


def excluded_by_selector(case: Case) -> Because | None:
    selector = case.policy.excluded_pod_selector
    return Because(f"it matches {selector}") if selector.matches(case.shared.labels) else None


def gated(case: Case) -> Because | None:
    gates = case.pod.shape.scheduling_gates
    return Because(f"it waits for {', '.join(gates)}") if gates else None


def resource_claims(case: Case) -> Because | None:
    claims = case.pod.shape.resource_claims
    return Because(f"it holds {', '.join(claims)}") if claims else None


def scheduling_group(case: Case) -> Because | None:
    group = case.pod.shape.scheduling_group
    return None if group is None else Because(f"the scheduler places it with {group or 'its group'}")


def other_scheduler(case: Case) -> Because | None:
    name = case.pod.shape.scheduler_name or _DEFAULT_SCHEDULER
    return None if name in case.policy.known_schedulers else Because(f"its schedulerName is {name}")


def node_name_in_template(case: Case) -> Because | None:
    record = case.around.record(case.row)
    if record is None or not record.template_node:
        return None
    return Because(f"the template of {record.kind} {record.name} sets nodeName: {record.template_node}")


def local_storage(case: Case) -> Because | None:
    if case.policy.include_local_storage:
        return None
    # What a pod that keeps failing has in an emptyDir is of no use to anybody.
    replaceable = case.is_owned_by("ReplicaSet") or case.around.recovering
    kept = local_data(case.shared, case.snapshot.storage, replaceable=replaceable)
    return Because(f"it has {kept}") if kept else None


def volume_unknown(case: Case) -> Because | None:
    claim = unknown_claim(case.shared, case.snapshot.storage)
    return Because(f"of its claim {claim} too little is known", claim) if claim else None


def claim_shared(case: Case) -> Because | None:
    """The scheduler would not mind, but the volume can't be attached to a second node."""
    for claim in exclusive_claims(case.shared, case.snapshot.storage):
        others = case.around.users_of_claim(claim) - 1
        if others > 0:
            users = "1 more pod uses" if others == 1 else f"{others} more pods use"
            return Because(f"{users} its claim {claim}, which is for one node only", claim)
    return None


def marks_in_template(case: Case) -> Because | None:
    """A migration sets these labels on the pod and removes them: its controller would no longer know it."""
    controller = controller_of(case.snapshot.controllers, case.pod.namespace, case.owner)
    for record in (controller, case.around.record(case.row)):
        if record is not None and record.own_migration_labels:
            labels = ", ".join(record.own_migration_labels)
            return Because(f"the labels {labels} are its workload's", f"{record.kind}/{record.name}")
    return None
