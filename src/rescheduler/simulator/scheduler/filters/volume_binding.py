"""Claims: bound ones must be reachable from the node, unbound ones must find or be given a volume there."""

from collections.abc import Iterator

from rescheduler.model.quantity import quantity_of
from rescheduler.model.selectors import SelectorError, selector_from_object
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.scheduler.filters.matching_volume import find_volume, is_reachable, storage_size
from rescheduler.simulator.scheduler.nodes import NodeView
from rescheduler.simulator.scheduler.pods import PodView
from rescheduler.simulator.scheduler.refusals import Check, Refusal
from rescheduler.simulator.scheduler.storage import StorageView, claim_class, claims_of, is_bound
from rescheduler.simulator.scheduler.view import ClusterView

__all__ = ["SELECTED_NODE", "planned_volumes", "volume_binding"]

SELECTED_NODE = "volume.kubernetes.io/selected-node"

_NAME = "VolumeBinding"
_UNREACHABLE = "node(s) didn't match PersistentVolume's node affinity"
_NONE_TO_BIND = "node(s) didn't find available persistent volumes to bind"
_TOO_SMALL = "node(s) did not have enough free storage"
_GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_NO_PROVISIONER = frozenset({"", "kubernetes.io/no-provisioner"})


def volume_binding(pod: PodView, cluster: ClusterView) -> Check | Refusal | None:
    storage = cluster.storage
    names = list(claims_of(pod))
    if not names:
        return None
    for name, ephemeral in names:
        if fault := _fault(storage.claim(pod.namespace, name), name, pod, ephemeral=ephemeral):
            return Refusal(_NAME, (fault,))
    claims = [storage.claims[f"{pod.namespace}/{name}"] for name, _ in names]
    bound = [claim for claim in claims if is_bound(claim)]
    unbound = [claim for claim in claims if not is_bound(claim)]
    if not all(_waits_for_its_pod(claim, storage) for claim in unbound):
        return Refusal(_NAME, ("pod has unbound immediate PersistentVolumeClaims",))

    def check(node: NodeView) -> Refusal | None:
        trouble = {*_bound_trouble(bound, node, storage), *_unbound_trouble(unbound, node, storage)}
        reasons = tuple(text for text in (_UNREACHABLE, _NONE_TO_BIND, _TOO_SMALL, _GONE) if text in trouble)
        return Refusal(_NAME, reasons) if reasons else None

    return check


def planned_volumes(
    pod: PodView, node: NodeView, storage: StorageView
) -> tuple[list[tuple[Object, Object]], list[Object]]:
    """For a node that was chosen: claims with the volumes they will get, and claims to make volumes for."""
    claims = [storage.claims[f"{pod.namespace}/{name}"] for name, _ in claims_of(pod)]
    return _planned([claim for claim in claims if not is_bound(claim)], node, storage)


def _fault(claim: Object | None, name: str, pod: PodView, *, ephemeral: bool) -> str:
    if claim is None:
        if ephemeral:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        return f'persistentvolumeclaim "{name}" not found'
    if (claim.get("status") or {}).get("phase") == "Lost":
        volume = claim["spec"].get("volumeName") or ""
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
    if "deletionTimestamp" in claim["metadata"]:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if ephemeral and not pod.is_owned_by_it(claim):
        return f"PVC {pod.namespace}/{name} was not created for pod {pod.key} (pod is not owner)"
    return ""


def _waits_for_its_pod(claim: Object, storage: StorageView) -> bool:
    """A claim that names a volume already should have been bound to it by now."""
    made_by = storage.classes.get(claim_class(claim))
    waits = made_by is not None and made_by.get("volumeBindingMode") == "WaitForFirstConsumer"
    return waits and not claim["spec"].get("volumeName")


def _bound_trouble(claims: list[Object], node: NodeView, storage: StorageView) -> Iterator[str]:
    """Only the first trouble is told."""
    for claim in claims:
        volume = storage.volumes.get(claim["spec"]["volumeName"])
        if volume is None:
            yield _GONE
            return
        if not is_reachable(volume, node):
            yield _UNREACHABLE
            return


def _unbound_trouble(claims: list[Object], node: NodeView, storage: StorageView) -> Iterator[str]:
    if any(_selected_node(claim) not in ("", node.name) for claim in claims):
        yield _NONE_TO_BIND
        return
    for claim in _planned(claims, node, storage)[1]:
        made_by = storage.classes[claim_class(claim)]
        if not _can_provision(made_by, node):
            yield _NONE_TO_BIND
            return
        if not _has_capacity(claim, made_by, node, storage):
            yield _TOO_SMALL
            return


def _planned(
    claims: list[Object], node: NodeView, storage: StorageView
) -> tuple[list[tuple[Object, Object]], list[Object]]:
    to_make = [claim for claim in claims if _selected_node(claim)]
    matched: list[tuple[Object, Object]] = []
    taken: set[str] = set()
    for claim in sorted((claim for claim in claims if not _selected_node(claim)), key=storage_size):
        volume = find_volume(claim, node, storage.volumes.values(), taken)
        if volume is None:
            to_make.append(claim)
        else:
            taken.add(volume["metadata"]["name"])
            matched.append((claim, volume))
    return matched, to_make


def _selected_node(claim: Object) -> str:
    annotations = claim["metadata"].get("annotations") or {}
    selected: str = annotations.get(SELECTED_NODE, "")
    return selected


def _can_provision(made_by: Object, node: NodeView) -> bool:
    if (made_by.get("provisioner") or "") in _NO_PROVISIONER:
        return False
    topologies = made_by.get("allowedTopologies") or ()
    return not topologies or any(
        bool(expressions := term.get("matchLabelExpressions") or ())
        and all(node.labels.get(asked["key"]) in asked["values"] for asked in expressions)
        for term in topologies
    )


def _has_capacity(claim: Object, made_by: Object, node: NodeView, storage: StorageView) -> bool:
    """Asked only of drivers that publish what they have left."""
    driver = storage.csi_drivers.get(made_by["provisioner"])
    if driver is None or not driver["spec"].get("storageCapacity"):
        return True
    asked = storage_size(claim).whole
    return any(
        capacity.get("storageClassName") == made_by["metadata"]["name"]
        and (largest := capacity.get("maximumVolumeSize", capacity.get("capacity"))) is not None
        and asked <= quantity_of(largest).whole
        and _within_reach(capacity, node)
        for capacity in storage.capacities.values()
    )


def _within_reach(capacity: Object, node: NodeView) -> bool:
    """Capacity that says nothing about nodes is within reach of none."""
    try:
        return selector_from_object(capacity.get("nodeTopology")).matches(node.labels)
    except SelectorError:
        return False
