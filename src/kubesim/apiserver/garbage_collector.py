"""Delete objects whose owners are gone, the contents of namespaces that are being deleted, and old Events.

The collector is level-triggered: it looks at single objects by uid and decides from the current state. An
owner must have the referenced uid, and be in the same namespace or cluster-scoped.
"""

from collections import deque
from datetime import datetime, timedelta

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.object_deletion import FOREGROUND, ORPHAN, DeleteOptions
from kubesim.apiserver.object_store import StoreChange, StoredObject
from kubesim.apiserver.simulated_cluster import SimulatedCluster
from kubesim.apiserver.write_options import Preconditions
from kubesim.delayed_queue import DelayedQueue

__all__ = ["EVENT_TTL_S", "EventExpiry", "GarbageCollector", "NamespaceController"]


class GarbageCollector:
    def __init__(self, cluster: SimulatedCluster, *, delay_s: float = 0.05) -> None:
        self._cluster = cluster
        self._store = cluster.store
        self._queue = DelayedQueue(cluster.clock, delay_s, self._process)
        self._store.observers.append(self._changed)

    def _changed(self, _: ResourceKind, change: StoreChange) -> None:
        before, after = change.before, change.after
        if after is not None and (after.owners or after.deleting):
            self._queue.add(after.uid)
        if before is not None and after is None:
            for _, dependent in self._store.dependents(before.uid):
                self._queue.add(dependent.uid)
        if before is not None and (after is None or after.owners != before.owners):
            for owner in before.owners:  # one that waits for its dependents may be done
                self._queue.add(owner)

    def _process(self, uid: str) -> None:
        found = self._store.by_uid(uid)
        if found is None:
            return
        kind, record = found
        content = record.object
        finalizers = content["metadata"].get("finalizers") or ()
        if record.deleting:
            if ORPHAN in finalizers:
                self._release_dependents(record)
                self._finish(kind, record, ORPHAN)
            elif FOREGROUND in finalizers:
                self._delete_dependents(kind, record)
        elif record.owners:
            self._check_owners(kind, record, content)

    def _check_owners(self, kind: ResourceKind, record: StoredObject, content: Object) -> None:
        """Keep the object, remove references to owners that are gone, or delete it."""
        references = content["metadata"]["ownerReferences"]
        states = [self._state(kind, record, reference) for reference in references]
        if "there" in states:
            kept = [item for item, state in zip(references, states, strict=True) if state == "there"]
            if len(kept) < len(references):
                content["metadata"]["ownerReferences"] = kept
                self._store.put(kind, content)
            return
        waited_for = "waits" in states and bool(self._store.dependents(record.uid))
        finalizers = content["metadata"].get("finalizers") or ()
        if waited_for or FOREGROUND in finalizers:
            policy = "Foreground"
        else:
            policy = "Orphan" if ORPHAN in finalizers else "Background"
        options = DeleteOptions(policy=policy, preconditions=Preconditions(uid=record.uid))
        self._cluster.deletion.delete(kind, record.namespace, record.name, options)

    def _state(self, kind: ResourceKind, record: StoredObject, reference: Object) -> str:
        """Return whether an owner is `there`, `gone`, or `waits` for the deletion of its dependents."""
        owner_kind = self._cluster.kinds.named(reference["apiVersion"], reference["kind"])
        if owner_kind is None or (owner_kind.namespaced and not kind.namespaced):
            return "there"  # its kind is unknown, so it can't be known to be gone
        namespace = record.namespace if owner_kind.namespaced else ""
        owner = self._store.find(owner_kind, namespace, reference["name"])
        if owner is None or owner.uid != reference["uid"]:
            return "gone"
        if owner.deleting and FOREGROUND in (owner.object["metadata"].get("finalizers") or ()):
            return "waits"
        return "there"

    def _release_dependents(self, owner: StoredObject) -> None:
        for kind, dependent in self._store.dependents(owner.uid):
            if dependent.namespace != owner.namespace and owner.namespace:
                continue
            content = dependent.object
            metadata = content["metadata"]
            metadata["ownerReferences"] = [
                reference for reference in metadata["ownerReferences"] if reference["uid"] != owner.uid
            ]
            if not metadata["ownerReferences"]:
                del metadata["ownerReferences"]
            self._store.put(kind, content)

    def _delete_dependents(self, kind: ResourceKind, owner: StoredObject) -> None:
        """Delete all dependents, also those that don't block the owner, while the owner still exists."""
        for _, dependent in self._store.dependents(owner.uid):
            if not dependent.deleting:
                self._process(dependent.uid)
        blocked = any(
            reference["uid"] == owner.uid and reference.get("blockOwnerDeletion")
            for _, dependent in self._store.dependents(owner.uid)
            for reference in dependent.object["metadata"]["ownerReferences"]
        )
        if not blocked:
            self._finish(kind, owner, FOREGROUND)

    def _finish(self, kind: ResourceKind, record: StoredObject, finalizer: str) -> None:
        """Remove the finalizer; the object is deleted if it was the last one."""
        content = record.object
        metadata = content["metadata"]
        metadata["finalizers"] = [name for name in metadata["finalizers"] if name != finalizer]
        if metadata["finalizers"] or metadata.get("deletionGracePeriodSeconds"):
            self._store.put(kind, content)
        else:
            self._store.remove(kind, record)


