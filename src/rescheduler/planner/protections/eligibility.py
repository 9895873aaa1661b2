"""Decide which pods may be moved: all protections in one table, and the checks that depend on the handover
and on the other pods of the workload.

Checks that depend only on the pod template run once per template. All other checks run only for pods that
a strategy wants to move, because a cluster may have 150,000 pods.
"""

from collections.abc import Callable

from rescheduler.api.podmigration import Handover
from rescheduler.cluster.budget_record import BudgetRecord
from rescheduler.cluster.snapshot import Flags, Snapshot
from rescheduler.config.policy import Policy, ZeroBudget
from rescheduler.planner.handover_choice import HandoverChoice, ImpossibleHandover
from rescheduler.planner.move_allowance import MoveAllowance, MoveObstacle, closed_window, malformed_limit
from rescheduler.planner.plan import Rejection
from rescheduler.planner.protections import pod_checks
from rescheduler.planner.protections.pod_candidate import (
    PodCandidate,
    Protection,
    ProtectionCheck,
    ProtectionContext,
    TemplateKey,
)
from rescheduler.planner.reasons import Reason
from rescheduler.planner.workload_availability import (
    DisruptionBudgets,
    ReplicaReadiness,
    creates_pods_in_order,
    disruptions_left,
    ordinal_of,
)
from rescheduler.rules.taint_toleration import tolerates_cordon

__all__ = [
    "PROTECTION_CHECKS",
    "Eligibility",
    "budget_spent",
    "budget_unsatisfiable",
    "handover_impossible",
    "moves_under_zero_budget",
    "revision_pending",
    "several_budgets",
    "sibling_not_ready",
    "surplus_would_preempt",
    "tolerates_own_cordon",
    "too_few_replicas",
    "unsteered",
]


def handover_impossible(candidate: PodCandidate) -> Protection | None:
    return candidate.impossible(Reason.HANDOVER_IMPOSSIBLE)


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
    if not _is_evicted_unsteered(candidate) or _is_cordoned(candidate):
        return None
    return Protection("no webhook steers its replacement, and its node is not cordoned", candidate.pod.node)


def tolerates_own_cordon(candidate: PodCandidate) -> Protection | None:
    """Refuse a pod whose replacement would tolerate the cordon and come back."""
    if not _is_evicted_unsteered(candidate) or not _is_cordoned(candidate):
        return None
    if not tolerates_cordon(candidate.pod_class.constraints.tolerations):
        return None
    return Protection(
        "no webhook steers its replacement, which may return to its cordoned node", candidate.pod.node
    )


def _is_evicted_unsteered(candidate: PodCandidate) -> bool:
    """Return whether no webhook steers the replacement of this evicted pod, which is not allowed."""
    is_allowed = candidate.context.steered or candidate.policy.allow_unsteered
    return candidate.handover is Handover.EVICT and not is_allowed


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


def budget_unsatisfiable(candidate: PodCandidate) -> Protection | None:
    """Refuse a move whose copy can't help: even if all pods and the copy are ready, none may be evicted."""
    budget = _spent_budget(candidate)
    if budget is None or candidate.handover is None or not candidate.handover.source_stays:
        return None
    most = candidate.context.budgets.replicas_under(budget) + 1
    if not budget.is_computed or _allows_eviction(candidate, budget, most):
        return None
    return Protection(
        f"the budget {budget.key} requires {budget.desired_healthy} healthy pods; "
        f"with all replicas and the copy there are {most}, so none may be evicted",
        budget.key,
    )


def budget_spent(candidate: PodCandidate) -> Protection | None:
    budget = _spent_budget(candidate)
    if budget is None:
        return None
    if candidate.handover is not Handover.ADOPT or not moves_under_zero_budget(candidate):
        return Protection(f"the budget {budget.key} allows no disruption", budget.key)
    # Other pods that are not ready may move at the same time: then their copies count, too.
    is_ready = candidate.snapshot.pods.ready[candidate.row]
    more = 1 if is_ready else candidate.policy.max_concurrent_per_workload
    if not budget.is_computed or _allows_eviction(candidate, budget, budget.current_healthy + more):
        return None
    enough = "one more is not enough" if more == 1 else f"{more} more are not enough"
    return Protection(
        f"the budget {budget.key} allows no disruption: {budget.current_healthy} pods are healthy, "
        f"{budget.desired_healthy} are required, and {enough}",
        budget.key,
    )


def _spent_budget(candidate: PodCandidate) -> BudgetRecord | None:
    """Return the one budget that guards the pod, if it allows no disruption now."""
    budgets = candidate.context.budgets.guarding(candidate.row)
    if len(budgets) != 1 or candidate.handover is None or disruptions_left(budgets[0]) > 0:
        return None
    return budgets[0]


