"""Volumes that carry zone or region labels go with nodes that carry the same."""

from rescheduler.simulator.exchange import Object
from rescheduler.simulator.scheduler.nodes import NodeView
from rescheduler.simulator.scheduler.pods import PodView
from rescheduler.simulator.scheduler.refusals import Check, Refusal
from rescheduler.simulator.scheduler.view import ClusterView

__all__ = ["volume_zone"]

_NAME = "VolumeZone"
_REFUSED = Refusal(_NAME, ("node(s) had no available volume zone",))
_SUCCESSORS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_LABELS = (*_SUCCESSORS, *_SUCCESSORS.values())
_BETWEEN_ZONES = "__"


def volume_zone(pod: PodView, cluster: ClusterView) -> Check | Refusal | None:
    wanted: list[tuple[str, frozenset[str]]] = []
    for name in pod.claims:
        claim = cluster.storage.claim(pod.namespace, name)
        volume_name = claim["spec"].get("volumeName") if claim is not None else None
        if not volume_name:  # not bound: whether it can be is for volume binding to say
            continue
        volume = cluster.storage.volumes.get(volume_name)
        if volume is None:
            return Refusal(_NAME, (f'persistentvolume "{volume_name}" not found',))
        wanted += _zones(volume)
    if not wanted:
        return None

    def check(node: NodeView) -> Refusal | None:
        if not any(label in node.labels for label in _LABELS):
            return None  # a cluster without zones
        return None if all(_at(node, label) in zones for label, zones in wanted) else _REFUSED

    return check


def _zones(volume: Object) -> list[tuple[str, frozenset[str]]]:
    labels = volume["metadata"].get("labels") or {}
    found = []
    for label in _LABELS:
        zones = [zone.strip() for zone in labels.get(label, "").split(_BETWEEN_ZONES)]
        if all(zones):  # a label with an empty zone in it can't be read, so it says nothing
            found.append((label, frozenset(zones)))
    return found


def _at(node: NodeView, label: str) -> str | None:
    return node.labels.get(label, node.labels.get(_SUCCESSORS.get(label, label)))
