"""The scheduling queue: pods that are tried next, and pods that wait for a change in the cluster."""

import heapq
from collections.abc import Iterable, Mapping

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.object_store import StoreChange, StoredObject
from kubesim.apiserver.simulated_cluster import SimulatedCluster
from kubesim.scheduler.node_info import PodInfo
from kubesim.scheduler.scheduler_cache import SchedulerCache

__all__ = ["ANYTHING", "REQUEUED_BY", "SchedulerState", "SchedulingQueue"]

_ON_THE_NODE = frozenset({"NodePorts", "NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits"})
_AMONG_PODS = frozenset({"InterPodAffinity", "PodTopologySpread"})
_VOLUMES = frozenset({"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"})
ANYTHING = "*"

REQUEUED_BY: Mapping[str, frozenset[str]] = {
    "pod placed": _AMONG_PODS,
    "pod changed": _AMONG_PODS | {"NodeResourcesFit"},
    "pod ends": frozenset({"PodTopologySpread"}),
    "pod gone": _AMONG_PODS | _ON_THE_NODE,
    "node changed": frozenset({ANYTHING}),
    "storage changed": _VOLUMES,
    "namespace changed": frozenset({"InterPodAffinity"}),
}
"""The filters whose result may change, by what happened."""


class SchedulingQueue:
    def __init__(self) -> None:
        self._pods: dict[str, PodInfo] = {}
        self._unschedulable_pods: dict[str, frozenset[str]] = {}
        self._turns: list[tuple[int, str, str, str]] = []
        """A heap; entries of deleted, parked or replaced pods are skipped."""
        self.attempts: dict[str, int] = {}
        """The number of failed attempts by uid."""

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, key: str) -> PodInfo | None:
        return self._pods.get(key)

    def put(self, pod: PodInfo) -> None:
        """Add a pod if it is new or its spec has changed."""
        before = self._pods.get(pod.key)
        self._pods[pod.key] = pod
        if before is None or before.uid != pod.uid or _spec_changed(before, pod):
            self._unschedulable_pods.pop(pod.key, None)
            self._queue(pod)

    def remove(self, key: str) -> None:
        if (pod := self._pods.pop(key, None)) is not None:
            self.attempts.pop(pod.uid, None)
        self._unschedulable_pods.pop(key, None)

    def park(self, pod: PodInfo, refused_by: Iterable[str]) -> int:
        """Park a pod until a change concerns these filters, and return its number of attempts."""
        self._unschedulable_pods[pod.key] = frozenset(refused_by)
        self.attempts[pod.uid] = self.attempts.get(pod.uid, 0) + 1
        return self.attempts[pod.uid]

    def requeued_by(self, happened: str) -> list[PodInfo]:
        """Return the parked pods that a change may help; they stay parked until they are released."""
        filters = REQUEUED_BY[happened]
        return [
            self._pods[key]
            for key, refused_by in self._unschedulable_pods.items()
            if ANYTHING in filters or ANYTHING in refused_by or filters & refused_by
        ]

    def release(self, key: str) -> None:
        if self._unschedulable_pods.pop(key, None) is not None:
            self._queue(self._pods[key])

    def has_next(self) -> bool:
        self._skip_stale()
        return bool(self._turns)

    def next(self) -> PodInfo | None:
        """Remove and return the most important pod, then the oldest."""
        self._skip_stale()
        return self._pods[heapq.heappop(self._turns)[2]] if self._turns else None

    def _queue(self, pod: PodInfo) -> None:
        created = pod.object["metadata"].get("creationTimestamp") or ""
        heapq.heappush(self._turns, (-pod.priority, created, pod.key, pod.uid))

    def _skip_stale(self) -> None:
        while self._turns:
            *_, key, uid = self._turns[0]
            pod = self._pods.get(key)
            if pod is not None and pod.uid == uid and key not in self._unschedulable_pods:
                return
            heapq.heappop(self._turns)


def _spec_changed(before: PodInfo, after: PodInfo) -> bool:
    return before.spec != after.spec or before.labels != after.labels


