"""Volumes that say by labels in which zones they are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from rescheduler.model.storage import Storage, VolumeRecord
from rescheduler.rules.check import Fixed, nowhere
from rescheduler.rules.claims import UsedClaim
from rescheduler.rules.refusal import Refusal, Rule
from rescheduler.rules.terrain import Terrain
from rescheduler.snapshot.snapshot import NOWHERE, Flags

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
    claim: UsedClaim
    volume: VolumeRecord
    label: str
    names: frozenset[str]

    def __str__(self) -> str:
        zones = " or ".join(sorted(self.names))
        return f"claim {self.claim.name} is bound to {self.volume.name} in {self.label}={zones}"


def volume_zone(claims: Sequence[UsedClaim], storage: Storage, terrain: Terrain) -> Fixed | None:
    wanted: list[_Zones] = []
    for claim in claims:
        if claim.is_ephemeral or claim.record is None or not claim.record.volume:
            continue  # not bound: whether it can be is for volume binding to say
        volume = storage.volumes.get(claim.record.volume)
        if volume is None:
            return nowhere(len(terrain), _not_found(claim, claim.record.volume))
        wanted += _zones(claim, volume)
    if not wanted:
        return None

    def explain(node: int) -> Refusal:
        labels = terrain.records[node].labels
        faults = [
            str(zones)
            for zones in wanted
            if labels.get(zones.label, labels.get(_SUCCESSORS.get(zones.label, ""))) not in zones.names
        ]
        return Refusal(Rule.VOLUME_ZONE, (_REASON,), ", ".join(faults))

    reached = np.ones(len(terrain), np.bool_)
    for zones in wanted:
        reached &= _within(zones, terrain)
    return Fixed(reached | ~_has_zones(terrain), explain)


def _zones(claim: UsedClaim, volume: VolumeRecord) -> Iterator[_Zones]:
    for label in _LABELS:
        names = [name.strip() for name in volume.labels.get(label, "").split(_BETWEEN_ZONES)]
        if all(names):  # a label with an empty zone in it can't be read, so it says nothing
            yield _Zones(claim, volume, label, frozenset(names))


def _within(zones: _Zones, terrain: Terrain) -> Flags:
    """By its label, or by the newer one on nodes that have only that."""
    domains = terrain.domains(zones.label)
    found = domains.spread([domains.number[name] for name in zones.names if name in domains.number])
    if (successor := _SUCCESSORS.get(zones.label)) is not None:
        newer = terrain.domains(successor)
        by_newer = newer.spread([newer.number[name] for name in zones.names if name in newer.number])
        found |= by_newer & (domains.of == NOWHERE)
    return found


def _has_zones(terrain: Terrain) -> Flags:
    """[node]: nodes without any of the labels belong to a cluster without zones, and take every volume."""
    found = np.zeros(len(terrain), np.bool_)
    for label in _LABELS:
        found |= terrain.domains(label).of != NOWHERE
    return found


def _not_found(claim: UsedClaim, volume: str) -> Refusal:
    return Refusal(
        Rule.VOLUME_ZONE,
        (f'persistentvolume "{volume}" not found',),
        f"claim {claim.name} is bound to {volume}, which is not known",
        unknown=f"volume {volume}",
    )
