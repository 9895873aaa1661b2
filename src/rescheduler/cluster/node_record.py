"""The record of a node: capacity, conditions, labels and cordons; and whether it is about to be removed,
drained or shut down, or has to be evacuated (`evacuateOn`)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

import msgspec

from rescheduler.api.well_known_names import (
    CORDONED_BY_ANNOTATION,
    DRAIN_REASON,
    EMPTY_CONDITION,
    KARPENTER_NODE_POOL_LABEL,
    MAINTENANCE_LABEL,
    REQUESTED_BY_ANNOTATION,
)
from rescheduler.cluster.resource_amounts import Resources
from rescheduler.config.policy_blocks import EvacuationSignal, EvacuationUrgency

__all__ = [
    "CLUSTER_AUTOSCALER_PREFIX",
    "CLUSTER_AUTOSCALER_TAINTS",
    "DELETION_CANDIDATE_TAINT",
    "MAINTENANCE_CONDITIONS",
    "REMOVAL_TAINTS",
    "SIGNAL_GONE",
    "UNSCHEDULABLE_TAINT",
    "NodeChange",
    "NodeCondition",
    "NodeEvacuation",
    "NodeRecord",
    "Taint",
    "cordoned_by_others",
    "evacuation_of",
    "flapped_lately",
    "held_until",
    "in_maintenance",
    "is_cordoned_by",
    "is_deletion_candidate",
    "is_marked_by_autoscaler",
    "labelled_by",
    "leaving_because",
    "maintenance_requester",
    "soft_taints",
]


class NodeChange(StrEnum):
    CORDON = "cordon"
    UNCORDON = "uncordon"


class Taint(msgspec.Struct, frozen=True, gc=False):
    key: str
    value: str = ""
    effect: str = ""
    added_s: int | None = None
    """Seconds since 1970, like every time in a record."""


class NodeCondition(msgspec.Struct, frozen=True, gc=False):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    since_s: int = 0
    heartbeat_s: int = 0


class NodeRecord(msgspec.Struct, frozen=True, gc=False):
    name: str
    uid: str = ""
    resource_version: str = ""
    created_s: int = 0
    deleted_s: int | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    """The annotations that records keep (`is_kept_annotation`)."""
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    """Whether the node is cordoned."""
    allocatable: Resources = Resources()
    capacity: Resources = Resources()
    conditions: tuple[NodeCondition, ...] = ()
    provider_id: str = ""
    volumes_in_use: tuple[str, ...] = ()
    volumes_attached: tuple[str, ...] = ()
    declared_features: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Return the name, because nodes have no namespace."""
        return self.name

    @property
    def is_ready(self) -> bool:
        return any(condition.type == "Ready" and condition.status == "True" for condition in self.conditions)

    def condition(self, kind: str) -> NodeCondition | None:
        return next((condition for condition in self.conditions if condition.type == kind), None)


_MAX_REQUESTER: Final = 256
UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
"""Taint that the control plane adds to every cordoned node, and removes again."""


def in_maintenance(node: NodeRecord) -> bool:
    return node.labels.get(MAINTENANCE_LABEL) == "true"


def maintenance_requester(node: NodeRecord) -> str:
    """Return the user who drains the node, by an annotation that every client may write."""
    return node.annotations.get(REQUESTED_BY_ANNOTATION, "")[:_MAX_REQUESTER] if in_maintenance(node) else ""


def is_cordoned_by(node: NodeRecord, strategy: str) -> bool:
    """Return whether this strategy has cordoned the node. If a user uncordons it, our annotation stays."""
    return node.unschedulable and node.annotations.get(CORDONED_BY_ANNOTATION) == strategy


def cordoned_by_others(node: Mapping[str, Any], manager: str) -> tuple[str, ...]:
    """Return the clients other than `manager` that the API server records as owners of this node's cordon.

    `node` is the whole object. Ownership of `spec.unschedulable` passes to the client that changes it, and no
    client owns it after an uncordon. So the result names the client of the current cordon, however often the
    node was cordoned and uncordoned before. It is empty if the server keeps no such record.
    """
    entries = node["metadata"].get("managedFields") or ()
    owners = {each.get("manager", "") for each in entries if _owns_cordon(each)}
    return tuple(sorted(owners - {manager}))


