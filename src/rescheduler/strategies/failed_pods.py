"""FailedPods: pods that keep failing where they are get another node, as often as their owner allows."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import ClassVar, Final

import numpy as np

from rescheduler.config.strategies import FAILED_PODS
from rescheduler.model.duration import short_duration
from rescheduler.recovery.allowance import Malformed
from rescheduler.recovery.decision import Exhausted, Leave, Move, NotAllowed
from rescheduler.recovery.examining import Case
from rescheduler.recovery.trouble import TroubleKind
from rescheduler.recovery.words import next_in_words, nodes_in_words
from rescheduler.strategies.placing import roomiest
from rescheduler.strategies.strategy import Proposal, Step, View

__all__ = ["FailedPods"]

_STATUS: Final = "scheduler.alpha.kubernetes.io/migration-status"
_COMPLETED: Final = "completed"


class FailedPods:
    """Each goes to a node on which it was not tried yet; when all have been, the list counts as empty.

    What is no move (a DaemonSet's pod that is made anew, one that its controller has replaced by itself) is
    seen to by others, and only noted here.
    """

    name: ClassVar[str] = FAILED_PODS
    urgent: ClassVar[bool] = True

    def propose(self, view: View) -> Iterator[Proposal]:
        priority = view.snapshot.pods.priority
        cases = view.survey.cases
        moving: list[int] = []
        for row in sorted(cases, key=lambda row: (int(priority[row]), row)):
            decision = cases[row].decision
            if not isinstance(decision, Move):
                _note(view, row, cases[row])
            elif _waits(view, cases[row]):
                rest = short_duration(view.policy.failed_pods.stuck_after)
                view.stay(row, "CoolingDown", f"its last migration came to nothing, less than {rest} ago")
            else:
                moving.append(row)
        for row in view.fairly(moving):
            if view.may_move(row):
                yield from _move(view, row, cases[row], 1 / len(cases))


def _move(view: View, row: int, case: Case, gain: float) -> Iterator[Proposal]:
    decision, known = case.decision, view.snapshot.nodes.row
    assert isinstance(decision, Move)
    targets = view.targets(row)
    if (here := known.get(case.pod.node)) is not None:
        targets[here] = False  # also of a pod that has failed, and so no longer stands there
    if not targets.any():
        view.stuck(row)
        return
    untried = targets.copy()
    untried[[known[node] for node in decision.avoid if node in known]] = False
    # All were tried: rather a second time than not at all.
    allowed = untried if untried.any() else targets
    even = allowed & view.board.keeps_even(row)
    target = roomiest(view, row, np.flatnonzero(even if even.any() else allowed))
    yield Proposal((Step(row, target, _reason(case, decision, start_over=not untried.any()), gain),))


def _waits(view: View, case: Case) -> bool:
    """For a while, after a migration that failed without having been a try: the copy never ran, or nobody
    has put its failure on record yet."""
    if case.pod.labels.get(_STATUS) == _COMPLETED:
        return False  # it is the successor, and fails in its turn
    moved_s = view.snapshot.recent_moves.get(case.pod.uid, 0.0)
    rest_s = view.policy.failed_pods.stuck_after.total_seconds()
    return int(moved_s) > case.line.last_s and view.snapshot.taken_at_s - moved_s < rest_s


def _note(view: View, row: int, case: Case) -> None:
    match case.decision:
        case Exhausted():
            view.stay(row, "GaveUp", f"{case.trouble.words}; {next_in_words(case)}")
        case Leave(why):
            lost = case.trouble.kind is TroubleKind.NODE_LOST
            view.stay(row, "NodeLost" if lost else "RecordFull", f"{case.trouble.words}; {why}")
        case NotAllowed() if isinstance(case.allowance, Malformed):
            view.stay(row, "RetriesMalformed", case.allowance.why)
        case NotAllowed():
            pass
        case _:
            view.stay(row, "NoMoveNeeded", f"{case.trouble.words}; {next_in_words(case)}")


def _reason(case: Case, decision: Move, *, start_over: bool) -> str:
    since = datetime.fromtimestamp(case.trouble.since_s, UTC).strftime("%H:%M")
    tried = [node for node in decision.avoid if node != case.pod.node]
    parts = [
        f"{case.trouble.words}, since {since} UTC",
        f"try {decision.number} of {case.retries}",
        *([f"not on {nodes_in_words(tried)}"] if tried and not start_over else []),
        *(["all nodes were tried, so from the beginning"] if start_over and tried else []),
    ]
    return "; ".join(parts)
