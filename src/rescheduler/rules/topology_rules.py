"""PodTopologySpread and InterPodAffinity: the rules that count pods by topology domain.

- PodTopologySpread: with `DoNotSchedule`, no domain may have many more pods than the emptiest.
- InterPodAffinity: affinity and anti-affinity of the pod, and anti-affinity of existing pods against it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from kubevalues import Selector, SelectorError, selector_from_labels
from rescheduler.cluster.pod_constraints import PodAffinityTerm, TopologySpreadConstraint
from rescheduler.cluster.snapshot import NO_ROW, Flags, PodClass
from rescheduler.rules.node_affinity import NodeLabels, TopologyDomains
from rescheduler.rules.pod_class_index import (
    AffinityTerm,
    PodClassIndex,
    UnparsedAffinityTerm,
    parse_selector,
)
from rescheduler.rules.pod_positions import DomainCountRegistry, DomainCounts
from rescheduler.rules.rule_check import AllChecks, NodeRefusal, RuleCheck, SchedulerRule, fits_nowhere
from rescheduler.rules.static_rules import StaticRules

__all__ = [
    "SpreadCheck",
    "inter_pod_affinity",
    "pod_topology_spread",
    "spread_checks",
]

_TOO_UNEVEN: Final = "node(s) didn't match pod topology spread constraints"
_NO_DOMAIN: Final = f"{_TOO_UNEVEN} (missing required label)"


@dataclass(frozen=True, slots=True)
class SpreadCheck:
    """One spread constraint, with the counts of pods by domain."""

    key: str
    domains: TopologyDomains
    domain_counts: DomainCounts
    eligible: int
    """The number of domains to spread over."""
    min_domains: int
    """The number of domains below which the emptiest one counts as empty."""
    self_match: int
    """1 if the pod matches its own constraint, else 0."""
    max_skew: int

    def min_count(self) -> int:
        counts = self.domain_counts.counts
        if self.eligible < self.min_domains or len(counts) < self.eligible:
            return 0
        return min(counts.values())

    def most(self) -> int:
        """Return how many pods a domain may already have if it gets one more."""
        return self.min_count() + self.max_skew - self.self_match

    def fits(self) -> Flags:
        most = self.most()
        if most < 0:
            return np.zeros(self.domains.of.size, np.bool_)
        too_full = [domain for domain, count in self.domain_counts.counts.items() if count > most]
        found: Flags = (self.domains.of != NO_ROW) & ~self.domains.nodes_in(too_full)
        return found

    def fits_after_leaving(self, source: int) -> Flags | None:
        """Return [node]: a pod of the source node can go there without leaving its own domain too empty; None
        if it can go anywhere.

        The scheduler doesn't check that, because it only places new pods. It matters only if the pod leaves
        the emptiest domain.
        """
        counts, domain = self.domain_counts.counts, int(self.domain_counts.domain_of[source])
        min_count = self.min_count()
        is_counted = self.self_match and domain != NO_ROW and self.eligible >= self.min_domains
        if not is_counted or counts.get(domain, 0) > min_count:
            return None
        most = min_count - 1 + self.max_skew
        if max(counts.values()) <= most:
            too_full = [other for other, count in counts.items() if count + 1 > most and other != domain]
            return ~self.domains.nodes_in(too_full)
        found: Flags = self.domains.of == domain
        return found

    def refusal(self, node: int) -> NodeRefusal | None:
        domain = int(self.domains.of[node])
        if domain == NO_ROW:
            return NodeRefusal(
                SchedulerRule.TOPOLOGY_SPREAD, (_NO_DOMAIN,), f"the node has no label {self.key}"
            )
        count, min_count = self.domain_counts.counts.get(domain, 0), self.min_count()
        if count <= self.most():
            return None
        place = f"{self.key}={self.domains.names[domain]}"
        counts = (
            f"{count + self.self_match} pods in {place} with this one, at least {min_count} in every domain"
        )
        detail = f"{counts}, maxSkew is {self.max_skew}"
        return NodeRefusal(SchedulerRule.TOPOLOGY_SPREAD, (_TOO_UNEVEN,), detail)


def pod_topology_spread(
    number: int, index: PodClassIndex, static_rules: StaticRules, count_registry: DomainCountRegistry
) -> RuleCheck | None:
    """Build the check for the pods of the class with that number."""
    try:
        found = spread_checks(number, index, static_rules, count_registry)
    except SelectorError as error:
        refusal = NodeRefusal(SchedulerRule.TOPOLOGY_SPREAD, (f"get constraints from pod: {error}",))
        return fits_nowhere(len(static_rules.node_labels), refusal)
    return AllChecks(found) if found else None


def spread_checks(
    number: int,
    index: PodClassIndex,
    static_rules: StaticRules,
    count_registry: DomainCountRegistry,
    action: str = "DoNotSchedule",
) -> list[SpreadCheck]:
    """Return the constraints that pods of that class must keep; raise `SelectorError`.

    With the action `ScheduleAnyway`, return those that they prefer to keep.
    """
    pod_class = index.classes[number]
    chosen = [each for each in pod_class.constraints.spread if each.when_unsatisfiable == action]
    keys = tuple(constraint.topology_key for constraint in chosen)
    found = []
    for constraint in chosen:
        selector = _selector(constraint, pod_class)
        counted = static_rules.counted_domains(constraint, keys, pod_class)
        # An empty selector matches the pod itself, but no other pod is ever counted by it.
        counted_classes = () if selector.selects_everything else index.selected(pod_class.namespace, selector)
        found.append(
            SpreadCheck(
                key=constraint.topology_key,
                domains=static_rules.node_labels.domains(constraint.topology_key),
                domain_counts=count_registry.of(counted_classes, counted.of, ending=False),
                eligible=counted.number,
                min_domains=constraint.min_domains or 1,
                self_match=int(selector.matches(pod_class.labels)),
                max_skew=constraint.max_skew,
            )
        )
    return found


def _selector(constraint: TopologySpreadConstraint, pod_class: PodClass) -> Selector:
    """Return the selector with `matchLabelKeys`, which a newer API server has already merged in."""
    keys = constraint.match_label_keys
    wanted = {key: pod_class.labels[key] for key in keys if key in pod_class.labels}
    return parse_selector(constraint.label_selector) & selector_from_labels(wanted)


_TOO_FAR: Final = "node(s) didn't match pod affinity rules"
_TOO_NEAR: Final = "node(s) didn't match pod anti-affinity rules"
_EXISTING_ANTI_AFFINITY: Final = "node(s) didn't satisfy existing pods anti-affinity rules"


@dataclass(frozen=True, slots=True)
class _TermCounts:
    """A term, its domains, and the counts of pods by domain."""

    term: AffinityTerm
    domains: TopologyDomains
    domain_counts: DomainCounts

    def has_some(self) -> Flags:
        """Return [node]: its domain has at least one counted pod."""
        return self.domains.nodes_in([*self.domain_counts.counts])

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

    # Count pods that match all terms at once, not those that match one of them.
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
