"""Select the proposed moves of a plan: strategies by precedence, each proposal as a whole or not at all.

Accepted moves change the placement immediately, so the next proposal sees the room that is left, including
the room that a source frees. `move_sequence` ensures that the moves can be executed in such an order.
"""

import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from rescheduler.api.podmigration import BUILT_IN_TRAITS, MAX_TEXT_LENGTH, traits_of
from rescheduler.cluster.node_record import NodeChange
from rescheduler.cluster.snapshot import NO_ROW, Flags, Snapshot
from rescheduler.cluster.trusted_usage import HotNodeHistory
from rescheduler.planner.move_sequence import (
    MoveUnit,
    PlannedMove,
    count_moves,
    group_too_large,
    move_at_once,
    pods_that_may_move_again,
    sequence,
    with_fewer_hops,
    with_hops_marked,
)
from rescheduler.planner.plan import PlannedNodeChange, is_fault_of_plugin, strategy_failure
from rescheduler.planner.reasons import Reason
from rescheduler.planner.strategy_view import PlanDraft, PlanView
from rescheduler.rules.placement import Placement
from rescheduler.strategies.fair_shares import reserved_slots
from rescheduler.strategies.strategy import NodeProposal, Proposal, Strategy, View
from rescheduler.strategies.strategy_registry import PluginCall, PluginTimeout, calling_plugin

__all__ = ["SelectedMoves", "select_moves"]

_END: Final = object()
_NO_STOPS: Final[Flags] = np.zeros(0, np.bool_)

_ROUNDS = 4
"""The most rounds in which all strategies are asked; no cluster is known that needs more."""
_TURNS = 8
"""The most rounds in which the plan is extended to a fixed point."""
_MOST_SETTLED = 1000
"""The most moves of a plan that is extended to a fixed point: a change of one move replays all of them."""


@dataclass(frozen=True, slots=True)
class SelectedMoves:
    units: tuple[MoveUnit, ...]
    """The moves, in an order in which they can be made one after the other."""
    changes: tuple[PlannedNodeChange, ...]


def select_moves(
    draft: PlanDraft, strategies: Sequence[Strategy], heat: HotNodeHistory | None = None
) -> SelectedMoves:
    """Select moves from what the strategies propose, and apply them to the draft's placement.

    Extending the plan to a fixed point does not ask FailedPods again: it has few pods, and moves of other
    strategies rarely affect them.
    """
    choice = _Selection(draft, heat)
    choice.ask(strategies)
    choice.reach_fixed_point([strategy for strategy in strategies if not traits_of(strategy.name).recovers])
    return choice.made()


@dataclass(frozen=True, slots=True)
class _Refused:
    reason: Reason
    detail: str
    by: str = ""


def _proposals_of(strategy: Strategy, view: View) -> Iterator[Proposal | NodeProposal]:
    """Yield what the strategy proposes; raise an error for what can't be a proposal.

    The number of proposals of a plugin is limited to two per pod and node, because one that repeats a refused
    proposal would not end.
    """
    snapshot = view.snapshot
    if strategy.name in BUILT_IN_TRAITS:
        for proposal in strategy.propose(view):
            _validate_proposal(proposal, snapshot)
            yield proposal
        return
    left = 2 * (len(snapshot.pods) + len(snapshot.nodes)) + 100
    with calling_plugin(strategy.name) as call:
        proposals = call(lambda: _iterator_of(strategy.propose(view)))
        while (proposed := _next_unchanged(call, proposals, view.placement)) is not _END:
            left -= 1
            if left < 0:
                raise RuntimeError("it repeats proposals and does not end")
            _validate_proposal(proposed, snapshot)
            yield proposed


def _iterator_of(proposals: object) -> Iterator[Any]:
    if not isinstance(proposals, Iterable):
        raise TypeError(f"propose() returns {type(proposals).__name__}, not an iterator of proposals")
    return iter(proposals)


