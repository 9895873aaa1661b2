"""Which of the proposed moves are made: strategies by precedence, each proposal whole or not at all.

What is taken changes the board at once, so the next proposal finds the room that is left and, once a source
has gone, the room that it frees: `ordering` sees to it that the moves can be made in such an order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rescheduler.config.strategies import FAILED_PODS
from rescheduler.model.migrations import LARGEST_GROUP
from rescheduler.model.plan import Change, NodeChange
from rescheduler.planner.legs import Leg, Unit, legs_in
from rescheduler.planner.moving_on import may_move_on, with_fewer_stops, with_hops_marked
from rescheduler.planner.reasons import Reason
from rescheduler.planner.sequencing import finish_now, sequence
from rescheduler.planner.view import Draft, PlanView
from rescheduler.rules.board import Board
from rescheduler.strategies.fair_shares import reserved_slots
from rescheduler.strategies.strategy import NodeProposal, Proposal, Step, Strategy
from rescheduler.usage.heat import Heat

__all__ = ["Chosen", "choose"]

_ROUNDS = 4
"""More than any cluster was seen to need; each is one that could take moves."""
_TURNS = 8
"""Likewise of settling."""
_MOST_SETTLED = 1000
"""Moves up to which a plan is settled: where one of them changes, all of them are played anew."""


@dataclass(frozen=True, slots=True)
class Chosen:
    units: tuple[Unit, ...]
    """In an order in which they can be made one after the other."""
    changes: tuple[Change, ...]


def choose(draft: Draft, strategies: Sequence[Strategy], heat: Heat | None = None) -> Chosen:
    """Plays what the strategies propose on the draft's board.

    FailedPods is asked no more when all others settle: its pods are few, and what the others do for other
    ends is hardly ever in its way.
    """
    choice = _Choice(draft, heat)
    choice.ask(strategies)
    choice.settle([strategy for strategy in strategies if strategy.name != FAILED_PODS])
    return choice.made()


@dataclass(frozen=True, slots=True)
class _No:
    reason: Reason
    detail: str
    by: str = ""


class _Choice:
    def __init__(self, draft: Draft, heat: Heat | None) -> None:
        self.draft, self.heat = draft, heat
        self.units: list[Unit] = []
        self.changes: dict[int, Change] = {}
        self.taken = 0
        """How many proposals were."""
        self._has_shared = False
        """Whether all strategies have had their share, so that what is left is for whoever comes first."""

    @cached_property
    def start(self) -> Board:
        """As things stand before the first move."""
        return Board(self.draft.snapshot)

    def made(self) -> Chosen:
        units = self.units
        return Chosen(
            tuple(with_hops_marked(units)), tuple(self.changes[node] for node in sorted(self.changes))
        )

    def ask(self, strategies: Sequence[Strategy]) -> None:
        """What a later one moves may make the room that an earlier one lacked, so they are asked again until
        nothing new comes: else the next check would begin with what this one could have done."""
        others = [strategy for strategy in strategies if strategy.name != FAILED_PODS]
        for _ in range(_ROUNDS):
            taken_by_later = False
            limited: list[Strategy] = []
            for place, strategy in enumerate(strategies, start=1):
                before = self.taken
                self.draft.reserved = self._reserve(strategy, strategies[place:])
                limited += [strategy] * bool(self.draft.reserved)
                self._ask_one(strategy)
                taken_by_later |= strategy in others[1:] and self.taken > before
            self.draft.reserved, self._has_shared = 0, True
            for strategy in limited:  # what the others left
                self._ask_one(strategy)
            if not taken_by_later or self.draft.room <= 0:
                return

    def _reserve(self, strategy: Strategy, later: Sequence[Strategy]) -> int:
        """Moves that are kept for those who are asked after it.

        Failing pods leave some to all others, unless there is one namespace only: then nobody else is kept
        waiting by them. And maintenance has its share whatever comes before it by precedence.
        """
        draft = self.draft
        in_maintenance = bool(draft.emptying.any()) and any(each.urgent for each in later)
        if strategy.name == FAILED_PODS:
            is_shared = bool(later) and (in_maintenance or draft.has_several_namespaces)
        else:
            is_shared = in_maintenance and not strategy.urgent
        return 0 if self._has_shared or not is_shared else reserved_slots(draft.policy.max_reschedule_pods)

    def _ask_one(self, strategy: Strategy) -> None:
        view = PlanView(self.draft, strategy, self.heat)
        for proposal in strategy.propose(view):
            if isinstance(proposal, NodeProposal):
                self._take_node(strategy, proposal)
            else:
                self._answer(view, proposal)

    def _take_node(self, strategy: Strategy, proposal: NodeProposal) -> None:
        """The strategy with precedence decides about a node. Cordons come before moves, so none closes a
        node that a pod is to stop on."""
        node, cordons = proposal.node, proposal.change is NodeChange.CORDON
        if node in self.changes or (cordons and self._is_target(node)):
            return
        name = self.draft.snapshot.nodes.records[node].name
        self.changes[node] = Change(name, proposal.change, strategy.name, proposal.reason)
        if cordons:
            self.draft.cordon(node)

    def _is_target(self, node: int) -> bool:
        return any(leg.target == node for unit in self.units for leg in unit.legs)

    def settle(self, strategies: Sequence[Strategy]) -> None:
        """The next check knows nothing of this one, and is to find nothing to do: neither while pods that
        moved have to rest, nor when they may move again."""
        draft, quiet = self.draft, 1
        at_first = [*self.units], {**self.changes}
        for turn in range(_TURNS):
            if quiet == 2 or draft.room <= 0 or not 0 < len(self.units) <= _MOST_SETTLED:
                break
            draft.moved = {leg.pod for unit in self.units for leg in unit.legs}
            draft.onward = set() if turn % 2 else may_move_on(self.units, draft.groups)
            before = self.taken
            self.ask(strategies)
            quiet = quiet + 1 if self.taken == before else 0
        else:  # two strategies undo what the other does: no plan could satisfy both
            self.units, self.changes = at_first
        draft.onward = set()

    def _answer(self, view: PlanView, proposal: Proposal) -> None:
        """If it is taken, it is played on the board."""
        pods = tuple(step.pod for step in proposal.steps)
        if len(set(pods)) != len(pods):
            raise ValueError(f"{view.strategy.name} proposes to move a pod twice at once: {proposal}")
        found = _kept_back(self.draft, view, pods) or _arranged(self.draft, view, proposal)
        room = self.draft.room
        refused = found if isinstance(found, _No) else self._add(found)
        self.draft.used[view.strategy.name] += room - self.draft.room
        if refused is not None:
            view.refuse(pods, refused.reason, refused.detail, refused.by)
            return
        self.taken += 1
        self.draft.moved.update(pods)
        self.draft.onward.difference_update(pods)

    def _add(self, more: Sequence[Unit]) -> _No | None:
        draft = self.draft
        if draft.moved.isdisjoint(leg.pod for unit in more for leg in unit.legs):
            self.units += more
            draft.room -= legs_in(more)
        else:
            units = with_fewer_stops(self.start, self.units, more)
            if units is None:
                return _No(Reason.NO_ORDER, "it would have to stop on the way, which it must not")
            draft.room += legs_in(self.units) - legs_in(units)
            self.units = units
        for unit in more:
            finish_now(draft.board, unit)
        return None


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
    if any(draft.board.position[step.pod] == step.target for step in proposal.steps):
        return _No(Reason.TARGET_UNFIT, "it is there already")
    found = sequence(draft.board, units, view.stops)
    if found is None:
        if len(proposal.steps) == 1:
            return _No(Reason.TARGET_UNFIT, "it does not fit there beside the other moves")
        return _No(Reason.NO_ORDER, f"no order was found for these {len(proposal.steps)} moves")
    if legs_in(found) > view.room:
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
    policy = draft.policy
    most = min(policy.max_concurrent_migrations, policy.max_reschedule_pods, LARGEST_GROUP)
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