def labelled_by(node: Mapping[str, Any], manager: str, label: str) -> bool:
    """Return whether the API server records that this client set this label of the node.

    If it records no client at all, our cordon of the node decides.
    """
    entries = node["metadata"].get("managedFields") or ()
    owners = {each.get("manager", "") for each in entries if _owns_label(each, label)}
    return (
        manager in owners if owners else CORDONED_BY_ANNOTATION in (node["metadata"].get("annotations") or {})
    )


def _owns_label(entry: Mapping[str, Any], label: str) -> bool:
    metadata = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
    return f"f:{label}" in (metadata.get("f:labels") or {})


def _owns_cordon(entry: Mapping[str, Any]) -> bool:
    spec = (entry.get("fieldsV1") or {}).get("f:spec") or {}
    return "f:unschedulable" in spec


# -- nodes that are about to be removed
#
# This is the one definition for everything that chooses a node for a pod: plans, drains, recovery, safe
# evictions, and the check before each move.

REMOVAL_TAINTS: Final = frozenset(
    {
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",  # Karpenter before 1.0
    }
)
"""Taints of nodes that an autoscaler is removing. A pod that tolerates them would have to move again."""

DELETION_CANDIDATE_TAINT: Final = "DeletionCandidateOfClusterAutoscaler"
"""Taint of nodes that the cluster autoscaler removes soon, unless they are needed again."""

MAINTENANCE_CONDITIONS: Final = (
    "MaintenancePlanned",
    "MaintenanceInProgress",
    "DrainInProgress",
    "Drained",
    "GracefulNodeShutdownInProgress",
)
"""The well-known node conditions of KEP-5683, by which an administrator announces that pods must leave."""


def leaving_because(node: NodeRecord) -> str:
    """Return why the node must not get any pods, such as "is being deleted"; empty if it may."""
    if node.deleted_s is not None:
        return "is being deleted"
    for taint in node.taints:
        if taint.key in REMOVAL_TAINTS:
            return f"is being removed (taint {taint.key})"
    for condition in node.conditions:
        # Our own condition only repeats the label or the signal, and may be out of date.
        is_ours = condition.reason == DRAIN_REASON
        if condition.status == "True" and condition.type in MAINTENANCE_CONDITIONS and not is_ours:
            return f"has the condition {condition.type}"
    return ""


CLUSTER_AUTOSCALER_TAINTS: Final = frozenset({"ToBeDeletedByClusterAutoscaler", DELETION_CANDIDATE_TAINT})
CLUSTER_AUTOSCALER_PREFIX: Final = "cluster-autoscaler.kubernetes.io/"
"""The prefix of the cluster autoscaler's annotations."""


def is_marked_by_autoscaler(node: NodeRecord) -> bool:
    """Return whether the node has a label, taint or annotation of a node autoscaler."""
    return (
        KARPENTER_NODE_POOL_LABEL in node.labels
        or any(taint.key in CLUSTER_AUTOSCALER_TAINTS for taint in node.taints)
        or any(name.startswith(CLUSTER_AUTOSCALER_PREFIX) for name in node.annotations)
    )


def is_deletion_candidate(node: NodeRecord) -> bool:
    return any(taint.key == DELETION_CANDIDATE_TAINT for taint in node.taints)


def soft_taints(node: NodeRecord) -> tuple[Taint, ...]:
    """Return the taints with the effect PreferNoSchedule."""
    return tuple(taint for taint in node.taints if taint.effect == "PreferNoSchedule")


_STEADY_S: Final = 300
"""How long a node that was not Ready must be Ready again before it counts as steady."""


def flapped_lately(node: NodeRecord, now_s: float) -> bool:
    """Return whether the node became Ready again a moment ago, and may not stay so. A new node that became
    Ready for the first time did not."""
    ready = node.condition("Ready")
    return (
        ready is not None
        # If that lies far ahead, a clock was wrong.
        and abs(now_s - ready.since_s) < _STEADY_S
        and 0 < node.created_s <= ready.since_s - _STEADY_S
    )