def _next_unchanged(call: PluginCall, proposals: Iterator[Any], placement: Placement) -> Any:
    """Return the next proposal; undo moves that the plugin made itself, and raise an error for them."""
    before, has_returned = placement.position.copy(), True
    try:
        return call(lambda: next(proposals, _END))
    except PluginTimeout:
        has_returned = False  # it may still move pods; the placement is dropped
        raise
    finally:
        moved = np.flatnonzero(placement.position != before).tolist() if has_returned else []
        for pod in moved:
            if before[pod] == NO_ROW:
                placement.remove(pod, int(placement.position[pod]))
            else:
                placement.move(pod, int(before[pod]))
        if moved:
            raise RuntimeError("it moves pods in view.placement outside of view.placement.trial()")


def _validate_proposal(proposal: object, snapshot: Snapshot) -> None:
    """Raise an error for what can't be a proposal, before anything is changed for it."""
    if isinstance(proposal, NodeProposal):
        _row("node", proposal.node, len(snapshot.nodes))
        NodeChange(proposal.change)
        _text(proposal.reason)
        return
    if not isinstance(proposal, Proposal):
        raise TypeError(f"propose() yields {type(proposal).__name__}, not Proposal or NodeProposal")
    parts: tuple[object, ...] = (proposal.moves, proposal.rooms)
    if not all(isinstance(each, tuple | list) for each in parts):
        raise TypeError("the moves and rooms of a proposal must be tuples")
    for move in proposal.moves:
        _row("pod", move.pod, len(snapshot.pods))
        _row("node", move.target, len(snapshot.nodes))
        _text(move.reason)
        if not math.isfinite(move.gain):
            raise ValueError(f"the gain of a move is {move.gain}")
    for room in proposal.rooms:
        _row("pod", room.pod, len(snapshot.pods))
        _row("node", room.node, len(snapshot.nodes))
        if snapshot.pods.node[room.pod] != NO_ROW:
            raise ValueError(f"{snapshot.pods.records[room.pod].key} has a node, and needs no room")


def _row(what: str, row: int, count: int) -> None:
    if isinstance(row, bool) or not 0 <= operator.index(row) < count:
        raise IndexError(f"{row} is not the row of a {what}")


def _text(reason: object) -> None:
    """Raise an error for a reason that no PodMigration can have."""
    if not isinstance(reason, str):
        raise TypeError(f"a reason is {type(reason).__name__}, not str")
    reason.encode()  # raises an error for lone surrogates
    if len(reason) > MAX_TEXT_LENGTH:
        raise ValueError(f"a reason has {len(reason)} characters, more than {MAX_TEXT_LENGTH}")


