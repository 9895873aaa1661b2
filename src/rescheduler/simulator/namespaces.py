"""Namespaces that are being deleted: first everything in them, then they themselves."""

from rescheduler.simulator.background import WorkQueue
from rescheduler.simulator.cluster import Cluster
from rescheduler.simulator.deletion import DeleteOptions
from rescheduler.simulator.kinds import Kind
from rescheduler.simulator.store import Change, Record

__all__ = ["NamespaceTermination"]

_FINALIZER = "kubernetes"


class NamespaceTermination:
    def __init__(self, cluster: Cluster, *, delay_s: float = 0.05) -> None:
        self._cluster = cluster
        self._namespaces = cluster.kind("v1", "Namespace")
        self._queue = WorkQueue(cluster.clock, delay_s, self._look_at)
        self._terminating: set[str] = set()
        cluster.store.observers.append(self._changed)

    def _changed(self, kind: Kind, change: Change) -> None:
        after = change.after
        if kind == self._namespaces:
            if after is not None and after.deleting:
                self._terminating.add(after.name)
                self._queue.add(after.name)
            elif after is None and change.before is not None:
                self._terminating.discard(change.before.name)
        elif after is None and change.before is not None and change.before.namespace in self._terminating:
            self._queue.add(change.before.namespace)

    def _look_at(self, name: str) -> None:
        record = self._cluster.store.find(self._namespaces, "", name)
        if record is None or not record.deleting:
            return
        for kind in self._kinds_inside():
            for item in list(self._cluster.store.collection(kind).ordered(name)):
                if not item.deleting:
                    self._cluster.deletion.delete(kind, name, item.name, DeleteOptions(policy="Background"))
        if all(
            next(self._cluster.store.collection(k).ordered(name), None) is None for k in self._kinds_inside()
        ):
            self._finalize(record)

    def _kinds_inside(self) -> list[Kind]:
        return list({kind.stored_as: kind for kind in self._cluster.kinds if kind.namespaced}.values())

    def _finalize(self, record: Record) -> None:
        content = record.object
        content["spec"] = {**content.get("spec", {})}
        finalizers = [item for item in content["spec"].get("finalizers") or () if item != _FINALIZER]
        content["spec"]["finalizers"] = finalizers
        if finalizers or content["metadata"].get("finalizers"):
            if finalizers != record.object.get("spec", {}).get("finalizers"):
                self._cluster.store.put(self._namespaces, content)
            return
        self._cluster.store.remove(self._namespaces, record)
