"""Define the interface of a rule that is prepared for the pods of one class, and its refusals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np

from rescheduler.cluster.snapshot import Flags

__all__ = [
    "AllChecks",
    "NodeRefusal",
    "RuleCheck",
    "SchedulerRule",
    "StaticCheck",
    "fits_nowhere",
]


class SchedulerRule(StrEnum):
    """The rules by the names of the scheduler's plugins, in its order; then ours."""

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
    """Our own rule: the scheduler relies on taints for this, which come later than the condition."""
    ALREADY_HERE = "AlreadyHere"
    """Our own rule: a move goes to another node."""


@dataclass(frozen=True, slots=True)
class NodeRefusal:
    rule: SchedulerRule
    reasons: tuple[str, ...]
    """The reasons in the scheduler's own words: "Insufficient cpu", "node(s) had untolerated taint(s)"."""
    detail: str = ""
    """The reason with numbers and names, such as "requests 2000m cpu, 1500m of 8000m free"."""

    def __str__(self) -> str:
        return f"{', '.join(self.reasons)} {self.detail}".rstrip()


class RuleCheck(Protocol):
    """One rule, prepared for the pods of one class. Both methods agree for every node at any time."""

    def fits(self) -> Flags:
        """Return [node]: the pod fits there. Read-only."""
        ...

    def refusal(self, node: int) -> NodeRefusal | None:
        """Return the refusal of one node, with the reason."""
        ...


@dataclass(frozen=True, slots=True)
class StaticCheck:
    """A rule whose result no move changes."""

    passes: Flags
    explain: Callable[[int], NodeRefusal]
    """Called only for nodes that don't pass."""

    def fits(self) -> Flags:
        return self.passes

    def refusal(self, node: int) -> NodeRefusal | None:
        return None if self.passes[node] else self.explain(node)


@dataclass(frozen=True, slots=True)
class AllChecks:
    """Several conditions of one rule: all must hold; the first that fails is the refusal."""

    checks: Sequence[RuleCheck]

    def fits(self) -> Flags:
        found: Flags = np.logical_and.reduce([check.fits() for check in self.checks])
        return found

    def refusal(self, node: int) -> NodeRefusal | None:
        for check in self.checks:
            if (refusal := check.refusal(node)) is not None:
                return refusal
        return None


def fits_nowhere(nodes: int, refusal: NodeRefusal) -> StaticCheck:
    """Return the check for a pod that fits on no node at all."""
    return StaticCheck(np.zeros(nodes, np.bool_), lambda _: refusal)
