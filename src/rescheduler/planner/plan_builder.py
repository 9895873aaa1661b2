"""Build the plan of one check, and validate moves of an older plan. Both are pure."""

import contextlib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial

from rescheduler.api.podmigration import Handover
from rescheduler.api.well_known_names import SHUTDOWN_DELAY_ANNOTATION
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.snapshot import (
    NO_ROW,
    Flags,
    Snapshot,
    closed_because,
    is_selected_namespace,
    is_selected_node,
    open_nodes,
    profile_of,
)
from rescheduler.cluster.trusted_usage import HotNodeHistory, hot_subject
from rescheduler.config.move_limits import next_opening_text
from rescheduler.config.policy import Policy
from rescheduler.planner.available_nodes import availability_message, node_availability
from rescheduler.planner.handover_choice import ASSUMED_STEERED, HandoverChoice
from rescheduler.planner.move_sequence import MoveUnit, PlannedMove
from rescheduler.planner.plan import (
    MAX_LISTED_REJECTIONS,
    Move,
    Plan,
    PlannedNodeChange,
    PlannedRoom,
    Rejection,
    RejectionLog,
    is_fault_of_plugin,
    node_load_changes,
    strategy_failure,
)
from rescheduler.planner.proposal_selection import select_moves
from rescheduler.planner.protections.eligibility import Eligibility
from rescheduler.planner.reasons import Reason
from rescheduler.planner.strategy_view import PlanDraft, PlanView
from rescheduler.planner.waves import order_into_waves
from rescheduler.rules.placement import Placement
from rescheduler.strategies.fair_shares import NOTHING_QUEUED, QueuedMigrations
from rescheduler.strategies.strategy import HotNodeStrategy, Room, Strategy
from rescheduler.strategies.strategy_registry import calling_plugin, without_hung_plugins

__all__ = [
    "assumed_shutdowns",
    "build_plan",
    "too_hot_nodes",
    "validate_move",
]

_NAMED_PODS = 3


def assumed_shutdowns(pods: Iterable[PodRecord]) -> Iterator[str]:
    """Yield the assumption about pods that get SIGTERM while clients may still call them."""
    found = sorted(pod.key for pod in pods if any(each.ends_abruptly for each in pod.shape.containers))
    if found:
        more = len(found) - _NAMED_PODS
        names = ", ".join(found[:_NAMED_PODS]) + (f" and {more} more" if more > 0 else "")
        yield (
            f"programs without a preStop hook keep serving for a moment after SIGTERM: {names}. A program "
            "that exits at once may lose a few requests whenever its pod ends. To delay the end of new pods, "
            f"annotate the workload or its namespace with {SHUTDOWN_DELAY_ANNOTATION}: 5s"
        )


