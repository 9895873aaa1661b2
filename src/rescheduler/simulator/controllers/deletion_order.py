"""Which of its pods a ReplicaSet gives up first: those that would be missed least."""

import math
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cmp_to_key
from typing import Any

from rescheduler.simulator.controllers.moments import seconds_since
from rescheduler.simulator.controllers.pods import Pod

__all__ = ["first_to_go"]

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_NANOS = 1_000_000_000


def first_to_go(pods: Iterable[Pod], related: Iterable[Pod], count: int, now: datetime) -> list[Pod]:
    """`related` are the active pods of the same workload, other ReplicaSets' included.

    Those on nodes with many of them go first; without any, nodes do not matter.
    """
    on_node: dict[str, int] = {}
    for pod in related:
        on_node[pod.node] = on_node.get(pod.node, 0) + 1

    def rank(pod: Pod) -> int:
        return on_node.get(pod.node, 0)

    return sorted(pods, key=cmp_to_key(_comparison(rank, now)))[:count]


def _comparison(rank: Callable[[Pod], int], now: datetime) -> Callable[[Pod, Pod], int]:
    def compare(one: Pod, other: Pod) -> int:
        for steps in (
            _sign(bool(one.node), bool(other.node)),
            _sign(_PHASES.get(one.phase, 0), _PHASES.get(other.phase, 0)),
            _sign(one.ready, other.ready),
            _sign(_deletion_cost(one), _deletion_cost(other)),
            _sign(rank(other), rank(one)),
            _younger_first(one.ready_since, other.ready_since, one, other, now) if one.ready else 0,
            _sign(_restarts(other), _restarts(one)),
            _younger_first(
                one.metadata.creation_timestamp, other.metadata.creation_timestamp, one, other, now
            ),
            _sign(one.uid, other.uid),
        ):
            if steps:
                return steps
        return 0

    return compare


def _sign(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


def _deletion_cost(pod: Pod) -> int:
    try:
        return int(pod.annotations.get(DELETION_COST, "0"))
    except ValueError:
        return 0


def _younger_first(one: str, other: str, pod: Pod, other_pod: Pod, now: datetime) -> int:
    """By orders of magnitude of their ages; within one order, as good as by chance (by uid)."""
    if one == other:
        return 0
    if not one or not other:
        return -1 if not one else 1
    return _sign(_magnitude(one, now), _magnitude(other, now)) or _sign(pod.uid, other_pod.uid)


def _magnitude(since: str, now: datetime) -> int:
    age_nanos = seconds_since(since, now) * _NANOS
    return int(math.log2(age_nanos)) if age_nanos > 0 else -1


def _restarts(pod: Pod) -> tuple[int, int]:
    """The most of any container, then the most of any sidecar."""
    sidecars = {item.name for item in pod.spec.init_containers or () if item.restart_policy == "Always"}
    return (
        max((item.restart_count for item in pod.status.container_statuses or ()), default=0),
        max(
            (c.restart_count for c in pod.status.init_container_statuses or () if c.name in sidecars),
            default=0,
        ),
    )
