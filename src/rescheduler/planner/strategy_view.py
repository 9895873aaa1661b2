"""The state that all strategies of one plan share, and the view of the cluster that one strategy gets."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from rescheduler.api.podmigration import Handover
from rescheduler.api.strategy_traits import traits_of
from rescheduler.cluster.snapshot import Flags, Snapshot, nodes_in_maintenance
from rescheduler.config.policy import Policy, UsageSource
from rescheduler.planner.available_nodes import availability_message, node_availability
from rescheduler.planner.move_sequence import PodGroups
from rescheduler.planner.plan import Rejection
from rescheduler.planner.protections.eligibility import Eligibility
from rescheduler.planner.reasons import Reason
from rescheduler.planner.waves import WaveLimits
from rescheduler.recovery.failing_pods import FailingPods, find_failing_pods
from rescheduler.rules.placement import Placement
from rescheduler.strategies.fair_shares import (
    NOTHING_QUEUED,
    NamespaceTurns,
    QueuedMigrations,
    reserved_slots,
    share_of_each,
)
from rescheduler.strategies.strategy import Strategy

__all__ = ["MAX_LISTED_REJECTIONS", "HotNodeHistory", "PlanDraft", "PlanView", "RejectionLog", "hot_subjects"]

MAX_LISTED_REJECTIONS = 1000
"""Rejections that a plan lists: in a large cluster a balancing strategy may ask about very many pods."""


@dataclass(frozen=True, slots=True)
class HotNodeHistory:
    """How many checks in a row found each node too hot; empty after a start."""

    source: UsageSource | None = None
    checks: int = 0
    """Checks with this source, whatever they found."""
    in_a_row: Mapping[Hashable, int] = field(default_factory=dict)
    """Checks up to the last one that found this too hot, without a break; at least 1."""

    def after(self, too_hot: Iterable[Hashable], source: UsageSource) -> "HotNodeHistory":
        """Return the history after one more check.

        What is too hot is a node's name; or a strategy and a node, where strategies differ.
        Load from another source is not comparable, so counting restarts.
        """
        before = self if self.source is source else HotNodeHistory()
        counted = {subject: before.in_a_row.get(subject, 0) + 1 for subject in too_hot}
        return HotNodeHistory(source, before.checks + 1, counted)


def hot_subjects(
    heat: HotNodeHistory | None, too_hot: Iterable[Hashable], hot_checks: int
) -> frozenset[Hashable]:
    """Return which of those that are too hot now count as hot. `heat` has the present check in it already.

    Without it (a single plan knows no checks before), all of them.
    """
    if heat is None or heat.source is UsageSource.REQUESTS:
        return frozenset(too_hot)
    return frozenset(subject for subject in too_hot if heat.in_a_row.get(subject, 0) >= hot_checks)


class RejectionLog:
    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Rejection] = {}

    def add(self, rejection: Rejection) -> None:
        """The first one counts: it comes from the strategy that has precedence."""
        self._found.setdefault((rejection.subject, rejection.reason), rejection)

    def without(self, moved: Iterable[str]) -> list[Rejection]:
        """Return all rejections by subject, except for pods that another strategy moves.

        That a pod fails, and is left to FailedPods, is not said where that has said more about it.
        """
        left_out = frozenset(moved)
        reported = {subject for subject, reason in self._found if reason != Reason.FAILING}
        return [
            self._found[subject, reason]
            for subject, reason in sorted(self._found)
            if subject not in left_out and not (reason == Reason.FAILING and subject in reported)
        ]

    @staticmethod
    def counts(rejections: Iterable[Rejection]) -> dict[str, int]:
        return dict(sorted(Counter(each.reason for each in rejections).items()))


_MOST_ASKED = 10_000
"""Nodes that are asked, per plan, why they don't take a pod that has no target: each answer takes time."""