@without_hung_plugins
def build_plan(  # noqa: PLR0913 - one per circumstance
    snapshot: Snapshot,
    policy: Policy,
    strategies: Sequence[Strategy],
    *,
    heat: HotNodeHistory | None = None,
    steered: bool | None = None,
    guarded: bool = False,
    queues: Sequence[QueuedMigrations] = (),
    held_namespaces: frozenset[str] = frozenset(),
    failures: Sequence[Rejection] = (),
    others: Sequence[Sequence[Strategy]] | None = None,
) -> Plan:
    """Build the plan of one check.

    `heat` is the history of hot nodes up to this check; without it, a node that is too hot now counts as hot.

    `steered` says whether the webhook is installed; without it, pods are evicted only where that is allowed.
    None means unknown: the plan assumes it and says so. `guarded` says whether the webhook keeps ReplicaSets
    from creating a pod while they adopt a copy.

    `queues` has the migrations of earlier checks that have not started, by profile; they count against the
    limits. Pods of `held_namespaces` are not moved. `failures` are earlier errors of plugins, which the plan
    reports.

    Profiles plan their own pods one after the other, each on top of the moves of the profiles before it.
    `others` are the strategies of all profiles but the first; without them, all use the same strategies.
    """
    now = datetime.fromtimestamp(snapshot.taken_at_s, UTC)
    in_window = policy.in_window(now)
    rejections = RejectionLog()
    for failure in failures:
        rejections.add(failure)
    if not in_window:
        opens = next_opening_text(policy.windows, now)
        detail = f"no window is open now: only failing pods are moved; the next opens on {opens}"
        rejections.add(Rejection("", Reason.OUTSIDE_WINDOW, "", detail))
    profiles = policy.every_profile
    draft: PlanDraft | None = None
    drafts: list[PlanDraft] = []
    changes: dict[str, PlannedNodeChange] = {}
    with contextlib.ExitStack() as trials:
        for number, profile in enumerate(profiles):
            draft = PlanDraft(
                snapshot,
                profile,
                in_window=in_window,
                steered=steered is not False,
                guarded=guarded,
                queue=queues[number] if queues else NOTHING_QUEUED,
                held_namespaces=held_namespaces,
                profile=number,
                before=draft,
            )
            drafts.append(draft)
            if draft.allowance.total_left == 0:
                draft.rejections.add(Rejection("", Reason.HOURLY_LIMIT, "", draft.allowance.total_detail))
            if not number:
                # Select and order on the same placement: the rules keep their results.
                trials.enter_context(draft.placement.trial())
            own = strategies if not number or others is None else others[number - 1]
            chosen = select_moves(draft, own, heat)
            draft.units = chosen.units
            for change in chosen.changes:
                changes.setdefault(change.node, change)
    units = [unit for each in drafts for unit in each.units]
    first = drafts[0]
    order = order_into_waves(first.placement, units, first.limits)
    _note_dropped(drafts[0], order.left)
    for each in (rejection for draft in drafts for rejection in draft.rejections):
        if len(profiles) == 1 or not _is_of_other_profile(snapshot, policy, each):
            rejections.add(each)
    moves = tuple(_moves(snapshot, order.waves))
    refused = rejections.without(move.pod for move in moves)
    return Plan(
        taken_at_s=snapshot.taken_at_s,
        moves=moves,
        changes=tuple(changes[node] for node in sorted(changes)),
        nodes=node_load_changes(snapshot, order.placement.load),
        refused=_listed(snapshot, refused, drafts[-1].being_emptied),
        refused_counts=RejectionLog.counts(refused),
        assumptions=(*snapshot.assumptions, *_plan_assumptions(first, order.waves, steered)),
    )


def _listed(snapshot: Snapshot, refused: Sequence[Rejection], being_emptied: Flags) -> tuple[Rejection, ...]:
    """Return as many rejections as a plan lists, in order.

    Those of pods on nodes that are emptied are left out last, because the status of these nodes names them.
    """

    def may_be_left_out(at: int) -> bool:
        row = snapshot.pods.row.get(refused[at].subject)
        return row is None or (node := int(snapshot.pods.node[row])) == NO_ROW or not being_emptied[node]

    chosen = sorted(range(len(refused)), key=may_be_left_out)[:MAX_LISTED_REJECTIONS]
    return tuple(refused[at] for at in sorted(chosen))


def _is_of_other_profile(snapshot: Snapshot, policy: Policy, rejection: Rejection) -> bool:
    """Return whether the rejection only says that another profile is responsible for the pod."""
    row = snapshot.pods.row.get(rejection.subject)
    if row is None or rejection.reason not in {Reason.NAMESPACE_NOT_SELECTED, Reason.NODE_NOT_SELECTED}:
        return False
    pod = snapshot.pods.records[row]
    return any(
        is_selected_namespace(snapshot, each, pod.namespace) and is_selected_node(snapshot, each, pod.node)
        for each in policy.every_profile
    )


