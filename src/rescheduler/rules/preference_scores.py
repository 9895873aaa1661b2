"""Compute the scores by which kube-scheduler weighs the preferences of pods.

Each preference is a score plugin of `pkg/scheduler/framework/plugins`, in its order: the raw score of
`Score`, and the score from 0 to 100 that `NormalizeScore` computes among the nodes that are compared. The
weights are those of `pkg/scheduler/apis/config/v1/default_plugins.go`. A plugin that does not apply to a pod
is left out, as in `PreScore` (`Skip`). The spread that the scheduler adds to pods without constraints
(`defaultConstraints`) is not counted, because the pod does not ask for it.
"""

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from kubevalues import SelectorError
from rescheduler.cluster.snapshot import NO_ROW, Flags, Floats, Ints
from rescheduler.config.policy_blocks import Preference
from rescheduler.rules.node_affinity import TopologyDomains
from rescheduler.rules.pod_class_index import (
    AffinityTerm,
    PodClassIndex,
    UnparsedAffinityTerm,
    preferred_terms,
)
from rescheduler.rules.pod_positions import DomainCountRegistry, DomainCounts
from rescheduler.rules.static_rules import StaticRules
from rescheduler.rules.topology_rules import SpreadCheck, spread_checks

__all__ = ["MAX_NODE_SCORE", "PLUGIN_WEIGHTS", "ClassPreferences", "NodeScores", "lower_is_better"]

MAX_NODE_SCORE: Final = 100

PLUGIN_WEIGHTS: Final = {
    Preference.TAINT_TOLERATION: 3,
    Preference.NODE_AFFINITY: 2,
    Preference.POD_TOPOLOGY_SPREAD: 2,
    Preference.INTER_POD_AFFINITY: 2,
    Preference.DUPLICATES: 2,
    Preference.PRICE: 2,
}
"""The last two are ours. They weigh as much as a preferred spread and a preferred node affinity."""

_HOSTNAME: Final = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True, eq=False)
class NodeScores:
    """The scores of all nodes by one preference."""

    preference: Preference
    value: Floats
    """[node]: the raw score; higher is better. It does not depend on which nodes are compared."""
    score: Ints
    """[node]: from 0 to 100, normalized among the nodes that are compared; undefined for others."""
    is_reason: bool = True
    """Whether a higher score is a reason to move; a spread within maxSkew is none."""

    @property
    def weight(self) -> int:
        return PLUGIN_WEIGHTS[self.preference]


def lower_is_better(preference: Preference, raw: Floats, among: Flags) -> NodeScores:
    """Return scores that prefer low values: `DefaultNormalizeScore` with reverse, `raw` from 0."""
    return NodeScores(preference, -raw, MAX_NODE_SCORE - _share_of_most(raw, among))


def _share_of_most(raw: Floats, among: Flags) -> Ints:
    most = raw[among].max(initial=0)
    scaled = np.zeros(len(raw)) if most == 0 else MAX_NODE_SCORE * raw // most
    return scaled.astype(np.int64)


@dataclass(frozen=True, slots=True)
class _WeightedTerm:
    """The weight that each pod of some classes adds to the nodes of its domain."""

    weight: int
    key: str
    domains: TopologyDomains
    domain_counts: DomainCounts


