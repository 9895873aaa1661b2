"""Is a move of an older plan still good? Asked of the present cluster, just before it is executed."""

from rescheduler.config.policy import Policy
from rescheduler.model.plan import Move, Rejection
from rescheduler.planner.eligibility import Eligibility
from rescheduler.planner.open_nodes import closed_because, open_nodes
from rescheduler.planner.places import in_words, places
from rescheduler.planner.reasons import Reason
from rescheduler.rules.board import Board
from rescheduler.snapshot.snapshot import Snapshot

__all__ = ["still_good"]


def still_good(  # noqa: PLR0913 - one per circumstance
    move: Move,
    snapshot: Snapshot,
    policy: Policy,
    *,
    urgent: bool = False,
    recovering: bool = False,
    steered: bool = True,
    guarded: bool = False,
    board: Board | None = None,
) -> Rejection | None:
    """None if it is. `urgent` as its strategy is, `recovering` if that is FailedPods; `board` saves
    work where several moves are checked.

    Other moves that are under way count as far as the snapshot shows their copies. A second leg, after a
    stop, is about the successor of the pod: whoever executes it puts the successor's key and uid into it.
    """
    row = snapshot.pods.row.get(move.pod)
    if row is None or snapshot.pods.records[row].uid != move.uid:
        return Rejection(move.pod, Reason.GONE, "", "there is no such pod any more")
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
        detail = f"it was planned with {move.handover}; now it would be {present}"
        return Rejection(move.pod, Reason.HANDOVER_IMPOSSIBLE, "", detail)
    return _place_is_good(move, row, board or Board(snapshot))


def _place_is_good(move: Move, row: int, board: Board) -> Rejection | None:
    stays = move.handover.source_stays
    if move.target is None:
        found = places(board, row, source_stays=stays, open_to=open_nodes(board.snapshot))
        return None if found.available else Rejection(move.pod, Reason.NO_TARGET, "", in_words(found))
    target = board.snapshot.nodes.row.get(move.target)
    if target is None:
        return Rejection(move.pod, Reason.TARGET_UNFIT, move.target, "its target is gone")
    if closed := closed_because(board.snapshot, target):
        return Rejection(move.pod, Reason.TARGET_UNFIT, move.target, f"its target {closed}")
    if board.fits_on(row, target, source_stays=stays):
        return None
    refusals = board.refusals(row, target, source_stays=stays)
    detail = "; ".join(f"{', '.join(each.reasons)} {each.detail}".rstrip() for each in refusals)
    return Rejection(move.pod, Reason.TARGET_UNFIT, move.target, detail)
