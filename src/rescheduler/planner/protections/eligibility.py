"""Which pods may be moved: all protections in one table.

Checks that depend only on the pod template run once per template. All other checks run only for pods that
a strategy wants to move, because a cluster may have 150,000 pods.
"""

from rescheduler.api.podmigration import Handover
from rescheduler.cluster.snapshot import Flags, Snapshot
from rescheduler.config.policy import Policy
from rescheduler.planner.handover_choice import HandoverChoice, ImpossibleHandover
from rescheduler.planner.plan import Rejection
from rescheduler.planner.protections import handover_checks, pod_checks
from rescheduler.planner.protections.pod_candidate import (
    PodCandidate,
    Protection,
    ProtectionCheck,
    ProtectionContext,
    TemplateKey,
)
from rescheduler.planner.reasons import Reason
from rescheduler.planner.workload_availability import DisruptionBudgets

__all__ = ["PROTECTION_CHECKS", "Eligibility"]

_Checks = tuple[tuple[Reason, ProtectionCheck], ...]
_Finding = tuple[Reason, Protection]

_POD_CHECKS: _Checks = (
    (Reason.MIRROR_POD, pod_checks.mirror_pod),
    (Reason.DAEMON_SET_POD, pod_checks.daemon_set_pod),
    (Reason.FINISHED, pod_checks.finished),
    (Reason.TERMINATING, pod_checks.terminating),
    (Reason.UNSCHEDULED, pod_checks.unscheduled),
    (Reason.NODE_UNKNOWN, pod_checks.node_unknown),
    (Reason.ALREADY_MOVING, pod_checks.already_moving),
    (Reason.COOLING_DOWN, pod_checks.cooling_down),
    (Reason.TOO_YOUNG, pod_checks.too_young),
    (Reason.NOT_SAFE_TO_EVICT, pod_checks.not_safe_to_evict),
    (Reason.DO_NOT_DISRUPT, pod_checks.do_not_disrupt),
    (Reason.FAILING, pod_checks.failing),
    (Reason.RECOVERED, pod_checks.recovered),
)

_TEMPLATE_CHECKS: _Checks = (
    (Reason.OWNER_UNKNOWN, pod_checks.owner_unknown),
    (Reason.JOB_POD, pod_checks.job_pod),
    (Reason.BARE_POD, pod_checks.bare_pod),
    (Reason.OWN_POD, pod_checks.own_pod),
    (Reason.EXCLUDED_NAMESPACE, pod_checks.excluded_namespace),
    (Reason.SYSTEM_POD, pod_checks.system_pod),
    (Reason.PRIORITY_TOO_HIGH, pod_checks.priority_too_high),
    (Reason.OPTED_OUT, pod_checks.opted_out),
    (Reason.EXCLUDED_BY_SELECTOR, pod_checks.excluded_by_selector),
    (Reason.GATED, pod_checks.gated),
    (Reason.RESOURCE_CLAIMS, pod_checks.resource_claims),
    (Reason.SCHEDULING_GROUP, pod_checks.scheduling_group),
    (Reason.OTHER_SCHEDULER, pod_checks.other_scheduler),
    (Reason.NODE_NAME_IN_TEMPLATE, pod_checks.node_name_in_template),
    (Reason.LOCAL_STORAGE, pod_checks.local_storage),
    (Reason.VOLUME_UNKNOWN, pod_checks.volume_unknown),
    (Reason.CLAIM_SHARED, pod_checks.claim_shared),
    (Reason.MARKS_IN_TEMPLATE, pod_checks.marks_in_template),
    (Reason.HANDOVER_IMPOSSIBLE, handover_checks.handover_impossible),
    (Reason.ROLLING_OUT, handover_checks.rolling_out),
    (Reason.TOO_FEW_REPLICAS, handover_checks.too_few_replicas),
)

_MOVE_CHECKS: _Checks = (
    (Reason.REVISION_PENDING, handover_checks.revision_pending),
    (Reason.UNSTEERED, handover_checks.unsteered),
    (Reason.TOLERATES_CORDON, handover_checks.tolerates_own_cordon),
    (Reason.SURPLUS_WOULD_PREEMPT, handover_checks.surplus_would_preempt),
    (Reason.SEVERAL_BUDGETS, handover_checks.several_budgets),
    (Reason.SIBLING_NOT_READY, handover_checks.sibling_not_ready),
    (Reason.BUDGET_SPENT, handover_checks.budget_spent),
)

PROTECTION_CHECKS = (*_POD_CHECKS, *_TEMPLATE_CHECKS, *_MOVE_CHECKS)
"""In this order: the first that applies is the one a plan names, `explain` names them all."""


class Eligibility:
    """For strategies of one kind: those whose pods have to go (`urgent`), or the others; among the urgent,
    the one for pods that keep failing (`recovering`)."""

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
            snapshot, policy, urgent=urgent, steered=steered, guarded=guarded, cordoned=cordoned
        )
        self._context.recovering = recovering
        self._of_templates: dict[TemplateKey, _Finding | None] = {}
        self._refusals: dict[int, Rejection | None] = {}

    @property
    def budgets(self) -> DisruptionBudgets:
        return self._context.budgets

    def name_of(self, row: int) -> str:
        return self._context.snapshot.pods.records[row].key

    def refusal(self, row: int) -> Rejection | None:
        """The first thing that protects the pod, or None if it may be moved."""
        if row not in self._refusals:
            self._refusals[row] = self._first_protection(row)
        return self._refusals[row]

    def refusals(self, row: int) -> list[Rejection]:
        """Everything that protects it."""
        candidate = self._context.candidate(row)
        answers = ((reason, check(candidate)) for reason, check in PROTECTION_CHECKS)
        return [
            _rejection(candidate, (reason, protection))
            for reason, protection in answers
            if protection is not None
        ]

    def choice(self, row: int) -> HandoverChoice | ImpossibleHandover:
        """How it would be moved, and why like that."""
        return self._context.choice(row)

    def handover(self, row: int) -> Handover:
        """Of a pod that may be moved. Raises `ValueError` if there is no way to move it."""
        choice = self._context.choice(row)
        if isinstance(choice, HandoverChoice):
            return choice.handover
        raise ValueError(f"{self.name_of(row)} can't be moved: {choice.detail}")

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


def _rejection(candidate: PodCandidate, found: _Finding) -> Rejection:
    reason, protection = found
    return Rejection(candidate.pod.key, reason, protection.by, protection.detail)
