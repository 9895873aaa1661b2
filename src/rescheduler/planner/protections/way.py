"""Whether there is a way to move it, by the handover that it has."""

from rescheduler.config.policy import ZeroBudget
from rescheduler.model.plan import Handover
from rescheduler.planner.budgets import left
from rescheduler.planner.protections.case import Because, Case
from rescheduler.planner.reasons import Reason
from rescheduler.rules.taints import tolerates_cordon

__all__ = [
    "budget_spent",
    "handover_impossible",
    "moves_under_zero_budget",
    "rolling_out",
    "several_budgets",
    "surplus_would_preempt",
    "tolerates_its_cordon",
    "too_few_replicas",
    "unsteered",
]


def handover_impossible(case: Case) -> Because | None:
    return case.impossible(Reason.HANDOVER_IMPOSSIBLE)


def rolling_out(case: Case) -> Because | None:
    return case.impossible(Reason.ROLLING_OUT)


def several_budgets(case: Case) -> Because | None:
    budgets = case.around.budgets.guarding(case.row)
    if len(budgets) < 2:
        return None
    return Because(f"the budgets {', '.join(budget.key for budget in budgets)} cover it", budgets[0].key)


def too_few_replicas(case: Case) -> Because | None:
    if case.urgent or case.handover is not Handover.EVICT:
        return None
    replicas, least = case.around.replicas(case.row), case.policy.min_replicas_for_evict
    if replicas >= least:
        return None
    return Because(f"its workload has {replicas}, of {least} at least", case.owner_name)


def unsteered(case: Case) -> Because | None:
    if case.around.steered or case.policy.allow_unsteered or case.handover is not Handover.EVICT:
        return None
    if _is_cordoned(case):
        return None
    return Because("no webhook steers its replacement, and its node is not cordoned", case.pod.node)


def tolerates_its_cordon(case: Case) -> Because | None:
    """Its replacement would come back, and would have to be evicted again, and again."""
    if case.around.steered or case.policy.allow_unsteered or case.handover is not Handover.EVICT:
        return None
    if not _is_cordoned(case) or not tolerates_cordon(case.shared.constraints.tolerations):
        return None
    return Because("no webhook steers its replacement, which may return to its cordoned node", case.pod.node)


def _is_cordoned(case: Case) -> bool:
    node = case.snapshot.nodes.row.get(case.pod.node)
    return node is not None and bool(case.around.cordoned[node])


def surplus_would_preempt(case: Case) -> Because | None:
    if case.around.guarded or case.handover is not Handover.ADOPT:
        return None
    victims = case.around.preemption.by_surplus(case.row)
    if not victims:
        return None
    return Because(
        "its ReplicaSet creates one more pod for a moment, for which there is no room: with its priority of "
        f"{case.pod.priority}, it could preempt {victims}",
        case.owner_name,
    )


def budget_spent(case: Case) -> Because | None:
    budgets = case.around.budgets.guarding(case.row)
    if len(budgets) != 1 or case.handover is None or left(budgets[0]) > 0:
        return None
    if case.handover is Handover.ADOPT and moves_under_zero_budget(case):
        return None
    return Because(f"the budget {budgets[0].key} allows no disruption", budgets[0].key)


def moves_under_zero_budget(case: Case) -> bool:
    match case.policy.move_under_zero_budget:
        case ZeroBudget.ALWAYS:
            return True
        case ZeroBudget.MAINTENANCE:
            return case.urgent
        case ZeroBudget.NEVER:
            return False
