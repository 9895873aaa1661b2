"""Disks for one pod at a time: ReadWriteOncePod claims, and some that are named in the pod itself."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from rescheduler.model.volumes import Volume
from rescheduler.rules.check import Check, InTurn, nowhere
from rescheduler.rules.claims import UsedClaim
from rescheduler.rules.class_index import ClassIndex
from rescheduler.rules.neighbours import Neighbours
from rescheduler.rules.refusal import Refusal, Rule
from rescheduler.rules.tallies import Tally
from rescheduler.snapshot.snapshot import Flags

__all__ = ["is_for_one_pod", "volume_restrictions"]


_DISK_TAKEN: Final = "node(s) had no available disk"
_CLAIM_TAKEN: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)
_NEVER_SHARED: Final = "awsElasticBlockStore"
_EXCLUSIVE: Final = frozenset({"gcePersistentDisk", _NEVER_SHARED, "iscsi", "rbd"})


def volume_restrictions(
    number: int, claims: Sequence[UsedClaim], index: ClassIndex, neighbours: Neighbours
) -> Check | None:
    """For the pods of the class of that number."""
    pod_class, count = index.classes[number], len(neighbours.terrain)
    for claim in claims:
        if claim.record is None and not claim.is_ephemeral:
            return nowhere(count, _not_found(claim))
    found: list[Check] = []
    disks = [volume for volume in pod_class.volumes if volume.kind in _EXCLUSIVE]
    if taken := {other for disk in disks for other in _with_same_disk(disk, index)}:
        named = ", ".join(f"{disk.kind} {disk.name}" for disk in disks)
        refusal = Refusal(Rule.VOLUME_RESTRICTIONS, (_DISK_TAKEN,), f"wants {named}")
        found.append(neighbours.without(taken, refusal))
    for claim in filter(is_for_one_pod, claims):
        users = index.with_claim(pod_class.namespace, claim.name)
        tally = neighbours.tallies.of(users, neighbours.terrain.whole_cluster.of)
        found.append(_ForOnePod(claim, tally, count))
    return InTurn(found) if found else None


def is_for_one_pod(claim: UsedClaim) -> bool:
    return (
        claim.record is not None
        and not claim.is_ephemeral
        and "ReadWriteOncePod" in claim.record.access_modes
    )


@dataclass(frozen=True, slots=True)
class _ForOnePod:
    """Wherever the one pod is that uses the claim: no other can run, on any node."""

    claim: UsedClaim
    users: Tally
    nodes: int

    def fits(self) -> Flags:
        return np.full(self.nodes, not self.users.counts)

    def refusal(self, node: int) -> Refusal | None:
        if not self.users.at(node):
            return None
        detail = f"claim {self.claim.key} is ReadWriteOncePod and in use"
        return Refusal(Rule.VOLUME_RESTRICTIONS, (_CLAIM_TAKEN,), detail)


def _not_found(claim: UsedClaim) -> Refusal:
    return Refusal(
        Rule.VOLUME_RESTRICTIONS,
        (f'persistentvolumeclaim "{claim.name}" not found',),
        f"claim {claim.key} is not known",
        unknown=f"claim {claim.key}",
    )


def _with_same_disk(mine: Volume, index: ClassIndex) -> Iterator[int]:
    """The same disk twice is fine only where both sides just read it; a disk of Amazon's not even then."""
    for number, other in index.with_disk(mine.kind, mine.name):
        both_read = mine.read_only and other.read_only and mine.kind != _NEVER_SHARED
        is_same = mine.kind != "rbd" or not set(mine.monitors).isdisjoint(other.monitors)
        if is_same and not both_read:
            yield number
