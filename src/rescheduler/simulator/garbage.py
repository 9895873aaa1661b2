"""Garbage collection: what happens to objects whose owners go.

A level-triggered look at single objects, by uid: whatever the change was, what is to be done follows
from what is there now. An owner counts only if it is the object it was (its uid), and in the same
namespace or in none.
"""

from rescheduler.simulator.background import WorkQueue
from rescheduler.simulator.cluster import Cluster
from rescheduler.simulator.deletion import FOREGROUND, ORPHAN, DeleteOptions
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.kinds import Kind
from rescheduler.simulator.options import Preconditions
from rescheduler.simulator.store import Change, Record

__all__ = ["GarbageCollector"]


class GarbageCollector:
    def __init__(self, cluster: Cluster, *, delay_s: float = 0.05) -> None:
        self._cluster = cluster
        self._store = cluster.store
        self._queue = WorkQueue(cluster.clock, delay_s, self._look_at)
        self._store.observers.append(self._changed)

    def _changed(self, _: Kind, change: Change) -> None:
        before, after = change.before, change.after
        if after is not None and (after.owners or after.deleting):
            self._queue.add(after.uid)
        if before is not None and after is None:
            for _, dependent in self._store.dependents(before.uid):
                self._queue.add(dependent.uid)
        if before is not None and (after is None or after.owners != before.owners):
            for owner in before.owners:  # one that waits for its dependents may be done
                self._queue.add(owner)

    def _look_at(self, uid: str) -> None:
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
            self._judge(kind, record, content)

    def _judge(self, kind: Kind, record: Record, content: Object) -> None:
        """By its owners: kept, kept with fewer of them, or deleted."""
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

    def _state(self, kind: Kind, record: Record, reference: Object) -> str:
        """`there`, `gone`, or `waits` for its dependents to go before it goes itself."""
        owner_kind = self._cluster.kinds.named(reference["apiVersion"], reference["kind"])
        if owner_kind is None or (owner_kind.namespaced and not kind.namespaced):
            return "there"  # it can't be looked up, so nobody can say that it is gone
        namespace = record.namespace if owner_kind.namespaced else ""
        owner = self._store.find(owner_kind, namespace, reference["name"])
        if owner is None or owner.uid != reference["uid"]:
            return "gone"
        if owner.deleting and FOREGROUND in (owner.object["metadata"].get("finalizers") or ()):
            return "waits"
        return "there"

    def _release_dependents(self, owner: Record) -> None:
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

    def _delete_dependents(self, kind: Kind, owner: Record) -> None:
        """All of them, also those that do not hold it up: they must be judged while it still waits."""
        for _, dependent in self._store.dependents(owner.uid):
            if not dependent.deleting:
                self._look_at(dependent.uid)
        blocked = any(
            reference["uid"] == owner.uid and reference.get("blockOwnerDeletion")
            for _, dependent in self._store.dependents(owner.uid)
            for reference in dependent.object["metadata"]["ownerReferences"]
        )
        if not blocked:
            self._finish(kind, owner, FOREGROUND)

    def _finish(self, kind: Kind, record: Record, finalizer: str) -> None:
        """The object's own finalizer goes; if it was the last, so does the object."""
        content = record.object
        metadata = content["metadata"]
        metadata["finalizers"] = [name for name in metadata["finalizers"] if name != finalizer]
        if metadata["finalizers"] or metadata.get("deletionGracePeriodSeconds"):
            self._store.put(kind, content)
        else:
            self._store.remove(kind, record)
