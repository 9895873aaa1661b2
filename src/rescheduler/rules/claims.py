"""The claims of a pod, as its successor will find them."""

from dataclasses import dataclass

from msgspec.structs import replace

from rescheduler.model.storage import ClaimRecord, Storage
from rescheduler.model.volumes import CLAIM
from rescheduler.snapshot.snapshot import PodClass

__all__ = ["UsedClaim", "claims_of", "waits_for_its_pod"]


@dataclass(frozen=True, slots=True)
class UsedClaim:
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


def claims_of(pod_class: PodClass, storage: Storage, *, is_placed: bool) -> list[UsedClaim]:
    """Where the pod `is_placed`, another one would come in its stead: with new ephemeral volumes."""
    found = []
    for volume in pod_class.volumes:
        if volume.kind == CLAIM:
            key = f"{pod_class.namespace}/{volume.name}"
            record = storage.claims.get(key)
            if record is not None and volume.ephemeral and is_placed:
                record = _made_anew(record)
            found.append(UsedClaim(volume.name, key, volume.ephemeral, record))
    return found


def waits_for_its_pod(claim: ClaimRecord, storage: Storage) -> bool:
    """Whether its volume is chosen with the pod's node. One that already names a volume waits for that."""
    made_by = storage.classes.get(claim.storage_class)
    return made_by is not None and made_by.waits_for_pod and not claim.volume


def _made_anew(claim: ClaimRecord) -> ClaimRecord:
    return replace(claim, volume="", is_bound=False, phase="Pending", selected_node="", deleted_s=None)
