"""FailedPods: pods that keep failing where they are get another node, as often as their owner allows."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import ClassVar, Final

import numpy as np

from kubevalues.duration import short_duration
from rescheduler.api.strategy_traits import traits_of
from rescheduler.config.config_validation import FAILED_PODS
from rescheduler.recovery.failure_signs import FailureKind
from rescheduler.recovery.recovery_decision import (
    MalformedRetries,
    NoAction,
    NotRequested,
    Reschedule,
    RetriesExhausted,
)
from rescheduler.recovery.workload_examination import FailingReplica, next_action_message, node_list_message
from rescheduler.strategies.strategy import Proposal, ProposedMove, View
from rescheduler.strategies.target_search import least_loaded

__all__ = ["FailedPods"]

_MIGRATION_STATUS_LABEL: Final = "scheduler.alpha.kubernetes.io/migration-status"
_COMPLETED: Final = "completed"


class FailedPods:
    """Each goes to a node on which it was not tried yet; when all have been, the list counts as empty.

    What is no move (a DaemonSet's pod that is made anew, one that its controller has replaced by itself) is
    seen to by others, and only noted here.
    """

    name: ClassVar[str] = FAILED_PODS
    urgent: ClassVar[bool] = traits_of(FAILED_PODS).urgent

    def propose(self, view: View) -> Iterator[Proposal]:
        priority = view.snapshot.pods.priority
        cases = view.failing_pods.cases
        moving: list[int] = []
        for row in sorted(cases, key=lambda row: (int(priority[row]), row)):
            decision = cases[row].decision
            if not isinstance(decision, Reschedule):
                _note_why_not(view, row, cases[row])
            elif _is_cooling_down(view, cases[row]):
                rest = short_duration(view.policy.failed_pods.stuck_after)
                view.report_staying(
                    row, "CoolingDown", f"its last migration came to nothing, less than {rest} ago"
                )
            else:
                moving.append(row)
        for row in view.in_fair_order(moving):
            if view.may_move(row):
                yield from _propose_move(view, row, cases[row], 1 / len(cases))


def _propose_move(view: View, row: int, case: FailingReplica, gain: float) -> Iterator[Proposal]:
    decision, known = case.decision, view.snapshot.nodes.row
    assert isinstance(decision, Reschedule)
    targets = view.targets(row)
    if (here := known.get(case.pod.node)) is not None:
        targets[here] = False  # also of a pod that has failed, and so no longer stands there
    if not targets.any():
        view.report_no_target(row)
        return
    untried = targets.copy()
    untried[[known[node] for node in decision.avoid if node in known]] = False
    # All were tried: rather a second time than not at all.
    allowed = untried if untried.any() else targets
    even = allowed & view.placement.keeps_spread(row)
    target = least_loaded(view, row, np.flatnonzero(even if even.any() else allowed))
    yield Proposal(
        (ProposedMove(row, target, _move_reason(case, decision, start_over=not untried.any()), gain),)
    )


def _is_cooling_down(view: View, case: FailingReplica) -> bool:
    """For a while, after a migration that failed without having been a try: the copy never ran, or nobody
    has put its failure on record yet."""
    if case.pod.labels.get(_MIGRATION_STATUS_LABEL) == _COMPLETED:
        return False  # it is the successor, and fails in its turn
    moved_s = view.snapshot.recent_moves.get(case.pod.uid, 0.0)
    rest_s = view.policy.failed_pods.stuck_after.total_seconds()
    return int(moved_s) > case.line.last_s and view.snapshot.taken_at_s - moved_s < rest_s


def _note_why_not(view: View, row: int, case: FailingReplica) -> None:
    match case.decision:
        case RetriesExhausted():
            view.report_staying(row, "GaveUp", f"{case.trouble.words}; {next_action_message(case)}")
        case NoAction(why):
            lost = case.trouble.kind is FailureKind.NODE_LOST
            view.report_staying(row, "NodeLost" if lost else "RecordFull", f"{case.trouble.words}; {why}")
        case NotRequested() if isinstance(case.allowance, MalformedRetries):
            view.report_staying(row, "RetriesMalformed", case.allowance.why)
        case NotRequested():
            pass
        case _:
            view.report_staying(row, "NoMoveNeeded", f"{case.trouble.words}; {next_action_message(case)}")


def _move_reason(case: FailingReplica, decision: Reschedule, *, start_over: bool) -> str:
    since = datetime.fromtimestamp(case.trouble.since_s, UTC).strftime("%H:%M")
    tried = [node for node in decision.avoid if node != case.pod.node]
    parts = [
        f"{case.trouble.words}, since {since} UTC",
        f"try {decision.number} of {case.retries}",
        *([f"not on {node_list_message(tried)}"] if tried and not start_over else []),
        *(["all nodes were tried, so from the beginning"] if start_over and tried else []),
    ]
    return "; ".join(parts)
