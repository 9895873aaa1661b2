"""Affinity and anti-affinity between pods, in both directions: pods that are there have a say as well."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from kubevalues import SelectorError
from rescheduler.cluster.pod_constraints import PodAffinityTerm
from rescheduler.cluster.snapshot import NO_ROW, Flags, PodClass
from rescheduler.rules.node_affinity import NodeLabels, TopologyDomains
from rescheduler.rules.pod_class_index import AffinityTerm, PodClassIndex, UnparsedAffinityTerm
from rescheduler.rules.pod_positions import DomainCountRegistry, DomainCounts
from rescheduler.rules.rule_check import NodeRefusal, RuleCheck, SchedulerRule, fits_nowhere

__all__ = ["inter_pod_affinity"]


_TOO_FAR: Final = "node(s) didn't match pod affinity rules"
_TOO_NEAR: Final = "node(s) didn't match pod anti-affinity rules"
_EXISTING_ANTI_AFFINITY: Final = "node(s) didn't satisfy existing pods anti-affinity rules"


@dataclass(frozen=True, slots=True)
class _TermCounts:
    """A term, the domains that it speaks of, and how many pods in each of them count."""

    term: AffinityTerm
    domains: TopologyDomains
    domain_counts: DomainCounts

    def has_some(self) -> Flags:
        """Return [node]: whether there are any in its domain."""
        return self.domains.spread([*self.domain_counts.counts])

    def shown(self, node: int) -> str:
        domain = self.domains.of[node]
        value = self.domains.names[domain] if domain != NO_ROW else "(label missing)"
        return f"{self.domain_counts.at(node)} pods in {self.term.topology_key}={value}"


def inter_pod_affinity(
    number: int, index: PodClassIndex, node_labels: NodeLabels, count_registry: DomainCountRegistry
) -> RuleCheck | None:
    """Build the check for the pods of the class with that number."""
    pod_class = index.classes[number]
    try:
        near = _parsed_terms(pod_class, pod_class.affinity.pod_affinity.required)
        apart = _parsed_terms(pod_class, pod_class.affinity.pod_anti_affinity.required)
    except SelectorError as error:
        return fits_nowhere(
            len(node_labels), NodeRefusal(SchedulerRule.POD_AFFINITY, (f"parsing pod: {error}",))
        )
    existing_anti_affinity = index.against(number)
    if not near and not apart and not existing_anti_affinity:
        return None

    def place(term: AffinityTerm, classes: Iterable[int]) -> _TermCounts:
        domains = node_labels.domains(term.topology_key)
        return _TermCounts(term, domains, count_registry.of(classes, domains.of))

    # One pod that matches all terms at once is looked for, not one for each.
    matching_classes = set.intersection(*(set(index.matching(term)) for term in near)) if near else set()
    return _PodAffinity(
        near=tuple(place(term, matching_classes) for term in near),
        matches_itself=number in matching_classes,
        apart=tuple(place(term, index.matching(term)) for term in apart),
        existing_anti_affinity=tuple(
            place(term, holders) for term, holders in existing_anti_affinity.items()
        ),
        nodes=len(node_labels),
    )


def _parsed_terms(pod_class: PodClass, terms: Iterable[PodAffinityTerm]) -> list[AffinityTerm]:
    return [UnparsedAffinityTerm.by(pod_class, term).read() for term in terms]


@dataclass(frozen=True, slots=True)
class _PodAffinity:
    near: tuple[_TermCounts, ...]
    """Pods to be together with: the same for every term, in the domains of each."""
    matches_itself: bool
    apart: tuple[_TermCounts, ...]
    """Pods to be away from."""
    existing_anti_affinity: tuple[_TermCounts, ...]
    """Pods that want to be away from this one."""
    nodes: int

    def fits(self) -> Flags:
        found = np.ones(self.nodes, np.bool_)
        is_first = self._is_first()
        for place in self.near:
            found &= place.domains.of != NO_ROW if is_first else place.has_some()
        for place in (*self.apart, *self.existing_anti_affinity):
            if place.domain_counts.counts:
                found &= ~place.has_some()
        return found

    def refusal(self, node: int) -> NodeRefusal | None:
        is_first = self._is_first()
        for place in self.near:
            if place.domains.of[node] == NO_ROW or (not is_first and not place.domain_counts.at(node)):
                return _refusal(_TOO_FAR, f"requires affinity to {place.term}", place, node)
        for place in self.apart:
            if place.domain_counts.at(node):
                return _refusal(_TOO_NEAR, f"requires anti-affinity to {place.term}", place, node)
        for place in self.existing_anti_affinity:
            if place.domain_counts.at(node):
                return _refusal(
                    _EXISTING_ANTI_AFFINITY,
                    f"existing pods require anti-affinity to {place.term}",
                    place,
                    node,
                )
        return None

    def _is_first(self) -> bool:
        """Return whether the pod may be the first of its group: no pod that it must be near to exists."""
        return self.matches_itself and not any(place.domain_counts.counts for place in self.near)


def _refusal(reason: str, requirement: str, place: _TermCounts, node: int) -> NodeRefusal:
    return NodeRefusal(SchedulerRule.POD_AFFINITY, (reason,), f"{requirement}: {place.shown(node)}")
