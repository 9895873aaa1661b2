"""The filter VolumeBinding: bound claims must be reachable from the node, others need a volume there."""

from collections.abc import Iterable, Iterator, Set

from kubesim.apiserver.api_messages import Object
from kubesim.scheduler.fit_errors import Check, FilterRejection
from kubesim.scheduler.node_filters import matches_any_term
from kubesim.scheduler.node_info import (
    NodeInfo,
    PodInfo,
    StorageInfo,
    claim_class,
    claims_of,
    is_bound,
    volume_class,
)
from kubesim.scheduler.scheduler_cache import SchedulerCache
from kubevalues import EVERYTHING, NOTHING, Selector, SelectorError, selector_from_object
from kubevalues.quantity import Quantity, quantity_of

__all__ = [
    "SELECTED_NODE",
    "find_volume",
    "is_reachable",
    "planned_volumes",
    "storage_size",
    "volume_binding",
]

_NONE = Quantity(0)


def find_volume(claim: Object, node: NodeInfo, volumes: Iterable[Object], taken: Set[str]) -> Object | None:
    """Return the volume for a claim; `taken` are those of other claims of the same pod."""
    wanted = _selector(claim)
    smallest: tuple[Quantity, str, Object] | None = None
    for volume in volumes:
        if volume["metadata"]["name"] in taken or not _could_be(volume, claim):
            continue
        if volume["spec"].get("claimRef"):
            return volume if is_reachable(volume, node) else None
        if not wanted.matches(volume["metadata"].get("labels") or {}) or not _is_free_for(volume, claim):
            continue
        candidate = (_capacity(volume), volume["metadata"]["name"], volume)
        if is_reachable(volume, node) and (smallest is None or candidate[:2] < smallest[:2]):
            smallest = candidate
    return smallest[2] if smallest else None


def is_reachable(volume: Object, node: NodeInfo) -> bool:
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    return required is None or matches_any_term(required.get("nodeSelectorTerms") or (), node.labels)


def storage_size(claim: Object) -> Quantity:
    asked = (claim["spec"].get("resources") or {}).get("requests") or {}
    return quantity_of(asked["storage"]) if "storage" in asked else _NONE


def _could_be(volume: Object, claim: Object) -> bool:
    """Return whether the volume has the right class, size and mode, and is not reserved for another claim."""
    spec = volume["spec"]
    return (
        volume_class(volume) == claim_class(claim)
        and (not spec.get("claimRef") or _is_meant_for(spec["claimRef"], claim))
        and _capacity(volume) >= storage_size(claim)
        and (spec.get("volumeMode") or "Filesystem") == (claim["spec"].get("volumeMode") or "Filesystem")
        and (spec.get("volumeAttributesClassName") or "")
        == (claim["spec"].get("volumeAttributesClassName") or "")
        and "deletionTimestamp" not in volume["metadata"]
    )


def _is_free_for(volume: Object, claim: Object) -> bool:
    modes = set(volume["spec"].get("accessModes") or ())
    return (volume.get("status") or {}).get("phase") == "Available" and modes.issuperset(
        claim["spec"].get("accessModes") or ()
    )


def _is_meant_for(reference: Object, claim: Object) -> bool:
    metadata = claim["metadata"]
    if (reference.get("namespace"), reference.get("name")) != (metadata.get("namespace"), metadata["name"]):
        return False
    return reference.get("uid") in (None, "", metadata.get("uid"))


def _capacity(volume: Object) -> Quantity:
    return quantity_of((volume["spec"].get("capacity") or {}).get("storage", 0))


def _selector(claim: Object) -> Selector:
    selector = claim["spec"].get("selector")
    if selector is None:
        return EVERYTHING
    try:
        return selector_from_object(selector)
    except SelectorError:  # admission rejects it; an invalid selector selects nothing
        return NOTHING


SELECTED_NODE = "volume.kubernetes.io/selected-node"

_NAME = "VolumeBinding"
_UNREACHABLE = "node(s) didn't match PersistentVolume's node affinity"
_NONE_TO_BIND = "node(s) didn't find available persistent volumes to bind"
_TOO_SMALL = "node(s) did not have enough free storage"
_GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_NO_PROVISIONER = frozenset({"", "kubernetes.io/no-provisioner"})


