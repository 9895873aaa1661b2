"""Which of the nodes that fit is best: much left, few siblings, and what the pod prefers."""

from collections.abc import Mapping, Sequence

from rescheduler.simulator.scheduler.filters.node_affinity import matches_term
from rescheduler.simulator.scheduler.nodes import NodeView
from rescheduler.simulator.scheduler.pods import PodView

__all__ = ["best"]

_HIGHEST = 100.0
_MISSING_CPU_MILLIS = 100  # a pod that asks for nothing still needs something
_MISSING_MEMORY_BYTES = 200 * 1024 * 1024
_PREFERENCE_WEIGHT = 2.0


def best(pod: PodView, nodes: Sequence[NodeView], more: Mapping[str, float]) -> NodeView:
    """`more` is what extenders add per node. Equal nodes are told apart by their names."""
    siblings = _siblings(pod, nodes)
    preferences = _preferences(pod, nodes)

    def score(node: NodeView) -> float:
        wished = siblings.get(node.name, 0.0) + _PREFERENCE_WEIGHT * preferences.get(node.name, 0.0)
        return _least_allocated(pod, node) + wished + more.get(node.name, 0.0)

    return min(nodes, key=lambda node: (-score(node), node.name))


def _least_allocated(pod: PodView, node: NodeView) -> float:
    left = [
        max(0.0, 1 - (node.requested.get(name, 0) + (pod.wanted.get(name) or missing)) / has)
        for name, missing in (("cpu", _MISSING_CPU_MILLIS), ("memory", _MISSING_MEMORY_BYTES))
        if (has := node.allocatable.get(name, 0)) > 0
    ]
    return _HIGHEST * sum(left) / len(left) if left else 0.0


def _siblings(pod: PodView, nodes: Sequence[NodeView]) -> dict[str, float]:
    """Full marks where no pod of the same workload is, none where most of them are."""
    if not pod.owner_uid:
        return {}
    counts = {node.name: node.owners.get(pod.owner_uid, 0) for node in nodes}
    most = max(counts.values())
    return {name: _HIGHEST * (1 - count / most) if most else _HIGHEST for name, count in counts.items()}


def _preferences(pod: PodView, nodes: Sequence[NodeView]) -> dict[str, float]:
    affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    if not preferred:
        return {}
    sums = {
        node.name: sum(
            wish["weight"] for wish in preferred if matches_term(wish.get("preference") or {}, node)
        )
        for node in nodes
    }
    most = max(sums.values())
    return {name: _HIGHEST * total / most if most else 0.0 for name, total in sums.items()}
