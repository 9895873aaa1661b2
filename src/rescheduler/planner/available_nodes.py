"""The nodes that can take a pod, the rules that forbid the others, and the validation of planned moves."""

from dataclasses import dataclass

import numpy as np

from rescheduler.cluster.node_record import in_maintenance
from rescheduler.cluster.snapshot import Flags, Snapshot
from rescheduler.config.policy import Policy
from rescheduler.planner.plan import Move, Rejection
from rescheduler.planner.protections.eligibility import Eligibility
from rescheduler.planner.reasons import Reason
from rescheduler.rules.placement import Placement
from rescheduler.rules.rule_check import SchedulerRule

__all__ = [
    "NodeAvailability",
    "UnavailableNodes",
    "availability_message",
    "closed_because",
    "node_availability",
    "nodes_in_maintenance",
    "open_nodes",
    "validate_move",
]

_PLANNER = "Planner"
_CLOSED = "node(s) were being emptied"
_SHOWN = 3
"""Nodes whose details are put into words."""


@dataclass(frozen=True, slots=True)
class UnavailableNodes:
    """One reason, and all nodes that it holds for."""

    rule: str
    """Named as the scheduler's plugin, or `Planner`."""
    reason: str
    """In the scheduler's own words: "Insufficient cpu"."""
    nodes: tuple[tuple[str, str], ...]
    """Names, each with its own details: "requests 2000m, 1500m of 8000m free"."""


@dataclass(frozen=True, slots=True)
class NodeAvailability:
    nodes: int
    available: tuple[str, ...]
    forbidden: tuple[UnavailableNodes, ...]
    """Most nodes first. A node that several rules forbid stands under each."""


def node_availability(
    placement: Placement, pod: int, *, source_stays: bool, open_to: Flags
) -> NodeAvailability:
    """`open_to` are the nodes that the planner sends pods to."""
    records = placement.snapshot.nodes.records
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    here = int(placement.position[pod])
    fits = placement.fits(pod, source_stays=source_stays) & open_to
    for node in np.flatnonzero(~fits).tolist():
        name = records[node].name
        if node == here:
            found.setdefault((SchedulerRule.ALREADY_HERE, "node(s) were already running the pod"), []).append(
                (name, "")
            )
            continue
        refusals = placement.refusals(pod, node, source_stays=source_stays)
        for refusal in refusals:
            for reason in refusal.reasons:
                found.setdefault((refusal.rule, reason), []).append((name, refusal.detail))
        if not refusals:
            # Cordoned by the plan itself, or in maintenance: no rule of the scheduler forbids it.
            found.setdefault((_PLANNER, _CLOSED), []).append((name, ""))
    forbidden = [UnavailableNodes(*at, tuple(nodes)) for at, nodes in found.items()]
    forbidden.sort(key=lambda each: (-len(each.nodes), each.rule, each.reason))
    return NodeAvailability(
        len(records), tuple(records[row].name for row in np.flatnonzero(fits)), tuple(forbidden)
    )


def availability_message(found: NodeAvailability) -> str:
    """One line: "0/12 nodes are available: 3 Insufficient cpu (n1 asks 2000m, …), 9 node(s) …"."""
    parts = ", ".join(f"{len(each.nodes)} {each.reason}{_example_nodes(each)}" for each in found.forbidden)
    return f"{len(found.available)}/{found.nodes} nodes are available: {parts}"


def _example_nodes(each: UnavailableNodes) -> str:
    details = [f"{name} {detail}" for name, detail in each.nodes[:_SHOWN] if detail]
    if not details:
        return ""
    more = ["…"] if len(each.nodes) > _SHOWN else []
    return f" ({'; '.join([*details, *more])})"


def open_nodes(snapshot: Snapshot) -> Flags:
    """[node]: Ready, not cordoned, not in maintenance."""
    return snapshot.nodes.ready & snapshot.nodes.schedulable & ~nodes_in_maintenance(snapshot)


def nodes_in_maintenance(snapshot: Snapshot) -> Flags:
    return np.fromiter(map(in_maintenance, snapshot.nodes.records), np.bool_)


def closed_because(snapshot: Snapshot, node: int) -> str:
    """In words, to go on with "its target" or "the node"; empty if it is open."""
    if not snapshot.nodes.ready[node]:
        return "is not Ready"
    if not snapshot.nodes.schedulable[node]:
        return "is cordoned"
    return "is in maintenance" if in_maintenance(snapshot.nodes.records[node]) else ""


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

    `urgent` as its strategy is, `recovering` if that is FailedPods; `placement` saves work for several moves.

    Other moves that are under way count as far as the snapshot shows their copies. After a hop,
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
