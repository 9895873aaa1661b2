"""The plan of a move that a user requests, and the reasons why it is refused."""

from rescheduler.api.podmigration import MANUAL, Handover
from rescheduler.cluster.snapshot import Snapshot, closed_because
from rescheduler.config.config_validation import did_you_mean
from rescheduler.config.policy import Policy
from rescheduler.migrations.controller.revalidation import TEMPORARY_REASONS, policy_for_manual_move
from rescheduler.migrations.runtime_state import RuntimeState
from rescheduler.planner.available_nodes import availability_message
from rescheduler.planner.explanation import PodExplanation, explain_pod
from rescheduler.planner.plan import Move, Plan, Rejection
from rescheduler.planner.reasons import Reason

__all__ = ["manual_move_refusals", "manual_plan"]


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
        Rejection(explained.pod, Reason.TARGET_UNFIT, target, _why_unfit(snapshot, explained, target, policy))
    ]


def _why_unfit(snapshot: Snapshot, explained: PodExplanation, target: str, policy: Policy) -> str:
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
