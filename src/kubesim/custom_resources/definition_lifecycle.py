"""Serve a custom kind once its definition is accepted, and delete its objects with the definition."""

from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.object_deletion import DeleteOptions
from kubesim.apiserver.object_store import StoreChange, StoredObject
from kubesim.apiserver.simulated_cluster import SimulatedCluster
from kubesim.custom_resources import served_definitions
from kubesim.delayed_queue import DelayedQueue

__all__ = ["DefinitionFinalizer", "EstablishingController"]


class EstablishingController:
    """Updates the served kinds immediately with every change of a definition."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._definitions = cluster.kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        cluster.store.observers.append(self._changed)

    def _changed(self, kind: ResourceKind, change: StoreChange) -> None:
        if kind != self._definitions:
            return
        if change.after is not None:
            self._establish(change.after)
        elif change.before is not None:
            self._withdraw(change.before)

    def _establish(self, record: StoredObject) -> None:
        content = record.object
        collection = self._cluster.store.collection(self._definitions)
        others = [other.object for other in collection.ordered() if other.uid != record.uid]
        updated = served_definitions.established(content, others, self._cluster.clock.now())
        if updated != content:
            self._cluster.store.put(
                self._definitions, updated
            )  # this calls `_changed` again, which then has nothing to add
            return
        accepted = any(
            condition["type"] == "Established" and condition["status"] == "True"
            for condition in updated["status"]["conditions"]
        )
        spec = updated["spec"]
        for known in list(self._cluster.kinds):
            if (known.group, known.plural) == (spec["group"], spec["names"]["plural"]) and known.custom:
                self._cluster.kinds.remove(known)
        for defined in served_definitions.kinds_of(updated) if accepted else ():
            if defined.served:
                self._cluster.kinds.add(defined)

    def _withdraw(self, record: StoredObject) -> None:
        for kind in served_definitions.kinds_of(record.object):
            self._cluster.store.drop_collection(kind)
            self._cluster.kinds.remove(kind)


class DefinitionFinalizer:
    def __init__(self, cluster: SimulatedCluster, *, delay_s: float = 0.05) -> None:
        self._cluster = cluster
        self._definitions = cluster.kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        self._queue = DelayedQueue(cluster.clock, delay_s, self._process)
        cluster.store.observers.append(self._changed)

    def _changed(self, kind: ResourceKind, change: StoreChange) -> None:
        if kind == self._definitions and change.after is not None and change.after.deleting:
            self._queue.add(change.after.name)
        elif kind.custom and change.after is None:
            self._queue.add(f"{kind.plural}.{kind.group}")

    def _process(self, name: str) -> None:
        record = self._cluster.store.find(self._definitions, "", name)
        if record is None or not record.deleting:
            return
        # All versions of a kind are the same objects.
        kind = served_definitions.kinds_of(record.object)[0]
        for item in list(self._cluster.store.collection(kind).ordered()):
            if not item.deleting:
                options = DeleteOptions(policy="Background")
                self._cluster.deletion.delete(kind, item.namespace, item.name, options)
        if next(self._cluster.store.collection(kind).ordered(), None) is None:
            self._release(record)

    def _release(self, record: StoredObject) -> None:
        content = record.object
        metadata = content["metadata"]
        held_by = [each for each in metadata["finalizers"] if each != served_definitions.CLEANUP_FINALIZER]
        if not held_by:
            self._cluster.store.remove(self._definitions, record)
        elif held_by != metadata["finalizers"]:
            content["metadata"] = {**metadata, "finalizers": held_by}
            self._cluster.store.put(self._definitions, content)
