"""Disks for one pod at a time: ReadWriteOncePod claims, and some that are named in the pod itself."""

from collections.abc import Iterator

from rescheduler.simulator.exchange import Object
from rescheduler.simulator.scheduler.nodes import NodeView
from rescheduler.simulator.scheduler.pods import PodView
from rescheduler.simulator.scheduler.refusals import Check, Refusal
from rescheduler.simulator.scheduler.view import ClusterView

__all__ = ["volume_restrictions"]

_NAME = "VolumeRestrictions"
_DISK_TAKEN = Refusal(_NAME, ("node(s) had no available disk",), final=False)
_IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)
_CLAIM_TAKEN = Refusal(_NAME, (_IN_USE,), final=False)
_EXCLUSIVE = ("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd")


def volume_restrictions(pod: PodView, cluster: ClusterView) -> Check | Refusal | None:
    missing = next((name for name in pod.claims if not cluster.storage.claim(pod.namespace, name)), None)
    if missing is not None:
        return Refusal(_NAME, (f'persistentvolumeclaim "{missing}" not found',))
    claim_taken = any(cluster.claim_users[claim] for claim in _for_one_pod(pod, cluster))
    disks = [volume for volume in pod.volumes if any(volume.get(kind) for kind in _EXCLUSIVE)]
    if not claim_taken and not disks:
        return None

    def check(node: NodeView) -> Refusal | None:
        others = [volume for other in node.pods.values() for volume in other.volumes] if disks else []
        if any(_same_disk(disk, volume) for disk in disks for volume in others):
            return _DISK_TAKEN
        return _CLAIM_TAKEN if claim_taken else None

    return check


def _for_one_pod(pod: PodView, cluster: ClusterView) -> Iterator[str]:
    for name in pod.claims:
        claim = cluster.storage.claim(pod.namespace, name)
        if claim is not None and "ReadWriteOncePod" in (claim["spec"].get("accessModes") or ()):
            yield f"{pod.namespace}/{name}"


def _same_disk(mine: Object, other: Object) -> bool:
    """The same disk twice is fine only where both sides just read it; a disk of Amazon's not even then."""
    for kind in _EXCLUSIVE:
        a, b = mine.get(kind), other.get(kind)
        if a and b and _IS_SAME[kind](a, b) and (kind == "awsElasticBlockStore" or not _both_read(a, b)):
            return True
    return False


def _both_read(a: Object, b: Object) -> bool:
    return bool(a.get("readOnly") and b.get("readOnly"))


def _same_image(a: Object, b: Object) -> bool:
    shared = set(a.get("monitors") or ()) & set(b.get("monitors") or ())
    return bool(shared) and all(a.get(name) == b.get(name) for name in ("pool", "image"))


_IS_SAME = {
    "gcePersistentDisk": lambda a, b: a.get("pdName") == b.get("pdName"),
    "awsElasticBlockStore": lambda a, b: a.get("volumeID") == b.get("volumeID"),
    "iscsi": lambda a, b: a.get("iqn") == b.get("iqn"),
    "rbd": _same_image,
}
