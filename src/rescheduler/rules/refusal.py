"""Why a pod may not run on a node."""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Refusal", "Rule"]


class Rule(StrEnum):
    """Named as the scheduler's plugins are, in the order in which it asks them; then ours."""

    NODE_UNSCHEDULABLE = "NodeUnschedulable"
    TAINT_TOLERATION = "TaintToleration"
    NODE_AFFINITY = "NodeAffinity"
    NODE_PORTS = "NodePorts"
    NODE_RESOURCES = "NodeResourcesFit"
    VOLUME_RESTRICTIONS = "VolumeRestrictions"
    VOLUME_LIMITS = "NodeVolumeLimits"
    VOLUME_BINDING = "VolumeBinding"
    VOLUME_ZONE = "VolumeZone"
    TOPOLOGY_SPREAD = "PodTopologySpread"
    POD_AFFINITY = "InterPodAffinity"
    DECLARED_FEATURES = "NodeDeclaredFeatures"
    NODE_READY = "NodeReady"
    """Ours: the scheduler leaves it to taints, which come later than the condition."""
    ALREADY_HERE = "AlreadyHere"
    """Ours: a move leads somewhere else."""


@dataclass(frozen=True, slots=True)
class Refusal:
    rule: Rule
    reasons: tuple[str, ...]
    """In the scheduler's own words: "Insufficient cpu", "node(s) had untolerated taint(s)"."""
    detail: str = ""
    """With numbers and names: "asks 2000m cpu, 1500m of 8000m free", "taint dedicated=gpu:NoSchedule"."""
    unknown: str = ""
    """The object that the cluster did not show, so that nothing can be said: "claim shop/data"."""
