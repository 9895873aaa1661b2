"""Which migrations a change is about: their keys are looked at again."""

from collections.abc import Callable, Iterable

from rescheduler.controller.dispatcher import Dispatcher
from rescheduler.controller.followed import (
    Followed,
    is_under_way,
    key_of_item,
    owner_key_of_workload,
    said,
)
from rescheduler.controller.forced_removal import ForcedRemovals
from rescheduler.controller.observing import source_of
from rescheduler.kube.informer import Handler
from rescheduler.kube.resources import Object
from rescheduler.migrations.marks import lock_of
from rescheduler.model.metadata import owner_key, owner_keys_of_object
from rescheduler.model.migrations import KIND
from rescheduler.model.nodes import NodeRecord
from rescheduler.model.plan import Handover
from rescheduler.model.pods import PodRecord

__all__ = ["Waking"]


class Waking:
    def __init__(
        self,
        seen: Followed,
        wake: Callable[[str], None],
        dispatcher: Dispatcher,
        removals: ForcedRemovals,
    ) -> None:
        self._seen = seen
        self._removals = removals
        self._wake = wake
        self._dispatcher = dispatcher

    def subscribe(self) -> Callable[[], None]:
        """Every migration is looked at once, and from then on when something about it changes."""
        seen = self._seen
        ends = [
            seen.migrations.informer.subscribe(self._migration),
            seen.pods.informer.subscribe(self._pod),
            seen.budgets.informer.subscribe(self._budget),
            seen.nodes.subscribe(self._node),
            *(informer.subscribe(self._of_workload(kind)) for kind, informer in seen.workloads.items()),
        ]

        def end() -> None:
            for each in ends:
                each()

        return end

    def _migration(self, old: Object | None, new: Object | None) -> None:
        item = old if new is None else new
        assert item is not None
        if new is None:
            self._removals.remember(item)
        key = key_of_item(item)
        self._dispatcher.observe(key)
        self._wake(key)
        migration = self._seen.records.migration(item) if said(item, "spec", "group") else None
        if migration is not None:
            self._dispatcher.wake_group(migration)
        self._dispatcher.dispatch_if_freed()

    def _pod(self, old: PodRecord | None, new: PodRecord | None) -> None:
        for pod in (old, new):
            if pod is not None:
                self._wake_all(self._moving(pod))
        marked = old if new is None else new
        if marked is not None and lock_of(marked):
            self._wake_named(marked, is_new=old is None)
        pod = old if new is None else new
        assert pod is not None
        if new is None or new.is_terminating or new.is_finished:
            # Whoever still waits to move it waits in vain.
            for item in self._seen.migrations.find("pod", (pod.namespace, pod.name)):
                self._wake(key_of_item(item))

    def _wake_named(self, pod: PodRecord, *, is_new: bool) -> None:
        """The migration that the pod's label names, also one that is over: its request may have come late."""
        holders = self._seen.migrations.find("mark", (pod.namespace, lock_of(pod)))
        for each in holders:
            self._wake(key_of_item(each))
        key = f"{pod.namespace}/{lock_of(pod)}"
        if not holders and is_new and pod.owner is None:
            self._removals.suspect(key, pod)
            self._wake(key)
        elif self._removals.concerns(key):
            self._wake(key)

    def _moving(self, pod: PodRecord) -> list[Object]:
        """Those that have it as source or target, or may find in it the replacement that they wait for."""
        find = self._seen.migrations.find
        found = find("pod", (pod.namespace, pod.name))
        if pod.owner is not None:
            waiting = find("owner", owner_key(pod.namespace, pod.owner))
            found += [each for each in waiting if said(each, "status", "handover") == Handover.EVICT]
        return found

    def _of_workload(self, kind: str) -> Handler[Object]:
        def changed(old: Object | None, new: Object | None) -> None:
            item = old if new is None else new
            assert item is not None
            owner, find = owner_key_of_workload(kind, item), self._seen.migrations.find
            self._wake_all(find("owner", owner))
            for replica_set in self._seen.workloads["ReplicaSet"].find("owner", owner):
                self._wake_all(find("owner", owner_key_of_workload("ReplicaSet", replica_set)))

        return changed

    def _budget(self, old: Object | None, new: Object | None) -> None:
        """Those whose pod it covers, or has covered until now, or would if that pod were still there."""
        item = old if new is None else new
        assert item is not None
        covers = [self._seen.records.protection(each) for each in (old, new) if each is not None]
        for found in self._seen.migrations.find("running", item["metadata"]["namespace"]):
            migration = self._seen.records.migration(found)
            source = None if migration is None else source_of(migration, self._seen)
            if source is None or any(
                each is not None and each.pods.matches(source.labels) for each in covers
            ):
                self._wake_all([found])
        for owner in owner_keys_of_object(item) if new is not None else ():
            # A temporary budget of ours: its migration may be over by now, and then it is to go.
            if owner.kind == KIND:
                self._wake(f"{owner.namespace}/{owner.name}")

    def _node(self, old: NodeRecord | None, new: NodeRecord | None) -> None:
        if old is not None and new is not None and old.is_ready == new.is_ready:
            return
        node = old if new is None else new
        assert node is not None
        self._wake_all(self._seen.migrations.find("node", node.name))

    def _wake_all(self, items: Iterable[Object]) -> None:
        """Of those that are under way: who waits for his turn is woken by that, or by his own time."""
        for item in items:
            if is_under_way(item):
                self._wake(key_of_item(item))
