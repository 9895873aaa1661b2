"""Check that rescheduler's accounts changed only what a migration, or a node in maintenance, names.

The audit log is the proof: every write that was granted to them is in it.
"""

from datetime import timedelta

from tests.e2e.chaos.api_observer import ApiObserver
from tests.e2e.chaos.audit_trail import RESCHEDULER, AuditedRequest

__all__ = ["unrelated_writes"]

OWN_OBJECTS = {
    "events",
    "leases",
    "podmigrations",
    "podmigrations/status",
    "secrets",
    "configmaps",
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
}
"""Of which it may write only those of its own names and namespace; RBAC enforces that."""
_SEEN_LATE = timedelta(seconds=3)


def unrelated_writes(seen: ApiObserver, requests: list[AuditedRequest]) -> list[str]:
    ours = [each for each in requests if each.is_reschedulers]
    pods = _named_pods(seen, ours)
    nodes = _named_nodes(seen)
    retried = _retried_workloads(seen)
    faults = [
        f"{each.received:%H:%M:%S.%f} {each.user}: {each.verb} {each.resource} {each.key}"
        for each in ours
        if not _is_related(each, pods, nodes) and not (each.verb == "patch" and each.key in retried)
    ]
    return faults + _uncordoned(seen, requests)


def _is_related(request: AuditedRequest, pods: set[str], nodes: set[str]) -> bool:
    match request.resource.partition("/")[0]:
        case "pods":
            return request.key in pods
        case "nodes":
            return request.name in nodes
        case "poddisruptionbudgets":
            return request.name.endswith("-rescheduler-pdb")
        case _:
            return request.resource in OWN_OBJECTS


def _named_pods(seen: ApiObserver, ours: list[AuditedRequest]) -> set[str]:
    """Sources and copies of all migrations that there ever were."""
    versions = [each.state for known in seen.migrations.versions.values() for each in known]
    named = {f"{each.namespace}/{name}" for each in versions if each for name in (each.pod, each.copy)}
    # Replacements are marked, and a migration that gives up before they are ready does not record them.
    evicted = {each.pod_uid for each in versions if each and each.handover == "Evict"}
    pods = [each.state for known in seen.pods.versions.values() for each in known if each.state]
    workloads = {each.workload for each in pods if each.uid in evicted}
    named |= {each.key for each in pods if each.workload in workloads}
    created = {each.key for each in ours if (each.resource, each.verb) == ("pods", "create")}
    return named | created


def _named_nodes(seen: ApiObserver) -> set[str]:
    versions = [each.state for known in seen.nodes.versions.values() for each in known]
    return {each.name for each in versions if each and (each.in_maintenance or each.cordoned_by)}


def _retried_workloads(seen: ApiObserver) -> set[str]:
    """Those on which rescheduler records failed attempts."""
    versions = [each.state for known in seen.workloads.versions.values() for each in known]
    return {each.key for each in versions if each and each.allows_retries}


def _uncordoned(seen: ApiObserver, requests: list[AuditedRequest]) -> list[str]:
    """Cordons that others had made, and that rescheduler has undone."""
    patches = [each for each in requests if each.resource == "nodes" and each.verb in {"patch", "update"}]
    faults = []
    for before, after in seen.nodes.ever():
        old, new = before.state, after.state
        if old is None or new is None or not old.is_cordoned or new.is_cordoned:
            continue
        if not old.cordon_managers or RESCHEDULER in old.cordon_managers:
            continue
        near = [
            each for each in patches if each.name == old.name and abs(each.done - after.seen_at) < _SEEN_LATE
        ]
        if near and all(each.is_reschedulers for each in near):
            faults.append(f"{after.seen_at:%H:%M:%S.%f} {old.name}: cordon of {old.cordon_managers} undone")
    return faults
