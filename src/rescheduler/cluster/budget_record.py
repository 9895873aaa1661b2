"""The record of a PodDisruptionBudget, an index that finds the budgets of a pod, and counts of the pods of a
controller, for those without a budget."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from kubevalues import NOTHING, Selector, SelectorError
from rescheduler.cluster.object_meta import (
    Object,
    OwnerKey,
    OwnerReference,
    PartialObject,
    UnreadableObject,
    decode_object,
    owner_key,
)
from rescheduler.cluster.pod_constraints import LabelSelector
from rescheduler.cluster.pod_record import PodRecord

__all__ = ["BudgetIndex", "BudgetRecord", "SiblingCounts", "decode_budget"]

_KIND = "PodDisruptionBudget"


class BudgetRecord(msgspec.Struct, frozen=True, gc=False):
    key: str
    """`namespace/name`."""
    namespace: str
    uid: str = ""
    labels: Mapping[str, str] = {}
    owners: tuple[OwnerReference, ...] = ()
    selector: LabelSelector | None = None
    """The selector as written. None selects no pod; an empty one every pod of the namespace."""
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    is_current: bool = True
    """Whether the status is up to date. If not, no eviction is allowed."""
    always_allows_unhealthy: bool = False
    """`unhealthyPodEvictionPolicy: AlwaysAllow`: pods that are not ready may be evicted in any case."""
    deleted_s: int | None = None
    sync_failure: str = ""
    """Why the disruption controller could not compute the budget, or empty. Such a budget allows no eviction
    until one of its pods changes."""

    @property
    def name(self) -> str:
        return self.key[len(self.namespace) + 1 :]

    @property
    def is_computed(self) -> bool:
        """Return whether the counts of healthy pods are up to date."""
        return self.is_current and not self.sync_failure

    def pods(self) -> Selector:
        """Return a selector of the pods in its namespace that it protects: none if the selector is invalid,
        as in Kubernetes."""
        try:
            return NOTHING if self.selector is None else self.selector.selector()
        except SelectorError:
            return NOTHING


class _Spec(msgspec.Struct, rename="camel", frozen=True, gc=False):
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str = ""


class _Condition(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    reason: str = ""
    message: str = ""


class _Status(msgspec.Struct, rename="camel", frozen=True, gc=False):
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed_generation: int = 0
    conditions: tuple[_Condition, ...] = ()


class _Budget(PartialObject, frozen=True, gc=False):
    spec: _Spec = _Spec()
    status: _Status = _Status()


def decode_budget(item: Object) -> BudgetRecord:
    """Decode a PodDisruptionBudget; raise `UnreadableObject`."""
    budget = decode_object(_KIND, item, _Budget)
    meta, spec, status = budget.metadata, budget.spec, budget.status
    return BudgetRecord(
        key=meta.key,
        namespace=meta.namespace,
        uid=meta.uid,
        labels=meta.labels,
        owners=meta.owner_references,
        selector=spec.selector,
        disruptions_allowed=status.disruptions_allowed,
        current_healthy=status.current_healthy,
        desired_healthy=status.desired_healthy,
        expected_pods=status.expected_pods,
        is_current=status.observed_generation >= meta.generation,
        always_allows_unhealthy=spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
        deleted_s=meta.deleted_s,
        sync_failure=_sync_failure(status.conditions),
    )


def _sync_failure(conditions: tuple[_Condition, ...]) -> str:
    for each in conditions:
        if each.type == "DisruptionAllowed" and each.reason == "SyncFailed":
            return each.message or each.reason
    return ""


_MAX_COMPARISONS: Final = 5_000
"""Values and labels that a search compares at most: this takes about a millisecond."""


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
    """Finds the budgets that cover a pod, in a time that no tenant can raise.

    A namespace may have thousands of budgets, with selectors of any size, and its owner may have its pods
    evicted all the time. If every review examined all of them, the webhook would not answer others in time.
    So budgets are indexed by one label that they require, and a review that would still have to compare too
    much gets no answer.
    """

    def __init__(self) -> None:
        self._namespaces: dict[str, _NamespaceBudgets] = {}
        self._indexed: dict[str, _IndexedBudget] = {}

    def of_pod(self, pod: PodRecord) -> tuple[BudgetRecord, ...] | None:
        """Return the budgets that cover the pod; None if finding them would take too long."""
        namespace = self._namespaces.get(pod.namespace)
        if namespace is None:
            return ()
        found: list[BudgetRecord] = []
        comparisons = 0
        for each in namespace.candidates(pod.labels):
            comparisons += each.comparisons
            if comparisons > _MAX_COMPARISONS:
                return None
            if each.pods.matches(pod.labels):
                found.append(each.budget)
        return tuple(found)

    def changed(self, old: Object | None, new: Object | None) -> None:
        """Handle a change, as a handler of an informer."""
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


class SiblingCounts:
    """Counts the pods of each controller, so that an answer takes no longer for one with many pods.

    The status of a workload may be old: while the controller manager is restarted, it counts pods that are
    gone.
    """

    def __init__(self) -> None:
        self._ready: Counter[OwnerKey] = Counter()
        self._terminating: Counter[OwnerKey] = Counter()

    def of_siblings(self, pod: PodRecord) -> tuple[int, int]:
        """Return how many pods of its controller are ready, itself included, and how many are terminating."""
        if pod.owner is None:
            return 0, 0
        key = owner_key(pod.namespace, pod.owner)
        return self._ready[key], self._terminating[key]

    def changed(self, old: PodRecord | None, new: PodRecord | None) -> None:
        """Handle a change, as a handler of an informer."""
        for pod, change in ((old, -1), (new, 1)):
            if pod is None or pod.owner is None or not (pod.is_terminating or pod.is_ready):
                continue
            counts = self._terminating if pod.is_terminating else self._ready
            key = owner_key(pod.namespace, pod.owner)
            counts[key] += change
            if not counts[key]:
                del counts[key]
