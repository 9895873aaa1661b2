"""Which of the volumes that are there a claim would get: the one meant for it, else the smallest."""

from collections.abc import Iterable, Set

from rescheduler.model.quantity import Quantity, quantity_of
from rescheduler.model.selectors import EVERYTHING, NOTHING, Selector, SelectorError, selector_from_object
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.scheduler.filters.node_affinity import matches_any_term
from rescheduler.simulator.scheduler.nodes import NodeView
from rescheduler.simulator.scheduler.storage import claim_class, volume_class

__all__ = ["find_volume", "is_reachable", "storage_size"]

_NONE = Quantity(0)


def find_volume(claim: Object, node: NodeView, volumes: Iterable[Object], taken: Set[str]) -> Object | None:
    """`taken` are volumes that other claims of the same pod will get."""
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


def is_reachable(volume: Object, node: NodeView) -> bool:
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    return required is None or matches_any_term(required.get("nodeSelectorTerms") or (), node.labels)


def storage_size(claim: Object) -> Quantity:
    asked = (claim["spec"].get("resources") or {}).get("requests") or {}
    return quantity_of(asked["storage"]) if "storage" in asked else _NONE


def _could_be(volume: Object, claim: Object) -> bool:
    """Of the right class, size and mode, and not meant for another claim."""
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
    except SelectorError:  # nothing that was admitted; what can't be read selects nothing
        return NOTHING
