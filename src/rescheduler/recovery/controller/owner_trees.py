"""Find the owner tree of a pod: a workload, the controllers below it and their pods; or a pod without a
controller.

The topmost workload is the key of the tree (`Deployment/shop/web`), and one worker examines all its pods
together. This module only reads from caches.

The Job controller counts every pod that is deleted before it succeeded as failed, also evicted ones
(`isPodFailed` in its source, v1.37), unless `podFailurePolicy` ignores the condition DisruptionTarget, which
evictions set. If more pods fail than `backoffLimit` allows, the Job fails. So rescheduler never causes the
last failure (`job_forbids_eviction`).
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rescheduler.api.well_known_names import AVOIDED_NODES_ANNOTATION, FAILED_ATTEMPTS_ANNOTATION
from rescheduler.cluster.object_meta import OwnerKey, OwnerReference
from rescheduler.cluster.pod_classes import controllers_above
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.sources.watched_cluster import WatchedCluster
from rescheduler.cluster.sources.watched_objects import nested_field, owner_key_of_workload
from rescheduler.cluster.workload_record import WORKLOAD_KINDS, WorkloadRecord
from rescheduler.config.policy import FailedPodsPolicy
from rescheduler.kube.api_resources import Object
from rescheduler.recovery.recovery_decision import RETRIES_ANNOTATION
from rescheduler.recovery.replica_lineage import KSE_ANNOTATIONS
from rescheduler.recovery.workload_examination import (
    LedgerHolder,
    WorkloadExamination,
    examine_workload,
    holder_of,
)

__all__ = ["POD", "RECOVERY_ANNOTATIONS", "OwnerTrees", "job_forbids_eviction", "tree_key"]

POD: Final = "Pod"
RECOVERY_ANNOTATIONS: Final = frozenset(
    {RETRIES_ANNOTATION, FAILED_ATTEMPTS_ANNOTATION, *KSE_ANNOTATIONS.values()}
)
"""Annotations that ask for recovery, or record it."""
_INTERMEDIATE_KIND: Final = {"Deployment": "ReplicaSet", "CronJob": "Job"}
"""The kind of the controllers between these workloads and their pods."""


def tree_key(kind: str, key: str) -> str:
    return f"{kind}/{key}"


class OwnerTrees:
    def __init__(self, cluster: WatchedCluster) -> None:
        self._cluster = cluster
        self._records = cluster.watched.records

    def key_of(self, pod: PodRecord) -> str:
        """Return the key of the tree of a pod; empty for pods of unknown controllers and copies of running
        migrations."""
        if pod.owner is None:
            return "" if self._is_copy_under_way(pod) else tree_key(POD, pod.key)
        return self._key_of_topmost(self.above(pod))

    def key_of_workload(self, kind: str, item: Object) -> str:
        """Return the key of the tree of a workload; empty while a workload above it is not in the cache
        yet."""
        record = self._records.workload(item, kind)
        return self._key_of_topmost((record, *self._controllers(record.namespace, record.owner)))

    def _key_of_topmost(self, chain: Sequence[WorkloadRecord]) -> str:
        # Watches of different kinds are not in step: a ReplicaSet may arrive before its Deployment.
        if not chain or self._is_watched_workload(chain[-1].owner):
            return ""
        return tree_key(chain[-1].kind, chain[-1].key)

    def _is_watched_workload(self, owner: OwnerReference | None) -> bool:
        return (
            owner is not None
            and WORKLOAD_KINDS.get(owner.kind) == owner.api_version
            and owner.kind in self._cluster.workloads
        )

    def above(self, pod: PodRecord) -> tuple[WorkloadRecord, ...]:
        """Return the known controllers above a pod, the nearest first."""
        return self._controllers(pod.namespace, pod.owner)

    def pods(self, key: str) -> list[PodRecord]:
        """Return all pods of the tree, also those that are terminating."""
        kind, _, name = key.partition("/")
        seen = self._cluster.watched.pods
        if kind == POD:
            pod = seen.get(name)
            return [pod] if pod is not None and self.key_of(pod) == key else []
        item = self.item(kind, name)
        if item is None:
            return []
        controllers = [owner_key_of_workload(kind, item)]
        if kind in _INTERMEDIATE_KIND:
            below = _INTERMEDIATE_KIND[kind]
            controllers += [owner_key_of_workload(below, each) for each in self._below(below, controllers[0])]
        return [pod for controller in controllers for pod in seen.find("owner", controller)]

    def holder(self, key: str) -> LedgerHolder | None:
        """Return the holder of the ledger; None if the tree does not exist any more."""
        kind, _, name = key.partition("/")
        if kind == POD:
            pod = self._cluster.watched.pods.get(name)
            return None if pod is None or self.key_of(pod) != key else holder_of(pod, ())
        record = self.record(kind, name)
        return None if record is None else LedgerHolder(kind, name, record.uid, record.annotations)

    def pods_of(self, holder: LedgerHolder) -> list[PodRecord]:
        return self.pods(tree_key(holder.kind, holder.key))

    def examine(self, key: str, terms: FailedPodsPolicy, now_s: float) -> WorkloadExamination | None:
        """Examine a tree; None if it does not exist any more, or its owner does not ask for recovery."""
        holder = self.holder(key)
        if holder is None or not _may_request_recovery(holder, terms):
            return None
        node_of = self._cluster.watched.nodes.get
        return examine_workload(holder, self.pods(key), self.above, node_of, terms, now_s)

    def item(self, kind: str, key: str) -> Object | None:
        """Return a workload from the cache."""
        found = self._cluster.workloads.get(kind)
        return None if found is None else found.get(key)

    def record(self, kind: str, key: str) -> WorkloadRecord | None:
        item = self.item(kind, key)
        return None if item is None else self._records.workload(item, kind)

    def excludes_nodes_itself(self, pod: PodRecord) -> bool:
        """Return whether the annotation about avoided nodes comes from the workload's own template."""
        if pod.owner is None:
            return True
        item = self.item(pod.owner.kind, f"{pod.namespace}/{pod.owner.name}")
        return AVOIDED_NODES_ANNOTATION in (
            nested_field(item or {}, "spec", "template", "metadata", "annotations") or {}
        )

    def _below(self, kind: str, owner: OwnerKey) -> Iterator[Object]:
        workloads = self._cluster.workloads.get(kind)
        if workloads is not None:
            yield from workloads.informer.find("owner", owner)

    def _is_copy_under_way(self, pod: PodRecord) -> bool:
        """Return whether a pod is the copy of a running migration, which handles its failure."""
        watched = self._cluster.watched
        items = watched.migrations.find("pod", (pod.namespace, pod.name))
        found = (self._records.migration(item) for item in items)
        return any(
            each is not None
            and not each.is_finished
            and each.status.target_pod is not None
            and each.status.target_pod.uid == pod.uid
            for each in found
        )

    def _controllers(self, namespace: str, owner: OwnerReference | None) -> tuple[WorkloadRecord, ...]:
        def find(owner: OwnerReference) -> WorkloadRecord | None:
            record = self.record(owner.kind, f"{namespace}/{owner.name}")
            return record if record is not None and record.uid == owner.uid else None

        return controllers_above(owner, find)