def volume_binding(pod: PodInfo, cluster: SchedulerCache) -> Check | FilterRejection | None:
    storage = cluster.storage
    names = list(claims_of(pod))
    if not names:
        return None
    for name, ephemeral in names:
        if fault := _fault(storage.claim(pod.namespace, name), name, pod, ephemeral=ephemeral):
            return FilterRejection(_NAME, (fault,))
    claims = [storage.claims[f"{pod.namespace}/{name}"] for name, _ in names]
    bound = [claim for claim in claims if is_bound(claim)]
    unbound = [claim for claim in claims if not is_bound(claim)]
    if not all(_waits_for_its_pod(claim, storage) for claim in unbound):
        return FilterRejection(_NAME, ("pod has unbound immediate PersistentVolumeClaims",))

    def check(node: NodeInfo) -> FilterRejection | None:
        problems = {*_bound_problems(bound, node, storage), *_unbound_problems(unbound, node, storage)}
        reasons = tuple(text for text in (_UNREACHABLE, _NONE_TO_BIND, _TOO_SMALL, _GONE) if text in problems)
        return FilterRejection(_NAME, reasons) if reasons else None

    return check


def planned_volumes(
    pod: PodInfo, node: NodeInfo, storage: StorageInfo
) -> tuple[list[tuple[Object, Object]], list[Object]]:
    """Return the claims with their volumes on the chosen node, and the claims to provision."""
    claims = [storage.claims[f"{pod.namespace}/{name}"] for name, _ in claims_of(pod)]
    return _planned([claim for claim in claims if not is_bound(claim)], node, storage)


def _fault(claim: Object | None, name: str, pod: PodInfo, *, ephemeral: bool) -> str:
    if claim is None:
        if ephemeral:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        return f'persistentvolumeclaim "{name}" not found'
    if (claim.get("status") or {}).get("phase") == "Lost":
        volume = claim["spec"].get("volumeName") or ""
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
    if "deletionTimestamp" in claim["metadata"]:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if ephemeral and not pod.controls(claim):
        return f"PVC {pod.namespace}/{name} was not created for pod {pod.key} (pod is not owner)"
    return ""


def _waits_for_its_pod(claim: Object, storage: StorageInfo) -> bool:
    """Return whether a claim waits for its first consumer; one that names a volume should be bound by now."""
    made_by = storage.classes.get(claim_class(claim))
    waits = made_by is not None and made_by.get("volumeBindingMode") == "WaitForFirstConsumer"
    return waits and not claim["spec"].get("volumeName")


def _bound_problems(claims: list[Object], node: NodeInfo, storage: StorageInfo) -> Iterator[str]:
    """Yield the first problem of the bound claims, if there is one."""
    for claim in claims:
        volume = storage.volumes.get(claim["spec"]["volumeName"])
        if volume is None:
            yield _GONE
            return
        if not is_reachable(volume, node):
            yield _UNREACHABLE
            return


def _unbound_problems(claims: list[Object], node: NodeInfo, storage: StorageInfo) -> Iterator[str]:
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
    claims: list[Object], node: NodeInfo, storage: StorageInfo
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


def _can_provision(made_by: Object, node: NodeInfo) -> bool:
    if (made_by.get("provisioner") or "") in _NO_PROVISIONER:
        return False
    topologies = made_by.get("allowedTopologies") or ()
    return not topologies or any(
        bool(expressions := term.get("matchLabelExpressions") or ())
        and all(node.labels.get(asked["key"]) in asked["values"] for asked in expressions)
        for term in topologies
    )


def _has_capacity(claim: Object, made_by: Object, node: NodeInfo, storage: StorageInfo) -> bool:
    """Check the free capacity of drivers that publish it."""
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


def _within_reach(capacity: Object, node: NodeInfo) -> bool:
    """Return whether a capacity applies to the node; without a topology, it applies to none."""
    try:
        return selector_from_object(capacity.get("nodeTopology")).matches(node.labels)
    except SelectorError:
        return False
