"""Protections that depend on how the pod would be moved, and on the other pods of its workload."""

from rescheduler.api.podmigration import Handover
from rescheduler.config.policy import ZeroBudget
from rescheduler.planner.protections.pod_candidate import PodCandidate, Protection
from rescheduler.planner.reasons import Reason
from rescheduler.planner.workload_availability import (
    ReplicaReadiness,
    creates_pods_in_order,
    disruptions_left,
    ordinal_of,
)
from rescheduler.rules.taint_toleration import tolerates_cordon

__all__ = [
    "budget_spent",
    "handover_impossible",
    "moves_under_zero_budget",
    "revision_pending",
    "rolling_out",
    "several_budgets",
    "sibling_not_ready",
    "surplus_would_preempt",
    "tolerates_own_cordon",
    "too_few_replicas",
    "unsteered",
]


def handover_impossible(candidate: PodCandidate) -> Protection | None:
    return candidate.impossible(Reason.HANDOVER_IMPOSSIBLE)


def rolling_out(candidate: PodCandidate) -> Protection | None:
    return candidate.impossible(Reason.ROLLING_OUT)


def several_budgets(candidate: PodCandidate) -> Protection | None:
    budgets = candidate.context.budgets.guarding(candidate.row)
    if len(budgets) < 2:
        return None
    return Protection(
        f"several budgets cover it: {', '.join(budget.key for budget in budgets)}", budgets[0].key
    )


def too_few_replicas(candidate: PodCandidate) -> Protection | None:
    if candidate.urgent or candidate.handover is not Handover.EVICT:
        return None
    replicas, least = candidate.context.replicas(candidate.row), candidate.policy.min_replicas_for_evict
    if replicas >= least:
        return None
    return Protection(
        f"its workload has {replicas} replicas; minReplicasForEvict is {least}", candidate.owner_name
    )


def unsteered(candidate: PodCandidate) -> Protection | None:
    if (
        candidate.context.steered
        or candidate.policy.allow_unsteered
        or candidate.handover is not Handover.EVICT
    ):
        return None
    if _is_cordoned(candidate):
        return None
    return Protection("no webhook steers its replacement, and its node is not cordoned", candidate.pod.node)


def tolerates_own_cordon(candidate: PodCandidate) -> Protection | None:
    """Its replacement would come back, and would have to be evicted again, and again."""
    if (
        candidate.context.steered
        or candidate.policy.allow_unsteered
        or candidate.handover is not Handover.EVICT
    ):
        return None
    if not _is_cordoned(candidate) or not tolerates_cordon(candidate.pod_class.constraints.tolerations):
        return None
    return Protection(
        "no webhook steers its replacement, which may return to its cordoned node", candidate.pod.node
    )


def _is_cordoned(candidate: PodCandidate) -> bool:
    node = candidate.snapshot.nodes.row.get(candidate.pod.node)
    return node is not None and bool(candidate.context.cordoned[node])


def surplus_would_preempt(candidate: PodCandidate) -> Protection | None:
    if candidate.context.guarded or candidate.handover is not Handover.ADOPT:
        return None
    victims = candidate.context.preemption.by_surplus(candidate.row)
    if not victims:
        return None
    return Protection(
        "its ReplicaSet briefly creates an extra pod, which does not fit: with priority "
        f"{candidate.pod.priority} it could preempt {victims}",
        candidate.owner_name,
    )


def budget_spent(candidate: PodCandidate) -> Protection | None:
    budgets = candidate.context.budgets.guarding(candidate.row)
    if len(budgets) != 1 or candidate.handover is None or disruptions_left(budgets[0]) > 0:
        return None
    if candidate.handover is Handover.ADOPT and moves_under_zero_budget(candidate):
        return None
    return Protection(f"the budget {budgets[0].key} allows no disruption", budgets[0].key)


def moves_under_zero_budget(candidate: PodCandidate) -> bool:
    match candidate.policy.move_under_zero_budget:
        case ZeroBudget.ALWAYS:
            return True
        case ZeroBudget.MAINTENANCE:
            return candidate.urgent
        case ZeroBudget.NEVER:
            return False


def sibling_not_ready(candidate: PodCandidate) -> Protection | None:
    if candidate.handover is not Handover.EVICT or candidate.is_owned_by("Job"):
        return None
    readiness = candidate.context.readiness(candidate.row)
    return (
        None
        if readiness is None
        else _out_of_order(candidate, readiness) or _one_too_many(candidate, readiness)
    )


def _out_of_order(candidate: PodCandidate, readiness: ReplicaReadiness) -> Protection | None:
    """Whether its StatefulSet would not make its successor for the time being."""
    if candidate.owner is None or not candidate.is_owned_by("StatefulSet"):
        return None
    ordinal = ordinal_of(candidate.pod)
    if (
        ordinal is None
        or ordinal <= readiness.first_missing
        or not creates_pods_in_order(candidate.context.record(candidate.row))
    ):
        return None
    missed = f"{candidate.owner.name}-{readiness.first_missing}"
    return Protection(
        f"its StatefulSet does not create {candidate.pod.name} before {missed} is ready", candidate.owner_name
    )


def _one_too_many(candidate: PodCandidate, readiness: ReplicaReadiness) -> Protection | None:
    """Without a budget, allow one missing replica, as the budget that an eviction creates does."""
    if not candidate.snapshot.pods.ready[candidate.row] or candidate.context.budgets.covering(candidate.row):
        return None
    replicas = candidate.context.replicas(candidate.row)
    if readiness.ready >= replicas:
        return None
    missed = f"{readiness.unready} is not ready" if readiness.unready else "one is missing"
    return Protection(
        f"{readiness.ready} of {replicas} pods of its workload are ready: {missed}", candidate.owner_name
    )


def revision_pending(candidate: PodCandidate) -> Protection | None:
    """Protect the pod from an update by accident; maintenance moves it anyway, as `kubectl drain` does."""
    if candidate.urgent or candidate.handover is not Handover.EVICT:
        return None
    revision = candidate.context.other_revision(candidate.row)
    return (
        Protection(f"its successor would have revision {revision}", candidate.owner_name)
        if revision
        else None
    )
