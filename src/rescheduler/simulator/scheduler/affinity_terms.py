"""One term of an inter-pod affinity: which pods it means, and what "near" is."""

from dataclasses import dataclass

from rescheduler.model.selectors import EVERYTHING, NOTHING, Selector, SelectorError, selector_from_object
from rescheduler.simulator.exchange import Object

__all__ = ["AffinityTerm", "required_terms"]


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """Hashable, so that pods of one workload share what is counted for it."""

    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector

    def includes_namespace(self, namespace: str, labels: dict[str, str]) -> bool:
        return namespace in self.namespaces or self.namespace_selector.matches(labels)


def required_terms(pod: Object, kind: str) -> tuple[AffinityTerm, ...]:
    """`kind` is `podAffinity` or `podAntiAffinity`."""
    affinity = (pod["spec"].get("affinity") or {}).get(kind) or {}
    own = pod["metadata"].get("namespace", "")
    listed = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    return tuple(_term(term, own) for term in listed)


def _term(term: Object, own_namespace: str) -> AffinityTerm:
    """The label keys to match were merged into the selector when the pod was created."""
    named, by_labels = term.get("namespaces") or (), term.get("namespaceSelector")
    return AffinityTerm(
        topology_key=term["topologyKey"],
        namespaces=frozenset(named) if named or by_labels is not None else frozenset({own_namespace}),
        namespace_selector=_readable(by_labels),
        selector=_readable(term.get("labelSelector")),
    )


def _readable(selector: object) -> Selector:
    if selector == {}:
        return EVERYTHING
    try:
        return selector_from_object(selector)
    except SelectorError:  # nothing that was admitted; what can't be read selects nothing
        return NOTHING
