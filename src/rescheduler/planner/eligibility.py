"""Which pods may be moved at all: everything that protects a pod, in one table.

What all pods of a template share is asked once for all of them; the rest only of pods that somebody wants to
move: there may be 150,000, and a check may not ask each.
"""

import numpy as np
import numpy.typing as npt

from rescheduler.config.policy import Policy
from rescheduler.model.plan import Handover, Rejection
from rescheduler.planner.budgets import Budgets
from rescheduler.planner.handover import Choice, Impossible
from rescheduler.planner.protections import kind, recovery, siblings, state, way
from rescheduler.planner.protections.case import Because, Case, Circumstances, Question, Template
from rescheduler.planner.reasons import Reason
from rescheduler.snapshot.snapshot import Snapshot

__all__ = ["CHECKS", "Eligibility"]

Flags = npt.NDArray[np.bool_]
Questions = tuple[tuple[Reason, Question], ...]
Answer = tuple[Reason, Because]

_OF_THE_POD: Questions = (
    (Reason.MIRROR_POD, state.mirror),
    (Reason.DAEMON_SET_POD, state.daemon_set_pod),
    (Reason.FINISHED, state.finished),
    (Reason.TERMINATING, state.terminating),
    (Reason.UNSCHEDULED, state.unscheduled),
    (Reason.NODE_UNKNOWN, state.node_unknown),
    (Reason.ALREADY_MOVING, state.already_moving),
    (Reason.COOLING_DOWN, state.cooling_down),
    (Reason.TOO_YOUNG, state.too_young),
    (Reason.NOT_SAFE_TO_EVICT, state.not_safe_to_evict),
    (Reason.DO_NOT_DISRUPT, state.do_not_disrupt),
    (Reason.FAILING, recovery.failing),
    (Reason.RECOVERED, recovery.recovered),
)

_OF_ITS_TEMPLATE: Questions = (
    (Reason.OWNER_UNKNOWN, kind.owner_unknown),
    (Reason.JOB_POD, kind.job_pod),
    (Reason.BARE_POD, kind.bare_pod),
    (Reason.OWN_POD, kind.own_pod),
    (Reason.EXCLUDED_NAMESPACE, kind.excluded_namespace),
    (Reason.SYSTEM_POD, kind.system_pod),
    (Reason.PRIORITY_TOO_HIGH, kind.priority_too_high),
    (Reason.OPTED_OUT, kind.opted_out),
    (Reason.EXCLUDED_BY_SELECTOR, kind.excluded_by_selector),
    (Reason.GATED, kind.gated),
    (Reason.RESOURCE_CLAIMS, kind.resource_claims),
    (Reason.SCHEDULING_GROUP, kind.scheduling_group),
    (Reason.OTHER_SCHEDULER, kind.other_scheduler),
    (Reason.NODE_NAME_IN_TEMPLATE, kind.node_name_in_template),
    (Reason.LOCAL_STORAGE, kind.local_storage),
    (Reason.VOLUME_UNKNOWN, kind.volume_unknown),
    (Reason.CLAIM_SHARED, kind.claim_shared),
    (Reason.MARKS_IN_TEMPLATE, kind.marks_in_template),
    (Reason.HANDOVER_IMPOSSIBLE, way.handover_impossible),
    (Reason.ROLLING_OUT, way.rolling_out),
    (Reason.TOO_FEW_REPLICAS, way.too_few_replicas),
)

_OF_THE_MOVE: Questions = (
    (Reason.REVISION_PENDING, siblings.revision_pending),
    (Reason.UNSTEERED, way.unsteered),
    (Reason.TOLERATES_CORDON, way.tolerates_its_cordon),
    (Reason.SURPLUS_WOULD_PREEMPT, way.surplus_would_preempt),
    (Reason.SEVERAL_BUDGETS, way.several_budgets),
    (Reason.SIBLING_NOT_READY, siblings.sibling_not_ready),
    (Reason.BUDGET_SPENT, way.budget_spent),
)

CHECKS = (*_OF_THE_POD, *_OF_ITS_TEMPLATE, *_OF_THE_MOVE)
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
        self._around = Circumstances(
            snapshot, policy, urgent=urgent, steered=steered, guarded=guarded, cordoned=cordoned
        )
        self._around.recovering = recovering
        self._of_templates: dict[Template, Answer | None] = {}
        self._refusals: dict[int, Rejection | None] = {}

    @property
    def budgets(self) -> Budgets:
        return self._around.budgets

    def name_of(self, row: int) -> str:
        return self._around.snapshot.pods.records[row].key

    def refusal(self, row: int) -> Rejection | None:
        """The first thing that protects the pod, or None if it may be moved."""
        if row not in self._refusals:
            self._refusals[row] = self._judge(row)
        return self._refusals[row]

    def refusals(self, row: int) -> list[Rejection]:
        """Everything that protects it."""
        case = self._around.case(row)
        answers = ((reason, question(case)) for reason, question in CHECKS)
        return [_rejection(case, (reason, because)) for reason, because in answers if because is not None]

    def choice(self, row: int) -> Choice | Impossible:
        """How it would be moved, and why like that."""
        return self._around.choice(row)

    def handover(self, row: int) -> Handover:
        """Of a pod that may be moved. Raises `ValueError` if there is no way to move it."""
        choice = self._around.choice(row)
        if isinstance(choice, Choice):
            return choice.handover
        raise ValueError(f"{self.name_of(row)} can't be moved: {choice.detail}")

    def _judge(self, row: int) -> Rejection | None:
        case = self._around.case(row)
        found = _first(case, _OF_THE_POD) or self._of_template(case) or _first(case, _OF_THE_MOVE)
        return _rejection(case, found) if found is not None else None

    def _of_template(self, case: Case) -> Answer | None:
        template = self._around.template(case.row)
        if template not in self._of_templates:
            self._of_templates[template] = _first(case, _OF_ITS_TEMPLATE)
        return self._of_templates[template]


def _first(case: Case, questions: Questions) -> Answer | None:
    for reason, question in questions:
        if (because := question(case)) is not None:
            return reason, because
    return None


def _rejection(case: Case, found: Answer) -> Rejection:
    reason, because = found
    return Rejection(case.pod.key, reason, because.by, because.detail)
