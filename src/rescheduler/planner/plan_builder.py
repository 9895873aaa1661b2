"""Build the plan of one check, and validate moves of an older plan.

Both are pure, and always the same for the same input.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

import numpy as np

from rescheduler.api.podmigration import Handover
from rescheduler.cluster.snapshot import NO_ROW, Floats, Ints, Snapshot, closed_because, open_nodes
from rescheduler.config.policy import Policy
from rescheduler.planner.available_nodes import availability_message, node_availability
from rescheduler.planner.handover_choice import ASSUMED_STEERED, HandoverChoice
from rescheduler.planner.move_sequence import MoveUnit, PlannedMove
from rescheduler.planner.plan import Move, NodeLoadChange, Plan, Rejection
from rescheduler.planner.proposal_selection import select_moves
from rescheduler.planner.protections.eligibility import Eligibility
from rescheduler.planner.reasons import Reason
from rescheduler.planner.strategy_view import (
    MAX_LISTED_REJECTIONS,
    HotNodeHistory,
    PlanDraft,
    PlanView,
    RejectionLog,
)
from rescheduler.planner.waves import order_into_waves
from rescheduler.rules.placement import Placement
from rescheduler.strategies.fair_shares import NOTHING_QUEUED, QueuedMigrations
from rescheduler.strategies.strategy import HotNodeStrategy, Strategy

__all__ = [
    "build_plan",
    "node_load_changes",
    "node_load_percentages",
    "percent_of_allocatable",
    "too_hot_nodes",
    "validate_move",
]

_DIGITS = 3


def node_load_changes(snapshot: Snapshot, after: Ints) -> tuple[NodeLoadChange, ...]:
    """Return the loads before and after; `after` is [node, resource], like the snapshot's loads."""
    nodes = snapshot.nodes
    before = percent_of_allocatable(nodes.load, nodes.allocatable).tolist()
    has = (nodes.allocatable > 0).tolist()
    found = [_loads(snapshot, *row) for row in zip(before, has, strict=True)]
    then = {
        node: _loads(
            snapshot, percent_of_allocatable(after[node], nodes.allocatable[node]).tolist(), has[node]
        )
        for node in np.flatnonzero((nodes.load != after).any(axis=1)).tolist()
    }
    return tuple(
        NodeLoadChange(node.name, loads, then.get(row, loads))
        for row, (node, loads) in enumerate(zip(nodes.records, found, strict=True))
    )


def percent_of_allocatable(load: Ints, allocatable: Ints) -> Floats:
    """Return loads in percent; 0 of a resource that the node doesn't have."""
    found: Floats = np.round(100.0 * load / np.maximum(allocatable, 1), _DIGITS)
    return found


def node_load_percentages(snapshot: Snapshot, node: int) -> dict[str, float]:
    """Return the node's loads in percent of allocatable, by resource."""
    has = snapshot.nodes.allocatable[node]
    return _loads(
        snapshot, percent_of_allocatable(snapshot.nodes.load[node], has).tolist(), (has > 0).tolist()
    )


def _loads(snapshot: Snapshot, loads: list[float], has: list[bool]) -> dict[str, float]:
    return {name: load for name, load, there in zip(snapshot.resources, loads, has, strict=True) if there}


_OUTSIDE_WINDOW = (
    Reason.OUTSIDE_WINDOW,
    "",
    "no window is open now: only failing pods are moved",
)


