"""The state that all strategies of one plan share, and the view of the cluster that one strategy gets."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property, partial

import numpy as np

from kubevalues import Selector
from rescheduler.api.podmigration import Handover, traits_of
from rescheduler.cluster.node_autoscalers import NodeAutoscalers
from rescheduler.cluster.snapshot import (
    Flags,
    Ints,
    Snapshot,
    is_selected_namespace,
    nodes_being_emptied,
    open_nodes,
)
from rescheduler.cluster.trusted_usage import HotNodeHistory, hot_subject, hot_subjects
from rescheduler.config.policy import Policy
from rescheduler.planner.available_nodes import availability_message, node_availability
from rescheduler.planner.move_allowance import MoveObstacle
from rescheduler.planner.move_sequence import MoveUnit, PodGroups
from rescheduler.planner.plan import Rejection, RejectionLog
from rescheduler.planner.protections.eligibility import Eligibility
from rescheduler.planner.reasons import Reason
from rescheduler.planner.waves import WaveLimits
from rescheduler.recovery.failing_pods import FailingPods, find_failing_pods
from rescheduler.rules.placement import Placement
from rescheduler.rules.taint_toleration import LastChoiceNodes, preferred
from rescheduler.strategies.fair_shares import (
    NOTHING_QUEUED,
    NamespaceTurns,
    QueuedMigrations,
    reserved_slots,
    share_of_each,
)
from rescheduler.strategies.strategy import Strategy

__all__ = ["PlanDraft", "PlanView"]


_MOST_ASKED = 10_000
"""The most nodes per plan for which the planner explains why a pod without a target can't go there."""


class PlanDraft:
    """The state that all strategies of one plan share: the placement, and the decisions so far."""

    def __init__(  # noqa: PLR0913 - one per circumstance
        self,
        snapshot: Snapshot,
        policy: Policy,
        *,
        in_window: bool = True,
        steered: bool = True,
        guarded: bool = False,
        queue: QueuedMigrations = NOTHING_QUEUED,
        held_namespaces: frozenset[str] = frozenset(),
        profile: int = 0,
        before: "PlanDraft | None" = None,
    ) -> None:
        """Create the draft; `before` is the draft of the previous profile, whose moves come first."""
        self.snapshot = snapshot
        self.policy = policy
        self.profile = profile
        """The number of the profile, from 0."""
        self.units_before: list[MoveUnit] = [] if before is None else [*before.units_before, *before.units]
        """The moves of the plans of earlier profiles."""
        self.units: Sequence[MoveUnit] = ()
        """The moves of this draft, once they are selected."""
        self.placement: Placement = Placement(snapshot) if before is None else before.placement
        self.groups = PodGroups(snapshot, policy.pod_group_label)
        self.rejections = RejectionLog()
        self.queue = queue
        self.room = policy.max_reschedule_pods - sum(queue.by_namespace.values())
        """The moves that may still be added. Queued migrations count, so that the queue does not grow with
        every check. Below 0 if moves were added that are guaranteed to a strategy."""
        self.used: Counter[str] = Counter()
        """Moves in this plan, by strategy."""
        self.reserved = 0
        """The part of the room that is reserved for strategies that have not been asked yet."""
        self.held_namespaces = held_namespaces
        """The namespaces whose pods stay for now, because their migrations keep failing."""
        self.in_window = in_window
        self.moved: set[int] = set()
        """The pods that this plan moves: each once, unless it is in `may_move_again`."""
        self.may_move_again: set[int] = set()
        """The moved pods that may be moved once more."""
        self.being_emptied: Flags = nodes_being_emptied(snapshot, policy)
        """[node]: in maintenance, or cordoned by this plan. No pod is sent there."""
        self.open: Flags = open_nodes(snapshot, policy)
        """[node]: may be a target before anything is planned."""
        self.last_choice = LastChoiceNodes(snapshot, policy)
        self.voluntary_targets = _matching_nodes(snapshot, policy.node_selector) & ~self.last_choice.flapping
        """[node]: may get pods that need not move: the profile selects it, and it is not flapping."""
        self.cordoned: Flags = ~snapshot.nodes.schedulable
        """[node]: is cordoned now, or by this plan, which cordons before it moves."""
        if before is not None:
            self.being_emptied |= before.being_emptied
            self.cordoned |= before.cordoned
        eligible = partial(
            Eligibility, snapshot, policy, steered=steered, guarded=guarded, cordoned=self.cordoned
        )
        self.eligibility = {urgent: eligible(urgent=urgent) for urgent in (False, True)}
        self.for_failing_pods = eligible(urgent=True, recovering=True)
        self.allowance = self.eligibility[False].allowance
        """The moves that are allowed in this hour, including those of the plan."""
        before_this = (move.pod for unit in self.units_before for move in unit.moves)
        self.allowance.plan(before_this, of_other_profile=True)
        self.limits = WaveLimits(snapshot, policy, self.eligibility[False].budgets)
        self.why_no_target: dict[int, str] = {}
        """The message for each pod class without a target: what forbids each node."""

    @property
    def failing_pods(self) -> FailingPods:
        """Return which pods keep failing, and on which nodes."""
        return find_failing_pods(self.snapshot, self.policy.failed_pods)

    @cached_property
    def has_several_namespaces(self) -> bool:
        """Return whether pods of several namespaces may be moved."""
        namespaces = {pod_class.namespace for pod_class in self.snapshot.classes}
        namespaces = namespaces.difference(self.policy.excluded_namespaces)
        return sum(is_selected_namespace(self.snapshot, self.policy, each) for each in namespaces) > 1

    @property
    def slots_left(self) -> int:
        """Return how many more moves this plan may have, whatever is queued."""
        return self.policy.max_reschedule_pods - self.used.total()

    def room_for(self, strategy: Strategy) -> int:
        traits = traits_of(strategy.name)
        if traits.recovers:
            # Queued migrations of each namespace count when namespaces take turns.
            return max(0, self.slots_left - self.reserved)
        if traits.urgent:
            # Maintenance does not wait for queued migrations of other strategies.
            guaranteed = reserved_slots(self.policy.max_reschedule_pods) - self.queue.maintenance
            return max(0, min(self.slots_left, max(self.room, guaranteed - self.used[strategy.name])))
        return max(0, min(self.slots_left, self.room) - self.reserved)

    def cordon(self, node: int) -> None:
        self.being_emptied[node] = self.cordoned[node] = True