def _may_request_recovery(holder: LedgerHolder, terms: FailedPodsPolicy) -> bool:
    """Return whether the holder, a Job below it or the configuration may ask for recovery."""
    asked = (
        bool(terms.default_retries)
        or holder.kind == "CronJob"
        or bool(RECOVERY_ANNOTATIONS & holder.annotations.keys())
    )
    return terms.enabled and asked


_DEFAULT_BACKOFF_LIMIT: Final = 6


def job_forbids_eviction(job: Object) -> str:
    """Return why a pod of the Job must not be evicted; empty if the Job would create another one."""
    if _ignores_disruptions(job):
        return ""
    failed, limit = _number(nested_field(job, "status", "failed"), 0), _backoff_limit(job)
    if failed < limit:
        return ""
    return f"its Job would fail: {failed} of its pods failed, and backoffLimit is {limit}"


def _backoff_limit(job: Object) -> int:
    per_index = nested_field(job, "spec", "backoffLimitPerIndex")
    if per_index is not None:
        # Only the pods know how often their index has failed, so only a limit of 0 can be decided here.
        return 0 if per_index == 0 else 1 << 31
    return _number(nested_field(job, "spec", "backoffLimit"), _DEFAULT_BACKOFF_LIMIT)


def _ignores_disruptions(job: Object) -> bool:
    """Return whether the first rule that applies ignores disruptions. Rules about exit codes don't apply
    while containers run."""
    for rule in nested_field(job, "spec", "podFailurePolicy", "rules") or ():
        conditions = rule.get("onPodConditions") or ()
        if any(_is_disruption(each) for each in conditions):
            return bool(rule.get("action") == "Ignore")
    return False


def _is_disruption(condition: Any) -> bool:
    return bool(condition.get("type") == "DisruptionTarget" and condition.get("status", "True") == "True")


def _number(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) else otherwise
