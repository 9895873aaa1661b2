"""VolumeBinding: bound claims must be reachable from the node, unbound ones must find or get a volume
there.

In-tree volumes that CSI drivers have taken over are read as they are written. The driver's translation
would add only the zone, which is also a label of such volumes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from msgspec.structs import replace

from rescheduler.cluster.pod_record import CLAIM_VOLUME
from rescheduler.cluster.snapshot import Flags, PodClass
from rescheduler.cluster.storage_records import ClaimRecord, Storage, VolumeRecord
from rescheduler.rules.node_affinity import NodeLabels, reached_nodes, shown_terms
from rescheduler.rules.rule_check import NodeRefusal, SchedulerRule, StaticCheck, fits_nowhere
from rescheduler.rules.volume_provisioning import (
    NONE_TO_BIND,
    TOO_SMALL,
    AvailableVolumes,
    UnprovisionableClaim,
    unprovisionable_claims,
)

__all__ = ["PodClaim", "claims_of", "volume_binding", "waits_for_first_consumer"]


@dataclass(frozen=True, slots=True)
class PodClaim:
    name: str
    key: str
    """`namespace/name`."""
    is_ephemeral: bool
    """Made for this pod alone, and gone with it."""
    record: ClaimRecord | None
    """None if the cluster did not show it."""

    def is_controlled_by(self, uid: str) -> bool:
        owners = self.record.owners if self.record is not None else ()
        return any(owner.controller and owner.uid == uid for owner in owners)


def claims_of(pod_class: PodClass, storage: Storage, *, is_placed: bool) -> list[PodClaim]:
    """Return the claims; if the pod `is_placed`, its successor has new ephemeral volumes."""
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
    """Return whether its volume is chosen with the pod's node. One that already names a volume waits for
    that."""
    made_by = storage.classes.get(claim.storage_class)
    return made_by is not None and made_by.waits_for_pod and not claim.volume


def _as_recreated(claim: ClaimRecord) -> ClaimRecord:
    return replace(claim, volume="", is_bound=False, phase="Pending", selected_node="", deleted_s=None)


_UNREACHABLE: Final = "node(s) didn't match PersistentVolume's node affinity"
_GONE: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"
_REASON_ORDER: Final = (_UNREACHABLE, NONE_TO_BIND, TOO_SMALL, _GONE)


def volume_binding(
    claims: Sequence[PodClaim],
    available_volumes: AvailableVolumes,
    node_labels: NodeLabels,
    *,
    pod: str,
    uid: str,
) -> StaticCheck | None:
    """`pod` (`namespace/name`) and `uid` are who must own the claims of ephemeral volumes."""
    known = [claim for claim in claims if claim.record is not None or claim.is_ephemeral]
    if not known:  # that the others are missing, volume restrictions has already said
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
    """None if the cluster did not show it."""
    reached: Flags
    """[node]: where it can be reached."""

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
        # Only the first bound claim that is out of reach is reported, beside the unbound ones.
        found = [one.refusal() for one in bound if not one.reached[node]][:1]
        found += [shortage.refusal() for shortage in lacking if shortage.nodes[node]]
        found.sort(key=lambda refusal: _REASON_ORDER.index(refusal.reasons[0]))
        return NodeRefusal(
            SchedulerRule.VOLUME_BINDING,
            tuple(dict.fromkeys(reason for refusal in found for reason in refusal.reasons)),
            ", ".join(refusal.detail for refusal in found),
        )

    masks = [one.reached for one in bound] + [~shortage.nodes for shortage in lacking]
    return StaticCheck(np.logical_and.reduce(masks), explain) if masks else None


def _fault(claim: PodClaim, pod: str, uid: str) -> NodeRefusal | None:
    """Return what is wrong with a claim whatever the node."""
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
