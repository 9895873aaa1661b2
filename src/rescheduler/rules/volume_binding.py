"""Claims: bound ones must be reachable from the node, unbound ones must find or be given a volume there.

Volumes of sources that became CSI drivers are judged as they are written, not as the driver would translate
them: what that adds, the zone, is a label of such volumes too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from rescheduler.model.storage import ClaimRecord, Storage, VolumeRecord
from rescheduler.rules.check import Fixed, nowhere
from rescheduler.rules.claims import UsedClaim, waits_for_its_pod
from rescheduler.rules.matching_volumes import Stock
from rescheduler.rules.node_affinity import reached_nodes, shown_terms
from rescheduler.rules.refusal import Refusal, Rule
from rescheduler.rules.terrain import Terrain
from rescheduler.rules.volume_provisioning import NONE_TO_BIND, TOO_SMALL, Shortage, shortages
from rescheduler.snapshot.snapshot import Flags

__all__ = ["volume_binding"]


_UNREACHABLE: Final = "node(s) didn't match PersistentVolume's node affinity"
_GONE: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"
_IN_TURN: Final = (_UNREACHABLE, NONE_TO_BIND, TOO_SMALL, _GONE)


def volume_binding(
    claims: Sequence[UsedClaim], stock: Stock, terrain: Terrain, *, pod: str, uid: str
) -> Fixed | None:
    """`pod` (`namespace/name`) and `uid` are who must own the claims of ephemeral volumes."""
    known = [claim for claim in claims if claim.record is not None or claim.is_ephemeral]
    if not known:  # that the others are missing, volume restrictions has already said
        return None
    for claim in known:
        if (refusal := _fault(claim, pod, uid)) is not None:
            return nowhere(len(terrain), refusal)
    records = [claim.record for claim in known if claim.record is not None]
    unbound = [record for record in records if not record.is_bound]
    for record in unbound:
        if not waits_for_its_pod(record, stock.storage):
            detail = f"claim {record.key} has no volume, and none is made for a pod's node"
            return nowhere(len(terrain), Refusal(Rule.VOLUME_BINDING, (_UNBOUND,), detail))
    bound = [_bound(record, stock.storage, terrain) for record in records if record.is_bound]
    return _judged(bound, shortages(unbound, stock, terrain))


@dataclass(frozen=True, slots=True, eq=False)
class _Bound:
    claim: ClaimRecord
    volume: VolumeRecord | None
    """None if the cluster did not show it."""
    reached: Flags
    """[node]: where it can be reached."""

    def refusal(self) -> Refusal:
        said = f"claim {self.claim.key} is bound to {self.claim.volume}"
        if self.volume is None:
            detail, unknown = f"{said}, which is not known", f"volume {self.claim.volume}"
            return Refusal(Rule.VOLUME_BINDING, (_GONE,), detail, unknown)
        where = shown_terms(self.volume.node_affinity)
        return Refusal(Rule.VOLUME_BINDING, (_UNREACHABLE,), f"{said}, which is only at {where}")


def _bound(claim: ClaimRecord, storage: Storage, terrain: Terrain) -> _Bound:
    volume = storage.volumes.get(claim.volume)
    if volume is None:
        return _Bound(claim, None, np.zeros(len(terrain), np.bool_))
    return _Bound(claim, volume, reached_nodes(volume.node_affinity, terrain))


def _judged(bound: Sequence[_Bound], lacking: Sequence[Shortage]) -> Fixed | None:
    def explain(node: int) -> Refusal:
        # Of the bound claims only the first that is out of reach is told; the unbound ones come beside it.
        found = [one.refusal() for one in bound if not one.reached[node]][:1]
        found += [shortage.refusal() for shortage in lacking if shortage.nodes[node]]
        found.sort(key=lambda refusal: _IN_TURN.index(refusal.reasons[0]))
        return Refusal(
            Rule.VOLUME_BINDING,
            tuple(dict.fromkeys(reason for refusal in found for reason in refusal.reasons)),
            ", ".join(refusal.detail for refusal in found),
            next((refusal.unknown for refusal in found if refusal.unknown), ""),
        )

    masks = [one.reached for one in bound] + [~shortage.nodes for shortage in lacking]
    return Fixed(np.logical_and.reduce(masks), explain) if masks else None


def _fault(claim: UsedClaim, pod: str, uid: str) -> Refusal | None:
    """What is wrong with a claim whatever the node."""
    record, unknown = claim.record, ""
    if record is None:
        words = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{claim.name}"'
        unknown = f"claim {claim.key}"
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
    return Refusal(Rule.VOLUME_BINDING, (words,), unknown=unknown)
