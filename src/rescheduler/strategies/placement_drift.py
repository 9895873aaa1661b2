"""PlacementDrift: move pods off nodes that they would not be scheduled to today."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

import numpy as np

from rescheduler.api.podmigration import traits_of
from rescheduler.cluster.node_record import REMOVAL_TAINTS, Taint
from rescheduler.cluster.snapshot import CPU, MEMORY, NO_ROW, Flags, Floats, Indices, Ints, PodsByWorkload
from rescheduler.config.policy_blocks import PlacementDriftPolicy, Preference
from rescheduler.rules.preference_scores import MAX_NODE_SCORE, NodeScores, lower_is_better
from rescheduler.rules.rule_check import StaticCheck
from rescheduler.rules.taint_toleration import shown_taint, untolerated
from rescheduler.strategies.cost_optimization import node_prices
from rescheduler.strategies.fair_shares import interleave_namespaces
from rescheduler.strategies.strategy import Proposal, ProposedMove, View
from rescheduler.strategies.target_search import (
    PodUnit,
    complete_units,
    find_targets,
    in_turn,
    is_wholly_among,
    least_loaded,
    unbound_pods,
)

__all__ = ["PlacementDrift"]

_CONDITION_TAINTS: Final = "node.kubernetes.io/"
"""The prefix of temporary taints from the control plane: cordoned, not ready, out of memory."""
_MOST_UNPLACED: Final = 300
"""After this many pods without a target, a check stops searching: each search takes time."""
_MOST_SCORED: Final = 1000
"""For how many pairs of pod class and node a check scores all nodes: each takes time."""


class PlacementDrift:
    """Moves pods off nodes that taints, node selector or node affinity forbid to them today.

    Rules are checked when a pod is scheduled; later, labels and taints change. A pod moves only if it has a
    target that every rule allows, and the target is reserved for it, so no pod is evicted repeatedly. With
    `preferences`, pods also move to nodes that the scheduler would score higher by `minGain`, if nothing that
    they prefer gets worse. So these moves come to an end, too.
    """

    name: ClassVar[str] = "PlacementDrift"

    def propose(self, view: View) -> Iterator[Proposal]:
        if view.room <= 0 or not len(view.snapshot.nodes):
            return
        survey = _DriftSurvey(view)
        yield from _leave_forbidden_nodes(view, survey)
        if view.policy.placement_drift.preferences:
            yield from _follow_preferences(view, survey)


# -- what pods require


def _leave_forbidden_nodes(view: View, survey: "_DriftSurvey") -> Iterator[Proposal]:
    drifted = survey.forbidden()
    waiting = [unit for unit in complete_units(view, drifted) if is_wholly_among(view, unit, drifted)]
    pods = view.snapshot.pods
    waiting.sort(key=lambda unit: (max(int(pods.priority[pod]) for pod in unit), unit))
    if sum(map(len, waiting)) > view.room:
        waiting = list(interleave_namespaces(waiting, lambda unit: pods.records[unit[0]].namespace))
    waiting = in_turn(view, waiting, _MOST_UNPLACED)
    no_target: set[tuple[int, int]] = set()
    unplaced = 0
    while waiting and view.room > 0 and unplaced < _MOST_UNPLACED:
        # Take as many as the plan has room for; among these, the hardest to place choose first.
        batch, waiting = waiting[: view.room], waiting[view.room :]
        hopeful = [unit for unit in batch if all(survey.kind(pod) not in no_target for pod in unit)]
        found = find_targets(view, hopeful, survey.best_target)
        unplaced += len(found.without_target)
        for unit in found.without_target:
            no_target.update(survey.kind(pod) for pod in unit if not view.targets(pod).any())
        for unit in batch:
            if unit[0] not in found.targets:
                for pod in unit:
                    view.report_no_target(pod)
        for unit in _in_order_of_targets(batch, found.targets):
            moves = (ProposedMove(pod, found.targets[pod], drifted[pod], 1 / len(drifted)) for pod in unit)
            yield Proposal(tuple(moves))


def _in_order_of_targets(units: Sequence[PodUnit], targets: dict[int, int]) -> list[PodUnit]:
    """Return the units with targets, in the order in which the targets were found: each move fits then."""
    place = {pod: number for number, pod in enumerate(targets)}
    return sorted((unit for unit in units if unit[0] in place), key=lambda unit: place[unit[-1]])


# -- what pods prefer


def _follow_preferences(view: View, survey: "_DriftSurvey") -> Iterator[Proposal]:
    without_gain: set[tuple[int, int]] = set()
    for pod in survey.candidates():
        if view.room <= 0:
            return
        # Pods of one class on one node have the same targets.
        kind = int(view.snapshot.pods.pod_class[pod]), int(view.placement.position[pod])
        if kind in without_gain or not view.may_move(pod):
            continue
        if len(view.moves_with(pod)) > 1:
            view.report_staying(pod, "GroupIncomplete", "its whole group would have to move")
            continue
        preferred = survey.preference_gains(pod)
        wanted = preferred.gains >= survey.min_gain
        if not wanted.any() or not (allowed := wanted & view.targets(pod) & survey.keeps_load(pod)).any():
            without_gain.add(kind)
            continue
        best = allowed & (preferred.gains >= preferred.gains[allowed].max())
        target = least_loaded(view, pod, np.flatnonzero(best))
        yield Proposal((ProposedMove(pod, target, preferred.reason(target), float(preferred.gains[target])),))


@dataclass(frozen=True, slots=True, eq=False)
class _PreferenceGains:
    """How much each node would suit the preferences of a pod better than its own."""

    source: int
    scores: Sequence[NodeScores]

    @property
    def gains(self) -> Floats:
        """Return [node]: the gain as a share of the highest score; -1 if any preference gets worse."""
        total = np.zeros(len(self.scores[0].score))
        worse = np.zeros(len(total), np.bool_)
        for each in self.scores:
            worse |= each.value < each.value[self.source]
            if each.is_reason:
                total += each.weight * (each.score - each.score[self.source])
        gains: Floats = total / (MAX_NODE_SCORE * sum(each.weight for each in self.scores))
        return np.where(worse, -1.0, gains)

    def reason(self, target: int) -> str:
        changes = (
            f"{each.preference} {each.score[self.source]}, target {each.score[target]}"
            for each in self.scores
            if each.score[self.source] != each.score[target]
        )
        return f"preferred by the scheduler's scores: {'; '.join(changes)}"


# -- the cluster


class _DriftSurvey:
    """Finds pods on nodes that are forbidden to them, or that they prefer less than another."""

    def __init__(self, view: View) -> None:
        self.view = view
        self._setting = view.policy.placement_drift
        self.min_gain = max(self._setting.min_gain, view.policy.min_gain)
        self._rows: Indices = unbound_pods(view)
        """The pods that may have drifted."""
        self._classes: Ints = np.unique(view.snapshot.pods.pod_class[self._rows]).astype(np.int64)

    def kind(self, pod: int) -> tuple[int, int]:
        """Return a key that is equal for pods with the same targets."""
        number = int(self.view.snapshot.pods.pod_class[pod])
        pod_class = self.view.snapshot.classes[number]
        affinity = pod_class.affinity
        depends_on_others = (
            pod_class.constraints.spread
            or affinity.pod_affinity.required
            or affinity.pod_anti_affinity.required
        )
        return number, int(self.view.placement.position[pod]) if depends_on_others else NO_ROW

    def forbidden(self) -> dict[int, str]:
        """Return the pods that must leave their node, with the reason."""
        pods, position = self.view.snapshot.pods, self.view.placement.position
        # Many classes share their rules, so there are few different masks: [rules, node].
        numbers = np.full(len(self.view.snapshot.classes), NO_ROW)
        masks: list[Flags] = []
        by_rules: dict[tuple[int, ...], int] = {}
        for number in self._classes.tolist():
            rules = [rule for rule in self.view.placement.node_rules(number) if rule is not None]
            if rules:
                numbers[number] = by_rules.setdefault(tuple(map(id, rules)), len(masks))
                if numbers[number] == len(masks):
                    masks.append(np.logical_and.reduce([rule.passes for rule in rules]))
        if not masks:
            return {}
        rows = self._rows[numbers[pods.pod_class[self._rows]] != NO_ROW]
        refused = rows[~np.stack(masks)[numbers[pods.pod_class[rows]], position[rows]]]
        reasons: dict[tuple[int, int], str] = {}
        found: dict[int, str] = {}
        for pod in refused.tolist():
            pair = int(pods.pod_class[pod]), int(position[pod])
            if pair not in reasons:
                reasons[pair] = self._why_forbidden(*pair)
            if reasons[pair]:
                found[pod] = reasons[pair]
        return found

    def _why_forbidden(self, number: int, node: int) -> str:
        """Return why pods of that class must leave that node; empty if they may stay."""
        affinity: StaticCheck | None = self.view.placement.node_rules(number)[1]
        tolerations = self.view.snapshot.classes[number].constraints.tolerations
        record = self.view.snapshot.nodes.records[node]
        refusal = affinity.refusal(node) if affinity is not None else None
        details = [refusal.detail] if refusal is not None else []
        taints = [each for each in untolerated(record.taints, tolerations) if _counts(each, self._setting)]
        details += [f"taint {', '.join(map(shown_taint, taints))}"] if taints else []
        return f"{record.name} is no longer allowed: {', '.join(details)}" if details else ""

    def best_target(self, view: View, pod: int, nodes: Indices) -> int:
        """Return the node that the pod prefers most; the least loaded of several."""
        if self._setting.preferences:
            total = np.zeros(len(view.snapshot.nodes), np.int64)
            for each in self._scores(pod):
                total += each.weight * each.score
            nodes = nodes[total[nodes] == total[nodes].max()]
        return least_loaded(view, pod, nodes)

    # -- preferences

    def candidates(self) -> list[int]:
        """Return the pods that prefer another node, whether or not it has room, the highest gain first.

        Namespaces take turns: pods state their preferences themselves, and may state many.
        """
        pods = self.view.snapshot.pods
        gains: dict[int, float] = {}
        for alike in self._improvable():
            most = float(np.where(self._open_to(alike[0]), self.preference_gains(alike[0]).gains, -1.0).max())
            if most >= self.min_gain:
                gains.update(dict.fromkeys(alike, most))
        ordered = sorted(gains, key=lambda pod: (-gains[pod], int(pods.priority[pod]), pod))
        return interleave_namespaces(ordered, lambda pod: pods.records[pod].namespace)

    def _improvable(self) -> list[list[int]]:
        """Return the pods that may prefer another node, grouped by pod class and node.

        If there are too many groups for one check, the next check starts with others.
        """
        pods, position = self.view.snapshot.pods, self.view.placement.position
        order = self._rows[np.lexsort((position[self._rows], pods.pod_class[self._rows]))]
        alike: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for group in np.split(order, np.flatnonzero(np.diff(pods.pod_class[order])) + 1):
            if group.size:
                number = int(pods.pod_class[group[0]])
                may_gain = self._may_gain(number, group)
                for pod, node in zip(
                    group[may_gain].tolist(), position[group[may_gain]].tolist(), strict=True
                ):
                    alike[number, node].append(pod)
        return in_turn(self.view, list(alike.values()), _MOST_SCORED)[:_MOST_SCORED]

    def _may_gain(self, number: int, group: Indices) -> Flags:
        """Return [pod of the group]: the pod may prefer another node. All pods are of that class."""
        wanted, position = self._setting.preferences, self.view.placement.position[group]
        preferences = self.view.placement.preferences(number)
        open_to = self._open_to(int(group[0]))
        found = np.zeros(len(group), np.bool_)
        if preferences.stated(wanted):
            found = preferences.improvable(wanted, open_to)[position]
        if self._price is not None:
            found = found | (self._price[position] > self._price[open_to].min(initial=np.inf))
        return found | self._duplicates[group]

    def preference_gains(self, pod: int) -> _PreferenceGains:
        return _PreferenceGains(int(self.view.placement.position[pod]), self._scores(pod))

    def _scores(self, pod: int) -> list[NodeScores]:
        among = self._open_to(pod).copy()
        among[self.view.placement.position[pod]] = True
        found = self.view.placement.preference_scores(pod, self._setting.preferences, among)
        if self._price is not None:
            found.append(lower_is_better(Preference.PRICE, self._price, among))
        if Preference.DUPLICATES in self._setting.preferences and (siblings := self._siblings(pod)).any():
            found.append(lower_is_better(Preference.DUPLICATES, siblings, among))
        return found

    @cached_property
    def _duplicates(self) -> Flags:
        """Return [pod]: another pod of its workload is on the same node, when first called."""
        pods = self.view.snapshot.pods
        found = np.zeros(len(pods), np.bool_)
        if Preference.DUPLICATES in self._setting.preferences:
            rows = self._rows[pods.workload[self._rows] != NO_ROW]
            pairs = pods.workload[rows].astype(np.int64) * len(self.view.snapshot.nodes)
            _, place, counts = np.unique(
                pairs + self.view.placement.position[rows], return_inverse=True, return_counts=True
            )
            found[rows] = counts[place] > 1
        return found

    def _siblings(self, pod: int) -> Floats:
        """Return [node]: how many other pods of its workload the node has."""
        workload = int(self.view.snapshot.pods.workload[pod])
        siblings = self._by_workload.of(workload) if workload != NO_ROW else np.zeros(0, np.int32)
        nodes = self.view.placement.position[siblings[siblings != pod]]
        counts = np.bincount(nodes[nodes != NO_ROW], minlength=len(self.view.snapshot.nodes))
        return counts.astype(np.float64)

    @cached_property
    def _by_workload(self) -> PodsByWorkload:
        return PodsByWorkload(self.view.snapshot)

    @cached_property
    def _price(self) -> Floats | None:
        if Preference.PRICE not in self._setting.preferences:
            return None
        prices = node_prices(self.view.snapshot.nodes.records, self.view.policy.cost)
        return prices if np.ptp(prices) > 0 else None

    def _open_to(self, pod: int) -> Flags:
        """Return [node]: taints, node selector and affinity allow it, whether or not it has room.

        Scores are normalized over these nodes, so that they don't change with every pod that comes or goes.
        """
        found = self.view.open
        for rule in self.view.placement.node_rules(int(self.view.snapshot.pods.pod_class[pod])):
            if rule is not None:
                found = found & rule.passes
        return found

    def keeps_load(self, pod: int) -> Flags:
        """Return [node]: the pod can go there without giving balancing strategies a reason to move it back.

        Either the target stays less loaded than the source was, or the target stays below the thresholds and
        within `imbalanceThreshold`. Otherwise two strategies could move a pod back and forth.
        """
        view = self.view
        if not any(traits_of(name).balances for name in view.policy.enabled_strategies):
            return np.ones(len(view.snapshot.nodes), np.bool_)
        allocatable = np.maximum(view.snapshot.nodes.allocatable[:, [CPU, MEMORY]], 1)
        load = 100 * view.placement.load[:, [CPU, MEMORY]] / allocatable
        share = 100 * view.snapshot.pods.load[pod, [CPU, MEMORY]] / allocatable
        after, source = load + share, int(view.placement.position[pod])
        lowest = np.minimum(load[view.open].min(axis=0, initial=100.0), load[source] - share[source])
        limits = np.array([view.policy.cpu_threshold, view.policy.memory_threshold])
        limits = np.minimum(limits, lowest + view.policy.imbalance_threshold)
        calm: Flags = ((after <= limits) | (after <= load[source])).all(axis=1)
        return calm


def _counts(taint: Taint, setting: PlacementDriftPolicy) -> bool:
    """Return whether pods that don't tolerate the taint have to leave."""
    if taint.key.startswith(_CONDITION_TAINTS) or taint.key in REMOVAL_TAINTS:
        return False
    if setting.included_taints and not _is_named(taint, setting.included_taints):
        return False
    return not _is_named(taint, setting.excluded_taints)


def _is_named(taint: Taint, names: Iterable[str]) -> bool:
    return any(name in {taint.key, f"{taint.key}={taint.value}"} for name in names)
