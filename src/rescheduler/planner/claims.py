"""What a pod's volumes mean for moving it."""

from collections.abc import Iterator

from rescheduler.model.storage import ClaimRecord, Storage, VolumeRecord
from rescheduler.model.volumes import CLAIM, EMPTY_DIR, HOST_PATH, Volume
from rescheduler.snapshot.snapshot import PodClass

__all__ = ["exclusive_claim", "exclusive_claims", "local_data", "unknown_claim"]

_ONE_NODE = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})


def exclusive_claim(shared: PodClass, storage: Storage) -> str:
    """A claim that outlives the pod and can be used on one node only: a copy elsewhere could not start."""
    return next(exclusive_claims(shared, storage), "")


def exclusive_claims(shared: PodClass, storage: Storage) -> Iterator[str]:
    for volume, claim in _claims(shared, storage):
        if claim is not None and not volume.ephemeral and _ONE_NODE.issuperset(claim.access_modes):
            yield claim.key


def unknown_claim(shared: PodClass, storage: Storage) -> str:
    """A claim that is not there, or is bound to a volume that is not: nobody can say where it can be used."""
    for volume, claim in _claims(shared, storage):
        if claim is None or (claim.volume and claim.volume not in storage.volumes):
            return f"{shared.namespace}/{volume.name}"
    return ""


def local_data(shared: PodClass, storage: Storage, *, replaceable: bool) -> str:
    """What it keeps on its node, in words. A pod that is `replaceable` keeps nothing in an emptyDir."""
    for volume in shared.volumes:
        if volume.kind == HOST_PATH:
            return f"hostPath {volume.name}"
        if volume.kind == EMPTY_DIR and not replaceable:
            return "an emptyDir"
    for _, claim in _claims(shared, storage):
        behind = _behind(claim, storage)
        if claim is not None and behind is not None and behind.is_local:
            return f"the local volume {behind.name} of claim {claim.key}"
    return ""


def _claims(shared: PodClass, storage: Storage) -> Iterator[tuple[Volume, ClaimRecord | None]]:
    for volume in shared.volumes:
        if volume.kind == CLAIM:
            yield volume, storage.claims.get(f"{shared.namespace}/{volume.name}")


def _behind(claim: ClaimRecord | None, storage: Storage) -> VolumeRecord | None:
    return storage.volumes.get(claim.volume) if claim is not None else None