class PlanDraft:
    """The state that all strategies of one plan share: the placement, and the decisions so far."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        *,
        in_window: bool = True,
        steered: bool = True,
        guarded: bool = False,
        queue: QueuedMigrations = NOTHING_QUEUED,
        held_namespaces: frozenset[str] = frozenset(),
    ) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.placement = Placement(snapshot)
        self.groups = PodGroups(snapshot, policy.pod_group_label)
        self.rejections = RejectionLog()
        self.queue = queue
        self.room = policy.max_reschedule_pods - sum(queue.by_namespace.values())
        """Moves that may be added if everything that is queued counts: the queue must not grow with every
        check. Below 0 if what is guaranteed to others has been added nevertheless."""
        self.used: Counter[str] = Counter()
        """Moves in this plan, by strategy."""
        self.reserved = 0
        """Of the room, what is kept for strategies that have not been asked yet."""
        self.held_namespaces = held_namespaces
        """Whose pods stay where they are for now, because their migrations keep failing."""
        self.in_window = in_window
        self.moved: set[int] = set()
        """Pods that this plan moves: each once, unless it is in `may_move_again`."""
        self.may_move_again: set[int] = set()
        """Those of them that may be moved on once more."""
        self.being_emptied: Flags = nodes_in_maintenance(snapshot)
        """[node]: in maintenance, or cordoned by this plan. No pod is sent there."""
        self.cordoned: Flags = ~snapshot.nodes.schedulable
        """[node]: by now, or by this plan, whose cordons come before its moves."""
        eligible = partial(
            Eligibility, snapshot, policy, steered=steered, guarded=guarded, cordoned=self.cordoned
        )
        self.eligibility = {urgent: eligible(urgent=urgent) for urgent in (False, True)}
        self.for_failing_pods = eligible(urgent=True, recovering=True)
        self.limits = WaveLimits(snapshot, policy, self.eligibility[False].budgets)
        self.why_no_target: dict[int, str] = {}
        """What forbids each node to the pods of a class that found no target, in words."""

    @property
    def failing_pods(self) -> FailingPods:
        """Return which pods keep failing, and on which nodes."""
        return find_failing_pods(self.snapshot, self.policy.failed_pods)

    @cached_property
    def has_several_namespaces(self) -> bool:
        """Among those whose pods may be moved at all."""
        namespaces = {pod_class.namespace for pod_class in self.snapshot.classes}
        return len(namespaces.difference(self.policy.excluded_namespaces)) > 1

    @property
    def slots_left(self) -> int:
        """Moves that this plan may still have, whatever is queued."""
        return self.policy.max_reschedule_pods - self.used.total()

    def room_for(self, strategy: Strategy) -> int:
        if traits_of(strategy.name).recovers:
            # Queued migrations of each namespace count when namespaces take turns.
            return max(0, self.slots_left - self.reserved)
        if strategy.urgent:
            # Maintenance does not wait until what others have asked for has begun.
            guaranteed = reserved_slots(self.policy.max_reschedule_pods) - self.queue.maintenance
            return max(0, min(self.slots_left, max(self.room, guaranteed - self.used[strategy.name])))
        return max(0, min(self.slots_left, self.room) - self.reserved)

    def cordon(self, node: int) -> None:
        self.being_emptied[node] = self.cordoned[node] = True


class PlanView:
    """The view of one strategy; the planner also uses it to check proposals."""

    def __init__(self, draft: PlanDraft, strategy: Strategy, heat: HotNodeHistory | None = None) -> None:
        self.snapshot = draft.snapshot
        self.placement = draft.placement
        self.policy = draft.policy
        self.nodes = _selected_nodes(draft, strategy.name)
        self.hot = _hot_nodes(draft, strategy.name, heat)
        self.strategy = strategy
        self._draft = draft
        traits = traits_of(strategy.name)
        self._may_move_now = draft.in_window or traits.ignores_windows
        self._eligibility = draft.for_failing_pods if traits.recovers else draft.eligibility[strategy.urgent]
        self._refused: set[int] = set()
        self._handovers: dict[int, Handover] = {}
        nodes = draft.snapshot.nodes
        self._healthy: Flags = nodes.ready & nodes.schedulable

    @property
    def open(self) -> Flags:
        return self._healthy & ~self._draft.being_emptied

    @property
    def stops(self) -> Flags:
        """Where a pod may stop on its way: on nodes that the strategy could also send it to."""
        return self.open if self.strategy.urgent else self.open & self.nodes

    @property
    def room(self) -> int:
        # Outside the windows nodes may still be cordoned and uncordoned: that is not a move. Nor do pods
        # that fail wait for a window: they serve no traffic until they are elsewhere.
        return self._draft.room_for(self.strategy) if self._may_move_now else 0

    @property
    def no_room(self) -> tuple[Reason, str]:
        """What to say to a proposal that the plan has no room for."""
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
        """`moved` are those that the plan has taken already."""
        records, slots = self.snapshot.pods.records, self.policy.max_reschedule_pods
        has = Counter(self._draft.queue.by_namespace)
        has.update(records[pod].namespace for pod in moved)
        by_namespace: dict[str, list[int]] = {}
        for pod in waiting:
            by_namespace.setdefault(records[pod].namespace, []).append(pod)
        share = share_of_each(slots, len({*by_namespace, *has}))
        # Where there are more namespaces than moves, others go first in the next check.
        check = int(self.snapshot.taken_at_s // self.policy.rescheduling_interval.total_seconds())
        return NamespaceTurns(by_namespace, has, slots=self.room, free=free, share=share, first=check * slots)

    def may_move(self, pod: int) -> bool:
        if pod in self._refused or (pod in self._draft.moved and pod not in self._draft.may_move_again):
            return False
        rejection = self._held(pod) or self._eligibility.refusal(pod)
        if rejection is not None:
            self._draft.rejections.add(rejection)
        return rejection is None

    def _held(self, pod: int) -> Rejection | None:
        record, held = self.snapshot.pods.records[pod], self._draft.held_namespaces
        if record.namespace not in held:
            return None
        detail = f"too many recent migrations in namespace {record.namespace} failed"
        return Rejection(record.key, Reason.NAMESPACE_HELD, record.namespace, detail)

    def targets(self, pod: int) -> Flags:
        try:
            stays = self.handover(pod).source_stays
        except ValueError:  # there is no way to move it, so there is nowhere to
            return np.zeros(len(self.nodes), np.bool_)
        found = self.placement.fits(pod, source_stays=stays) & self.open
        last_resort_nodes = self._last_resort_nodes(pod)
        if last_resort_nodes is not None and (better := found & ~last_resort_nodes).any():
            found = better
        # The scheduler would not mind what a pod leaves behind, but TopologySpread would have to mend it.
        return found if self.strategy.urgent else found & self.placement.keeps_spread(pod)

    def _last_resort_nodes(self, pod: int) -> Flags | None:
        """[node]: the last places to try, because pods of its workload fail there, or its own copy did."""
        found = self.failing_pods.last_resort_nodes(int(self.snapshot.pods.workload[pod]))
        failed_on = self.snapshot.failed_on.get(self.snapshot.pods.records[pod].uid)
        if failed_on is None:
            return found
        rows = [row for name in failed_on if (row := self.snapshot.nodes.row.get(name)) is not None]
        flags = np.zeros(len(self.nodes), np.bool_)
        flags[rows] = True
        return flags if found is None else flags | found

    def may_go(self, pod: int, node: int) -> bool:
        last_resort_nodes = self._last_resort_nodes(pod)
        if last_resort_nodes is not None and last_resort_nodes[node]:
            return bool(self.targets(pod)[node])
        try:
            stays = self.handover(pod).source_stays
        except ValueError:
            return False
        return (
            bool(self._healthy[node] and not self._draft.being_emptied[node])
            and self.placement.fits_on(pod, node, source_stays=stays)
            and (self.strategy.urgent or bool(self.placement.keeps_spread(pod)[node]))
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
        if self.strategy.urgent:
            being_emptied, position = self._draft.being_emptied, self.placement.position
            return tuple(each for each in members if each == pod or being_emptied[position[each]])
        return members

    def report_no_target(self, pod: int) -> None:
        self._refused.add(pod)
        self._note(pod, Reason.NO_TARGET, self._why_no_target(pod))

    def report_staying(self, pod: int, reason: str, detail: str) -> None:
        self._note(pod, reason, detail)

    def refuse(self, pods: tuple[int, ...], reason: Reason, detail: str, by: str = "") -> None:
        """The planner's answer to a proposal: none of its pods is offered to this strategy again.

        Noted for those of which nothing worse is known.
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
                node_availability(self.placement, pod, source_stays=stays, open_to=self.open)
            )
        return known[number]

    def _note(self, pod: int, reason: str, detail: str, by: str = "") -> None:
        self._draft.rejections.add(Rejection(self.snapshot.pods.records[pod].key, reason, by, detail))


def _selected_nodes(draft: PlanDraft, strategy: str) -> Flags:
    selector = draft.policy.nodes_of(strategy)
    nodes = draft.snapshot.nodes
    if selector.selects_everything:
        return np.ones(len(nodes), np.bool_)
    return np.fromiter((selector.matches(node.labels) for node in nodes.records), np.bool_, len(nodes))


def _hot_nodes(draft: PlanDraft, strategy: str, heat: HotNodeHistory | None) -> Flags:
    """Return [node]: whether the node is hot, for all strategies or for this one."""
    nodes = draft.snapshot.nodes
    if heat is None:
        return np.ones(len(nodes), np.bool_)
    subjects = [(strategy, node.name) for node in nodes.records]
    found = hot_subjects(heat, subjects, draft.policy.hot_checks)
    return np.fromiter((subject in found for subject in subjects), np.bool_, len(nodes))
