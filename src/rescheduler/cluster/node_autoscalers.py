"""Detect node autoscalers, and which of them removes a node that is not needed.

Karpenter is recognized by its API (NodePools) and by the labels and taints of its nodes. The cluster
autoscaler is recognized by its status ConfigMap, and by its taints and annotations on nodes.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import numpy as np

from rescheduler.api.well_known_names import (
    KARPENTER_DO_NOT_DISRUPT_ANNOTATION,
    KARPENTER_NODE_POOL_LABEL,
)
from rescheduler.cluster.node_record import (
    CLUSTER_AUTOSCALER_PREFIX,
    CLUSTER_AUTOSCALER_TAINTS,
    NodeRecord,
    is_deletion_candidate,
)
from rescheduler.config.policy import NodeAutoscaler

__all__ = [
    "AUTOSCALER_STATUS_CONFIG_MAP",
    "NO_AUTOSCALERS",
    "NO_REMOVAL",
    "NO_SIGNS",
    "SCALE_DOWN_DISABLED_ANNOTATION",
    "AutoscalerSigns",
    "Consolidation",
    "NodeAutoscalers",
    "NodeRemoval",
    "consolidation_of",
    "detect_autoscalers",
    "parse_status_time",
    "scale_down_candidates",
]

SCALE_DOWN_DISABLED_ANNOTATION: Final = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
AUTOSCALER_STATUS_CONFIG_MAP: Final = "kube-system/cluster-autoscaler-status"

_STATUS_EXPIRES_S: Final = 600.0
"""The cluster autoscaler writes its status every few seconds. An older status means that it was removed."""

UNDERUSED_SHARE: Final = 0.5
"""The cluster autoscaler's default: below this share of requests, it tries to remove a node."""


class Consolidation(StrEnum):
    """The policy by which Karpenter removes nodes of a NodePool that are not needed."""

    NEVER = "Never"
    WHEN_EMPTY = "WhenEmpty"
    WHEN_UNDERUTILIZED = "WhenEmptyOrUnderutilized"


@dataclass(frozen=True, slots=True)
class AutoscalerSigns:
    """Signs of node autoscalers in the API server, apart from the nodes."""

    node_pools: Mapping[str, Consolidation] | None = None
    """The NodePools by name; None if the server has no NodePools."""
    status_updated_s: float | None = None
    """When the cluster autoscaler last wrote its status, in seconds since 1970; None if it never did."""


NO_SIGNS: Final = AutoscalerSigns()


@dataclass(frozen=True, slots=True)
class NodeRemoval:
    """The component that removes a node that is not needed."""

    by: NodeAutoscaler | None
    why: str = ""
    """Why no component does, as a message; empty if one does."""


NO_REMOVAL: Final = NodeRemoval(None, "no node autoscaler was found")


@dataclass(frozen=True, slots=True)
class NodeAutoscalers:
    evidence: Mapping[NodeAutoscaler, str] = field(default_factory=dict)
    """The autoscalers that were found, and how, as messages."""
    node_pools: Mapping[str, Consolidation] = field(default_factory=dict)

    def as_configured(self, setting: NodeAutoscaler) -> "NodeAutoscalers":
        """Return the autoscalers that the configuration sets, or else those that were found."""
        if setting is NodeAutoscaler.AUTO:
            return self
        if setting is NodeAutoscaler.NONE:
            return NodeAutoscalers()
        return NodeAutoscalers({setting: "configured"}, self.node_pools)

    def removal_of(self, node: NodeRecord) -> NodeRemoval:
        """Return which autoscaler removes the node once it is empty."""
        for annotation in (SCALE_DOWN_DISABLED_ANNOTATION, KARPENTER_DO_NOT_DISRUPT_ANNOTATION):
            if node.annotations.get(annotation) == "true":
                return NodeRemoval(None, f'it has the annotation {annotation}: "true"')
        pool = node.labels.get(KARPENTER_NODE_POOL_LABEL)
        if NodeAutoscaler.KARPENTER in self.evidence and pool is not None:
            if self.node_pools.get(pool) is Consolidation.NEVER:
                return NodeRemoval(None, f"its NodePool {pool} does not consolidate")
            return NodeRemoval(NodeAutoscaler.KARPENTER)
        for autoscaler in (NodeAutoscaler.CLUSTER_AUTOSCALER, NodeAutoscaler.OTHER):
            if autoscaler in self.evidence:
                return NodeRemoval(autoscaler)
        return NodeRemoval(None, "it belongs to no NodePool") if self.evidence else NO_REMOVAL

    def removes_underused(self, node: NodeRecord) -> bool:
        """Return whether an autoscaler moves pods off the node to remove it."""
        by = self.removal_of(node).by
        if by is NodeAutoscaler.KARPENTER:
            return self.node_pools.get(node.labels[KARPENTER_NODE_POOL_LABEL]) is not Consolidation.WHEN_EMPTY
        return by is NodeAutoscaler.CLUSTER_AUTOSCALER