def build_plan(  # noqa: PLR0913 - one per circumstance
    snapshot: Snapshot,
    policy: Policy,
    strategies: Sequence[Strategy],
    *,
    heat: HotNodeHistory | None = None,
    steered: bool | None = None,
    guarded: bool = False,
    queue: QueuedMigrations = NOTHING_QUEUED,
    held_namespaces: frozenset[str] = frozenset(),
) -> Plan:
    """Build the plan of one check.

    `heat` is the history of hot nodes up to this check; without it, a node that is too hot now counts as hot.

    `steered` says whether the webhook is installed; without it, pods are evicted only where that is allowed.
    None means unknown: the plan assumes it and says so. `guarded` says whether the webhook keeps ReplicaSets
    from creating a pod while they adopt a copy.

    `queue` has the migrations of earlier checks that have not started; they take up room. Pods of
    `held_namespaces` are not moved.
    """
    in_window = policy.in_window(datetime.fromtimestamp(snapshot.taken_at_s, UTC))
    draft = PlanDraft(
        snapshot,
        policy,
        in_window=in_window,
        steered=steered is not False,
        guarded=guarded,
        queue=queue,
        held_namespaces=held_namespaces,
    )
    if not in_window:
        draft.rejections.add(Rejection("", *_OUTSIDE_WINDOW))
    with (
        draft.placement.trial()
    ):  # chosen on the same board as ordered: the rules remember what they worked out
        chosen = select_moves(draft, strategies, heat)
    order = order_into_waves(draft.placement, chosen.units, draft.limits)
    _note_dropped(draft, order.left)
    moves = tuple(_moves(snapshot, order.waves))
    refused = draft.rejections.without(move.pod for move in moves)
    return Plan(
        taken_at_s=snapshot.taken_at_s,
        moves=moves,
        changes=chosen.changes,
        nodes=node_load_changes(snapshot, order.placement.load),
        refused=tuple(refused[:MAX_LISTED_REJECTIONS]),
        refused_counts=RejectionLog.counts(refused),
        assumptions=(*snapshot.assumptions, *_plan_assumptions(draft, order.waves, steered)),
    )


def too_hot_nodes(
    snapshot: Snapshot, policy: Policy, strategies: Iterable[Strategy]
) -> list[tuple[str, str]]:
    """Return what is too hot in this check, by strategy and node: the input of `HotNodeHistory.after`."""
    draft = PlanDraft(snapshot, policy)
    found: list[tuple[str, str]] = []
    for strategy in strategies:
        if isinstance(strategy, HotNodeStrategy):
            flags = strategy.too_hot(PlanView(draft, strategy)).tolist()
            nodes = snapshot.nodes.records
            found += [(strategy.name, node.name) for node, is_hot in zip(nodes, flags, strict=True) if is_hot]
    return found


def _moves(snapshot: Snapshot, waves: Sequence[Sequence[MoveUnit]]) -> Iterator[Move]:
    for number, wave in enumerate(waves):
        for unit in wave:
            for move in unit.moves:
                yield _move(snapshot, move, number)


def _move(snapshot: Snapshot, move: PlannedMove, wave: int) -> Move:
    pod = snapshot.pods.records[move.pod]
    return Move(
        pod=pod.key,
        uid=pod.uid,
        source=snapshot.nodes.records[move.source].name if move.source != NO_ROW else pod.node,
        target=snapshot.nodes.records[move.target].name,
        strategy=move.strategy,
        handover=move.handover,
        reason=move.reason,
        gain=move.gain,
        wave=wave,
        group=move.group,
        hop=move.hop,
    )


def _note_dropped(draft: PlanDraft, units: Iterable[MoveUnit]) -> None:
    for move in (move for unit in units for move in unit.moves):
        key = draft.snapshot.pods.records[move.pod].key
        draft.rejections.add(Rejection(key, Reason.NO_ORDER, "", "the moves before it leave no room"))


def _plan_assumptions(
    draft: PlanDraft, waves: Iterable[Iterable[MoveUnit]], steered: bool | None
) -> Iterator[str]:
    moves = [move for wave in waves for unit in wave for move in unit.moves]
    choices = (draft.eligibility[True].choice(move.pod) for move in moves)
    yield from sorted({each.assumed for each in choices if isinstance(each, HandoverChoice) and each.assumed})
    if steered is None and any(move.handover is Handover.EVICT for move in moves):
        yield ASSUMED_STEERED


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
    """Return why a move of an older plan is no longer valid in the present cluster, or None if it is.

    `urgent` is the trait of its strategy, `recovering` is true for FailedPods; `placement` saves work if you
    validate several moves. Other running moves count as far as the snapshot shows their copies. After a hop,
    the second move must name the successor's key and uid.
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
