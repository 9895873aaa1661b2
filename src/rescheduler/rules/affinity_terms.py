"""One term of an affinity between pods: which pods it means, and what "near" is."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from rescheduler.model.constraints import LabelSelector, PodAffinityTerm
from rescheduler.model.selectors import NOTHING, Operator, Requirement, Selector
from rescheduler.snapshot.snapshot import PodClass

__all__ = ["Term", "WrittenTerm", "read_selector"]

_CACHED = 16_384


@dataclass(frozen=True, slots=True)
class Term:
    """Hashable, so that what asks the same is counted once."""

    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector

    def includes(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return namespace in self.namespaces or self.namespace_selector.matches(labels)

    def __str__(self) -> str:
        return str(self.selector) or ("no pod" if self.selector.selects_nothing else "every pod")


class WrittenTerm(NamedTuple):
    """A term as a pod has it, and what it says depends on. Equal ones mean the same."""

    term: PodAffinityTerm
    namespace: str
    labels: tuple[tuple[str, str], ...]
    """Those of the pod's labels that the term asks for by their keys."""

    @classmethod
    def by(cls, pod_class: PodClass, term: PodAffinityTerm) -> "WrittenTerm":
        keys = (*term.match_label_keys, *term.mismatch_label_keys)
        labels = tuple((key, pod_class.labels[key]) for key in keys if key in pod_class.labels)
        return cls(term, pod_class.namespace, labels)

    def read(self) -> Term:
        """Raises `SelectorError`."""
        return _read(self)


@lru_cache(_CACHED)
def _read(written: WrittenTerm) -> Term:
    term = written.term
    named = frozenset(term.namespaces)
    if not named and term.namespace_selector is None:
        named = frozenset({written.namespace})
    return Term(
        topology_key=term.topology_key,
        namespaces=named,
        namespace_selector=read_selector(term.namespace_selector),
        selector=_merged(read_selector(term.label_selector), term, dict(written.labels)),
    )


def read_selector(selector: LabelSelector | None) -> Selector:
    """Without one, nothing is meant. Raises `SelectorError`."""
    return NOTHING if selector is None else selector.selector()


def _merged(selector: Selector, term: PodAffinityTerm, labels: Mapping[str, str]) -> Selector:
    """With the label keys to match or not, as the API server merges them in when it admits a pod.

    A key that the selector already speaks of was merged in then, from the labels that the pod had.
    """
    spoken_of = {requirement.key for requirement in selector.requirements}
    added = [
        Requirement.checked(key, operator, [labels[key]])
        for keys, operator in (
            (term.match_label_keys, Operator.IN),
            (term.mismatch_label_keys, Operator.NOT_IN),
        )
        for key in keys
        if key in labels and key not in spoken_of
    ]
    return selector & Selector.of(added) if added else selector
