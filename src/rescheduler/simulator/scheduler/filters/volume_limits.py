"""How many volumes of a CSI driver a node can have attached, as its CSINode says.

Volumes of drivers that were part of Kubernetes once are not translated to their CSI form: they don't count.
"""

from rescheduler.simulator.exchange import Object
from rescheduler.simulator.scheduler.nodes import NodeView
from rescheduler.simulator.scheduler.pods import PodView
from rescheduler.simulator.scheduler.refusals import Check, Refusal
from rescheduler.simulator.scheduler.storage import StorageView, claim_class, claims_of
from rescheduler.simulator.scheduler.view import ClusterView

__all__ = ["volume_limits"]

_NAME = "NodeVolumeLimits"
_TOO_MANY = Refusal(_NAME, ("node(s) exceed max volume count",), final=False)

_Attached = dict[str, str]
"""A volume's unique name → its driver."""


def volume_limits(pod: PodView, cluster: ClusterView) -> Check | None:
    storage = cluster.storage
    wanted = _volumes_of(pod, storage)
    if not wanted:
        return None

    def check(node: NodeView) -> Refusal | None:
        csi_node = storage.csi_nodes.get(node.name)
        installed = {driver["name"]: driver for driver in _drivers(csi_node)}
        for driver in sorted(set(wanted.values())):
            if driver not in installed and _must_be_installed(driver, storage):
                return Refusal(_NAME, (f"{driver} CSI driver is not installed on the node",), final=False)
        limits = {name: _limit(driver) for name, driver in installed.items()}
        if all(limit is None for limit in limits.values()):
            return None
        return _TOO_MANY if _exceeds(wanted, node, storage, limits) else None

    return check


def _exceeds(wanted: _Attached, node: NodeView, storage: StorageView, limits: dict[str, int | None]) -> bool:
    used: _Attached = {}
    for pod in node.pods.values():
        used |= _volumes_of(pod, storage)
    # A volume that another pod uses here is no new one. One that is still attached without a pod counts
    # twice, as in the real scheduler: once as attached, once as new.
    new = [driver for volume, driver in wanted.items() if volume not in used]
    there = list((_attachments_to(node, storage) | used).values())
    return any(
        (limit := limits.get(driver)) is not None and there.count(driver) + new.count(driver) > limit
        for driver in set(new)
    )


def _attachments_to(node: NodeView, storage: StorageView) -> _Attached:
    """They come before their pods and outlive them."""
    attached: _Attached = {}
    for attachment in storage.attachments.values():
        spec = attachment["spec"]
        volume = storage.volumes.get((spec.get("source") or {}).get("persistentVolumeName") or "")
        if spec.get("nodeName") == node.name and volume is not None and volume["spec"].get("csi"):
            driver = spec["attacher"]
            attached[f"{driver}/{volume['spec']['csi']['volumeHandle']}"] = driver
    return attached


def _volumes_of(pod: PodView, storage: StorageView) -> _Attached:
    found: _Attached = {}
    for name, _ in claims_of(pod):
        claim = storage.claim(pod.namespace, name)
        if claim is not None and (driven := _driver_of(claim, storage)) is not None:
            driver, handle = driven
            found[f"{driver}/{handle}"] = driver
    return found


def _driver_of(claim: Object, storage: StorageView) -> tuple[str, str] | None:
    """Driver and handle; a claim without volume counts as one that its class will make."""
    volume = storage.volumes.get(claim["spec"].get("volumeName") or "")
    if volume is not None:
        csi = volume["spec"].get("csi")
        return (csi["driver"], csi["volumeHandle"]) if csi else None
    made_by = storage.classes.get(claim_class(claim))
    if made_by is None:
        return None
    metadata = claim["metadata"]
    return made_by["provisioner"], f"to be made for {metadata.get('namespace')}/{metadata['name']}"


def _must_be_installed(driver: str, storage: StorageView) -> bool:
    known = storage.csi_drivers.get(driver)
    return known is not None and bool(known["spec"].get("preventPodSchedulingIfMissing"))


def _drivers(csi_node: Object | None) -> list[Object]:
    return ((csi_node or {}).get("spec") or {}).get("drivers") or []


def _limit(driver: Object) -> int | None:
    count: int | None = (driver.get("allocatable") or {}).get("count")
    return count
