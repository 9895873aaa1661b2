"""TopologySpread: restore spread constraints and anti-affinity that no longer hold."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kubevalues import SelectorError
from rescheduler.cluster.snapshot import NO_ROW, Flags, Ints, Rows
from rescheduler.rules.node_affinity import NodeLabels
from rescheduler.rules.pod_class_index import AffinityTerm, PodClassIndex, UnparsedAffinityTerm
from rescheduler.rules.pod_positions import DomainCountRegistry, PodPositions
from rescheduler.rules.static_rules import StaticRules
from rescheduler.rules.topology_rules import SpreadCheck, spread_checks
from rescheduler.strategies.strategy import Proposal, ProposedMove, View
from rescheduler.strategies.target_search import find_displacement, least_loaded
from rescheduler.strategies.topology_spread.constraint_violations import (
    AntiAffinityViolation,
    ConstraintViolation,
    SpreadViolation,
)

__all__ = ["TopologySpread"]

_MOVES_WITH_DISPLACEMENT = 2
_DISPLACEMENTS_TRIED = 3
"""The number of pods per constraint for which a displacement is searched for: the search takes time, and the
pods are similar."""


class TopologySpread:
    """Fixes violated topology spread constraints and required anti-affinity, with as few moves as possible.

    Constraints are checked when a pod is scheduled; later, nodes come and go and labels change. Each step is
    the move that saves most of the moves still needed, over all constraints that it affects. A move that
    fixes one constraint and violates another is not proposed. Only constraints with `DoNotSchedule` count:
    `ScheduleAnyway` is a preference that the scheduler weighs against others, and no reason to disturb a
    running pod.
    """

    name: ClassVar[str] = "TopologySpread"

    def propose(self, view: View) -> Iterator[Proposal]:
        survey = _ViolationSurvey(view)
        left = survey.violations
        needed = sum(violation.moves_needed() for violation in left)
        progress = True
        while progress and left:
            # Fixing one violation may make room for another, so the rest is tried again.
            progress = False
            for violation in left:
                for proposal in _restore(view, survey, violation, 1 / needed):
                    yield proposal
                    progress |= _is_accepted(view, proposal)
            left = [violation for violation in left if violation.moves_needed()]
        for violation in left:
            _report(view, violation)


def _restore(
    view: View, survey: "_ViolationSurvey", violation: ConstraintViolation, share: float
) -> Iterator[Proposal]:
    unplaced: list[_Candidate] = []
    violation.reset()
    while view.room > 0 and violation.moves_needed():
        candidates = _candidates(view, survey, violation)
        if (found := _best(view, candidates)) is not None:
            pod, target, saved = found
            yield Proposal((ProposedMove(pod, target, violation.describe(), saved * share),))
            continue
        unplaced = unplaced or candidates
        if not candidates:
            break
        wanted = np.logical_or.reduce([each.wanted for each in candidates])
        if not violation.rule_out([each.pod for each in candidates], wanted):
            break
    violation.reset()
    if (
        violation.moves_needed()
        and (helped := _with_displacement(view, unplaced, violation.describe(), share)) is not None
    ):
        yield helped


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate:
    pod: int
    wanted: Flags
    """[node]: where the pod would have to be to fix this violation."""
    saved: Ints
    """[node]: how many moves it saves to have the pod there, over all violations."""

    @property
    def most(self) -> int:
        return int(self.saved.max(initial=0))


def _candidates(view: View, survey: "_ViolationSurvey", violation: ConstraintViolation) -> list[_Candidate]:
    """Return pods whose move helps, one per pod class and node, those that help most first."""
    pods, position = view.snapshot.pods, view.placement.position
    alike: set[tuple[int, int]] = set()
    found: list[_Candidate] = []
    for pod in sorted(violation.pods(), key=lambda pod: (int(pods.priority[pod]), pod)):
        kind = int(pods.pod_class[pod]), int(position[pod])
        if kind in alike or not view.nodes[position[pod]] or not view.may_move(pod):
            continue
        if len(view.moves_with(pod)) > 1:
            view.report_staying(pod, "GroupIncomplete", "its whole group would have to move")
            continue
        alike.add(kind)
        wanted = violation.moves_saved(pod) > 0
        if wanted.any():
            found.append(_Candidate(pod, wanted, _saved(view, survey, pod)))
    return sorted(found, key=lambda each: -each.most)


def _saved(view: View, survey: "_ViolationSurvey", pod: int) -> Ints:
    """Return [node]: the moves saved over all constraints of the pod; 0 if one of them gets worse."""
    each = np.stack([violation.moves_saved(pod) for violation in survey.touched_by(pod)])
    saved: Ints = np.where(view.nodes & view.open & (each >= 0).all(axis=0), each.sum(axis=0), 0)
    return saved


def _best(view: View, candidates: list[_Candidate]) -> tuple[int, int, int] | None:
    """Return the pod, the target and the saved moves of the best candidate; the first one among equals."""
    best: tuple[int, int, int] | None = None
    for each in candidates:
        if best is not None and best[2] >= each.most:
            break
        saved = np.where(view.targets(each.pod), each.saved, 0)
        most = int(saved.max())
        if most > (best[2] if best is not None else 0):
            best = each.pod, least_loaded(view, each.pod, np.flatnonzero(saved == most)), most
    return best


def _with_displacement(
    view: View, candidates: list[_Candidate], reason: str, share: float
) -> Proposal | None:
    """Return a proposal that moves another pod away to make room, if there is one."""
    if view.room < _MOVES_WITH_DISPLACEMENT:
        return None
    for each in candidates[:_DISPLACEMENTS_TRIED]:
        found = find_displacement(view, each.pod, np.flatnonzero(each.saved > 0).tolist())
        if found is not None:
            aside = f"makes room for {view.snapshot.pods.records[each.pod].key}"
            gain = share * float(each.saved[found.place])
            return Proposal(
                (
                    ProposedMove(found.displaced, found.target, aside, gain),
                    ProposedMove(each.pod, found.place, reason, gain),
                )
            )
    return None


def _is_accepted(view: View, proposal: Proposal) -> bool:
    move = proposal.moves[0]
    return bool(view.placement.position[move.pod] == move.target)


def _report(view: View, violation: ConstraintViolation) -> None:
    """Report one pod for all pods with the same constraint."""
    pod = next((pod for pod in violation.pods() if view.may_move(pod)), None)
    if pod is not None and view.room > 0:
        view.report_no_target(pod)


class _ViolationSurvey:
    """All violated constraints, and the constraints that a move of each pod affects."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._index = PodClassIndex(view.snapshot)
        self._node_labels = NodeLabels(view.snapshot.nodes)
        self._rows_of = _rows_by_class(view)
        self._by_class: defaultdict[int, list[SpreadViolation]] = defaultdict(list)
        """All constraints by the classes that they count, violated or not: a move must not violate them."""
        self._by_pod: defaultdict[int, list[AntiAffinityViolation]] = defaultdict(list)
        self.violations: list[ConstraintViolation] = [
            *self._anti_affinity_violations(),
            *self._spread_violations(),
        ]
        """The violations, in a fixed order."""

    def touched_by(self, pod: int) -> Iterable[ConstraintViolation]:
        """Return all violations that may change if that pod moves."""
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
        # Sort by pods, because the numbers of classes depend on the order of events.
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
        pods_by_domain: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
        for term, classes in holders.items():
            others = [number for number in self._index.matching(term) if number in self._rows_of]
            for domain, pods in self._meetings(term.topology_key, classes, others).items():
                here = set(self._view.snapshot.pods.pod_class[pods].tolist())
                pods_by_domain[term.topology_key, domain].update(pods)
                pairs[term.topology_key, domain].update(
                    (min(a, b), max(a, b))
                    for a in here.intersection(classes)
                    for b in here.intersection(others)
                )
        found = (
            self._anti_affinity_violation(*place, sorted(pods_by_domain[place]), pairs[place])
            for place in sorted(pods_by_domain)
        )
        return [violation for violation in found if violation.moves_needed()]

    def _meetings(self, key: str, classes: list[int], others: list[int]) -> dict[int, list[int]]:
        """Return the pods of both by domain, for domains that have pods of both."""
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
        self, key: str, domain: int, pods: list[int], pairs: set[tuple[int, int]]
    ) -> AntiAffinityViolation:
        domains = self._node_labels.domains(key)
        found = AntiAffinityViolation(
            self._view, key, domains.names[domain], domains.of == domain, pods, pairs
        )
        for pod in pods:
            self._by_pod[pod].append(found)
        return found

    def _rows(self, classes: Iterable[int]) -> Rows:
        parts = [self._rows_of[number] for number in classes if number in self._rows_of]
        return np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.int32)


def _rows_by_class(view: View) -> dict[int, Rows]:
    """Return the pods by class that are on a node and not about to leave it."""
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