@without_hung_plugins
def too_hot_nodes(
    snapshot: Snapshot,
    policy: Policy,
    strategies: Iterable[Strategy],
    failures: list[Rejection] | None = None,
    *,
    profile: int = 0,
) -> list[Hashable]:
    """Return what is too hot in this check, by strategy and node: the input of `HotNodeHistory.after`.

    Errors of plugins are added to `failures`.
    """
    draft = PlanDraft(snapshot, policy, profile=profile)
    found: list[Hashable] = []
    nodes = snapshot.nodes.records
    for strategy in strategies:
        if isinstance(strategy, HotNodeStrategy):
            try:
                with calling_plugin(strategy.name) as call:
                    flags = call(partial(strategy.too_hot, PlanView(draft, strategy))).tolist()
                hot = [node.name for node, is_hot in zip(nodes, flags, strict=True) if is_hot]
            except BaseException as error:
                if not is_fault_of_plugin(strategy.name, error):
                    raise
                if failures is not None:
                    failures.append(strategy_failure(strategy.name, error))
                continue  # only the history of this strategy is lost; its proposals are isolated, too
            found += [hot_subject(strategy.name, profile, name) for name in hot]
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
        rooms=tuple(_room(snapshot, room) for room in move.rooms),
    )


def _room(snapshot: Snapshot, room: Room) -> PlannedRoom:
    pod = snapshot.pods.records[room.pod]
    return PlannedRoom(pod.key, pod.uid, snapshot.nodes.records[room.node].name)


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
    moved = dict.fromkeys(move.pod for move in moves)
    yield from assumed_shutdowns(draft.snapshot.pods.records[pod] for pod in moved)
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
    """Return why a move of an older plan is no longer valid in the present cluster; None if it is valid.

    `urgent` is the trait of its strategy, `recovering` is true for FailedPods; pass one `placement` to
    validate several moves faster. Other running moves count as far as the snapshot shows their copies. After
    a hop, the second move must name the successor's key and uid.
    """
    row = snapshot.pods.row.get(move.pod)
    if row is None or snapshot.pods.records[row].uid != move.uid:
        return Rejection(move.pod, Reason.GONE, "", "the pod no longer exists")
    pod = snapshot.pods.records[row]
    if pod.node != move.source:
        return Rejection(move.pod, Reason.ELSEWHERE, pod.node, f"it is on {pod.node or 'no node'}")
    policy = profile_of(snapshot, policy, pod.namespace, pod.node)
    eligibility = Eligibility(
        snapshot, policy, urgent=urgent, steered=steered, guarded=guarded, recovering=recovering
    )
    if (protected := eligibility.refusal(row)) is not None:
        return protected
    present = eligibility.handover(row)
    if present is not move.handover:
        detail = f"it was planned with {move.handover}; now it needs {present}"
        return Rejection(move.pod, Reason.HANDOVER_IMPOSSIBLE, "", detail)
    return _validate_target(move, row, policy, placement or Placement(snapshot))


def _validate_target(move: Move, row: int, policy: Policy, placement: Placement) -> Rejection | None:
    stays = move.handover.source_stays
    if move.target is None:
        found = node_availability(
            placement, row, source_stays=stays, open_to=open_nodes(placement.snapshot, policy)
        )
        if found.available:
            return None
        return Rejection(move.pod, Reason.NO_TARGET, "", availability_message(found))
    target = placement.snapshot.nodes.row.get(move.target)
    if target is None:
        return Rejection(move.pod, Reason.TARGET_UNFIT, move.target, "its target no longer exists")
    if closed := closed_because(placement.snapshot, policy, target):
        return Rejection(move.pod, Reason.TARGET_UNFIT, move.target, f"its target {closed}")
    if placement.fits_on(row, target, source_stays=stays):
        return None
    refusals = placement.refusals(row, target, source_stays=stays)
    detail = "; ".join(map(str, refusals))
    return Rejection(move.pod, Reason.TARGET_UNFIT, move.target, detail)
