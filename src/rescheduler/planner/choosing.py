"""Which of the proposed moves are made: strategies by precedence, each proposal whole or not at all.

What is taken changes the board at once, so the next proposal finds the room that is left and, once a source
has gone, the room that it frees: `ordering` sees to it that the moves can be made in such an order.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rescheduler.config.strategies import FAILED_PODS
from rescheduler.model.plan import Change, NodeChange
from rescheduler.planner.legs import Leg, Unit
from rescheduler.planner.reasons import Reason
from rescheduler.planner.sequencing import sequence
from rescheduler.planner.view import Draft, PlanView
from rescheduler.strategies.strategy import NodeProposal, Proposal, Step, Strategy
from rescheduler.usage.heat import Heat

__all__ = ["Chosen", "choose"]

_ROUNDS = 4
"""More than any cluster was seen to need; each is one that could take moves."""


@dataclass(frozen=True, slots=True)
class Chosen:
    units: tuple[Unit, ...]
    """In an order in which they can be made one after the other."""
    changes: tuple[Change, ...]


def choose(draft: Draft, strategies: Sequence[Strategy], heat: Heat | None = None) -> Chosen:
    """Plays what the strategies propose on the draft's board.

    What a later one moves may make the room that an earlier one lacked, so they are asked again until
    nothing new comes: else the next check would begin with what this one could have done. FailedPods does
    not count among them: its pods are few, and what the others do for other ends is hardly ever in its way.
    """
    others = [strategy for strategy in strategies if strategy.name != FAILED_PODS]
    units: list[Unit] = []
    changes: dict[int, Change] = {}
    for _ in range(_ROUNDS):
        taken_by_later = False
        for strategy in strategies:
            view, before = PlanView(draft, strategy, heat), len(units)
            for proposal in strategy.propose(view):
                if isinstance(proposal, NodeProposal):
                    _take_node(draft, strategy, proposal, changes)
                else:
                    units += _answer(draft, view, proposal)
            taken_by_later |= strategy in others[1:] and len(units) > before
        if not taken_by_later or draft.room <= 0:
            break
    return Chosen(tuple(units), tuple(changes[node] for node in sorted(changes)))


def _take_node(draft: Draft, strategy: Strategy, proposal: NodeProposal, changes: dict[int, Change]) -> None:
    """The strategy with precedence decides about a node."""
    if proposal.node not in changes:
        name = draft.snapshot.nodes.records[proposal.node].name
        changes[proposal.node] = Change(name, proposal.change, strategy.name, proposal.reason)
        if proposal.change is NodeChange.CORDON:
            draft.cordon(proposal.node)


@dataclass(frozen=True, slots=True)
class _No:
    reason: Reason
    detail: str
    by: str = ""


def _answer(draft: Draft, view: PlanView, proposal: Proposal) -> Iterable[Unit]:
    """The units that it is made as, played on the board; none if it is refused."""
    pods = tuple(step.pod for step in proposal.steps)
    if len(set(pods)) != len(pods):
        raise ValueError(f"{view.strategy.name} proposes to move a pod twice at once: {proposal}")
    found = _kept_back(draft, view, pods) or _arranged(draft, view, proposal)
    if isinstance(found, _No):
        view.refuse(pods, found.reason, found.detail, found.by)
        return ()
    for unit in found:
        for leg in unit.legs:
            draft.board.move(leg.pod, leg.target)
            draft.room -= 1
    draft.moved.update(pods)
    return found


def _kept_back(draft: Draft, view: PlanView, pods: tuple[int, ...]) -> _No | None:
    """Where some must stay, all do."""
    kept = [pod for pod in pods if not view.may_move(pod)]  # which notes why
    if not kept:
        return None
    group = draft.groups.of(kept[0])
    reason = Reason.GROUP_INCOMPLETE if group else Reason.NO_ORDER
    return _No(reason, f"{draft.snapshot.pods.records[kept[0]].key} has to stay", group)


def _arranged(draft: Draft, view: PlanView, proposal: Proposal) -> list[Unit] | _No:
    units = _units(draft, view, proposal.steps)
    if (no := _no_by_groups(draft, view, units)) is not None:
        return no
    if not all(view.open[step.target] for step in proposal.steps):
        return _No(Reason.TARGET_UNFIT, "its target is not Ready, cordoned, or being emptied")
    found = sequence(draft.board, units, view.stops)
    if found is None:
        if len(proposal.steps) == 1:
            return _No(Reason.TARGET_UNFIT, "it does not fit there beside the other moves")
        return _No(Reason.NO_ORDER, f"no order was found for these {len(proposal.steps)} moves")
    if sum(len(unit.legs) for unit in found) > view.room:
        return _No(*view.no_room)
    return found


def _units(draft: Draft, view: PlanView, steps: Sequence[Step]) -> list[Unit]:
    """Members of a group are one unit, everybody else is one of its own."""
    grouped: dict[str | int, list[Leg]] = {}
    for step in steps:
        group = draft.groups.of(step.pod)
        leg = Leg(
            pod=step.pod,
            source=int(draft.board.position[step.pod]),
            target=step.target,
            handover=view.handover(step.pod),
            strategy=view.strategy.name,
            reason=step.reason,
            gain=step.gain,
            group=group,
        )
        grouped.setdefault(group or step.pod, []).append(leg)
    return [Unit(tuple(legs)) for legs in grouped.values()]


def _no_by_groups(draft: Draft, view: PlanView, units: Sequence[Unit]) -> _No | None:
    most = min(draft.policy.max_concurrent_migrations, draft.policy.max_reschedule_pods)
    for unit in units:
        if not unit.group:
            continue
        missing = set(view.together(unit.legs[0].pod)) - {leg.pod for leg in unit.legs}
        if missing:
            names = ", ".join(draft.snapshot.pods.records[pod].key for pod in sorted(missing)[:3])
            return _No(Reason.GROUP_INCOMPLETE, f"{names} would have to move too", unit.group)
        if len(unit.legs) > most:
            detail = f"{len(unit.legs)} pods have to move at once, of {most} at most"
            return _No(Reason.GROUP_TOO_LARGE, detail, unit.group)
        for budget, needed, allowed in draft.limits.demand(unit).disruptions:
            if needed > allowed:
                detail = f"{needed} disruptions are needed at once, of {allowed} that {budget} allows"
                return _No(Reason.BUDGET_SPENT, detail, budget)
    return None
