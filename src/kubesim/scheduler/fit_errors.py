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
    """The plugin's name, as Kubernetes has it."""
    reasons: tuple[str, ...]
    final: bool = True
    """True if nothing changes by taking other pods away: preemption need not be tried."""


Check = Callable[[NodeInfo], FilterRejection | None]
Filter = Callable[[PodInfo, SchedulerCache], Check | FilterRejection | None]

NO_NODES = "no nodes available to schedule pods"
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"


def no_place(nodes: int, refused: FilterRejection | None, refusals: Mapping[str, FilterRejection]) -> str:
    """`refused` is said of the pod wherever it might go, `refusals` of single nodes."""
    if refused is not None:
        return f"0/{nodes} nodes are available: {', '.join(refused.reasons)}."
    return _available(nodes, (reason for refusal in refusals.values() for reason in refusal.reasons))


def no_preemption(nodes: int, tried: Mapping[str, Iterable[str]]) -> str:
    """`tried` are nodes where taking pods away was tried, and why it did not help."""
    reasons = [reason for found in tried.values() for reason in found]
    return _available(nodes, [*reasons, *[NOT_HELPFUL] * (nodes - len(tried))])


def _available(nodes: int, reasons: Iterable[str]) -> str:
    counted = sorted(f"{count} {reason}" for reason, count in Counter(reasons).items())
    return f"0/{nodes} nodes are available: {', '.join(counted)}."