_FINALIZER = "kubernetes"


class NamespaceController:
    def __init__(self, cluster: SimulatedCluster, *, delay_s: float = 0.05) -> None:
        self._cluster = cluster
        self._namespaces = cluster.kind("v1", "Namespace")
        self._queue = DelayedQueue(cluster.clock, delay_s, self._process)
        self._terminating: set[str] = set()
        cluster.store.observers.append(self._changed)

    def _changed(self, kind: ResourceKind, change: StoreChange) -> None:
        after = change.after
        if kind == self._namespaces:
            if after is not None and after.deleting:
                self._terminating.add(after.name)
                self._queue.add(after.name)
            elif after is None and change.before is not None:
                self._terminating.discard(change.before.name)
        elif after is None and change.before is not None and change.before.namespace in self._terminating:
            self._queue.add(change.before.namespace)

    def _process(self, name: str) -> None:
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

    def _kinds_inside(self) -> list[ResourceKind]:
        return list({kind.stored_as: kind for kind in self._cluster.kinds if kind.namespaced}.values())

    def _finalize(self, record: StoredObject) -> None:
        content = record.object
        content["spec"] = {**content.get("spec", {})}
        finalizers = [item for item in content["spec"].get("finalizers") or () if item != _FINALIZER]
        content["spec"]["finalizers"] = finalizers
        if finalizers or content["metadata"].get("finalizers"):
            if finalizers != record.object.get("spec", {}).get("finalizers"):
                self._cluster.store.put(self._namespaces, content)
            return
        self._cluster.store.remove(self._namespaces, record)


EVENT_TTL_S = 3600.0
"""How long an Event is kept after its last change: the API server's default (`--event-ttl`)."""


class EventExpiry:
    """Removes old Events, so that they don't fill up a cluster that runs for days."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._events = cluster.kind("v1", "Event")
        self._expiring: deque[tuple[datetime, StoredObject]] = deque()
        cluster.store.observers.append(self._changed)

    def _changed(self, kind: ResourceKind, change: StoreChange) -> None:
        if kind.stored_as != self._events.stored_as or change.after is None:
            return
        self._expiring.append((self._cluster.clock.now() + timedelta(seconds=EVENT_TTL_S), change.after))
        if len(self._expiring) == 1:
            self._cluster.clock.call_later(EVENT_TTL_S, self._remove_expired)

    def _remove_expired(self) -> None:
        store, now = self._cluster.store, self._cluster.clock.now()
        while self._expiring and self._expiring[0][0] <= now:
            _, event = self._expiring.popleft()
            if store.find(self._events, event.namespace, event.name) is event:
                store.remove(self._events, event)
        if self._expiring:
            wait = self._expiring[0][0] - now
            self._cluster.clock.call_later(wait.total_seconds(), self._remove_expired)
