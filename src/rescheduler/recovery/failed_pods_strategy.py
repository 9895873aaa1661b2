"""FailedPods: gives a failing pod another node, as often as its owner allows."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import ClassVar, Final

import numpy as np

from kubevalues.duration import short_duration
from rescheduler.api.well_known_names import MIGRATION_STATUS_LABEL
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


_COMPLETED: Final = "completed"


class FailedPods:
    """Proposes a node on which the replica has not failed; if it failed on all of them, propose any.

    Recoveries that need no move (a pod of a DaemonSet restarts, a controller has replaced its pod) are
    performed by the recovery controller. Here they are only reported.
    """

    name: ClassVar[str] = FAILED_PODS

    def propose(self, view: View) -> Iterator[Proposal]:
        priority = view.snapshot.pods.priority
        failing = view.failing_pods.failing
        moving: list[int] = []
        for row in sorted(failing, key=lambda row: (int(priority[row]), row)):
            decision = failing[row].decision
            if not isinstance(decision, Reschedule):
                _note_why_not(view, row, failing[row])
            elif _is_cooling_down(view, failing[row]):
                rest = short_duration(view.policy.failed_pods.stuck_after)
                view.report_staying(row, "CoolingDown", f"its last migration failed less than {rest} ago")
            else:
                moving.append(row)
        for row in view.in_fair_order(moving):
            if view.may_move(row):
                yield from _propose_move(view, row, failing[row], 1 / len(failing))


def _propose_move(view: View, row: int, replica: FailingReplica, gain: float) -> Iterator[Proposal]:
    decision, known = replica.decision, view.snapshot.nodes.row
    assert isinstance(decision, Reschedule)
    targets = view.targets(row)
    if (here := known.get(replica.pod.node)) is not None:
        targets[here] = False  # a pod in phase Failed does not count on its node any more
    if not targets.any():
        view.report_no_target(row)
        return
    untried = targets.copy()
    untried[[known[node] for node in decision.avoid if node in known]] = False
    # It failed on all nodes: a second attempt is better than none.
    allowed = untried if untried.any() else targets
    target = least_loaded(view, row, np.flatnonzero(view.placement.keeping_spread(row, allowed)))
    yield Proposal(
        (ProposedMove(row, target, _move_reason(replica, decision, start_over=not untried.any()), gain),)
    )


def _is_cooling_down(view: View, replica: FailingReplica) -> bool:
    """Return whether a migration of the pod failed recently without being recorded as an attempt: its copy
    never ran, or its failure is not recorded yet."""
    if replica.pod.labels.get(MIGRATION_STATUS_LABEL) == _COMPLETED:
        return False  # the successor fails, too
    moved_s = view.snapshot.recent_moves.get(replica.pod.uid, 0.0)
    rest_s = view.policy.failed_pods.stuck_after.total_seconds()
    return int(moved_s) > replica.lineage.last_s and view.snapshot.taken_at_s - moved_s < rest_s


def _note_why_not(view: View, row: int, replica: FailingReplica) -> None:
    match replica.decision:
        case RetriesExhausted():
            view.report_staying(row, "GaveUp", f"{replica.failure.message}; {next_action_message(replica)}")
        case NoAction(why):
            lost = replica.failure.kind is FailureKind.NODE_LOST
            view.report_staying(
                row, "NodeLost" if lost else "RecordFull", f"{replica.failure.message}; {why}"
            )
        case NotRequested() if isinstance(replica.allowance, MalformedRetries):
            view.report_staying(row, "RetriesMalformed", replica.allowance.why)
        case NotRequested():
            pass
        case _:
            view.report_staying(
                row, "NoMoveNeeded", f"{replica.failure.message}; {next_action_message(replica)}"
            )


def _move_reason(replica: FailingReplica, decision: Reschedule, *, start_over: bool) -> str:
    since = datetime.fromtimestamp(replica.failure.since_s, UTC).strftime("%H:%M")
    tried = [node for node in decision.avoid if node != replica.pod.node]
    parts = [
        f"{replica.failure.message}, since {since} UTC",
        f"attempt {decision.number} of {replica.retries}",
        *([f"not on {node_list_message(tried)}"] if tried and not start_over else []),
        *(["it failed on all other nodes, so they are tried again"] if start_over and tried else []),
    ]
    return "; ".join(parts)