@dataclass(frozen=True, slots=True)
class NodeEvacuation:
    """The reason and the deadline for emptying a node."""

    signals: tuple[str, ...]
    """The signals, for messages: `taint example.com/spot-interruption`."""
    is_urgent: bool
    """Whether moves also start outside windows."""
    deadline_s: float | None
    """When the remaining pods are evicted without a move, in seconds since 1970; None for never."""
    is_everywhere: bool = False
    """Whether every node gives a signal."""

    @property
    def reason(self) -> str:
        return ", ".join(self.signals)

    @property
    def message(self) -> str:
        """Return the message about the evacuation."""
        if self.is_everywhere:
            return f"not evacuated, because every node gives a signal ({self.reason})"
        if self.deadline_s is None:
            return f"evacuated ({self.reason})"
        deadline = datetime.fromtimestamp(self.deadline_s, UTC)
        return f"evacuated ({self.reason}), pods are evicted at {deadline:%H:%M:%S} UTC"


def evacuation_of(
    node: NodeRecord, evacuate_on: Iterable[EvacuationSignal], now_s: float
) -> NodeEvacuation | None:
    """Return why the node has to be emptied; None if it gives no signal. The earliest deadline counts."""
    found = [(signal, since_s) for signal in evacuate_on for since_s in _given_since(node, signal, now_s)]
    if not found:
        return None
    deadlines = [
        since_s + signal.deadline.total_seconds() for signal, since_s in found if signal.deadline is not None
    ]
    return NodeEvacuation(
        tuple(signal.name for signal, _ in found),
        any(signal.urgency is EvacuationUrgency.HIGH for signal, _ in found),
        min(deadlines, default=None),
    )


SIGNAL_GONE: Final = "SignalGone"
"""The reason of our condition on a node that we cordoned and that no longer gives the signal."""

_HELD_S: Final = 300.0
"""How long such a node stays cordoned, so that an intermittent signal does not move pods back and forth."""


def held_until(node: NodeRecord, now_s: float) -> float:
    """Return when to uncordon a node whose signal is gone, in seconds since 1970.

    The time counts from our condition, which every later leader sees, too. A node without it is not held:
    `apply` does not write it, and a daemon may not be allowed to.
    """
    reported = node.condition(EMPTY_CONDITION)
    if reported is None:
        return now_s
    if reported.reason != SIGNAL_GONE:
        return now_s + _HELD_S  # the daemon is about to report it
    # A time far in the future comes from a wrong clock; waiting for it could take forever.
    return reported.since_s + _HELD_S if reported.since_s <= now_s + _HELD_S else now_s


def _given_since(node: NodeRecord, signal: EvacuationSignal, now_s: float) -> Iterator[float]:
    """Yield the time since which the node gives the signal, in seconds since 1970; nothing if it does not."""
    for taint in node.taints:
        if taint.key == signal.taint:
            yield _known_since(node, taint.added_s, now_s)
            return
    if signal.condition is not None:
        condition = node.condition(signal.condition)
        if condition is not None and condition.status == "True":
            yield _known_since(node, condition.since_s, now_s)


def _known_since(node: NodeRecord, stated_s: int | None, now_s: float) -> float:
    """Return the stated time of a signal, unless it is missing or in the future.

    Most taints don't say when they were added. Then the time when the node was first reported as not empty
    counts: it is on the node itself, so every later leader knows it.
    """
    reported = node.condition(EMPTY_CONDITION)
    # If the node was in maintenance before, or the signal was gone and has come back, our condition is older
    # than the signal, so the time of the signal is not known.
    is_earlier = in_maintenance(node) or (reported is not None and reported.reason == SIGNAL_GONE)
    reported_s = None if reported is None or is_earlier else reported.since_s
    return next((float(each) for each in (stated_s, reported_s) if each and each <= now_s), now_s)
