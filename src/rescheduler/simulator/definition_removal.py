"""Definitions that are being deleted: first the objects of their kind, then they themselves."""

from rescheduler.simulator.background import WorkQueue
from rescheduler.simulator.cluster import Cluster
from rescheduler.simulator.custom import definitions
from rescheduler.simulator.deletion import DeleteOptions
from rescheduler.simulator.kinds import Kind
from rescheduler.simulator.store import Change, Record

__all__ = ["DefinitionRemoval"]


class DefinitionRemoval:
    def __init__(self, cluster: Cluster, *, delay_s: float = 0.05) -> None:
        self._cluster = cluster
        self._definitions = cluster.kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        self._queue = WorkQueue(cluster.clock, delay_s, self._look_at)
        cluster.store.observers.append(self._changed)

    def _changed(self, kind: Kind, change: Change) -> None:
        if kind == self._definitions and change.after is not None and change.after.deleting:
            self._queue.add(change.after.name)
        elif kind.custom and change.after is None:
            self._queue.add(f"{kind.plural}.{kind.group}")

    def _look_at(self, name: str) -> None:
        record = self._cluster.store.find(self._definitions, "", name)
        if record is None or not record.deleting:
            return
        # All versions of a kind are the same objects.
        kind = definitions.kinds_of(record.object)[0]
        for item in list(self._cluster.store.collection(kind).ordered()):
            if not item.deleting:
                options = DeleteOptions(policy="Background")
                self._cluster.deletion.delete(kind, item.namespace, item.name, options)
        if next(self._cluster.store.collection(kind).ordered(), None) is None:
            self._release(record)

    def _release(self, record: Record) -> None:
        content = record.object
        metadata = content["metadata"]
        held_by = [each for each in metadata["finalizers"] if each != definitions.CLEANUP_FINALIZER]
        if not held_by:
            self._cluster.store.remove(self._definitions, record)
        elif held_by != metadata["finalizers"]:
            content["metadata"] = {**metadata, "finalizers": held_by}
            self._cluster.store.put(self._definitions, content)
