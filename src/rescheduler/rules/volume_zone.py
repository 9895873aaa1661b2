"""Volumes that say by labels in which zones they are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from rescheduler.cluster.snapshot import NO_ROW, Flags
from rescheduler.cluster.storage_records import Storage, VolumeRecord
from rescheduler.rules.node_affinity import NodeLabels
from rescheduler.rules.rule_check import NodeRefusal, SchedulerRule, StaticCheck, fits_nowhere
from rescheduler.rules.volume_binding import PodClaim

__all__ = ["volume_zone"]


_REASON: Final = "node(s) had no available volume zone"
_SUCCESSORS: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_LABELS: Final = (*_SUCCESSORS, *_SUCCESSORS.values())
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
            continue  # not bound: whether it can be is for volume binding to say
        volume = storage.volumes.get(claim.record.volume)
        if volume is None:
            return fits_nowhere(len(node_labels), _not_found(claim, claim.record.volume))
        wanted += _zones(claim, volume)
    if not wanted:
        return None

    def explain(node: int) -> NodeRefusal:
        labels = node_labels.records[node].labels
        faults = [
            str(zones)
            for zones in wanted
            if labels.get(zones.label, labels.get(_SUCCESSORS.get(zones.label, ""))) not in zones.names
        ]
        return NodeRefusal(SchedulerRule.VOLUME_ZONE, (_REASON,), ", ".join(faults))

    reached = np.ones(len(node_labels), np.bool_)
    for zones in wanted:
        reached &= _within(zones, node_labels)
    return StaticCheck(reached | ~_has_zones(node_labels), explain)


def _zones(claim: PodClaim, volume: VolumeRecord) -> Iterator[_Zones]:
    for label in _LABELS:
        names = [name.strip() for name in volume.labels.get(label, "").split(_BETWEEN_ZONES)]
        if all(names):  # a label with an empty zone in it can't be read, so it says nothing
            yield _Zones(claim, volume, label, frozenset(names))


def _within(zones: _Zones, node_labels: NodeLabels) -> Flags:
    """Compare by the volume's label, or by the newer one on nodes that have only that."""
    domains = node_labels.domains(zones.label)
    found = domains.spread([domains.number[name] for name in zones.names if name in domains.number])
    if (successor := _SUCCESSORS.get(zones.label)) is not None:
        newer = node_labels.domains(successor)
        by_newer = newer.spread([newer.number[name] for name in zones.names if name in newer.number])
        found |= by_newer & (domains.of == NO_ROW)
    return found


def _has_zones(node_labels: NodeLabels) -> Flags:
    """Return [node]: whether it has zones; nodes without any of the labels take every volume."""
    found = np.zeros(len(node_labels), np.bool_)
    for label in _LABELS:
        found |= node_labels.domains(label).of != NO_ROW
    return found


def _not_found(claim: PodClaim, volume: str) -> NodeRefusal:
    return NodeRefusal(
        SchedulerRule.VOLUME_ZONE,
        (f'persistentvolume "{volume}" not found',),
        f"claim {claim.name} is bound to {volume}, which does not exist",
    )
