"""The record of a PodDisruptionBudget."""

from collections.abc import Mapping

import msgspec

from kubevalues import NOTHING, Selector, SelectorError
from rescheduler.cluster.object_meta import (
    Object,
    OwnerReference,
    PartialObject,
    decode_object,
)
from rescheduler.cluster.pod_constraints import LabelSelector

__all__ = ["BudgetRecord", "decode_budget"]

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
