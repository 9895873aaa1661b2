"""Why a pod does not fit on a node, in the words of the real scheduler.

A filter works in two steps: `prepare` looks at the pod and the cluster once, and the result checks single
nodes. `prepare` returns None if the filter does not apply, and the error if the pod fits nowhere.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kubesim.scheduler.node_info import NodeInfo, PodInfo
from kubesim.scheduler.scheduler_cache import SchedulerCache

__all__ = [
    "NOT_HELPFUL",
    "NO_NODES",
    "NO_VICTIMS",
    "Check",
    "Filter",
    "FilterRejection",
    "no_place",
    "no_preemption",
]


class FilterRejection(NamedTuple):
    filter: str
    """The name of the plugin in Kubernetes."""
    reasons: tuple[str, ...]
    final: bool = True
    """Whether preemption can't help, because removing other pods changes nothing."""


Check = Callable[[NodeInfo], FilterRejection | None]
Filter = Callable[[PodInfo, SchedulerCache], Check | FilterRejection | None]

NO_NODES = "no nodes available to schedule pods"
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"


def no_place(nodes: int, refused: FilterRejection | None, refusals: Mapping[str, FilterRejection]) -> str:
    """Return why a pod is unschedulable; `refused` applies to all nodes, `refusals` to single ones."""
    if refused is not None:
        return f"0/{nodes} nodes are available: {', '.join(refused.reasons)}."
    return _available(nodes, (reason for refusal in refusals.values() for reason in refusal.reasons))


def no_preemption(nodes: int, tried: Mapping[str, Iterable[str]]) -> str:
    """Return the message about preemption; `tried` has the nodes where it did not help, and why."""
    reasons = [reason for found in tried.values() for reason in found]
    return _available(nodes, [*reasons, *[NOT_HELPFUL] * (nodes - len(tried))])


def _available(nodes: int, reasons: Iterable[str]) -> str:
    counted = sorted(f"{count} {reason}" for reason, count in Counter(reasons).items())
    return f"0/{nodes} nodes are available: {', '.join(counted)}."
