"""VolumeBinding, VolumeZone and VolumeRestrictions: the nodes on which a pod can use its volumes.

- VolumeBinding: bound claims must be reachable from the node, unbound ones must find or get a volume there.
- VolumeZone: the zone labels of a volume must match the node.
- VolumeRestrictions: some disks are for one pod at a time, because of ReadWriteOncePod or their kind.

In-tree volumes that CSI drivers replace are read as written. The translation to the driver would only add the
zone, which such volumes also have as a label.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from msgspec.structs import replace

from rescheduler.cluster.pod_record import CLAIM_VOLUME, PodVolume
from rescheduler.cluster.snapshot import NO_ROW, Flags, PodClass
from rescheduler.cluster.storage_records import ClaimRecord, Storage, VolumeRecord
from rescheduler.rules.node_affinity import NodeLabels, reached_nodes, shown_terms
from rescheduler.rules.pod_class_index import PodClassIndex
from rescheduler.rules.pod_positions import DomainCounts, NodeConflicts
from rescheduler.rules.rule_check import (
    AllChecks,
    NodeRefusal,
    RuleCheck,
    SchedulerRule,
    StaticCheck,
    fits_nowhere,
)
from rescheduler.rules.volume_provisioning import (
    NONE_TO_BIND,
    TOO_SMALL,
    AvailableVolumes,
    UnprovisionableClaim,
    unprovisionable_claims,
)

__all__ = [
    "PodClaim",
    "claims_of",
    "is_single_pod_claim",
    "volume_binding",
    "volume_restrictions",
    "volume_zone",
    "waits_for_first_consumer",
]


@dataclass(frozen=True, slots=True)
class PodClaim:
    name: str
    key: str
    """`namespace/name`."""
    is_ephemeral: bool
    """Whether it is created for this pod and deleted with it."""
    record: ClaimRecord | None
    """None if it is not known."""

    def is_controlled_by(self, uid: str) -> bool:
        owners = self.record.owners if self.record is not None else ()
        return any(owner.controller and owner.uid == uid for owner in owners)


def claims_of(pod_class: PodClass, storage: Storage, *, is_placed: bool) -> list[PodClaim]:
    """Return the claims of the pod; if it `is_placed`, those of its successor, with new ephemeral volumes."""
    found = []
    for volume in pod_class.volumes:
        if volume.kind == CLAIM_VOLUME:
            key = f"{pod_class.namespace}/{volume.name}"
            record = storage.claims.get(key)
            if record is not None and volume.ephemeral and is_placed:
                record = _as_recreated(record)
            found.append(PodClaim(volume.name, key, volume.ephemeral, record))
    return found


def waits_for_first_consumer(claim: ClaimRecord, storage: Storage) -> bool:
    """Return whether the volume of the claim is chosen together with the pod's node. A claim that already
    names a volume waits for that volume."""
    made_by = storage.classes.get(claim.storage_class)
    return made_by is not None and made_by.waits_for_pod and not claim.volume


def _as_recreated(claim: ClaimRecord) -> ClaimRecord:
    return replace(claim, volume="", is_bound=False, phase="Pending", selected_node="", deleted_s=None)


_UNREACHABLE: Final = "node(s) didn't match PersistentVolume's node affinity"
_GONE: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"
_NO_ZONE_ORDER: Final = (_UNREACHABLE, NONE_TO_BIND, TOO_SMALL, _GONE)


def volume_binding(
    claims: Sequence[PodClaim],
    available_volumes: AvailableVolumes,
    node_labels: NodeLabels,
    *,
    pod: str,
    uid: str,
) -> StaticCheck | None:
    """Build the check; `pod` (`namespace/name`) with `uid` must own ephemeral claims."""
    known = [claim for claim in claims if claim.record is not None or claim.is_ephemeral]
    if not known:  # volume restrictions have already refused the pod if the others are missing
        return None
    for claim in known:
        if (refusal := _fault(claim, pod, uid)) is not None:
            return fits_nowhere(len(node_labels), refusal)
    records = [claim.record for claim in known if claim.record is not None]
    unbound = [record for record in records if not record.is_bound]
    for record in unbound:
        if not waits_for_first_consumer(record, available_volumes.storage):
            detail = f"claim {record.key} has no volume, and its class does not wait for a pod"
            return fits_nowhere(
                len(node_labels), NodeRefusal(SchedulerRule.VOLUME_BINDING, (_UNBOUND,), detail)
            )
    bound = [
        _bound_claim(record, available_volumes.storage, node_labels) for record in records if record.is_bound
    ]
    return _combined(bound, unprovisionable_claims(unbound, available_volumes, node_labels))


@dataclass(frozen=True, slots=True, eq=False)
class _BoundClaim:
    claim: ClaimRecord
    volume: VolumeRecord | None
    """None if it is not known."""
    reached: Flags
    """[node]: the volume can be reached from it."""

    def refusal(self) -> NodeRefusal:
        said = f"claim {self.claim.key} is bound to {self.claim.volume}"
        if self.volume is None:
            return NodeRefusal(SchedulerRule.VOLUME_BINDING, (_GONE,), f"{said}, which does not exist")
        where = shown_terms(self.volume.node_affinity)
        return NodeRefusal(
            SchedulerRule.VOLUME_BINDING, (_UNREACHABLE,), f"{said}, which is only available at {where}"
        )


def _bound_claim(claim: ClaimRecord, storage: Storage, node_labels: NodeLabels) -> _BoundClaim:
    volume = storage.volumes.get(claim.volume)
    if volume is None:
        return _BoundClaim(claim, None, np.zeros(len(node_labels), np.bool_))
    return _BoundClaim(claim, volume, reached_nodes(volume.node_affinity, node_labels))


def _combined(bound: Sequence[_BoundClaim], lacking: Sequence[UnprovisionableClaim]) -> StaticCheck | None:
    def explain(node: int) -> NodeRefusal:
        # Report the unbound claims, and only the first bound claim that is out of reach.
        found = [one.refusal() for one in bound if not one.reached[node]][:1]
        found += [shortage.refusal() for shortage in lacking if shortage.nodes[node]]
        found.sort(key=lambda refusal: _NO_ZONE_ORDER.index(refusal.reasons[0]))
        return NodeRefusal(
            SchedulerRule.VOLUME_BINDING,
            tuple(dict.fromkeys(reason for refusal in found for reason in refusal.reasons)),
            ", ".join(refusal.detail for refusal in found),
        )

    masks = [one.reached for one in bound] + [~shortage.nodes for shortage in lacking]
    return StaticCheck(np.logical_and.reduce(masks), explain) if masks else None


def _fault(claim: PodClaim, pod: str, uid: str) -> NodeRefusal | None:
    """Return the refusal if the claim can't be used on any node."""
    record, detail = claim.record, ""
    if record is None:
        words = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{claim.name}"'
        detail = f"claim {claim.key} does not exist"
    elif record.phase == "Lost":
        words = (
            f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume "{record.volume}"'
        )
    elif record.deleted_s is not None:
        words = f'persistentvolumeclaim "{claim.name}" is being deleted'
    elif claim.is_ephemeral and not claim.is_controlled_by(uid):
        words = f"PVC {claim.key} was not created for pod {pod} (pod is not owner)"
    else:
        return None
    return NodeRefusal(SchedulerRule.VOLUME_BINDING, (words,), detail)


