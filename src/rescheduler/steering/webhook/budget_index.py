"""Finds the budgets that cover a pod, in a time that no tenant can raise.

A namespace may have thousands of budgets, with selectors of any size, and its owner may have its pods evicted
as often as they like. If every review examined all of them, one tenant could keep the webhook from answering
in time for all others. So budgets are indexed by one label that they require, and a review that would still
have to compare too much gets no answer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from kubevalues import Selector
from rescheduler.cluster.budget_record import BudgetRecord, decode_budget
from rescheduler.cluster.object_meta import UnreadableObject
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.kube.api_resources import Object
from rescheduler.kube.informer import Informer

__all__ = ["MAX_COMPARISONS", "BudgetIndex"]

MAX_COMPARISONS: Final = 5_000
"""Values and labels that a review compares at most: this takes about a millisecond."""


@dataclass(frozen=True, slots=True)
class _IndexedBudget:
    budget: BudgetRecord
    pods: Selector
    labels: tuple[tuple[str, str], ...]
    """The labels that its pods must have."""
    comparisons: int


@dataclass(slots=True)
class _NamespaceBudgets:
    by_label: dict[tuple[str, str], dict[str, _IndexedBudget]] = field(default_factory=dict)
    others: dict[str, _IndexedBudget] = field(default_factory=dict)

    def put(self, key: str, budget: _IndexedBudget) -> None:
        if not budget.labels:
            self.others[key] = budget
            return
        # The one that fewest others have: often all budgets of a namespace require one label in common.
        label = min(budget.labels, key=lambda each: len(self.by_label.get(each, ())))
        self.by_label.setdefault(label, {})[key] = budget

    def remove(self, key: str, budget: _IndexedBudget) -> None:
        self.others.pop(key, None)
        for label in budget.labels:
            group = self.by_label.get(label, {})
            if group.pop(key, None) is not None and not group:
                del self.by_label[label]

    def candidates(self, labels: Mapping[str, str]) -> Iterator[_IndexedBudget]:
        yield from self.others.values()
        for label in labels.items():
            yield from self.by_label.get(label, {}).values()


class BudgetIndex:
    def __init__(self, budgets: Informer[Object]) -> None:
        self._namespaces: dict[str, _NamespaceBudgets] = {}
        self._indexed: dict[str, _IndexedBudget] = {}
        budgets.subscribe(self._budget_changed)

    def of_pod(self, pod: PodRecord) -> tuple[BudgetRecord, ...] | None:
        """Return the budgets that cover the pod; None if finding them would take too long."""
        namespace = self._namespaces.get(pod.namespace)
        if namespace is None:
            return ()
        found: list[BudgetRecord] = []
        comparisons = 0
        for each in namespace.candidates(pod.labels):
            comparisons += each.comparisons
            if comparisons > MAX_COMPARISONS:
                return None
            if each.pods.matches(pod.labels):
                found.append(each.budget)
        return tuple(found)

    def _budget_changed(self, old: Object | None, new: Object | None) -> None:
        for item, is_present in ((old, False), (new, True)):
            if item is None:
                continue
            key = f"{item['metadata']['namespace']}/{item['metadata']['name']}"
            self._remove(key)
            if is_present and (indexed := _indexed(item)) is not None:
                self._indexed[key] = indexed
                namespace = self._namespaces.setdefault(indexed.budget.namespace, _NamespaceBudgets())
                namespace.put(key, indexed)

    def _remove(self, key: str) -> None:
        known = self._indexed.pop(key, None)
        if known is None:
            return
        namespace = self._namespaces[known.budget.namespace]
        namespace.remove(key, known)
        if not namespace.by_label and not namespace.others:
            del self._namespaces[known.budget.namespace]


def _indexed(item: Object) -> _IndexedBudget | None:
    try:
        budget = decode_budget(item)
    except UnreadableObject:
        return None  # it is taken to select no pod; the daemon reports it
    pods = budget.pods()
    if pods.selects_nothing:
        return None
    required = budget.selector.match_labels if budget.selector is not None else ()
    comparisons = 1 + sum(1 + len(each.values) for each in pods.requirements)
    return _IndexedBudget(budget, pods, required, comparisons)