class _Selection:
    def __init__(self, draft: PlanDraft, heat: HotNodeHistory | None) -> None:
        self.draft, self.heat = draft, heat
        self.units: list[MoveUnit] = []
        self.changes: dict[int, PlannedNodeChange] = {}
        self.taken = 0
        """The number of accepted proposals."""
        self._failed: set[str] = set()
        """Strategies of plugins that have raised an exception: they are not asked again."""
        self._has_shared = False
        """Whether all strategies had their share: then the first that asks gets what is left."""

    @cached_property
    def start(self) -> Placement:
        """Return the placement before the first move of this profile."""
        found = Placement(self.draft.snapshot)
        for unit in self.draft.units_before:
            move_at_once(found, unit)
        return found

    def made(self) -> SelectedMoves:
        units = self.units
        return SelectedMoves(
            tuple(with_hops_marked(units)), tuple(self.changes[node] for node in sorted(self.changes))
        )

    def ask(self, strategies: Sequence[Strategy]) -> None:
        """Ask all strategies for moves, in rounds, until none proposes anything new.

        Moves of a later strategy may free the room that an earlier one lacked. With one round, the next check
        would plan moves that this check could have planned.
        """
        others = [strategy for strategy in strategies if not traits_of(strategy.name).recovers]
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
            for strategy in limited:  # they may use what the others left
                self._ask_one(strategy)
            if not taken_by_later or self.draft.room <= 0:
                return

    def _reserve(self, strategy: Strategy, later: Sequence[Strategy]) -> int:
        """Return how many moves are reserved for the strategies that are asked after it.

        FailedPods leaves some to all others, unless there is only one namespace, so that no other namespace
        has to wait. Maintenance always gets its share, whatever precedes it.
        """
        draft = self.draft
        in_maintenance = bool(draft.being_emptied.any()) and any(
            traits_of(each.name).urgent for each in later
        )
        traits = traits_of(strategy.name)
        if traits.recovers:
            is_shared = bool(later) and (in_maintenance or draft.has_several_namespaces)
        else:
            is_shared = in_maintenance and not traits.urgent
        return 0 if self._has_shared or not is_shared else reserved_slots(draft.policy.max_reschedule_pods)

    def _ask_one(self, strategy: Strategy) -> None:
        if strategy.name in self._failed:
            return
        try:
            self._take_proposals(strategy)
        except BaseException as error:
            if not is_fault_of_plugin(strategy.name, error):
                raise
            self._failed.add(strategy.name)
            self.draft.rejections.add(strategy_failure(strategy.name, error))

    def _take_proposals(self, strategy: Strategy) -> None:
        view = PlanView(self.draft, strategy, self.heat)
        for proposal in _proposals_of(strategy, view):
            if isinstance(proposal, NodeProposal):
                self._take_node(strategy, proposal)
            else:
                self._answer(view, proposal)

    def _take_node(self, strategy: Strategy, proposal: NodeProposal) -> None:
        """Accept a cordon or uncordon, unless a strategy with precedence has decided about the node.

        A cordon of a node that a selected move targets is dropped.
        """
        node, cordons = proposal.node, proposal.change is NodeChange.CORDON
        if node in self.changes or (cordons and self._is_target(node)):
            return
        name = self.draft.snapshot.nodes.records[node].name
        self.changes[node] = PlannedNodeChange(name, proposal.change, strategy.name, proposal.reason)
        if cordons:
            self.draft.cordon(node)

    def _is_target(self, node: int) -> bool:
        units = (*self.draft.units_before, *self.units)
        return any(move.target == node for unit in units for move in unit.moves)

    def reach_fixed_point(self, strategies: Sequence[Strategy]) -> None:
        """Extend the plan until the next check would find nothing to do.

        The next check knows nothing of this one. It must find nothing both while `podCooldown` keeps moved
        pods in place and after that.
        """
        draft, quiet = self.draft, 1
        initial = [*self.units], {**self.changes}
        for turn in range(_TURNS):
            if quiet == 2 or draft.room <= 0 or not 0 < len(self.units) <= _MOST_SETTLED:
                break
            draft.moved = {move.pod for unit in self.units for move in unit.moves}
            draft.may_move_again = set() if turn % 2 else pods_that_may_move_again(self.units, draft.groups)
            before = self.taken
            self.ask(strategies)
            quiet = quiet + 1 if self.taken == before else 0
        else:  # two strategies undo each other's moves: no plan satisfies both
            self.units, self.changes = initial
        draft.may_move_again = set()

    def _answer(self, view: PlanView, proposal: Proposal) -> None:
        """Accept or refuse a proposal; an accepted one changes the placement."""
        pods = tuple(proposed.pod for proposed in proposal.moves)
        if len(set(pods)) != len(pods):
            raise ValueError(f"{view.strategy.name} proposes to move a pod twice: {proposal}")
        found = _refused_by_protection(self.draft, view, pods) or _sequenced(self.draft, view, proposal)
        room = self.draft.room
        refused = found if isinstance(found, _Refused) else self._add(found)
        self.draft.used[view.strategy.name] += room - self.draft.room
        if refused is not None:
            view.refuse(pods, refused.reason, refused.detail, refused.by)
            return
        self.taken += 1
        for each in proposal.rooms:
            self.draft.placement.place(each.pod, each.node)
        self.draft.moved.update(pods)
        self.draft.may_move_again.difference_update(pods)

    def _add(self, more: Sequence[MoveUnit]) -> _Refused | None:
        draft = self.draft
        if draft.moved.isdisjoint(move.pod for unit in more for move in unit.moves):
            self.units += more
            draft.room -= count_moves(more)
            draft.allowance.plan(_pods(more))
        else:
            units = with_fewer_hops(self.start, self.units, more)
            if units is None:
                return _Refused(Reason.NO_ORDER, "it would need an intermediate stop, which is not allowed")
            draft.room += count_moves(self.units) - count_moves(units)
            draft.allowance.withdraw(_pods(self.units))
            draft.allowance.plan(_pods(units))
            self.units = units
        for unit in more:
            move_at_once(draft.placement, unit)
        return None