class PlanView:
    """The view that one strategy gets; the planner also checks proposals with it."""

    def __init__(self, draft: PlanDraft, strategy: Strategy, heat: HotNodeHistory | None = None) -> None:
        self.snapshot = draft.snapshot
        self.placement = draft.placement
        self.policy = draft.policy
        self.nodes = _selected_nodes(draft, strategy.name)
        self.hot = _hot_nodes(draft, strategy.name, heat)
        self.strategy = strategy
        self._draft = draft
        traits = traits_of(strategy.name)
        self._urgent = traits.urgent
        self._balances = not traits.urgent and not traits.consolidates
        self._may_move_now = draft.in_window or traits.ignores_windows
        self._eligibility = draft.for_failing_pods if traits.recovers else draft.eligibility[traits.urgent]
        self._refused: set[int] = set()
        self._handovers: dict[int, Handover] = {}

    @property
    def open(self) -> Flags:
        found = self._draft.open & ~self._draft.being_emptied
        # A pod that has to leave may go to any node that the scheduler's rules allow.
        return found if self._urgent else found & self._draft.voluntary_targets

    def is_open(self, node: int) -> bool:
        """Return `open[node]`; this is cheaper than all of `open`."""
        draft = self._draft
        is_target = self._urgent or draft.voluntary_targets[node]
        return bool(is_target and draft.open[node] and not draft.being_emptied[node])

    @property
    def being_emptied(self) -> Flags:
        return self._draft.being_emptied

    @property
    def autoscalers(self) -> NodeAutoscalers:
        return self._draft.last_choice.autoscalers

    @property
    def scale_down_candidates(self) -> Flags:
        return self._draft.last_choice.scale_down_candidates

    @property
    def stops(self) -> Flags:
        """Return the nodes where a pod may hop: those that the strategy may also send it to."""
        return self.open if self._urgent else self.open & self.nodes

    @property
    def room(self) -> int:
        # Outside the windows, nodes may still be cordoned and uncordoned, because that moves no pod. Failing
        # pods don't wait for a window, because they serve no traffic where they are.
        room = self._draft.room_for(self.strategy) if self._may_move_now else 0
        allowed = None if self._urgent else self._draft.allowance.total_left
        return room if allowed is None else min(room, allowed)

    @property
    def most_moves(self) -> int:
        most, allowed = self.policy.max_reschedule_pods, self._draft.allowance.total_limit
        return most if allowed is None or self._urgent else min(most, allowed)

    @property
    def no_room(self) -> tuple[Reason, str]:
        """Return the reason and detail for a proposal that the plan has no room for."""
        if self._may_move_now and self.room < self._draft.room_for(self.strategy):
            return Reason.HOURLY_LIMIT, self._draft.allowance.total_detail
        if self._may_move_now:
            return Reason.PLAN_FULL, f"the plan has room for {self.room} more moves"
        return Reason.OUTSIDE_WINDOW, "no window is open now"

    @property
    def failing_pods(self) -> FailingPods:
        return self._draft.failing_pods

    def in_fair_order(self, pods: Sequence[int]) -> Iterator[int]:
        draft = self._draft
        free = draft.room - draft.reserved
        waiting = [pod for pod in pods if pod not in draft.moved]
        if len(waiting) <= min(self.room, free):
            yield from waiting
            return
        offered: set[int] = set()
        turns = self._turns(waiting, moved=[pod for pod in pods if pod in draft.moved], free=free)
        while (pod := turns.next()) is not None:
            offered.add(pod)
            before = draft.room
            yield pod
            turns.answer(before - draft.room)
        for each in waiting:
            if each not in offered:
                self._note(
                    each, Reason.PLAN_FULL, "this check has reached its limit of moves for failing pods"
                )

    def _turns(self, waiting: Sequence[int], moved: Sequence[int], free: int) -> NamespaceTurns[int]:
        """Return the turns of the waiting pods; `moved` are the pods that the plan already moves."""
        records, slots = self.snapshot.pods.records, self.policy.max_reschedule_pods
        has = Counter(self._draft.queue.by_namespace)
        has.update(records[pod].namespace for pod in moved)
        by_namespace: dict[str, list[int]] = {}
        for pod in waiting:
            by_namespace.setdefault(records[pod].namespace, []).append(pod)
        share = share_of_each(slots, len({*by_namespace, *has}))
        # If there are more namespaces than moves, each check starts with other namespaces.
        check = int(self.snapshot.taken_at_s // self.policy.rescheduling_interval.total_seconds())
        return NamespaceTurns(by_namespace, has, slots=self.room, free=free, share=share, first=check * slots)

    def may_move(self, pod: int) -> bool:
        if pod in self._refused or (pod in self._draft.moved and pod not in self._draft.may_move_again):
            return False
        rejection = self._held(pod) or self._eligibility.refusal(pod) or self._spent(pod)
        if rejection is not None:
            self._draft.rejections.add(rejection)
        return rejection is None

    def _held(self, pod: int) -> Rejection | None:
        record, held = self.snapshot.pods.records[pod], self._draft.held_namespaces
        if record.namespace not in held:
            return None
        detail = f"too many recent migrations in namespace {record.namespace} failed"
        return Rejection(record.key, Reason.NAMESPACE_HELD, record.namespace, detail)

    def _spent(self, pod: int) -> Rejection | None:
        """Return the rejection if the hourly limit is reached, including planned moves."""
        spent = None if self._urgent else self._draft.allowance.spent(pod)
        if spent is None:
            return None
        return Rejection(self.snapshot.pods.records[pod].key, Reason.HOURLY_LIMIT, *spent)

    def exceeded(self, pods: Sequence[int]) -> MoveObstacle | None:
        """Return which limit of this hour does not allow all these moves."""
        return None if self._urgent else self._draft.allowance.exceeded(pods)

    def targets(self, pod: int) -> Flags:
        try:
            stays = self.handover(pod).source_stays
        except ValueError:  # no handover is possible, so no node is a target
            return np.zeros(len(self.nodes), np.bool_)
        found = self.placement.fits(pod, source_stays=stays) & self.open
        # Nodes where pods of its workload fail are avoided first: it would probably fail there, too.
        for last_choice in self._last_choices(pod):
            found = preferred(found, last_choice)
        # The scheduler ignores the spread of the pods that stay, but TopologySpread would have to repair it.
        return found if self._urgent else found & self.placement.keeps_spread(pod)

    def _last_choices(self, pod: int) -> Iterator[Flags]:
        if (failing := self._last_resort_nodes(pod)) is not None:
            yield failing
        tolerations = self.snapshot.pods.records[pod].constraints.tolerations
        yield self._draft.last_choice.of(tolerations, balancing=self._balances)

    def _last_resort_nodes(self, pod: int) -> Flags | None:
        """Return [node]: to be used last, because pods of its workload, or its own copy, failed there."""
        found = self.failing_pods.last_resort_nodes(int(self.snapshot.pods.workload[pod]))
        failed_on = self.snapshot.failed_on.get(self.snapshot.pods.records[pod].uid)
        if failed_on is None:
            return found
        rows = [row for name in failed_on if (row := self.snapshot.nodes.row.get(name)) is not None]
        flags = np.zeros(len(self.nodes), np.bool_)
        flags[rows] = True
        return flags if found is None else flags | found

    def may_go(self, pod: int, node: int) -> bool:
        if any(last_choice[node] for last_choice in self._last_choices(pod)):
            return bool(self.targets(pod)[node])
        try:
            stays = self.handover(pod).source_stays
        except ValueError:
            return False
        return (
            self.is_open(node)
            and self.placement.fits_on(pod, node, source_stays=stays)
            and (self._urgent or bool(self.placement.keeps_spread(pod)[node]))
        )

    def handover(self, pod: int) -> Handover:
        found = self._handovers.get(pod)
        if found is None:
            found = self._handovers[pod] = self._eligibility.handover(pod)
        return found

    def moves_with(self, pod: int) -> tuple[int, ...]:
        group = self._draft.groups.of(pod)
        if not group:
            return (pod,)
        members = self._draft.groups.members(group)
        if self._urgent:
            being_emptied, position = self._draft.being_emptied, self.placement.position
            return tuple(each for each in members if each == pod or being_emptied[position[each]])
        return members

    def reserve(self, asks: Ints, node: int) -> None:
        self.placement.reserve(asks, node)

    def report_no_target(self, pod: int) -> None:
        self._refused.add(pod)
        self._note(pod, Reason.NO_TARGET, self._why_no_target(pod))

    def report_staying(self, pod: int, reason: str, detail: str) -> None:
        self._note(pod, reason, detail)

    def report_node(self, node: int | None, reason: str, detail: str) -> None:
        name = "" if node is None else self.snapshot.nodes.records[node].name
        self._draft.rejections.add(Rejection(name, reason, "", detail))

    def refuse(self, pods: tuple[int, ...], reason: Reason, detail: str, by: str = "") -> None:
        """Refuse a proposal, and offer none of its pods to this strategy again.

        The reason is recorded for pods that have no more serious one.
        """
        for pod in pods:
            if self.may_move(pod):
                self._note(pod, reason, detail, by)
        self._refused.update(pods)

    def _why_no_target(self, pod: int) -> str:
        known, number = self._draft.why_no_target, int(self.snapshot.pods.pod_class[pod])
        if number not in known:
            if (len(known) + 1) * len(self.nodes) > _MOST_ASKED and known:
                return "no other node can take it"
            stays = self.handover(pod).source_stays
            known[number] = availability_message(
                node_availability(
                    self.placement, pod, source_stays=stays, open_to=self.open, keeps_spread=not self._urgent
                )
            )
        return known[number]

    def _note(self, pod: int, reason: str, detail: str, by: str = "") -> None:
        self._draft.rejections.add(Rejection(self.snapshot.pods.records[pod].key, reason, by, detail))


def _selected_nodes(draft: PlanDraft, strategy: str) -> Flags:
    return _matching_nodes(draft.snapshot, draft.policy.nodes_of(strategy))


def _matching_nodes(snapshot: Snapshot, selector: Selector) -> Flags:
    nodes = snapshot.nodes
    if selector.selects_everything:
        return np.ones(len(nodes), np.bool_)
    return np.fromiter((selector.matches(node.labels) for node in nodes.records), np.bool_, len(nodes))


def _hot_nodes(draft: PlanDraft, strategy: str, heat: HotNodeHistory | None) -> Flags:
    """Return [node]: whether the node is hot, for all strategies or for this one."""
    nodes = draft.snapshot.nodes
    if heat is None:
        return np.ones(len(nodes), np.bool_)
    subjects = [hot_subject(strategy, draft.profile, node.name) for node in nodes.records]
    found = hot_subjects(heat, subjects, draft.policy.hot_checks)
    return np.fromiter((subject in found for subject in subjects), np.bool_, len(nodes))