_NO_ZONE: Final = "node(s) had no available volume zone"
_NEWER_LABELS: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_ZONE_LABELS: Final = (*_NEWER_LABELS, *_NEWER_LABELS.values())
_BETWEEN_ZONES: Final = "__"


@dataclass(frozen=True, slots=True)
class _Zones:
    claim: PodClaim
    volume: VolumeRecord
    label: str
    names: frozenset[str]

    def __str__(self) -> str:
        zones = " or ".join(sorted(self.names))
        return f"claim {self.claim.name} is bound to {self.volume.name} in {self.label}={zones}"


def volume_zone(claims: Sequence[PodClaim], storage: Storage, node_labels: NodeLabels) -> StaticCheck | None:
    wanted: list[_Zones] = []
    for claim in claims:
        if claim.is_ephemeral or claim.record is None or not claim.record.volume:
            continue  # not bound: volume binding decides whether it can be
        volume = storage.volumes.get(claim.record.volume)
        if volume is None:
            return fits_nowhere(len(node_labels), _volume_not_found(claim, claim.record.volume))
        wanted += _zones(claim, volume)
    if not wanted:
        return None

    def explain(node: int) -> NodeRefusal:
        labels = node_labels.records[node].labels
        faults = [
            str(zones)
            for zones in wanted
            if labels.get(zones.label, labels.get(_NEWER_LABELS.get(zones.label, ""))) not in zones.names
        ]
        return NodeRefusal(SchedulerRule.VOLUME_ZONE, (_NO_ZONE,), ", ".join(faults))

    reached = np.ones(len(node_labels), np.bool_)
    for zones in wanted:
        reached &= _within(zones, node_labels)
    return StaticCheck(reached | ~_has_zones(node_labels), explain)


def _zones(claim: PodClaim, volume: VolumeRecord) -> Iterator[_Zones]:
    for label in _ZONE_LABELS:
        names = [name.strip() for name in volume.labels.get(label, "").split(_BETWEEN_ZONES)]
        if all(names):  # a label with an empty zone is malformed, so it is ignored
            yield _Zones(claim, volume, label, frozenset(names))


def _within(zones: _Zones, node_labels: NodeLabels) -> Flags:
    """Return [node]: its zone label matches that of the volume, in the old or the new name of the label."""
    domains = node_labels.domains(zones.label)
    found = domains.with_values(zones.names)
    if (successor := _NEWER_LABELS.get(zones.label)) is not None:
        by_newer = node_labels.domains(successor).with_values(zones.names)
        found |= by_newer & (domains.of == NO_ROW)
    return found


def _has_zones(node_labels: NodeLabels) -> Flags:
    """Return [node]: it has a zone label; nodes without one take every volume."""
    found = np.zeros(len(node_labels), np.bool_)
    for label in _ZONE_LABELS:
        found |= node_labels.domains(label).of != NO_ROW
    return found


def _volume_not_found(claim: PodClaim, volume: str) -> NodeRefusal:
    return NodeRefusal(
        SchedulerRule.VOLUME_ZONE,
        (f'persistentvolume "{volume}" not found',),
        f"claim {claim.name} is bound to {volume}, which does not exist",
    )


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
            return fits_nowhere(count, _claim_not_found(claim))
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
    """A claim that only one pod may use: while that pod is on a node, no other pod can run on any node."""

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


def _claim_not_found(claim: PodClaim) -> NodeRefusal:
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