_FOLLOWED = {
    ("", "nodes"): "node changed",
    ("", "namespaces"): "namespace changed",
    ("", "persistentvolumeclaims"): "storage changed",
    ("", "persistentvolumes"): "storage changed",
    ("storage.k8s.io", "storageclasses"): "storage changed",
    ("storage.k8s.io", "csinodes"): "storage changed",
    ("storage.k8s.io", "csidrivers"): "storage changed",
    ("storage.k8s.io", "csistoragecapacities"): "storage changed",
    ("storage.k8s.io", "volumeattachments"): "storage changed",
}
_PODS, _NODES = ("", "pods"), ("", "nodes")


class SchedulerState:
    def __init__(self, cluster: SimulatedCluster, scheduler: str) -> None:
        self.view = SchedulerCache()
        self.waiting = SchedulingQueue()
        self.nominations: dict[str, dict[str, PodInfo]] = {}
        self.retrying: set[str] = set()
        """The uids of pods that wait for their next attempt."""
        self._scheduler = scheduler
        self._store = cluster.store
        self._budgets = cluster.kind("policy/v1", "PodDisruptionBudget")
        for kind in cluster.kinds:
            if kind.stored_as in _FOLLOWED or kind.stored_as == _PODS:
                for record in cluster.store.collection(kind).ordered():
                    self.observe(kind, StoreChange(record.version, None, record))

    @property
    def budgets(self) -> list[Object]:
        return [record.object for record in self._store.collection(self._budgets).ordered()]

    def observe(self, kind: ResourceKind, change: StoreChange) -> str | None:
        """Apply a change; return its name in `REQUEUED_BY`, or None if it helps no waiting pod."""
        if kind.stored_as == _PODS:
            return self._pod_changed(change)
        happened = _FOLLOWED.get(kind.stored_as)
        if happened is None:
            return None
        if change.after is None:
            if change.before is not None:
                self.view.drop(kind.name, change.before.object)
            return happened
        before = self.view.nodes.get(change.after.name)
        self.view.put(kind.name, change.after.object)
        if kind.stored_as == _NODES and before is not None:
            # Most reports of kubelets change nothing that filters use.
            return None if before.is_like(self.view.nodes[change.after.name]) else happened
        return happened

    def _pod_changed(self, change: StoreChange) -> str | None:
        before, after = change.before, change.after
        if before is not None:
            self._forget_nomination(before)
        if after is None:
            assert before is not None
            self.view.drop_pod(before.key)
            self.waiting.remove(before.key)
            return "pod gone" if _is_placed(before) else None
        pod = PodInfo(after.object)
        if _is_placed(after):
            placed = self.view.placed(pod.key)
            self.view.put_pod(pod)
            self.waiting.remove(pod.key)
            return _what_happened(placed, pod)
        if self._is_ours(pod):
            self.waiting.put(pod)
            if pod.nominated_node:
                self.nominations.setdefault(pod.nominated_node, {})[pod.key] = pod
        else:
            self.waiting.remove(pod.key)
        return None

    def _is_ours(self, pod: PodInfo) -> bool:
        """Return whether this scheduler handles the pod: not gated and not ended."""
        asked = pod.spec.get("schedulerName") or "default-scheduler"
        gated = bool(pod.spec.get("schedulingGates"))
        return asked == self._scheduler and not gated and not pod.terminating and not pod.finished

    def _forget_nomination(self, record: StoredObject) -> None:
        node = record.fields.get("status.nominatedNodeName", "")
        if node and (promised := self.nominations.get(node)) is not None:
            promised.pop(record.key, None)
            if not promised:
                del self.nominations[node]


def _is_placed(record: StoredObject) -> bool:
    return bool(record.fields["spec.nodeName"])


def _what_happened(before: PodInfo | None, pod: PodInfo) -> str | None:
    if pod.finished:
        return "pod gone" if before is not None else None
    if before is None or before.uid != pod.uid:
        return "pod placed"
    if before.counts_like(pod):  # kubelets write statuses all the time
        return None
    return "pod ends" if pod.terminating and not before.terminating else "pod changed"
