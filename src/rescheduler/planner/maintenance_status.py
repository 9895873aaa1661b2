"""The status of nodes in maintenance: how many pods are left on each, and which of them can't move."""

from collections.abc import Collection
from typing import Final

from rescheduler.api.daemon_status import NodeInMaintenance
from rescheduler.cluster.node_record import NodeEvacuation, in_maintenance, is_cordoned_by
from rescheduler.cluster.pod_record import PodRecord, belongs_to_node
from rescheduler.cluster.snapshot import Snapshot, evacuations
from rescheduler.config.policy import Policy
from rescheduler.planner.plan import Plan, Rejection
from rescheduler.planner.reasons import Reason

__all__ = ["NOT_ENABLED", "is_stuck_terminating", "maintenance_status", "must_leave_node"]

_TEMPORARY_REASONS: Final = frozenset(
    {
        Reason.ALREADY_MOVING,
        Reason.TERMINATING,
        Reason.PLAN_FULL,
        Reason.OUTSIDE_WINDOW,
        Reason.EVICTION_HANDLED,
    }
)
"""Refusals that only mean that the pod has not moved yet."""

_MOST_NAMED: Final = 10
_STRATEGY: Final = "NodeMaintenance"

_SLOWEST_END_S: Final = 30.0
"""How much longer than its grace period a pod may take to terminate, on a busy node."""

NOT_ENABLED: Final = (
    "NodeMaintenance is not in enabledStrategies, so the node is not emptied: "
    "enable it, or use `rescheduler drain`"
)


def must_leave_node(pod: PodRecord) -> bool:
    """Return whether the pod must leave before its node is empty: it uses the node and is not bound to it."""
    return not belongs_to_node(pod) and not pod.is_finished


def is_stuck_terminating(pod: PodRecord, now_s: float) -> bool:
    """Return whether a pod's deletion is overdue: its kubelet does not respond, or a finalizer blocks it."""
    return pod.deleted_s is not None and now_s > pod.deleted_s + _SLOWEST_END_S


def maintenance_status(
    snapshot: Snapshot,
    plan: Plan,
    policy: Policy,
    *,
    enabled: bool = True,
    only: Collection[str] | None = None,
) -> tuple[NodeInMaintenance, ...]:
    """Return the status of all nodes in maintenance and all evacuated nodes, or only of those in `only`.

    `enabled` says whether NodeMaintenance is enabled. Otherwise only nodes that `rescheduler drain` has
    cordoned in its name are emptied.
    """
    evacuated = evacuations(snapshot, policy)
    drained = {node.name for node in snapshot.nodes.records if enabled or is_cordoned_by(node, _STRATEGY)}
    names = [
        node.name
        for node in snapshot.nodes.records
        if (in_maintenance(node) or node.name in evacuated if only is None else node.name in only)
    ]
    left: dict[str, list[str]] = {name: [] for name in names}
    stuck = set()
    ending = dict.fromkeys(names, 0)
    for pod in snapshot.pods.records if names else ():
        if pod.node in left and must_leave_node(pod):
            left[pod.node].append(pod.key)
            ending[pod.node] += pod.is_terminating
            if is_stuck_terminating(pod, snapshot.taken_at_s):
                stuck.add(pod.key)
    refusals = {
        each.subject: each
        for each in plan.refused
        if each.reason not in _TEMPORARY_REASONS
        or (each.reason == Reason.TERMINATING and each.subject in stuck)
    }
    return tuple(
        _maintenance_of(
            name,
            pods,
            [refusals[pod] for pod in pods if pod in refusals],
            evacuated.get(name),
            ending=ending[name],
            is_drained=name in drained,
        )
        for name, pods in left.items()
    )


def _maintenance_of(
    name: str,
    pods: list[str],
    kept: list[Rejection],
    evacuation: NodeEvacuation | None,
    *,
    ending: int,
    is_drained: bool,
) -> NodeInMaintenance:
    blocked = tuple(f"{each.subject}: {each.reason}, {each.detail}" for each in kept[:_MOST_NAMED])
    if len(kept) > _MOST_NAMED:
        blocked += (f"and {len(kept) - _MOST_NAMED} more",)
    is_enabled = is_drained or evacuation is not None or not pods
    message = _progress_message(len(pods), len(kept), ending) if is_enabled else NOT_ENABLED
    if evacuation is not None:
        message = f"{evacuation.message}: {message}"
    return NodeInMaintenance(name, len(pods), blocked, message, ending)


def _progress_message(left: int, blocked: int, ending: int) -> str:
    if not left:
        return "empty"
    pods = "1 pod is" if left == 1 else f"{left} pods are"
    if ending == left and not blocked:
        return f"{pods} still there and terminating"
    parts = [f"{blocked} can't be moved"] * bool(blocked)
    parts += [f"{ending} {'is' if ending == 1 else 'are'} terminating"] * bool(ending)
    return f"{pods} still there" + (f", of which {' and '.join(parts)}" if parts else "")
