"""Finds all drift in a cluster, by pod class: pods of one class ask for the same."""

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from kubevalues import SelectorError
from rescheduler.cluster.snapshot import NO_ROW
from rescheduler.rules.node_labels import NodeLabels
from rescheduler.rules.pod_class_index import AffinityTerm, PodClassIndex, UnparsedAffinityTerm
from rescheduler.rules.pod_positions import DomainCountRegistry, PodPositions
from rescheduler.rules.pod_topology_spread import SpreadCheck, spread_checks
from rescheduler.rules.static_rules import StaticRules
from rescheduler.strategies.strategy import View
from rescheduler.strategies.topology_spread.constraint_violations import (
    AntiAffinityViolation,
    ConstraintViolation,
    SpreadViolation,
)

__all__ = ["ViolationSurvey"]

Rows = npt.NDArray[np.int32]


class ViolationSurvey:
    """What there is to set right, and what else each move touches."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._index = PodClassIndex(view.snapshot)
        self._node_labels = NodeLabels(view.snapshot.nodes)
        self._rows_of = _rows_by_class(view)
        self._by_class: defaultdict[int, list[SpreadViolation]] = defaultdict(list)
        """Constraints by the classes that count, drifted or not: a move must not spoil them."""
        self._by_pod: defaultdict[int, list[AntiAffinityViolation]] = defaultdict(list)
        self.violations: list[ConstraintViolation] = [
            *self._anti_affinity_violations(),
            *self._spread_violations(),
        ]
        """Those that take moves to set right, in a fixed order."""

    def touched_by(self, pod: int) -> Iterable[ConstraintViolation]:
        """All that may change if that pod moves."""
        return (
            *self._by_pod.get(pod, ()),
            *self._by_class.get(int(self._view.snapshot.pods.pod_class[pod]), ()),
        )

    def _spread_violations(self) -> list[SpreadViolation]:
        static_rules = StaticRules(self._node_labels)
        count_registry = DomainCountRegistry(PodPositions(self._view.snapshot))
        found: dict[tuple[object, ...], tuple[SpreadCheck, list[int]]] = {}
        for number in self._rows_of:
            if not self._index.classes[number].constraints.spread:
                continue
            for each in _spread_checks_of(number, self._index, static_rules, count_registry):
                if each.domain_counts.classes:
                    same = (id(each.domain_counts), each.max_skew, each.min_domains)
                    found.setdefault(same, (each, []))[1].append(number)
        violations: list[SpreadViolation] = []
        for spread_check, classes in found.values():
            violation = SpreadViolation(
                self._view, spread_check, self._rows(classes), self._rows(spread_check.domain_counts.classes)
            )
            for number in spread_check.domain_counts.classes:
                self._by_class[number].append(violation)
            if violation.moves_needed():
                violations.append(violation)
        # Classes are numbered as they came; pods are in the same order every time.
        return sorted(
            violations, key=lambda violation: (int(violation.counted[0]), violation.spread_check.key)
        )

    def _anti_affinity_violations(self) -> list[AntiAffinityViolation]:
        holders: defaultdict[AffinityTerm, list[int]] = defaultdict(list)
        for number in self._rows_of:
            if self._index.classes[number].affinity.pod_anti_affinity.required:
                for term in _anti_affinity_terms(self._index, number):
                    holders[term].append(number)
        pairs: defaultdict[tuple[str, int], set[tuple[int, int]]] = defaultdict(set)
        crowds: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
        for term, classes in holders.items():
            others = [number for number in self._index.matching(term) if number in self._rows_of]
            for domain, pods in self._meetings(term.topology_key, classes, others).items():
                here = set(self._view.snapshot.pods.pod_class[pods].tolist())
                crowds[term.topology_key, domain].update(pods)
                pairs[term.topology_key, domain].update(
                    (min(a, b), max(a, b))
                    for a in here.intersection(classes)
                    for b in here.intersection(others)
                )
        found = (
            self._anti_affinity_violation(*place, sorted(crowds[place]), pairs[place])
            for place in sorted(crowds)
        )
        return [violation for violation in found if violation.moves_needed()]

    def _meetings(self, key: str, classes: list[int], others: list[int]) -> dict[int, list[int]]:
        """Pods of both by domain, where one meets another that it should not."""
        domain_of = self._node_labels.domains(key).of
        position = self._view.placement.position
        keeping, kept = self._rows(classes), self._rows(others)
        pods = np.union1d(keeping, kept)
        domains = domain_of[position[pods]]
        several, numbers = np.unique(domains[domains != NO_ROW], return_counts=True)
        shared = np.intersect1d(domain_of[position[keeping]], domain_of[position[kept]])
        return {
            domain: pods[domains == domain].tolist()
            for domain in np.intersect1d(several[numbers > 1], shared).tolist()
        }

    def _anti_affinity_violation(
        self, key: str, domain: int, crowd: list[int], pairs: set[tuple[int, int]]
    ) -> AntiAffinityViolation:
        domains = self._node_labels.domains(key)
        found = AntiAffinityViolation(
            self._view, key, domains.names[domain], domains.of == domain, crowd, pairs
        )
        for pod in crowd:
            self._by_pod[pod].append(found)
        return found

    def _rows(self, classes: Iterable[int]) -> Rows:
        parts = [self._rows_of[number] for number in classes if number in self._rows_of]
        return np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.int32)


def _rows_by_class(view: View) -> dict[int, Rows]:
    """Pods that are on a node and not about to leave it."""
    pods = view.snapshot.pods
    staying = np.array([record.deleted_s is None for record in pods.records], np.bool_)
    order = np.argsort(pods.pod_class, kind="stable").astype(np.int32)
    order = order[(staying & (view.placement.position != NO_ROW))[order]]
    classes, starts = np.unique(pods.pod_class[order], return_index=True)
    ends = [*starts[1:].tolist(), len(order)]
    return {
        number: order[start:end]
        for number, start, end in zip(classes.tolist(), starts.tolist(), ends, strict=False)
    }


def _spread_checks_of(
    number: int, index: PodClassIndex, static_rules: StaticRules, count_registry: DomainCountRegistry
) -> list[SpreadCheck]:
    try:
        return spread_checks(number, index, static_rules, count_registry)
    except SelectorError:  # no scheduler could read it either
        return []


def _anti_affinity_terms(index: PodClassIndex, number: int) -> list[AffinityTerm]:
    pod_class = index.classes[number]
    try:
        return [
            UnparsedAffinityTerm.by(pod_class, term).read()
            for term in pod_class.affinity.pod_anti_affinity.required
        ]
    except SelectorError:  # no scheduler could read it either
        return []
