"""Rules that no move changes: they depend only on the node and the pod, not on other pods.

Many classes have the same tolerations and node requirements, so each result is kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rescheduler.cluster.pod_constraints import (
    NodeSelector,
    PreferredSchedulingTerm,
    TopologySpreadConstraint,
)
from rescheduler.cluster.snapshot import NO_ROW, Flags, Floats, PodClass, Rows
from rescheduler.rules.node_affinity import Labels, NodeLabels, node_affinity, preferred_weights
from rescheduler.rules.rule_check import NodeRefusal, RuleCheck, SchedulerRule, StaticCheck
from rescheduler.rules.taint_toleration import (
    Tolerations,
    node_unschedulable,
    soft_taint_counts,
    taint_toleration,
)

__all__ = ["ClassRules", "CountedDomains", "StaticRules", "node_declared_features", "node_ready"]


def node_declared_features(needed: tuple[str, ...], node_labels: NodeLabels) -> StaticCheck | None:
    if not needed:
        return None
    wanted = frozenset(needed)

    def explain(node: int) -> NodeRefusal:
        lacking = ", ".join(sorted(wanted.difference(node_labels.records[node].declared_features)))
        reason = "node(s) didn't match Pod's required features"
        return NodeRefusal(SchedulerRule.DECLARED_FEATURES, (reason,), f"the node does not declare {lacking}")

    passes = [wanted.issubset(record.declared_features) for record in node_labels.records]
    return StaticCheck(np.array(passes, np.bool_), explain)


def node_ready(node_labels: NodeLabels) -> StaticCheck | None:
    def explain(node: int) -> NodeRefusal:
        condition = node_labels.records[node].condition("Ready")
        detail = "the node has no condition Ready"
        if condition is not None:
            detail = f"the condition Ready is {condition.status}"
            detail += f" ({condition.reason})" if condition.reason else ""
        return NodeRefusal(SchedulerRule.NODE_READY, ("node(s) were not ready",), detail)

    ready = node_labels.nodes.ready
    return None if ready.all() else StaticCheck(ready, explain)


_SCHEDULER_ORDER = {rule: place for place, rule in enumerate(SchedulerRule)}


@dataclass(frozen=True, slots=True, eq=False)
class ClassRules:
    """All rules, prepared for the pods of one class."""

    static_fits: Flags
    """The nodes [node] that no static rule forbids."""
    fixed: list[RuleCheck]
    """The static rules."""
    live: list[RuleCheck]
    """The rules that depend on other pods."""
    conflicts_with_itself: bool
    """Whether a pod of this class may forbid nodes to its own copy."""

    def fits(self) -> Flags:
        found = self.static_fits.copy()
        for check in self.live:
            found &= check.fits()
        return found

    def fits_on(self, node: int) -> bool:
        return bool(self.static_fits[node]) and all(check.refusal(node) is None for check in self.live)

    def refusals(self, node: int) -> list[NodeRefusal]:
        """Return all refusals in the scheduler's order."""
        found = (check.refusal(node) for check in (*self.fixed, *self.live))
        return sorted(
            (refusal for refusal in found if refusal is not None), key=lambda r: _SCHEDULER_ORDER[r.rule]
        )


_NodeRequirement = tuple[Labels, NodeSelector | None]


class CountedDomains(NamedTuple):
    of: Rows
    """[node]: its domain; `NO_ROW` if its pods don't count."""
    number: int
    """How many domains have a node that counts."""