def _allows_eviction(candidate: PodCandidate, budget: BudgetRecord, healthy: int) -> bool:
    """Return whether the API server allows the eviction when so many pods are healthy.

    A pod that is not ready is not one of them, so it may be evicted if the others are enough.
    """
    if candidate.snapshot.pods.ready[candidate.row]:
        return healthy > budget.desired_healthy
    return healthy >= budget.desired_healthy


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
    if readiness is None:
        return None
    return _out_of_order(candidate, readiness) or _one_too_many(candidate, readiness)


def _out_of_order(candidate: PodCandidate, readiness: ReplicaReadiness) -> Protection | None:
    """Refuse a pod of a StatefulSet that waits for an earlier pod before it creates the successor."""
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
    """Refuse if the workload has no budget and would lack more than one replica.

    A workload without a budget is treated as if a budget with `maxUnavailable: 1` covered it.
    """
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
    """Refuse a move that would also update the pod; maintenance moves it anyway, as `kubectl drain` does."""
    if candidate.urgent or candidate.handover is not Handover.EVICT:
        return None
    revision = candidate.context.other_revision(candidate.row)
    if revision:
        return Protection(f"its successor would have revision {revision}", candidate.owner_name)
    return None


def _unless_urgent(find: Callable[[PodCandidate], MoveObstacle | None]) -> ProtectionCheck:
    """Return a check that applies to all moves except urgent ones."""

    def check(candidate: PodCandidate) -> Protection | None:
        obstacle = None if candidate.urgent else find(candidate)
        return None if obstacle is None else Protection(obstacle.detail, obstacle.by)

    return check


_Checks = tuple[tuple[Reason, ProtectionCheck], ...]
_Finding = tuple[Reason, Protection]

_POD_CHECKS: _Checks = (
    (Reason.MIRROR_POD, pod_checks.mirror_pod),
    (Reason.DAEMON_SET_POD, pod_checks.daemon_set_pod),
    (Reason.FINISHED, pod_checks.finished),
    (Reason.TERMINATING, pod_checks.terminating),
    (Reason.UNSCHEDULED, pod_checks.unscheduled),
    (Reason.NODE_UNKNOWN, pod_checks.node_unknown),
    (Reason.NODE_NOT_SELECTED, pod_checks.node_not_selected),
    (Reason.ALREADY_MOVING, pod_checks.already_moving),
    (Reason.COOLING_DOWN, pod_checks.cooling_down),
    (Reason.TOO_YOUNG, pod_checks.too_young),
    (Reason.NOT_SAFE_TO_EVICT, pod_checks.not_safe_to_evict),
    (Reason.DO_NOT_DISRUPT, pod_checks.do_not_disrupt),
    (Reason.PREFERS_NO_EVICTION, pod_checks.prefers_no_eviction),
    (Reason.EVICTION_HANDLED, pod_checks.eviction_handled),
    (Reason.FAILING, pod_checks.failing),
    (Reason.RECOVERED, pod_checks.recovered),
)

_TEMPLATE_CHECKS: _Checks = (
    (Reason.OWNER_UNKNOWN, pod_checks.owner_unknown),
    (Reason.JOB_POD, pod_checks.job_pod),
    (Reason.BARE_POD, pod_checks.bare_pod),
    (Reason.OWN_POD, pod_checks.own_pod),
    (Reason.EXCLUDED_NAMESPACE, pod_checks.excluded_namespace),
    (Reason.NAMESPACE_NOT_SELECTED, pod_checks.namespace_not_selected),
    (Reason.SYSTEM_POD, pod_checks.system_pod),
    (Reason.PRIORITY_TOO_HIGH, pod_checks.priority_too_high),
    (Reason.OPTED_OUT, pod_checks.opted_out),
    (Reason.EXCLUDED_BY_SELECTOR, pod_checks.excluded_by_selector),
    (Reason.GATED, pod_checks.gated),
    (Reason.RESOURCE_CLAIMS, pod_checks.resource_claims),
    (Reason.SCHEDULING_GROUP, pod_checks.scheduling_group),
    (Reason.OTHER_SCHEDULER, pod_checks.other_scheduler),
    (Reason.NODE_NAME_IN_TEMPLATE, pod_checks.node_name_in_template),
    (Reason.VOLUME_UNKNOWN, pod_checks.volume_unknown),
    (Reason.CLAIM_SHARED, pod_checks.claim_shared),
    (Reason.MARKS_IN_TEMPLATE, pod_checks.marks_in_template),
    (Reason.HANDOVER_IMPOSSIBLE, handover_impossible),
    (Reason.COPY_RESTRICTED, pod_checks.copy_restricted),
    (Reason.ROLLING_OUT, lambda pod: pod.impossible(Reason.ROLLING_OUT)),
    (Reason.TOO_FEW_REPLICAS, too_few_replicas),
    (Reason.LIMIT_MALFORMED, _unless_urgent(lambda pod: malformed_limit(pod.snapshot, pod.row))),
    (Reason.OUTSIDE_WINDOW, _unless_urgent(lambda pod: closed_window(pod.snapshot, pod.row))),
)