NO_AUTOSCALERS: Final = NodeAutoscalers()


def detect_autoscalers(nodes: Sequence[NodeRecord], signs: AutoscalerSigns, now_s: float) -> NodeAutoscalers:
    """Return the node autoscalers that were detected in this cluster."""
    found = {
        NodeAutoscaler.KARPENTER: ", ".join(_karpenter_evidence(nodes, signs)),
        NodeAutoscaler.CLUSTER_AUTOSCALER: ", ".join(_cluster_autoscaler_evidence(nodes, signs, now_s)),
    }
    return NodeAutoscalers({name: how for name, how in found.items() if how}, signs.node_pools or {})


def _karpenter_evidence(nodes: Sequence[NodeRecord], signs: AutoscalerSigns) -> Iterable[str]:
    if signs.node_pools is not None:
        yield _counted(len(signs.node_pools), "NodePool")
    if managed := sum(KARPENTER_NODE_POOL_LABEL in node.labels for node in nodes):
        yield _counted(managed, "node")


def _cluster_autoscaler_evidence(
    nodes: Sequence[NodeRecord], signs: AutoscalerSigns, now_s: float
) -> Iterable[str]:
    if signs.status_updated_s is not None and now_s - signs.status_updated_s < _STATUS_EXPIRES_S:
        yield f"ConfigMap {AUTOSCALER_STATUS_CONFIG_MAP}"
    tainted = sum(any(taint.key in CLUSTER_AUTOSCALER_TAINTS for taint in node.taints) for node in nodes)
    if tainted:
        yield f"its taint on {_counted(tainted, 'node')}"
    annotated = sum(
        any(name.startswith(CLUSTER_AUTOSCALER_PREFIX) for name in node.annotations) for node in nodes
    )
    if annotated:
        yield f"its annotation on {_counted(annotated, 'node')}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def scale_down_candidates(
    nodes: Sequence[NodeRecord],
    autoscalers: NodeAutoscalers,
    used_share: Sequence[float],
    movable_pods: Sequence[float],
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return [node]: whether an autoscaler would remove the node next.

    `used_share` is the larger share of cpu and memory that is requested, and `movable_pods` the number of
    pods that don't belong to the node; both are [node].
    """

    def is_candidate(row: int, node: NodeRecord) -> bool:
        if is_deletion_candidate(node):
            return True
        if movable_pods[row] == 0:
            return autoscalers.removal_of(node).by is not None
        return used_share[row] < UNDERUSED_SHARE and autoscalers.removes_underused(node)

    if not autoscalers.evidence:
        return np.fromiter(map(is_deletion_candidate, nodes), np.bool_, len(nodes))
    return np.fromiter((is_candidate(row, node) for row, node in enumerate(nodes)), np.bool_, len(nodes))


# -- objects of the autoscalers


def consolidation_of(node_pool: Mapping[str, Any]) -> Consolidation:
    """Return when Karpenter removes nodes of this NodePool; its default if the field is malformed."""
    spec = node_pool.get("spec")
    spec = spec if isinstance(spec, Mapping) else {}
    disruption = spec.get("disruption")
    disruption = disruption if isinstance(disruption, Mapping) else {}
    # A static NodePool has a fixed number of nodes.
    if disruption.get("consolidateAfter") == "Never" or spec.get("replicas") is not None:
        return Consolidation.NEVER
    if disruption.get("consolidationPolicy") == Consolidation.WHEN_EMPTY:
        return Consolidation.WHEN_EMPTY
    return Consolidation.WHEN_UNDERUTILIZED


_STATUS_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d+)? ([+-]\d{4})")
_LAST_UPDATED: Final = "cluster-autoscaler.kubernetes.io/last-updated"


def parse_status_time(config_map: Mapping[str, Any]) -> float | None:
    """Return when the status was written, in seconds since 1970; None if the ConfigMap does not say."""
    annotations = (config_map.get("metadata") or {}).get("annotations") or {}
    match = _STATUS_TIME.match(str(annotations.get(_LAST_UPDATED, "")))
    if match is None:
        return None
    try:
        return datetime.strptime(f"{match[1]} {match[2]}", "%Y-%m-%d %H:%M:%S %z").timestamp()
    except ValueError:
        return None
