"""Node selector and required node affinity: every label of the first, any term of the second."""

from collections.abc import Iterable, Mapping

from rescheduler.model.selectors import Selector, SelectorError, node_requirements_from_object
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.scheduler.nodes import NodeView
from rescheduler.simulator.scheduler.pods import PodView
from rescheduler.simulator.scheduler.refusals import Check, Refusal
from rescheduler.simulator.scheduler.view import ClusterView

__all__ = ["WantedNodes", "matches_any_term", "matches_term", "node_affinity"]

_NAME = "NodeAffinity"
_REFUSED = Refusal(_NAME, ("node(s) didn't match Pod's node affinity/selector",))
_NOT_NAMED = Refusal(_NAME, ("node(s) didn't satisfy plugin(s) [NodeAffinity]",))
_CONTRADICTION = Refusal(_NAME, ("pod affinity terms conflict",))


def node_affinity(pod: PodView, _: ClusterView) -> Check | Refusal | None:
    wanted = WantedNodes(pod)
    if wanted.everywhere:
        return None
    named = _named_nodes(wanted.terms) if wanted.terms else None
    if named is not None and not named:
        return _CONTRADICTION

    def check(node: NodeView) -> Refusal | None:
        if named is not None and node.name not in named:
            return _NOT_NAMED
        return None if wanted.include(node) else _REFUSED

    return check


class WantedNodes:
    """What one pod says about nodes."""

    def __init__(self, pod: PodView) -> None:
        self._labels: Mapping[str, str] = pod.spec.get("nodeSelector") or {}
        affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
        self.terms: tuple[Object, ...] | None = None
        if required is not None:
            self.terms = tuple(required.get("nodeSelectorTerms") or ())
        self._read = None if self.terms is None else tuple(map(_Term, self.terms))

    @property
    def everywhere(self) -> bool:
        return not self._labels and self._read is None

    def include(self, node: NodeView) -> bool:
        for key, value in self._labels.items():
            if node.labels.get(key) != value:
                return False
        if self._read is None:
            return True
        return any(term.matches(node.labels, node.name) for term in self._read)


def matches_term(term: Object, node: NodeView) -> bool:
    return _Term(term).matches(node.labels, node.name)


def matches_any_term(terms: Iterable[Object], labels: Mapping[str, str]) -> bool:
    """As volumes ask it, who don't know the node's name: conditions on it are taken as met."""
    return any(_Term(term).matches(labels, None) for term in terms)


class _Term:
    """A term without conditions, or with one that can't be read, matches no node."""

    def __init__(self, term: Object) -> None:
        self._fields: list[Object] = term.get("matchFields") or []
        expressions = term.get("matchExpressions")
        self._labels: Selector | None = None
        self._never = not expressions and not self._fields
        if expressions:
            try:
                self._labels = node_requirements_from_object(expressions)
            except SelectorError:
                self._never = True
        self._never |= any(len(field.get("values") or ()) != 1 for field in self._fields)

    def matches(self, labels: Mapping[str, str], name: str | None) -> bool:
        if self._never or (self._labels is not None and not self._labels.matches(labels)):
            return False
        return name is None or all(_field_matches(field, name) for field in self._fields)


def _field_matches(field: Object, name: str) -> bool:
    """The one field there is to ask for is `metadata.name`."""
    named = name if field["key"] == "metadata.name" else ""
    return bool((named == field["values"][0]) is (field["operator"] == "In"))


def _named_nodes(terms: Iterable[Object]) -> frozenset[str] | None:
    """The only nodes that the terms allow by name, or None if some term names none."""
    allowed: frozenset[str] = frozenset()
    for term in terms:
        named = [
            frozenset(field.get("values") or ())
            for field in term.get("matchFields") or ()
            if field["key"] == "metadata.name" and field["operator"] == "In"
        ]
        if not named:
            return None
        allowed |= frozenset.intersection(*named)
    return allowed