class ClassPreferences:
    """The preferences of the pods of one class. Counts of other pods follow the placement."""

    def __init__(
        self,
        number: int,
        index: PodClassIndex,
        static_rules: StaticRules,
        count_registry: DomainCountRegistry,
    ) -> None:
        self._number, self._index = number, index
        self._static_rules, self._count_registry = static_rules, count_registry
        self._class = index.classes[number]

    @property
    def depends_on_pods(self) -> bool:
        """Return whether the scores depend on where other pods are."""
        return bool(self._spread or self._pod_terms)

    def stated(self, wanted: Collection[Preference]) -> list[Preference]:
        """Return the preferences that apply to pods of this class."""
        applies = {
            Preference.TAINT_TOLERATION: Preference.TAINT_TOLERATION in wanted and self._soft_taints.any(),
            Preference.NODE_AFFINITY: self._node_weights is not None,
            Preference.POD_TOPOLOGY_SPREAD: self._spread,
            Preference.INTER_POD_AFFINITY: Preference.INTER_POD_AFFINITY in wanted and self._pod_terms,
        }
        return [each for each, does_apply in applies.items() if each in wanted and does_apply]

    def improvable(self, wanted: Collection[Preference], open_to: Flags) -> Flags:
        """Return [node]: another node may have a better score for a pod of this class. False means that none
        has. This is cheaper than all scores."""
        found = np.zeros(len(open_to), np.bool_)
        for preference in self.stated(wanted):
            if preference is Preference.POD_TOPOLOGY_SPREAD:
                for check in self._spread:
                    counts = _by_node(check.domain_counts, check.domains)
                    found |= counts - check.min_count() > check.max_skew
            elif preference is Preference.INTER_POD_AFFINITY:
                raw = self._affinity_weights()
                found |= raw[open_to].max(initial=-math.inf) - raw + self._own_weight > 0
            else:
                is_affinity = preference is Preference.NODE_AFFINITY and self._node_weights is not None
                value = self._node_weights if is_affinity else -self._soft_taints
                assert value is not None
                found |= value < value[open_to].max(initial=-math.inf)
        return found

    @cached_property
    def _own_weight(self) -> int:
        """Return by how much the pod itself may change the comparison of its own node with others."""
        return sum(
            term.weight if term.key == _HOSTNAME else max(0, term.weight)
            for term in self._pod_terms
            if self._number in term.domain_counts.classes
        )

    def scores(self, wanted: Collection[Preference], among: Flags, source: int) -> list[NodeScores]:
        """Return the scores of all nodes, normalized among those that are compared."""
        make = {
            Preference.TAINT_TOLERATION: lambda: lower_is_better(
                Preference.TAINT_TOLERATION, self._soft_taints, among
            ),
            Preference.NODE_AFFINITY: lambda: self._node_affinity(among),
            Preference.POD_TOPOLOGY_SPREAD: lambda: self._topology_spread(among, source),
            Preference.INTER_POD_AFFINITY: lambda: self._inter_pod_affinity(among),
        }
        return [make[each]() for each in self.stated(wanted)]

    @cached_property
    def _soft_taints(self) -> Floats:
        return self._static_rules.soft_taints(self._class.constraints.tolerations)

    @cached_property
    def _node_weights(self) -> Floats | None:
        terms = self._class.affinity.node_affinity.preferred
        return self._static_rules.preferred_weights(terms) if terms else None

    @cached_property
    def _spread(self) -> list[SpreadCheck]:
        if not self._class.constraints.spread:
            return []
        try:
            return spread_checks(
                self._number, self._index, self._static_rules, self._count_registry, "ScheduleAnyway"
            )
        except SelectorError:  # no scheduler could read it either
            return []

    @cached_property
    def _pod_terms(self) -> list[_WeightedTerm]:
        return [
            _WeightedTerm(weight, term.topology_key, domains, self._count_registry.of(classes, domains.of))
            for term, weight, classes in self._terms()
            for domains in (self._static_rules.node_labels.domains(term.topology_key),)
        ]

    def _terms(self) -> Iterator[tuple[AffinityTerm, int, Iterable[int]]]:
        """Yield the terms of the class with the classes that they select, and terms that select it."""
        for written, weight in preferred_terms(self._class.affinity):
            try:
                term = UnparsedAffinityTerm.by(self._class, written).read()
            except SelectorError:
                continue
            yield term, weight, self._index.matching(term)
        yield from self._index.preferring(self._number)

    def _node_affinity(self, among: Flags) -> NodeScores:
        """Score as `nodeaffinity.Score`: add the weights of matching terms, then `DefaultNormalizeScore`."""
        assert self._node_weights is not None
        return NodeScores(
            Preference.NODE_AFFINITY, self._node_weights, _share_of_most(self._node_weights, among)
        )

    def _inter_pod_affinity(self, among: Flags) -> NodeScores:
        """Score as `interpodaffinity.Score`: add the weight of each pod and term, in both directions, and
        subtract for anti-affinity; the lowest sum of the nodes becomes 0, the highest 100."""
        raw = self._affinity_weights()
        there = raw[among]
        low, high = (float(there.min()), float(there.max())) if there.size else (0.0, 0.0)
        scores = np.zeros(len(among)) if high == low else MAX_NODE_SCORE * ((raw - low) / (high - low))
        return NodeScores(Preference.INTER_POD_AFFINITY, raw, scores.astype(np.int64))

    def _affinity_weights(self) -> Floats:
        raw = np.zeros(len(self._static_rules.node_labels))
        for term in self._pod_terms:
            raw += term.weight * _by_node(term.domain_counts, term.domains)
        return raw

    def _topology_spread(self, among: Flags, source: int) -> NodeScores:
        """Score as `podtopologyspread.Score`: count the pods in the node's domain, weighed by the number of
        domains; fuller domains get lower scores. Nodes without one of the labels get 0."""
        labelled = np.logical_and.reduce([check.domains.of != NO_ROW for check in self._spread])
        compared = among & labelled
        raw = np.zeros(len(among))
        is_violated = False
        for check in self._spread:
            counts = _by_node(check.domain_counts, check.domains)
            raw += counts * math.log(_domains_among(check, compared) + 2) + (check.max_skew - 1)
            skew = counts[source] + check.self_match - check.min_count()
            is_violated |= bool(labelled[source]) and skew > check.max_skew
        raw = np.floor(raw + 0.5)  # as math.Round in Go
        most, least = raw[compared].max(initial=0), raw[compared].min(initial=math.inf)
        normal = (
            np.full(len(among), MAX_NODE_SCORE)
            if most == 0
            else MAX_NODE_SCORE * (most + least - raw) // most
        )
        return NodeScores(
            Preference.POD_TOPOLOGY_SPREAD,
            np.where(labelled, -raw, -math.inf),
            np.where(labelled, normal, 0).astype(np.int64),
            is_reason=is_violated,
        )


def _domains_among(check: SpreadCheck, compared: Flags) -> int:
    if check.key == _HOSTNAME:
        return int(np.count_nonzero(compared))
    return int(np.unique(check.domains.of[compared]).size)


def _by_node(domain_counts: DomainCounts, domains: TopologyDomains) -> Floats:
    """Return [node]: how many pods are in its domain; 0 without the label."""
    # The extra last entry has index -1 (NO_ROW): nodes without a domain.
    counts = np.zeros(len(domains.names) + 1)
    counts[[*domain_counts.counts.keys()]] = [*domain_counts.counts.values()]
    found: Floats = counts[domains.of]
    return found