def _refused_by_protection(draft: PlanDraft, view: PlanView, pods: tuple[int, ...]) -> _Refused | None:
    """Return the refusal if some pod of the proposal must stay."""
    kept = [pod for pod in pods if not view.may_move(pod)]  # `may_move` records the reason
    if not kept:
        return None
    group = draft.groups.of(kept[0])
    reason = Reason.GROUP_INCOMPLETE if group else Reason.NO_ORDER
    return _Refused(reason, f"{draft.snapshot.pods.records[kept[0]].key} can't move", group)


def _sequenced(draft: PlanDraft, view: PlanView, proposal: Proposal) -> list[MoveUnit] | _Refused:
    units = _units(draft, view, proposal)
    if (refused := _refused_by_groups(draft, view, units)) is not None:
        return refused
    if not all(view.is_open(proposed.target) for proposed in proposal.moves):
        return _Refused(Reason.TARGET_UNFIT, "its target is not Ready, is cordoned, or is being emptied")
    if any(draft.placement.position[proposed.pod] == proposed.target for proposed in proposal.moves):
        return _Refused(Reason.TARGET_UNFIT, "it is already there")
    # A single unit waits for no other, so it needs no hop, and finding stops in a large cluster takes long.
    found = sequence(draft.placement, units, view.stops if len(units) > 1 else _NO_STOPS)
    if found is None:
        if len(proposal.moves) == 1:
            return _Refused(Reason.TARGET_UNFIT, "it does not fit there together with the other moves")
        return _Refused(Reason.NO_ORDER, f"found no order for these {len(proposal.moves)} moves")
    if count_moves(found) > view.room:
        return _Refused(*view.no_room)
    if (spent := view.exceeded(_pods(found))) is not None:
        return _Refused(Reason.HOURLY_LIMIT, spent.detail, spent.by)
    return found


def _pods(units: Iterable[MoveUnit]) -> list[int]:
    """Return the pod of each move; a pod that hops is listed twice."""
    return [move.pod for unit in units for move in unit.moves]


def _units(draft: PlanDraft, view: PlanView, proposal: Proposal) -> list[MoveUnit]:
    """Return one unit per group, and one per pod without a group."""
    grouped: dict[str | int, list[PlannedMove]] = {}
    for proposed in proposal.moves:
        group = draft.groups.of(proposed.pod)
        move = PlannedMove(
            pod=proposed.pod,
            source=int(draft.placement.position[proposed.pod]),
            target=proposed.target,
            handover=view.handover(proposed.pod),
            strategy=view.strategy.name,
            reason=proposed.reason,
            gain=proposed.gain,
            group=group,
            rooms=proposal.rooms,
        )
        grouped.setdefault(group or proposed.pod, []).append(move)
    return [MoveUnit(tuple(moves)) for moves in grouped.values()]


def _refused_by_groups(draft: PlanDraft, view: PlanView, units: Sequence[MoveUnit]) -> _Refused | None:
    for unit in units:
        if not unit.group:
            continue
        missing = set(view.moves_with(unit.moves[0].pod)) - {move.pod for move in unit.moves}
        if missing:
            names = ", ".join(draft.snapshot.pods.records[pod].key for pod in sorted(missing)[:3])
            return _Refused(Reason.GROUP_INCOMPLETE, f"{names} must move with it", unit.group)
        if detail := group_too_large(len(unit.moves), draft.policy):
            return _Refused(Reason.GROUP_TOO_LARGE, detail, unit.group)
        for budget, needed, allowed in draft.limits.demand(unit).disruptions:
            if needed > allowed:
                detail = f"it needs {needed} disruptions at the same time; {budget} allows {allowed}"
                return _Refused(Reason.BUDGET_SPENT, detail, budget)
    return None
