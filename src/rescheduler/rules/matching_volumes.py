"""Which of the volumes that are there an unbound claim would get: the one meant for it, else the smallest."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rescheduler.model.selectors import EVERYTHING, NOTHING, Selector, SelectorError
from rescheduler.model.storage import ClaimRecord, Storage, VolumeRecord
from rescheduler.rules.node_affinity import reached_nodes
from rescheduler.rules.terrain import Terrain
from rescheduler.snapshot.snapshot import Flags

__all__ = ["Leftover", "Stock", "left_without_volume"]


@dataclass(frozen=True, slots=True, eq=False)
class Leftover:
    """On these nodes, these claims find no volume: one has to be made for each."""

    nodes: Flags
    claims: tuple[ClaimRecord, ...]


class Stock:
    """The cluster's storage, and which of its volumes can still be given to a claim."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def candidates(self, claim: ClaimRecord) -> list[VolumeRecord]:
        """Volumes that it could get, wherever they are."""
        selector = _selector(claim)
        listed = (*self._kept.get(claim.key, ()), *self._free.get(claim.storage_class, ()))
        return [volume for volume in listed if _could_get(claim, volume, selector)]

    @cached_property
    def _kept(self) -> Mapping[str, list[VolumeRecord]]:
        """By the claim that they are kept for."""
        found: defaultdict[str, list[VolumeRecord]] = defaultdict(list)
        for volume in self.storage.volumes.values():
            if volume.claim is not None and volume.deleted_s is None:
                found[volume.claim.key].append(volume)
        return dict(found)

    @cached_property
    def _free(self) -> Mapping[str, list[VolumeRecord]]:
        """Those that anybody can have, by class."""
        found: defaultdict[str, list[VolumeRecord]] = defaultdict(list)
        for volume in self.storage.volumes.values():
            if volume.claim is None and volume.deleted_s is None and volume.phase == "Available":
                found[volume.storage_class].append(volume)
        return dict(found)


def left_without_volume(claims: Sequence[ClaimRecord], stock: Stock, terrain: Terrain) -> list[Leftover]:
    """Every node is in exactly one of them.

    Nodes from which the same volumes can be reached give the same answer, so each such group is asked once.
    """
    in_turn = sorted(
        claims, key=lambda claim: claim.size_bytes
    )  # so that large volumes stay for large claims
    candidates = {claim.key: stock.candidates(claim) for claim in in_turn}
    volumes = list({volume.name: volume for found in candidates.values() for volume in found}.values())
    if not volumes:
        return [Leftover(np.ones(len(terrain), np.bool_), tuple(in_turn))]
    reach = np.array([reached_nodes(volume.node_affinity, terrain) for volume in volumes])
    found = []
    for pattern, nodes in _groups(reach):
        reached = {volume.name for volume, is_reached in zip(volumes, pattern, strict=True) if is_reached}
        left = [claim for claim, volume in _given(in_turn, candidates, reached) if volume is None]
        found.append(Leftover(nodes, tuple(left)))
    return found


def _groups(reach: Flags) -> Iterator[tuple[list[bool], Flags]]:
    """From [volume, node]: nodes for which all volumes are alike, and what they are like."""
    by_pattern: defaultdict[tuple[bool, ...], list[int]] = defaultdict(list)
    for node, pattern in enumerate(reach.T.tolist()):
        by_pattern[tuple(pattern)].append(node)
    for pattern, rows in by_pattern.items():
        nodes = np.zeros(reach.shape[1], np.bool_)
        nodes[rows] = True
        yield list(pattern), nodes


def _given(
    claims: Iterable[ClaimRecord], candidates: dict[str, list[VolumeRecord]], reached: set[str]
) -> Iterable[tuple[ClaimRecord, VolumeRecord | None]]:
    taken: set[str] = set()
    for claim in claims:
        volume = _choose([each for each in candidates[claim.key] if each.name not in taken], reached)
        if volume is not None:
            taken.add(volume.name)
        yield claim, volume


def _choose(candidates: Sequence[VolumeRecord], reached: set[str]) -> VolumeRecord | None:
    """A volume that is meant for the claim is the only one it can get, even if it is out of reach."""
    for volume in candidates:
        if volume.claim is not None:
            return volume if volume.name in reached else None
    within = [volume for volume in candidates if volume.name in reached]
    return min(within, key=lambda volume: (volume.capacity_bytes, volume.name), default=None)


def _could_get(claim: ClaimRecord, volume: VolumeRecord, selector: Selector) -> bool:
    """Of the right class, size and mode; and kept for this claim, or as it wants it."""
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
    except SelectorError:  # nothing that was admitted; what can't be read selects nothing
        return NOTHING