_MOVE_CHECKS: _Checks = (
    (Reason.LOCAL_STORAGE, pod_checks.local_storage),  # annotations of the pod count, too
    (Reason.REVISION_PENDING, revision_pending),
    (Reason.UNSTEERED, unsteered),
    (Reason.TOLERATES_CORDON, tolerates_own_cordon),
    (Reason.SURPLUS_WOULD_PREEMPT, surplus_would_preempt),
    (Reason.SEVERAL_BUDGETS, several_budgets),
    (Reason.BUDGET_UNSATISFIABLE, budget_unsatisfiable),
    (Reason.SIBLING_NOT_READY, sibling_not_ready),
    (Reason.BUDGET_SPENT, budget_spent),
    (Reason.HOURLY_LIMIT, _unless_urgent(lambda pod: pod.context.allowance.spent(pod.row))),
)

PROTECTION_CHECKS = (*_POD_CHECKS, *_TEMPLATE_CHECKS, *_MOVE_CHECKS)
"""All checks in order: a plan names the first that applies, `explain` names all that apply."""


class Eligibility:
    """Decide which pods may move, for one kind of strategies: urgent ones, the one for failing pods
    (`recovering`), or the others."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        *,
        urgent: bool,
        steered: bool = True,
        guarded: bool = False,
        cordoned: Flags | None = None,
        recovering: bool = False,
    ) -> None:
        cordoned = ~snapshot.nodes.schedulable if cordoned is None else cordoned
        self._context = ProtectionContext(
            snapshot,
            policy,
            urgent=urgent,
            steered=steered,
            guarded=guarded,
            cordoned=cordoned,
            recovering=recovering,
        )
        self._of_templates: dict[TemplateKey, _Finding | None] = {}
        self._refusals: dict[int, Rejection | None] = {}

    @property
    def budgets(self) -> DisruptionBudgets:
        return self._context.budgets

    @property
    def allowance(self) -> MoveAllowance:
        return self._context.allowance

    def refusal(self, row: int) -> Rejection | None:
        """Return the first check that protects the pod, or None if it may be moved."""
        if row not in self._refusals:
            self._refusals[row] = self._first_protection(row)
        return self._refusals[row]

    def refusals(self, row: int) -> list[Rejection]:
        """Return everything that protects the pod."""
        candidate = self._context.candidate(row)
        answers = ((reason, check(candidate)) for reason, check in PROTECTION_CHECKS)
        return [
            _rejection(candidate, (reason, protection))
            for reason, protection in answers
            if protection is not None
        ]

    def choice(self, row: int) -> HandoverChoice | ImpossibleHandover:
        """Return the handover of the pod and the reason for it."""
        return self._context.choice(row)

    def handover(self, row: int) -> Handover:
        """Return the handover of a movable pod. Raises `ValueError` if it can't be moved."""
        choice = self._context.choice(row)
        if isinstance(choice, HandoverChoice):
            return choice.handover
        pod = self._context.snapshot.pods.records[row]
        raise ValueError(f"{pod.key} can't be moved: {choice.detail}")

    def _first_protection(self, row: int) -> Rejection | None:
        candidate = self._context.candidate(row)
        found = (
            _first(candidate, _POD_CHECKS) or self._of_template(candidate) or _first(candidate, _MOVE_CHECKS)
        )
        return _rejection(candidate, found) if found is not None else None

    def _of_template(self, candidate: PodCandidate) -> _Finding | None:
        template = self._context.template(candidate.row)
        if template not in self._of_templates:
            self._of_templates[template] = _first(candidate, _TEMPLATE_CHECKS)
        return self._of_templates[template]


def _first(candidate: PodCandidate, checks: _Checks) -> _Finding | None:
    for reason, check in checks:
        if (protection := check(candidate)) is not None:
            return reason, protection
    return None


def _rejection(candidate: PodCandidate, finding: _Finding) -> Rejection:
    reason, protection = finding
    return Rejection(candidate.pod.key, reason, protection.by, protection.detail)
