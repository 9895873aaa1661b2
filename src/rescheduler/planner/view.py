"""The cluster as one strategy sees it, in the middle of planning."""

import numpy as np
import numpy.typing as npt

from rescheduler.config.policy import Policy
from rescheduler.model.plan import Handover, Rejection
from rescheduler.planner.eligibility import Eligibility
from rescheduler.planner.groups import Groups
from rescheduler.planner.limits import Limits
from rescheduler.planner.notes import Notes
from rescheduler.planner.open_nodes import nodes_in_maintenance
from rescheduler.planner.places import in_words, places
from rescheduler.planner.reasons import Reason
from rescheduler.rules.board import Board
from rescheduler.snapshot.snapshot import Snapshot
from rescheduler.strategies.strategy import Strategy
from rescheduler.usage.heat import Heat, hot

__all__ = ["Draft", "PlanView"]

Flags = npt.NDArray[np.bool_]

_MOST_ASKED = 10_000
"""Nodes that are asked, per plan, why they don't take a pod that has no target: each answer takes time."""


class Draft:
    """What all strategies of one plan share: the board, and what was decided so far."""

    def __init__(
        self, snapshot: Snapshot, policy: Policy, *, in_window: bool = True, steered: bool = True
    ) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.board = Board(snapshot)
        self.groups = Groups(snapshot, policy.pod_group_label)
        self.notes = Notes()
        # Outside the windows nodes may still be cordoned and uncordoned: that is not a move.
        self.room = policy.max_reschedule_pods if in_window else 0
        self.in_window = in_window
        self.moved: set[int] = set()
        self.emptying: Flags = nodes_in_maintenance(snapshot)
        """[node]: in maintenance, or cordoned by this plan. No pod is sent there."""
        self.cordoned: Flags = ~snapshot.nodes.schedulable
        """[node]: by now, or by this plan, whose cordons come before its moves."""
        self.eligibility = {
            urgent: Eligibility(snapshot, policy, urgent=urgent, steered=steered, cordoned=self.cordoned)
            for urgent in (False, True)
        }
        self.limits = Limits(snapshot, policy, self.eligibility[False].budgets)
        self.in_the_way: dict[int, str] = {}
        """What forbids each node to the pods of a class that found no target, in words."""

    @property
    def no_room(self) -> tuple[Reason, str]:
        """What to say to a proposal that the plan has no room for."""
        if self.in_window:
            return Reason.PLAN_FULL, f"the plan has room for {self.room} more moves"
        return Reason.OUTSIDE_WINDOW, "no window is open now"

    def cordon(self, node: int) -> None:
        self.emptying[node] = self.cordoned[node] = True


class PlanView:
    """A `View`; also what the planner itself asks about a proposal."""

    def __init__(self, draft: Draft, strategy: Strategy, heat: Heat | None = None) -> None:
        self.snapshot = draft.snapshot
        self.board = draft.board
        self.policy = draft.policy
        self.nodes = _looked_at(draft, strategy.name)
        self.hot = _counts_as_hot(draft, strategy.name, heat)
        self.strategy = strategy
        self._draft = draft
        self._eligibility = draft.eligibility[strategy.urgent]
        self._refused: set[int] = set()
        nodes = draft.snapshot.nodes
        self._healthy: Flags = nodes.ready & nodes.schedulable

    @property
    def open(self) -> Flags:
        return self._healthy & ~self._draft.emptying

    @property
    def room(self) -> int:
        return self._draft.room

    def may_move(self, pod: int) -> bool:
        # One move per plan: a pod that moved could only be moved on, or back.
        if pod in self._draft.moved or pod in self._refused:
            return False
        rejection = self._eligibility.refusal(pod)
        if rejection is not None:
            self._draft.notes.add(rejection)
        return rejection is None

    def targets(self, pod: int) -> Flags:
        stays = self.handover(pod).source_stays
        found = self.board.fits(pod, source_stays=stays) & self.open
        # The scheduler would not mind what a pod leaves behind, but TopologySpread would have to mend it.
        return found if self.strategy.urgent else found & self.board.keeps_even(pod)

    def handover(self, pod: int) -> Handover:
        return self._eligibility.handover(pod)

    def together(self, pod: int) -> tuple[int, ...]:
        group = self._draft.groups.of(pod)
        if not group:
            return (pod,)
        members = self._draft.groups.members(group)
        if self.strategy.urgent:
            emptying, position = self._draft.emptying, self.board.position
            return tuple(each for each in members if each == pod or emptying[position[each]])
        return members

    def stuck(self, pod: int) -> None:
        self._refused.add(pod)
        self._note(pod, Reason.NO_TARGET, self._in_the_way(pod))

    def stay(self, pod: int, reason: str, detail: str) -> None:
        self._note(pod, reason, detail)

    def refuse(self, pods: tuple[int, ...], reason: Reason, detail: str, by: str = "") -> None:
        """The planner's answer to a proposal: none of its pods is offered to this strategy again.

        Noted for those of which nothing worse is known.
        """
        for pod in pods:
            if self.may_move(pod):
                self._note(pod, reason, detail, by)
        self._refused.update(pods)

    def _in_the_way(self, pod: int) -> str:
        known, number = self._draft.in_the_way, int(self.snapshot.pods.pod_class[pod])
        if number not in known:
            if (len(known) + 1) * len(self.nodes) > _MOST_ASKED and known:
                return "no other node can take it"
            stays = self.handover(pod).source_stays
            known[number] = in_words(places(self.board, pod, source_stays=stays, open_to=self.open))
        return known[number]

    def _note(self, pod: int, reason: str, detail: str, by: str = "") -> None:
        self._draft.notes.add(Rejection(self.snapshot.pods.records[pod].key, reason, by, detail))


def _looked_at(draft: Draft, strategy: str) -> Flags:
    selector = draft.policy.nodes_of(strategy)
    nodes = draft.snapshot.nodes
    if selector.selects_everything:
        return np.ones(len(nodes), np.bool_)
    return np.fromiter((selector.matches(node.labels) for node in nodes.records), np.bool_, len(nodes))


def _counts_as_hot(draft: Draft, strategy: str, heat: Heat | None) -> Flags:
    """By node or, where strategies judge differently, by strategy and node."""
    nodes = draft.snapshot.nodes
    if heat is None:
        return np.ones(len(nodes), np.bool_)
    subjects = [(strategy, node.name) for node in nodes.records]
    found = hot(heat, subjects, draft.policy.hot_checks)
    return np.fromiter((subject in found for subject in subjects), np.bool_, len(nodes))
