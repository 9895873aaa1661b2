"""Disks for one pod at a time: ReadWriteOncePod claims, and some that are named in the pod itself."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from rescheduler.cluster.pod_record import PodVolume
from rescheduler.cluster.snapshot import Flags
from rescheduler.rules.pod_class_index import PodClassIndex
from rescheduler.rules.pod_positions import DomainCounts, NodeConflicts
from rescheduler.rules.rule_check import AllChecks, NodeRefusal, RuleCheck, SchedulerRule, fits_nowhere
from rescheduler.rules.volume_binding import PodClaim

__all__ = ["is_single_pod_claim", "volume_restrictions"]


_DISK_TAKEN: Final = "node(s) had no available disk"
_CLAIM_TAKEN: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)
_NEVER_SHARED: Final = "awsElasticBlockStore"
_EXCLUSIVE: Final = frozenset({"gcePersistentDisk", _NEVER_SHARED, "iscsi", "rbd"})


def volume_restrictions(
    number: int, claims: Sequence[PodClaim], index: PodClassIndex, node_conflicts: NodeConflicts
) -> RuleCheck | None:
    """Build the check for the pods of the class with that number."""
    pod_class, count = index.classes[number], len(node_conflicts.node_labels)
    for claim in claims:
        if claim.record is None and not claim.is_ephemeral:
            return fits_nowhere(count, _not_found(claim))
    found: list[RuleCheck] = []
    disks = [volume for volume in pod_class.volumes if volume.kind in _EXCLUSIVE]
    if taken := {other for disk in disks for other in _with_same_disk(disk, index)}:
        named = ", ".join(f"{disk.kind} {disk.name}" for disk in disks)
        refusal = NodeRefusal(SchedulerRule.VOLUME_RESTRICTIONS, (_DISK_TAKEN,), f"needs {named}")
        found.append(node_conflicts.without(taken, refusal))
    for claim in filter(is_single_pod_claim, claims):
        users = index.with_claim(pod_class.namespace, claim.name)
        domain_counts = node_conflicts.count_registry.of(users, node_conflicts.node_labels.whole_cluster.of)
        found.append(_SinglePodClaim(claim, domain_counts, count))
    return AllChecks(found) if found else None


def is_single_pod_claim(claim: PodClaim) -> bool:
    return (
        claim.record is not None
        and not claim.is_ephemeral
        and "ReadWriteOncePod" in claim.record.access_modes
    )


@dataclass(frozen=True, slots=True)
class _SinglePodClaim:
    """A claim that one pod alone may use: while that pod is on any node, no other pod can run on any node."""

    claim: PodClaim
    users: DomainCounts
    nodes: int

    def fits(self) -> Flags:
        return np.full(self.nodes, not self.users.counts)

    def refusal(self, node: int) -> NodeRefusal | None:
        if not self.users.at(node):
            return None
        detail = f"claim {self.claim.key} is ReadWriteOncePod and in use"
        return NodeRefusal(SchedulerRule.VOLUME_RESTRICTIONS, (_CLAIM_TAKEN,), detail)


def _not_found(claim: PodClaim) -> NodeRefusal:
    return NodeRefusal(
        SchedulerRule.VOLUME_RESTRICTIONS,
        (f'persistentvolumeclaim "{claim.name}" not found',),
        f"claim {claim.key} does not exist",
    )


def _with_same_disk(mine: PodVolume, index: PodClassIndex) -> Iterator[int]:
    """Yield the pod classes with the same disk; both may use it if both only read, except Amazon's."""
    for number, other in index.with_disk(mine.kind, mine.name):
        both_read = mine.read_only and other.read_only and mine.kind != _NEVER_SHARED
        is_same = mine.kind != "rbd" or not set(mine.monitors).isdisjoint(other.monitors)
        if is_same and not both_read:
            yield number
