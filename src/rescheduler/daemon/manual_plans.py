"""Make the plans that users request: the move of one pod, and the undo of earlier migrations.

An undo moves pods back to where they were before some of the migrations in the history. A pod that moved
several times goes back to where it was before the first of the selected moves, and is found by following each
move to the pod that took its place. Pods that no longer exist, and nodes that no longer may take them, are
refused with the reason, as in every plan.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from rescheduler.api.migration_journal import JournalEntry
from rescheduler.api.podmigration import MANUAL, Handover
from rescheduler.cluster.node_record import in_maintenance
from rescheduler.cluster.snapshot import Snapshot, closed_because
from rescheduler.config.config_validation import did_you_mean
from rescheduler.config.policy import Policy
from rescheduler.config.profiles import replace_settings
from rescheduler.migrations.controller.revalidation import TEMPORARY_REASONS, policy_for_manual_move
from rescheduler.migrations.runtime_state import RuntimeState
from rescheduler.planner.available_nodes import availability_message, least_loaded_node
from rescheduler.planner.explanation import PodExplanation, explain_pod
from rescheduler.planner.plan import Move, Plan, Rejection
from rescheduler.planner.plan_builder import build_plan
from rescheduler.planner.reasons import Reason
from rescheduler.rules.placement import Placement
from rescheduler.strategies.strategy import Proposal, ProposedMove, View

__all__ = [
    "ReturnMove",
    "build_undo_plan",
    "likely_targets",
    "manual_move_refusals",
    "manual_plan",
    "moves_to_undo",
]


def manual_plan(snapshot: Snapshot, key: str, target: str | None, requested_by: str = "") -> Plan:
    """Return a plan with one move; without `target`, the controller chooses the node."""
    pod = snapshot.pods.records[snapshot.pods.row[key]]
    move = Move(
        pod=key,
        uid=pod.uid,
        source=pod.node,
        target=target,
        strategy=MANUAL,
        handover=Handover.AUTO,
        reason=f"requested by {requested_by or 'a user'}",
        gain=0.0,
    )
    return Plan(taken_at_s=snapshot.taken_at_s, moves=(move,))


def likely_targets(
    snapshot: Snapshot, keys: Iterable[str], state: RuntimeState
) -> Iterator[tuple[str, Handover]]:
    """Yield the target and handover of each of these pods if it moved now, one after the other.

    `manual_move_refusals` must have returned nothing for any of them.
    """
    policy, placement = policy_for_manual_move(state.policy), Placement(snapshot)
    for key in keys:
        row = snapshot.pods.row[key]
        found = explain_pod(snapshot, policy, key, steered=state.steers, guarded=state.guards)
        handover = found.handover or Handover.EVICT
        if found.places is None or not found.places.available:
            yield "another node", handover
            continue
        target = least_loaded_node(placement, row, handover, policy, lambda _: True)
        placement.move(row, snapshot.nodes.row[target])
        yield target, handover


def manual_move_refusals(
    snapshot: Snapshot, key: str, target: str | None, state: RuntimeState
) -> list[Rejection]:
    """Return what prevents the move, without temporary reasons: the move waits for those."""
    if key not in snapshot.pods.row:
        name = key.partition("/")[2]
        elsewhere = sorted(each for each in snapshot.pods.row if each.endswith(f"/{name}"))
        hint = (
            f"; did you mean {', '.join(elsewhere[:3])}?"
            if elsewhere
            else did_you_mean(key, snapshot.pods.row)
        )
        return [Rejection(key, Reason.GONE, "", f"pod not found{hint}")]
    explained = explain_pod(
        snapshot, policy_for_manual_move(state.policy), key, steered=state.steers, guarded=state.guards
    )
    found = [each for each in explained.kept_in_maintenance_by if each.reason not in TEMPORARY_REASONS]
    return found or _target_refusals(snapshot, explained, target, state.policy)


def _target_refusals(
    snapshot: Snapshot, explained: PodExplanation, target: str | None, policy: Policy
) -> list[Rejection]:
    if explained.places is None:
        return []
    if target is None:
        if explained.places.available:
            return []
        return [Rejection(explained.pod, Reason.NO_TARGET, "", availability_message(explained.places))]
    if target in explained.places.available:
        return []
    return [
        Rejection(
            explained.pod, Reason.TARGET_UNFIT, target, _why_target_unfit(snapshot, explained, target, policy)
        )
    ]


def _why_target_unfit(snapshot: Snapshot, explained: PodExplanation, target: str, policy: Policy) -> str:
    assert explained.places is not None
    if target not in snapshot.nodes.row:
        return f"node {target} not found{did_you_mean(target, snapshot.nodes.row)}"
    if target == explained.node:
        return f"the pod is already on {target}"
    if closed := closed_because(snapshot, policy, snapshot.nodes.row[target]):
        return f"{target} {closed}"
    reasons = [
        f"{each.reason}{f' ({detail})' if detail else ''}"
        for each in explained.places.forbidden
        for node, detail in each.nodes
        if node == target
    ]
    return f"{target}: {'; '.join(reasons)}"


@dataclass(frozen=True, slots=True)
class ReturnMove:
    """A pod that selected migrations have moved, and the node that it came from."""

    pod: str
    """`namespace/name` of the pod that is there now; empty if the history does not say which."""
    uid: str
    node: str
    migration: str
    """The last migration of the pod."""


def moves_to_undo(
    history: Iterable[JournalEntry], is_selected: Callable[[JournalEntry], bool]
) -> list[ReturnMove]:
    """Return where the pods of the selected migrations are now, and where they come from.

    Later migrations are followed even if they are not selected: they tell which pod exists now.
    """
    found: dict[str, ReturnMove] = {}
    lost: list[ReturnMove] = []
    for entry in sorted(history, key=lambda entry: (entry.finished_at, entry.uid)):
        earlier = found.pop(entry.pod_uid, None) if entry.is_completed else None
        if not entry.is_completed or (earlier is None and not is_selected(entry)):
            continue
        origin = entry.source if earlier is None else earlier.node
        if not entry.successor_uid:
            lost.append(ReturnMove("", "", origin, entry.migration))
            continue
        pod = f"{entry.namespace}/{entry.successor}"
        found[entry.successor_uid] = ReturnMove(pod, entry.successor_uid, origin, entry.migration)
    return [*found.values(), *lost]


def build_undo_plan(
    snapshot: Snapshot, policy: Policy, returns: Sequence[ReturnMove], *, steered: bool, guarded: bool
) -> Plan:
    """Return a plan that moves these pods back if the rules allow it now."""
    there, refused = [], []
    for each in returns:
        row = snapshot.pods.row.get(each.pod) if each.pod else None
        if row is None or snapshot.pods.records[row].uid != each.uid:
            words = "the pod that the migration created no longer exists"
            refused.append(Rejection(each.pod or each.migration, Reason.GONE, each.migration, words))
        elif snapshot.pods.records[row].node != each.node:
            there.append((row, each))
    wanted = replace_settings(
        policy,
        max_reschedule_pods=max(1, len(there)),
        failed_pods=replace(policy.failed_pods, enabled=False),
    )
    made = build_plan(snapshot, wanted, [_MoveBack(there)], steered=steered, guarded=guarded)
    counts = dict(made.refused_counts)
    if refused:
        counts[Reason.GONE] = counts.get(Reason.GONE, 0) + len(refused)
    return replace(made, refused=(*made.refused, *refused), refused_counts=counts)


class _MoveBack:
    """Proposes to move each pod back, in the order of the history; the planner reorders the moves."""

    name: ClassVar[str] = MANUAL

    def __init__(self, returns: Sequence[tuple[int, ReturnMove]]) -> None:
        self._returns = dict(returns)

    def propose(self, view: View) -> Iterator[Proposal]:
        done: set[int] = set()
        for row in self._returns:
            if row in done:
                continue
            members = [each for each in view.moves_with(row) if each in self._returns] or [row]
            done.update(members)
            moves = [self._move(view, each) for each in members]
            if all(moves):
                yield Proposal(tuple(move for move in moves if move is not None))

    def _move(self, view: View, row: int) -> ProposedMove | None:
        back = self._returns[row]
        node = view.snapshot.nodes.row.get(back.node)
        if node is not None and view.placement.position[row] == node:
            return None  # an earlier proposal of this plan has moved it
        if not view.may_move(row):
            return None
        if node is None:
            view.report_staying(row, Reason.TARGET_UNFIT, f"node {back.node} no longer exists")
            return None
        if not view.may_go(row, node):
            view.report_staying(row, Reason.TARGET_UNFIT, _why_not_back(view, row, node))
            return None
        return ProposedMove(row, node, f"undo of {back.migration.partition('/')[2]}", 0.0)


def _why_not_back(view: View, row: int, node: int) -> str:
    record = view.snapshot.nodes.records[node]
    name = record.name
    if in_maintenance(record):
        return f"{name} is in maintenance; to return it to service, run `rescheduler undrain {name}`"
    if not view.open[node]:
        return f"{name} {closed_because(view.snapshot, view.policy, node) or 'takes no pods'}"
    stays = view.handover(row).source_stays
    refusals = view.placement.refusals(row, node, source_stays=stays)
    detail = "; ".join(map(str, refusals))
    return f"{name}: {detail or 'pods of its workload keep failing there'}"
