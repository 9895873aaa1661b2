"""Measure from the plain objects how far a cluster is from the goal of each strategy."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from rescheduler.api.well_known_names import MAINTENANCE_LABEL
from rescheduler.cluster.snapshot import CPU, MEMORY, NO_ROW, Snapshot
from rescheduler.config.policy import Policy
from rescheduler.rules.placement import Placement
from tests.battery.executing import present
from tests.battery.pod_constraints import REQUIRED
from tests.building import NOW, ClusterBuilder

__all__ = ["DISTANCE", "misplaced_pods"]

Json = dict[str, Any]


def _unevenness(cluster: ClusterBuilder, policy: Policy) -> float:
    """Σ(load - mean)² over nodes that take part, in percent."""
    snapshot = cluster.snapshot()
    loads = _loads(snapshot)[snapshot.nodes.ready & snapshot.nodes.schedulable]
    return float(np.square(loads - loads.mean(axis=0)).sum()) if len(loads) else 0.0


def _overload(cluster: ClusterBuilder, policy: Policy) -> float:
    """Percent above the thresholds, all nodes together."""
    loads = _loads(cluster.snapshot())
    return float(np.maximum(loads - [policy.cpu_threshold, policy.memory_threshold], 0).sum())


def _pods_in_maintenance(cluster: ClusterBuilder, policy: Policy) -> float:
    snapshot = cluster.snapshot()
    leaving = [node.labels.get(MAINTENANCE_LABEL) == "true" for node in snapshot.nodes.records]
    return float(sum(leaving[node] for node in snapshot.pods.node.tolist() if node >= 0))


def _nodes_in_use(cluster: ClusterBuilder, policy: Policy) -> float:
    snapshot = cluster.snapshot()
    tenants = [
        int(node)
        for pod, node in zip(snapshot.pods.records, snapshot.pods.node, strict=True)
        if node >= 0 and not (pod.owner and pod.owner.kind == "DaemonSet")
    ]
    return float(len(set(tenants)))


def _misplacement(cluster: ClusterBuilder, policy: Policy) -> float:
    return float(len(misplaced_pods(cluster)))


def _pods_without_room(cluster: ClusterBuilder, policy: Policy) -> float:
    snapshot = cluster.snapshot()
    placement = Placement(snapshot)
    waiting = [pod for pod in range(len(snapshot.pods)) if snapshot.pods.node[pod] == NO_ROW]
    return float(sum(not placement.fits(pod, source_stays=False).any() for pod in waiting))


def _forbidden_pods(cluster: ClusterBuilder, policy: Policy) -> float:
    """Pods on nodes whose taints they don't tolerate, or that lack a label of their node selector."""
    items = present(cluster.objects)
    nodes = {node["metadata"]["name"]: node for node in items if node["kind"] == "Node"}
    return float(sum(_is_forbidden(pod["spec"], nodes) for pod in items if pod["kind"] == "Pod"))


def _is_forbidden(spec: Json, nodes: Mapping[str, Json]) -> bool:
    node = nodes.get(spec.get("nodeName", ""))
    if node is None:
        return False
    tolerated = {each.get("key") for each in spec.get("tolerations", ())}
    taints = {each["key"] for each in node["spec"].get("taints", ()) if each["effect"] == "NoSchedule"}
    return bool(taints - tolerated) or not (
        spec.get("nodeSelector", {}).items() <= node["metadata"]["labels"].items()
    )


def _expired_pods(cluster: ClusterBuilder, policy: Policy) -> float:
    """Pods on a node that are older than the policy allows."""
    latest = datetime.fromtimestamp(NOW, UTC) - policy.pod_life_time.max_pod_life_time
    created = (
        item["metadata"]["creationTimestamp"]
        for item in present(cluster.objects)
        if item["kind"] == "Pod" and item["spec"].get("nodeName")
    )
    return float(sum(datetime.fromisoformat(each) < latest for each in created))


DISTANCE: dict[str, Callable[[ClusterBuilder, Policy], float]] = {
    "LoadBalancing": _unevenness,
    "ResourceOptimization": _overload,
    "NodeMaintenance": _pods_in_maintenance,
    "TopologySpread": _misplacement,
    "CostOptimization": _nodes_in_use,
    "MakeRoom": _pods_without_room,
    "PlacementDrift": _forbidden_pods,
    "PodLifeTime": _expired_pods,
}
"""By strategy: 0 is perfect, less is better."""


def misplaced_pods(cluster: ClusterBuilder, at: Mapping[str, str] | None = None) -> set[str]:
    """Pods that the scheduler would not put where they are, or `at`, by spread or anti-affinity.

    Knows only what the scenarios ask for: selectors by labels within a namespace, every node counts.
    """
    items = present(cluster.objects)
    nodes = {node["metadata"]["name"]: node["metadata"]["labels"] for node in items if node["kind"] == "Node"}
    pods = {_key(pod): pod for pod in items if pod["kind"] == "Pod" and _stays(pod)}
    place = {key: nodes[node] for key in pods if (node := (at or {}).get(key, _node(pods[key]))) in nodes}
    found: set[str] = set()
    for key, labels in place.items():
        for constraint in pods[key]["spec"].get("topologySpreadConstraints", ()):
            domain = constraint["topologyKey"]
            counts = Counter({each[domain]: 0 for each in nodes.values() if domain in each})
            counts.update(place[other][domain] for other in _meant(constraint, key, pods, place))
            fewest = min(counts.values()) if len(counts) >= constraint.get("minDomains", 1) else 0
            if constraint["whenUnsatisfiable"] == "DoNotSchedule" and domain in labels:
                crowded = counts[labels[domain]] - fewest > constraint["maxSkew"]
                found |= {key} if crowded else set()
        for term in pods[key]["spec"].get("affinity", {}).get("podAntiAffinity", {}).get(REQUIRED, ()):
            domain = term["topologyKey"]
            for other in _meant(term, key, pods, place):
                if other != key and place[other][domain] == labels[domain]:
                    found |= {key, other}
    return found


def _node(pod: Json) -> str:
    return str(pod["spec"]["nodeName"])


def _stays(pod: Json) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] != "Succeeded"


def _meant(constraints: Json, key: str, pods: Mapping[str, Json], place: Iterable[str]) -> list[str]:
    wanted = constraints["labelSelector"]["matchLabels"].items()
    namespace = pods[key]["metadata"]["namespace"]
    return [
        other
        for other in place
        if pods[other]["metadata"]["namespace"] == namespace
        and wanted <= pods[other]["metadata"]["labels"].items()
    ]


def _key(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _loads(snapshot: Snapshot) -> Any:
    load, have = snapshot.nodes.load[:, [CPU, MEMORY]], snapshot.nodes.allocatable[:, [CPU, MEMORY]]
    return 100 * load / np.maximum(have, 1)
