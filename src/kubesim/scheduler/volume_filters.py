"""The filters NodeVolumeLimits, VolumeRestrictions and VolumeZone.

In-tree volumes are not translated to CSI and don't count towards the limits.
"""

from collections.abc import Iterator

from kubesim.apiserver.api_messages import Object
from kubesim.scheduler.fit_errors import Check, FilterRejection
from kubesim.scheduler.node_info import NodeInfo, PodInfo, StorageInfo, claim_class, claims_of
from kubesim.scheduler.scheduler_cache import SchedulerCache

__all__ = ["volume_limits", "volume_restrictions", "volume_zone"]

_VOLUME_LIMITS = "NodeVolumeLimits"
_TOO_MANY = FilterRejection(_VOLUME_LIMITS, ("node(s) exceed max volume count",), final=False)

_Attached = dict[str, str]
"""The driver of each volume, by the volume's unique name."""


def volume_limits(pod: PodInfo, cluster: SchedulerCache) -> Check | None:
    storage = cluster.storage
    wanted = _volumes_of(pod, storage)
    if not wanted:
        return None

    def check(node: NodeInfo) -> FilterRejection | None:
        csi_node = storage.csi_nodes.get(node.name)
        installed = {driver["name"]: driver for driver in _drivers(csi_node)}
        for driver in sorted(set(wanted.values())):
            if driver not in installed and _must_be_installed(driver, storage):
                return FilterRejection(
                    _VOLUME_LIMITS, (f"{driver} CSI driver is not installed on the node",), final=False
                )
        limits = {name: _limit(driver) for name, driver in installed.items()}
        if all(limit is None for limit in limits.values()):
            return None
        return _TOO_MANY if _exceeds(wanted, node, storage, limits) else None

    return check


def _exceeds(wanted: _Attached, node: NodeInfo, storage: StorageInfo, limits: dict[str, int | None]) -> bool:
    used: _Attached = {}
    for pod in node.pods.values():
        used |= _volumes_of(pod, storage)
    # A volume that another pod uses here is not new. One that is still attached without a pod counts
    # twice, as in the real scheduler: once as attached, once as new.
    new = [driver for volume, driver in wanted.items() if volume not in used]
    there = list((_attachments_to(node, storage) | used).values())
    return any(
        (limit := limits.get(driver)) is not None and there.count(driver) + new.count(driver) > limit
        for driver in set(new)
    )


def _attachments_to(node: NodeInfo, storage: StorageInfo) -> _Attached:
    """Return the VolumeAttachments of a node, which may exist without pods."""
    attached: _Attached = {}
    for attachment in storage.attachments.values():
        spec = attachment["spec"]
        volume = storage.volumes.get((spec.get("source") or {}).get("persistentVolumeName") or "")
        if spec.get("nodeName") == node.name and volume is not None and volume["spec"].get("csi"):
            driver = spec["attacher"]
            attached[f"{driver}/{volume['spec']['csi']['volumeHandle']}"] = driver
    return attached


def _volumes_of(pod: PodInfo, storage: StorageInfo) -> _Attached:
    found: _Attached = {}
    for name, _ in claims_of(pod):
        claim = storage.claim(pod.namespace, name)
        if claim is not None and (driven := _driver_of(claim, storage)) is not None:
            driver, handle = driven
            found[f"{driver}/{handle}"] = driver
    return found


def _driver_of(claim: Object, storage: StorageInfo) -> tuple[str, str] | None:
    """Return driver and handle; a claim without a volume counts as the volume that its class will
    provision.
    """
    volume = storage.volumes.get(claim["spec"].get("volumeName") or "")
    if volume is not None:
        csi = volume["spec"].get("csi")
        return (csi["driver"], csi["volumeHandle"]) if csi else None
    made_by = storage.classes.get(claim_class(claim))
    if made_by is None:
        return None
    metadata = claim["metadata"]
    return made_by["provisioner"], f"to be provisioned for {metadata.get('namespace')}/{metadata['name']}"


