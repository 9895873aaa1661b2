"""The volumes that unbound claims get on each node: an existing one (reserved for the claim, else the
smallest that fits), or a newly provisioned one.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from kubevalues import EVERYTHING, NOTHING, Selector, SelectorError
from rescheduler.cluster.snapshot import Flags
from rescheduler.cluster.storage_records import (
    CapacityRecord,
    ClaimRecord,
    Storage,
    StorageClassRecord,
    VolumeRecord,
)
from rescheduler.rules.node_affinity import NodeLabels, reached_nodes
from rescheduler.rules.rule_check import NodeRefusal, SchedulerRule

__all__ = [
    "NONE_TO_BIND",
    "TOO_SMALL",
    "AvailableVolumes",
    "UnmatchedClaims",
    "UnprovisionableClaim",
    "unmatched_claims",
    "unprovisionable_claims",
]


@dataclass(frozen=True, slots=True, eq=False)
class UnmatchedClaims:
    """Claims for which a volume has to be provisioned on these nodes, because no existing one matches."""

    nodes: Flags
    claims: tuple[ClaimRecord, ...]


class AvailableVolumes:
    """The volumes of the cluster that can still be bound to a claim."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def candidates(self, claim: ClaimRecord) -> list[VolumeRecord]:
        """Return the volumes that the claim could get, on any node."""
        selector = _selector(claim)
        listed = (*self._kept.get(claim.key, ()), *self._free.get(claim.storage_class, ()))
        return [volume for volume in listed if _could_get(claim, volume, selector)]

    @cached_property
    def _kept(self) -> Mapping[str, list[VolumeRecord]]:
        """Return the reserved volumes by their claim."""
        found: defaultdict[str, list[VolumeRecord]] = defaultdict(list)
        for volume in self.storage.volumes.values():
            if volume.claim is not None and volume.deleted_s is None:
                found[volume.claim.key].append(volume)
        return dict(found)

    @cached_property
    def _free(self) -> Mapping[str, list[VolumeRecord]]:
        """Return the volumes that any claim can get, by class."""
        found: defaultdict[str, list[VolumeRecord]] = defaultdict(list)
        for volume in self.storage.volumes.values():
            if volume.claim is None and volume.deleted_s is None and volume.phase == "Available":
                found[volume.storage_class].append(volume)
        return dict(found)


def unmatched_claims(
    claims: Sequence[ClaimRecord], available_volumes: AvailableVolumes, node_labels: NodeLabels
) -> list[UnmatchedClaims]:
    """Return the claims without a volume, by group of nodes; every node is in exactly one group.

    Nodes that reach the same volumes have the same result, so each such group is checked once.
    """
    in_turn = sorted(
        claims, key=lambda claim: claim.size_bytes
    )  # so that large volumes stay for large claims
    candidates = {claim.key: available_volumes.candidates(claim) for claim in in_turn}
    volumes = list({volume.name: volume for found in candidates.values() for volume in found}.values())
    if not volumes:
        return [UnmatchedClaims(np.ones(len(node_labels), np.bool_), tuple(in_turn))]
    reach = np.array([reached_nodes(volume.node_affinity, node_labels) for volume in volumes])
    found = []
    for pattern, nodes in _groups(reach):
        reached = {volume.name for volume, is_reached in zip(volumes, pattern, strict=True) if is_reached}
        left = [claim for claim, volume in _matched(in_turn, candidates, reached) if volume is None]
        found.append(UnmatchedClaims(nodes, tuple(left)))
    return found


def _groups(reach: Flags) -> Iterator[tuple[list[bool], Flags]]:
    """Yield the groups of nodes that reach the same volumes, from [volume, node]."""
    by_pattern: defaultdict[tuple[bool, ...], list[int]] = defaultdict(list)
    for node, pattern in enumerate(reach.T.tolist()):
        by_pattern[tuple(pattern)].append(node)
    for pattern, rows in by_pattern.items():
        nodes = np.zeros(reach.shape[1], np.bool_)
        nodes[rows] = True
        yield list(pattern), nodes


def _matched(
    claims: Iterable[ClaimRecord], candidates: dict[str, list[VolumeRecord]], reached: set[str]
) -> Iterable[tuple[ClaimRecord, VolumeRecord | None]]:
    taken: set[str] = set()
    for claim in claims:
        volume = _choose([each for each in candidates[claim.key] if each.name not in taken], reached)
        if volume is not None:
            taken.add(volume.name)
        yield claim, volume


def _choose(candidates: Sequence[VolumeRecord], reached: set[str]) -> VolumeRecord | None:
    """Choose a volume. One that is reserved for the claim is the only one that it can get, even if it is out
    of reach."""
    for volume in candidates:
        if volume.claim is not None:
            return volume if volume.name in reached else None
    within = [volume for volume in candidates if volume.name in reached]
    return min(within, key=lambda volume: (volume.capacity_bytes, volume.name), default=None)


