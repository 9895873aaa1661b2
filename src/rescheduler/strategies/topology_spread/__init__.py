"""TopologySpread: what pods ask for about their distribution is restored after drift."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from rescheduler.strategies.strategy import Proposal, ProposedMove, View
from rescheduler.strategies.target_search import find_displacement, least_loaded
from rescheduler.strategies.topology_spread.constraint_violations import ConstraintViolation
from rescheduler.strategies.topology_spread.violation_survey import ViolationSurvey

__all__ = ["TopologySpread"]

Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

_MOVES_WITH_DISPLACEMENT = 2
_DISPLACEMENTS_TRIED = 3
"""Pods for which a bystander is looked for, per constraint: it takes time, and they are alike."""


class TopologySpread:
    """Sets right violated topology spread constraints and required anti-affinity, with the fewest moves.

    Constraints hold when a pod is scheduled; later, nodes come and go and labels change. Each step is the
    one that saves most of the moves still needed, over all constraints that it touches: one that sets one
    right and another wrong is none. Only constraints with `DoNotSchedule` count: `ScheduleAnyway` is a
    wish that the scheduler weighs against others, and no reason to disturb a running pod.
    """

    name: ClassVar[str] = "TopologySpread"
    urgent: ClassVar[bool] = False

    def propose(self, view: View) -> Iterator[Proposal]:
        survey = ViolationSurvey(view)
        left = survey.violations
        needed = sum(violation.moves_needed() for violation in left)
        progress = True
        while progress and left:
            # Setting one right may make room for another: whatever is left is looked at again.
            progress = False
            for violation in left:
                for proposal in _restore(view, survey, violation, 1 / needed):
                    yield proposal
                    progress |= _is_taken(view, proposal)
            left = [violation for violation in left if violation.moves_needed()]
        for violation in left:
            _report(view, violation)


def _restore(
    view: View, survey: ViolationSurvey, violation: ConstraintViolation, share: float
) -> Iterator[Proposal]:
    wished: list[_Candidate] = []
    violation.reset()
    while view.room > 0 and violation.moves_needed():
        candidates = _candidates(view, survey, violation)
        if (found := _best(view, candidates)) is not None:
            pod, target, saved = found
            yield Proposal((ProposedMove(pod, target, violation.describe(), saved * share),))
            continue
        wished = wished or candidates
        if not candidates:
            break
        wanted = np.logical_or.reduce([each.wanted for each in candidates])
        if not violation.give_up([each.pod for each in candidates], wanted):
            break
    violation.reset()
    if (
        violation.moves_needed()
        and (helped := _with_displacement(view, wished, violation.describe(), share)) is not None
    ):
        yield helped


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate:
    pod: int
    wanted: Flags
    """[node]: where the pod would have to be to set this drift right."""
    saved: Ints
    """[node]: how many of the moves needed it would save to have the pod there, over all drifts."""

    @property
    def most(self) -> int:
        return int(self.saved.max(initial=0))


def _candidates(view: View, survey: ViolationSurvey, violation: ConstraintViolation) -> list[_Candidate]:
    """Pods whose leaving helps, one of each kind on each node: those first that help most."""
    pods, position = view.snapshot.pods, view.placement.position
    alike: set[tuple[int, int]] = set()
    found: list[_Candidate] = []
    for pod in sorted(violation.pods(), key=lambda pod: (int(pods.priority[pod]), pod)):
        kind = int(pods.pod_class[pod]), int(position[pod])
        if kind in alike or not view.nodes[position[pod]] or not view.may_move(pod):
            continue
        if len(view.moves_with(pod)) > 1:
            view.report_staying(pod, "GroupIncomplete", "its whole group would have to move")
            continue
        alike.add(kind)
        wanted = violation.moves_saved(pod) > 0
        if wanted.any():
            found.append(_Candidate(pod, wanted, _saved(view, survey, pod)))
    return sorted(found, key=lambda each: -each.most)


def _saved(view: View, survey: ViolationSurvey, pod: int) -> Ints:
    """Over all constraints that it touches; nothing where one of them would be worse off."""
    each = np.stack([violation.moves_saved(pod) for violation in survey.touched_by(pod)])
    saved: Ints = np.where(view.nodes & view.open & (each >= 0).all(axis=0), each.sum(axis=0), 0)
    return saved


def _best(view: View, candidates: list[_Candidate]) -> tuple[int, int, int] | None:
    """Pod, target, and how many moves it saves. Who comes first wins, unless another one saves more."""
    best: tuple[int, int, int] | None = None
    for each in candidates:
        if best is not None and best[2] >= each.most:
            break
        saved = np.where(view.targets(each.pod), each.saved, 0)
        most = int(saved.max())
        if most > (best[2] if best is not None else 0):
            best = each.pod, least_loaded(view, each.pod, np.flatnonzero(saved == most)), most
    return best


def _with_displacement(
    view: View, candidates: list[_Candidate], reason: str, share: float
) -> Proposal | None:
    """Where pods would go if there was room: a bystander may make some."""
    if view.room < _MOVES_WITH_DISPLACEMENT:
        return None
    for each in candidates[:_DISPLACEMENTS_TRIED]:
        found = find_displacement(view, each.pod, np.flatnonzero(each.saved > 0).tolist())
        if found is not None:
            aside = f"makes room for {view.snapshot.pods.records[each.pod].key}"
            gain = share * float(each.saved[found.place])
            return Proposal(
                (
                    ProposedMove(found.bystander, found.refuge, aside, gain),
                    ProposedMove(each.pod, found.place, reason, gain),
                )
            )
    return None


def _is_taken(view: View, proposal: Proposal) -> bool:
    move = proposal.moves[0]
    return bool(view.placement.position[move.pod] == move.target)


def _report(view: View, violation: ConstraintViolation) -> None:
    """One pod stands for all: they have the same constraint."""
    pod = next((pod for pod in violation.pods() if view.may_move(pod)), None)
    if pod is not None and view.room > 0:
        view.report_no_target(pod)