def _must_be_installed(driver: str, storage: StorageInfo) -> bool:
    known = storage.csi_drivers.get(driver)
    return known is not None and bool(known["spec"].get("preventPodSchedulingIfMissing"))


def _drivers(csi_node: Object | None) -> list[Object]:
    return ((csi_node or {}).get("spec") or {}).get("drivers") or []


def _limit(driver: Object) -> int | None:
    count: int | None = (driver.get("allocatable") or {}).get("count")
    return count


_VOLUME_RESTRICTIONS = "VolumeRestrictions"
_DISK_TAKEN = FilterRejection(_VOLUME_RESTRICTIONS, ("node(s) had no available disk",), final=False)
_IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)
_CLAIM_TAKEN = FilterRejection(_VOLUME_RESTRICTIONS, (_IN_USE,), final=False)
_EXCLUSIVE = ("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd")


def volume_restrictions(pod: PodInfo, cluster: SchedulerCache) -> Check | FilterRejection | None:
    missing = next((name for name in pod.claims if not cluster.storage.claim(pod.namespace, name)), None)
    if missing is not None:
        return FilterRejection(_VOLUME_RESTRICTIONS, (f'persistentvolumeclaim "{missing}" not found',))
    claim_taken = any(cluster.claim_users[claim] for claim in _for_one_pod(pod, cluster))
    disks = [volume for volume in pod.volumes if any(volume.get(kind) for kind in _EXCLUSIVE)]
    if not claim_taken and not disks:
        return None

    def check(node: NodeInfo) -> FilterRejection | None:
        others = [volume for other in node.pods.values() for volume in other.volumes] if disks else []
        if any(_same_disk(disk, volume) for disk in disks for volume in others):
            return _DISK_TAKEN
        return _CLAIM_TAKEN if claim_taken else None

    return check


def _for_one_pod(pod: PodInfo, cluster: SchedulerCache) -> Iterator[str]:
    for name in pod.claims:
        claim = cluster.storage.claim(pod.namespace, name)
        if claim is not None and "ReadWriteOncePod" in (claim["spec"].get("accessModes") or ()):
            yield f"{pod.namespace}/{name}"


def _same_disk(mine: Object, other: Object) -> bool:
    """Return whether two volumes conflict: one disk may be shared read-only, except on Amazon EBS."""
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

_VOLUME_ZONE = "VolumeZone"
_REFUSED = FilterRejection(_VOLUME_ZONE, ("node(s) had no available volume zone",))
_SUCCESSORS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_LABELS = (*_SUCCESSORS, *_SUCCESSORS.values())
_BETWEEN_ZONES = "__"


def volume_zone(pod: PodInfo, cluster: SchedulerCache) -> Check | FilterRejection | None:
    wanted: list[tuple[str, frozenset[str]]] = []
    for name in pod.claims:
        claim = cluster.storage.claim(pod.namespace, name)
        volume_name = claim["spec"].get("volumeName") if claim is not None else None
        if not volume_name:  # not bound: the filter VolumeBinding decides
            continue
        volume = cluster.storage.volumes.get(volume_name)
        if volume is None:
            return FilterRejection(_VOLUME_ZONE, (f'persistentvolume "{volume_name}" not found',))
        wanted += _zones(volume)
    if not wanted:
        return None

    def check(node: NodeInfo) -> FilterRejection | None:
        if not any(label in node.labels for label in _LABELS):
            return None  # a cluster without zones
        return None if all(_at(node, label) in zones for label, zones in wanted) else _REFUSED

    return check


def _zones(volume: Object) -> list[tuple[str, frozenset[str]]]:
    labels = volume["metadata"].get("labels") or {}
    found = []
    for label in _LABELS:
        zones = [zone.strip() for zone in labels.get(label, "").split(_BETWEEN_ZONES)]
        if all(zones):  # ignore a label with an empty zone
            found.append((label, frozenset(zones)))
    return found


def _at(node: NodeInfo, label: str) -> str | None:
    return node.labels.get(label, node.labels.get(_SUCCESSORS.get(label, label)))
