"""Unbound claims that wait for their pod: a volume is found on the node, or made there, or neither."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from rescheduler.model.selectors import SelectorError
from rescheduler.model.storage import CapacityRecord, ClaimRecord, Storage, StorageClassRecord
from rescheduler.rules.matching_volumes import Stock, left_without_volume
from rescheduler.rules.refusal import Refusal, Rule
from rescheduler.rules.terrain import Terrain
from rescheduler.snapshot.snapshot import Flags

__all__ = ["NONE_TO_BIND", "TOO_SMALL", "Shortage", "shortages"]


NONE_TO_BIND: Final = "node(s) didn't find available persistent volumes to bind"
TOO_SMALL: Final = "node(s) did not have enough free storage"
_NO_PROVISIONER: Final = frozenset({"", "kubernetes.io/no-provisioner"})


@dataclass(frozen=True, slots=True, eq=False)
class Shortage:
    """Nodes on which that claim gets no volume. No node is in two of them."""

    claim: ClaimRecord
    reason: str
    nodes: Flags

    def refusal(self) -> Refusal:
        claim = self.claim
        detail = f"no volume of class {claim.storage_class} for claim {claim.key}"
        if claim.selected_node:
            detail = f"the volume of claim {claim.key} is being made for {claim.selected_node}"
        elif self.reason is TOO_SMALL:
            detail = (
                f"no room for {claim.size_bytes} bytes of class {claim.storage_class} for claim {claim.key}"
            )
        return Refusal(Rule.VOLUME_BINDING, (self.reason,), detail)


def shortages(claims: Sequence[ClaimRecord], stock: Stock, terrain: Terrain) -> list[Shortage]:
    found = []
    left = np.ones(len(terrain), np.bool_)
    chosen = [claim for claim in claims if claim.selected_node]
    for claim in chosen:
        here = terrain.named(claim.selected_node)
        found.append(Shortage(claim, NONE_TO_BIND, left & ~here))
        left &= here
    for leftover in left_without_volume([c for c in claims if not c.selected_node], stock, terrain):
        found += _not_made((*chosen, *leftover.claims), leftover.nodes & left, stock.storage, terrain)
    return [shortage for shortage in found if shortage.nodes.any()]


def _not_made(
    claims: Iterable[ClaimRecord], left: Flags, storage: Storage, terrain: Terrain
) -> Iterable[Shortage]:
    """Volumes have to be made for all of them; the first that can't be is told."""
    for claim in claims:
        made_by = storage.classes[claim.storage_class]
        for reason, possible in (
            (NONE_TO_BIND, _can_be_made(made_by, terrain)),
            (TOO_SMALL, _has_room(claim, made_by, storage, terrain)),
        ):
            yield Shortage(claim, reason, left & ~possible)
            left = left & possible


def _can_be_made(made_by: StorageClassRecord, terrain: Terrain) -> Flags:
    if made_by.provisioner in _NO_PROVISIONER:
        return np.zeros(len(terrain), np.bool_)
    found = np.full(len(terrain), not made_by.allowed_topologies)
    for term in made_by.allowed_topologies:
        within = np.full(len(terrain), bool(term))
        for wanted in term:
            domains = terrain.domains(wanted.key)
            within &= domains.spread([domains.number[v] for v in wanted.values if v in domains.number])
        found |= within
    return found


def _has_room(claim: ClaimRecord, made_by: StorageClassRecord, storage: Storage, terrain: Terrain) -> Flags:
    """Asked only of drivers that publish what they have left."""
    driver = storage.csi_drivers.get(made_by.provisioner)
    found = np.full(len(terrain), driver is None or not driver.tells_capacity or not claim.size_bytes)
    if not found.all():
        for capacity in storage.capacities.values():
            largest = capacity.largest_volume_bytes
            if capacity.storage_class == made_by.name and largest is not None and largest >= claim.size_bytes:
                found |= _within_reach(capacity, terrain)
    return found


def _within_reach(capacity: CapacityRecord, terrain: Terrain) -> Flags:
    """Capacity that says nothing about nodes, or nothing that can be read, is within reach of none."""
    try:
        if capacity.nodes is not None:
            return terrain.selected(capacity.nodes.selector())
    except SelectorError:
        pass
    return np.zeros(len(terrain), np.bool_)
