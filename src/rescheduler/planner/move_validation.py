"""Is a move of an older plan still good? Asked of the present cluster, just before it is executed."""

from rescheduler.cluster.snapshot import Snapshot
from rescheduler.config.policy import Policy
from rescheduler.planner.available_nodes import (
    availability_message,
    closed_because,
    node_availability,
    open_nodes,
)
from rescheduler.planner.plan import Move, Rejection
from rescheduler.planner.protections.eligibility import Eligibility
from rescheduler.planner.reasons import Reason
from rescheduler.rules.placement import Placement

__all__ = ["validate_move"]


def validate_move(  # noqa: PLR0913 - one per circumstance
    move: Move,
    snapshot: Snapshot,
    policy: Policy,
    *,
    urgent: bool = False,
    recovering: bool = False,
    steered: bool = True,
    guarded: bool = False,
    placement: Placement | None = None,
) -> Rejection | None:
    """None if it is. `urgent` as its strategy is, `recovering` if that is FailedPods; `board` saves
    work where several moves are checked.

    Other moves that are under way count as far as the snapshot shows their copies. A second leg, after a
    stop, is about the successor of the pod: whoever executes it puts the successor's key and uid into it.
    """
    row = snapshot.pods.row.get(move.pod)
    if row is None or snapshot.pods.records[row].uid != move.uid:
        return Rejection(move.pod, Reason.GONE, "", "the pod no longer exists")
    pod = snapshot.pods.records[row]
    if pod.node != move.source:
        return Rejection(move.pod, Reason.ELSEWHERE, pod.node, f"it is on {pod.node or 'no node'}")
    eligibility = Eligibility(
        snapshot, policy, urgent=urgent, steered=steered, guarded=guarded, recovering=recovering
    )
    if (protected := eligibility.refusal(row)) is not None:
        return protected
    present = eligibility.handover(row)
    if present is not move.handover:
        detail = f"it was planned with {move.handover}; now it needs {present}"
        return Rejection(move.pod, Reason.HANDOVER_IMPOSSIBLE, "", detail)
    return _validate_target(move, row, placement or Placement(snapshot))


def _validate_target(move: Move, row: int, placement: Placement) -> Rejection | None:
    stays = move.handover.source_stays
    if move.target is None:
        found = node_availability(placement, row, source_stays=stays, open_to=open_nodes(placement.snapshot))
        return (
            None
            if found.available
            else Rejection(move.pod, Reason.NO_TARGET, "", availability_message(found))
        )
    target = placement.snapshot.nodes.row.get(move.target)
    if target is None:
        return Rejection(move.pod, Reason.TARGET_UNFIT, move.target, "its target no longer exists")
    if closed := closed_because(placement.snapshot, target):
        return Rejection(move.pod, Reason.TARGET_UNFIT, move.target, f"its target {closed}")
    if placement.fits_on(row, target, source_stays=stays):
        return None
    refusals = placement.refusals(row, target, source_stays=stays)
    detail = "; ".join(f"{', '.join(each.reasons)} {each.detail}".rstrip() for each in refusals)
    return Rejection(move.pod, Reason.TARGET_UNFIT, move.target, detail)