class StaticRules:
    def __init__(self, node_labels: NodeLabels) -> None:
        self.node_labels = node_labels
        self._ready = node_ready(node_labels)
        self._by_tolerations: dict[Tolerations, tuple[StaticCheck | None, StaticCheck | None]] = {}
        self._by_node_requirement: dict[_NodeRequirement, StaticCheck | None] = {}
        self._by_features: dict[tuple[str, ...], StaticCheck | None] = {}
        self._soft_taints: dict[Tolerations, Floats] = {}
        self._preferred_weights: dict[tuple[PreferredSchedulingTerm, ...], Floats] = {}
        self._masks: dict[tuple[int, ...], Flags] = {}
        self._counted: dict[tuple[object, ...], CountedDomains] = {}

    def checks(self, pod_class: PodClass) -> list[StaticCheck]:
        """Return the checks that can refuse pods of that class."""
        found = (
            *self._taint_checks(pod_class.constraints.tolerations),
            self._node_affinity_check(pod_class),
            self._features_check(pod_class.constraints.needed_features),
            self._ready,
        )
        return [check for check in found if check is not None]

    def node_rules(self, pod_class: PodClass) -> tuple[StaticCheck | None, StaticCheck | None]:
        """Return the checks of taints, and of node selector and affinity, or None if nothing is checked."""
        return self._taint_checks(pod_class.constraints.tolerations)[1], self._node_affinity_check(pod_class)

    def soft_taints(self, tolerations: Tolerations) -> Floats:
        """Return [node]: how many PreferNoSchedule taints are not tolerated. Read-only."""
        found = self._soft_taints.get(tolerations)
        if found is None:
            counts = soft_taint_counts(tolerations, self.node_labels)
            found = self._soft_taints[tolerations] = counts.astype(np.float64)
        return found

    def preferred_weights(self, terms: tuple[PreferredSchedulingTerm, ...]) -> Floats:
        """Return [node]: the sum of the weights of the preferred terms that match. Read-only."""
        found = self._preferred_weights.get(terms)
        if found is None:
            weights = preferred_weights(terms, self.node_labels)
            found = self._preferred_weights[terms] = weights.astype(np.float64)
        return found

    def mask(self, checks: Sequence[StaticCheck]) -> Flags:
        """Return [node]: all of these `checks` pass. Read-only."""
        question = tuple(map(id, checks))  # they are kept here, so their ids stay taken
        found = self._masks.get(question)
        if found is None:
            found = np.ones(len(self.node_labels), np.bool_)
            for check in checks:
                found &= check.passes
            self._masks[question] = found
        return found

    def counted_domains(
        self, constraint: TopologySpreadConstraint, keys: tuple[str, ...], pod_class: PodClass
    ) -> CountedDomains:
        """Return the domains of nodes that have the labels of all constraints and pass the inclusion
        policies."""
        honors_affinity = (constraint.node_affinity_policy or "Honor") == "Honor"
        honors_taints = constraint.node_taints_policy == "Honor"
        requirement = _node_requirement_of(pod_class) if honors_affinity else None
        tolerations = pod_class.constraints.tolerations if honors_taints else None
        question = (constraint.topology_key, frozenset(keys), requirement, tolerations)
        found = self._counted.get(question)
        if found is None:
            counts = np.ones(len(self.node_labels), np.bool_)
            for key in keys:
                counts &= self.node_labels.domains(key).of != NO_ROW
            for check in (
                self._node_affinity_check(pod_class) if honors_affinity else None,
                self._taint_checks(tolerations)[1] if tolerations is not None else None,
            ):
                if check is not None:
                    counts &= check.passes
            domains = self.node_labels.domains(constraint.topology_key)
            counted = np.where(counts, domains.of, np.int32(NO_ROW))
            number = int(np.count_nonzero(np.bincount(domains.of[counts])))
            found = self._counted[question] = CountedDomains(counted, number)
        return found

    def _taint_checks(self, tolerations: Tolerations) -> tuple[StaticCheck | None, StaticCheck | None]:
        found = self._by_tolerations.get(tolerations)
        if found is None:
            node_labels = self.node_labels
            found = (node_unschedulable(tolerations, node_labels), taint_toleration(tolerations, node_labels))
            self._by_tolerations[tolerations] = found
        return found

    def _node_affinity_check(self, pod_class: PodClass) -> StaticCheck | None:
        requirement = _node_requirement_of(pod_class)
        if requirement not in self._by_node_requirement:
            self._by_node_requirement[requirement] = node_affinity(*requirement, self.node_labels)
        return self._by_node_requirement[requirement]

    def _features_check(self, features: tuple[str, ...]) -> StaticCheck | None:
        if features not in self._by_features:
            self._by_features[features] = node_declared_features(features, self.node_labels)
        return self._by_features[features]


def _node_requirement_of(pod_class: PodClass) -> _NodeRequirement:
    return pod_class.constraints.node_selector, pod_class.affinity.node_affinity.required
