"""Where a pod could go now, and why not elsewhere.

Pods that were promised a node by preemption are not there yet, but their room is: whoever is not more
important than they are must fit beside them as well as without them.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rescheduler.simulator.scheduler.filters import Prepared, prepare
from rescheduler.simulator.scheduler.nodes import NodeView
from rescheduler.simulator.scheduler.pods import PodView
from rescheduler.simulator.scheduler.refusals import Refusal
from rescheduler.simulator.scheduler.view import ClusterView

__all__ = ["Fitting", "Promises", "fitting", "refusal_on"]

Promises = Mapping[str, Mapping[str, PodView]]
"""Node → the pods that wait for room on it, by their keys."""


class Fitting(NamedTuple):
    nodes: list[NodeView]
    refused: Refusal | None
    """The pod can't go anywhere."""
    refusals: dict[str, Refusal]


def fitting(pod: PodView, cluster: ClusterView, promises: Promises, among: Iterable[str]) -> Fitting:
    """`among` are the names of the nodes to look at."""
    prepared = prepare(pod, cluster)
    if prepared.refused is not None:
        return Fitting([], prepared.refused, {})
    nodes: list[NodeView] = []
    refusals: dict[str, Refusal] = {}
    for name in among:
        node = cluster.nodes[name]
        refusal = refusal_on(node, pod, cluster, promises, prepared)
        if refusal is None:
            nodes.append(node)
        else:
            refusals[name] = refusal
    return Fitting(nodes, None, refusals)


def refusal_on(
    node: NodeView, pod: PodView, cluster: ClusterView, promises: Promises, prepared: Prepared
) -> Refusal | None:
    if promised := promises.get(node.name):
        expected = [
            other for other in promised.values() if other.priority >= pod.priority and other.uid != pod.uid
        ]
        with cluster.with_also(expected, node):
            if (refusal := prepare(pod, cluster).refusal(node)) is not None:
                return refusal
    return prepared.refusal(node)
