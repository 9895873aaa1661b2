"""How many pods are left on nodes in maintenance, and why those that can't move stay."""

from collections.abc import Collection
from typing import Final

from rescheduler.api.daemon_status import NodeInMaintenance
from rescheduler.cluster.node_record import in_maintenance
from rescheduler.cluster.pod_record import PodRecord, belongs_to_node
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.planner.plan import Plan, Rejection
from rescheduler.planner.reasons import Reason

__all__ = ["NOT_ENABLED", "is_stuck_terminating", "maintenance_status", "must_leave_node"]

_TEMPORARY_REASONS: Final = frozenset(
    {Reason.ALREADY_MOVING, Reason.TERMINATING, Reason.PLAN_FULL, Reason.OUTSIDE_WINDOW}
)
"""Refusals that say only that it is not done yet."""

_MOST_NAMED: Final = 10

_SLOWEST_END_S: Final = 30.0
"""So much longer than its grace period may a pod take to end, on a busy node."""

NOT_ENABLED: Final = (
    "NodeMaintenance is not in enabledStrategies, so the node is not emptied: "
    "enable it, or use `rescheduler drain`"
)


def must_leave_node(pod: PodRecord) -> bool:
    """Return whether the pod must leave before its node is empty: it uses the node and is not bound to it."""
    return not belongs_to_node(pod) and not pod.is_finished


def is_stuck_terminating(pod: PodRecord, now_s: float) -> bool:
    """Return whether its deletion is overdue: its kubelet does not respond, or a finalizer blocks it."""
    return pod.deleted_s is not None and now_s > pod.deleted_s + _SLOWEST_END_S


def maintenance_status(
    snapshot: Snapshot, plan: Plan, *, enabled: bool = True, only: Collection[str] | None = None
) -> tuple[NodeInMaintenance, ...]:
    """Return the status of all nodes with the label, or of those that are named.

    `enabled` says whether anybody empties them.
    """
    names = [
        node.name
        for node in snapshot.nodes.records
        if (in_maintenance(node) if only is None else node.name in only)
    ]
    left: dict[str, list[str]] = {name: [] for name in names}
    held_back = set()
    for pod in snapshot.pods.records if names else ():
        if pod.node in left and must_leave_node(pod):
            left[pod.node].append(pod.key)
            if is_stuck_terminating(pod, snapshot.taken_at_s):
                held_back.add(pod.key)
    refusals = {
        each.subject: each
        for each in plan.refused
        if each.reason not in _TEMPORARY_REASONS
        or (each.reason == Reason.TERMINATING and each.subject in held_back)
    }
    return tuple(
        _state(name, pods, [refusals[pod] for pod in pods if pod in refusals], enabled=enabled)
        for name, pods in left.items()
    )


def _state(name: str, pods: list[str], kept: list[Rejection], *, enabled: bool) -> NodeInMaintenance:
    blocked = tuple(f"{each.subject}: {each.reason}, {each.detail}" for each in kept[:_MOST_NAMED])
    if len(kept) > _MOST_NAMED:
        blocked += (f"and {len(kept) - _MOST_NAMED} more",)
    message = _words(len(pods), len(kept)) if enabled or not pods else NOT_ENABLED
    return NodeInMaintenance(name, len(pods), blocked, message)


def _words(left: int, blocked: int) -> str:
    if not left:
        return "empty"
    pods = "1 pod is" if left == 1 else f"{left} pods are"
    return f"{pods} still there" + (f", of which {blocked} can't be moved" if blocked else "")