def _could_get(claim: ClaimRecord, volume: VolumeRecord, selector: Selector) -> bool:
    """Return whether class, size and mode match, and the volume is reserved for this claim or matches its
    selector."""
    if (
        volume.storage_class != claim.storage_class
        or volume.capacity_bytes < claim.size_bytes
        or volume.volume_mode != claim.volume_mode
        or volume.attributes_class != claim.attributes_class
    ):
        return False
    if volume.claim is not None:
        return volume.claim.uid in {"", claim.uid}
    return set(claim.access_modes).issubset(volume.access_modes) and selector.matches(volume.labels)


def _selector(claim: ClaimRecord) -> Selector:
    if claim.selector is None:
        return EVERYTHING
    try:
        return claim.selector.selector()
    except SelectorError:  # the API server admits no such claim; it selects nothing
        return NOTHING


NONE_TO_BIND: Final = "node(s) didn't find available persistent volumes to bind"
TOO_SMALL: Final = "node(s) did not have enough free storage"
_NO_PROVISIONER: Final = frozenset({"", "kubernetes.io/no-provisioner"})


@dataclass(frozen=True, slots=True, eq=False)
class UnprovisionableClaim:
    """A claim that gets no volume on these nodes. Each node is in at most one of these."""

    claim: ClaimRecord
    reason: str
    nodes: Flags

    def refusal(self) -> NodeRefusal:
        claim = self.claim
        detail = f"no volume of class {claim.storage_class} for claim {claim.key}"
        if claim.selected_node:
            detail = f"the volume of claim {claim.key} is being provisioned for {claim.selected_node}"
        elif self.reason is TOO_SMALL:
            detail = (
                f"no room for {claim.size_bytes} bytes of class {claim.storage_class} for claim {claim.key}"
            )
        return NodeRefusal(SchedulerRule.VOLUME_BINDING, (self.reason,), detail)


def unprovisionable_claims(
    claims: Sequence[ClaimRecord], available_volumes: AvailableVolumes, node_labels: NodeLabels
) -> list[UnprovisionableClaim]:
    found = []
    left = np.ones(len(node_labels), np.bool_)
    chosen = [claim for claim in claims if claim.selected_node]
    for claim in chosen:
        here = node_labels.named(claim.selected_node)
        found.append(UnprovisionableClaim(claim, NONE_TO_BIND, left & ~here))
        left &= here
    for leftover in unmatched_claims(
        [c for c in claims if not c.selected_node], available_volumes, node_labels
    ):
        found += _without_provisioner(
            (*chosen, *leftover.claims), leftover.nodes & left, available_volumes.storage, node_labels
        )
    return [shortage for shortage in found if shortage.nodes.any()]


def _without_provisioner(
    claims: Iterable[ClaimRecord], left: Flags, storage: Storage, node_labels: NodeLabels
) -> Iterable[UnprovisionableClaim]:
    """Yield the first claim for which no volume can be provisioned, per group of nodes."""
    for claim in claims:
        made_by = storage.classes[claim.storage_class]
        for reason, possible in (
            (NONE_TO_BIND, _can_be_made(made_by, node_labels)),
            (TOO_SMALL, _has_room(claim, made_by, storage, node_labels)),
        ):
            yield UnprovisionableClaim(claim, reason, left & ~possible)
            left = left & possible


def _can_be_made(made_by: StorageClassRecord, node_labels: NodeLabels) -> Flags:
    if made_by.provisioner in _NO_PROVISIONER:
        return np.zeros(len(node_labels), np.bool_)
    found = np.full(len(node_labels), not made_by.allowed_topologies)
    for term in made_by.allowed_topologies:
        within = np.full(len(node_labels), bool(term))
        for wanted in term:
            within &= node_labels.domains(wanted.key).with_values(wanted.values)
        found |= within
    return found


def _has_room(
    claim: ClaimRecord, made_by: StorageClassRecord, storage: Storage, node_labels: NodeLabels
) -> Flags:
    """Return whether the driver has room; only for drivers that publish their capacity."""
    driver = storage.csi_drivers.get(made_by.provisioner)
    found = np.full(len(node_labels), driver is None or not driver.publishes_capacity or not claim.size_bytes)
    if not found.all():
        for capacity in storage.capacities.values():
            largest = capacity.largest_volume_bytes
            if capacity.storage_class == made_by.name and largest is not None and largest >= claim.size_bytes:
                found |= _within_reach(capacity, node_labels)
    return found


def _within_reach(capacity: CapacityRecord, node_labels: NodeLabels) -> Flags:
    """Return whether the capacity is reachable. One without a valid node topology is reachable from no
    node."""
    try:
        if capacity.nodes is not None:
            return node_labels.selected(capacity.nodes.selector())
    except SelectorError:
        pass
    return np.zeros(len(node_labels), np.bool_)
