"""What the scheduler knows: its view of the cluster, kept up from the store, and who waits for it."""

from rescheduler.simulator.cluster import Cluster
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.kinds import Kind
from rescheduler.simulator.scheduler.pods import PodView
from rescheduler.simulator.scheduler.view import ClusterView
from rescheduler.simulator.scheduler.waiting import Waiting
from rescheduler.simulator.store import Change, Record

__all__ = ["Following"]

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


class Following:
    def __init__(self, cluster: Cluster, scheduler: str) -> None:
        self.view = ClusterView()
        self.waiting = Waiting()
        self.promises: dict[str, dict[str, PodView]] = {}
        self.retrying: set[str] = set()
        """Uids of pods whose pause before the next try has begun."""
        self._scheduler = scheduler
        self._store = cluster.store
        self._budgets = cluster.kind("policy/v1", "PodDisruptionBudget")
        for kind in cluster.kinds:
            if kind.stored_as in _FOLLOWED or kind.stored_as == _PODS:
                for record in cluster.store.collection(kind).ordered():
                    self.notice(kind, Change(record.version, None, record))

    @property
    def budgets(self) -> list[Object]:
        return [record.object for record in self._store.collection(self._budgets).ordered()]

    def notice(self, kind: Kind, change: Change) -> str | None:
        """What happened, in the words of `WOKEN_BY`; None if it helps no pod that waits."""
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
            # Kubelets report all the time that nothing is new.
            return None if before.is_like(self.view.nodes[change.after.name]) else happened
        return happened

    def _pod_changed(self, change: Change) -> str | None:
        before, after = change.before, change.after
        if before is not None:
            self._forget_promise(before)
        if after is None:
            assert before is not None
            self.view.drop_pod(before.key)
            self.waiting.remove(before.key)
            return "pod gone" if _is_placed(before) else None
        pod = PodView(after.object)
        if _is_placed(after):
            placed = self.view.placed(pod.key)
            self.view.put_pod(pod)
            self.waiting.remove(pod.key)
            return _what_happened(placed, pod)
        if self._is_ours(pod):
            self.waiting.put(pod)
            if pod.nominated_node:
                self.promises.setdefault(pod.nominated_node, {})[pod.key] = pod
        else:
            self.waiting.remove(pod.key)
        return None

    def _is_ours(self, pod: PodView) -> bool:
        """Gated pods are not looked at, and pods that end before they began never will be."""
        asked = pod.spec.get("schedulerName") or "default-scheduler"
        gated = bool(pod.spec.get("schedulingGates"))
        return asked == self._scheduler and not gated and not pod.terminating and not pod.finished

    def _forget_promise(self, record: Record) -> None:
        node = record.fields.get("status.nominatedNodeName", "")
        if node and (promised := self.promises.get(node)) is not None:
            promised.pop(record.key, None)
            if not promised:
                del self.promises[node]


def _is_placed(record: Record) -> bool:
    return bool(record.fields["spec.nodeName"])


def _what_happened(before: PodView | None, pod: PodView) -> str | None:
    if pod.finished:
        return "pod gone" if before is not None else None
    if before is None or before.uid != pod.uid:
        return "pod placed"
    if before.counts_like(pod):  # kubelets write statuses all the time
        return None
    return "pod ends" if pod.terminating and not before.terminating else "pod changed"
