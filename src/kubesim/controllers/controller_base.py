"""The base of all controllers: what they read, when they run, and how they write.

A controller maps changes to keys (`watches`) and reconciles one key at a time (`reconcile`). It reads the
store directly and thus always sees its own writes. Writes pass all checks of the API server and take a short
time, so other writes can happen between a decision and its write, as over a network.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import datetime

from kubesim.admission import object_defaults
from kubesim.apiserver.api_messages import Object, decode, encode
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.metrics_server import UsageStore
from kubesim.apiserver.object_deletion import DeleteOptions
from kubesim.apiserver.object_store import StoreChange, StoredObject, key_of
from kubesim.apiserver.simulated_cluster import SimulatedCluster
from kubesim.apiserver.status_errors import StatusError
from kubesim.apiserver.write_options import Preconditions, WriteOptions
from kubesim.controllers.pod_index import IndexedPod, PodIndex
from kubesim.controllers.selector_index import SelectorIndex
from kubesim.delayed_queue import KeyQueue
from kubesim.virtual_time import pause

__all__ = [
    "ChangeHandler",
    "ControllerBase",
    "ControllerContext",
    "ControllerWrites",
    "SelectingController",
    "split_key",
]


class ControllerWrites:
    def __init__(self, cluster: SimulatedCluster, controller: str, takes_s: float) -> None:
        """Write as a controller; `controller` is its service account, as in `replicaset-controller`."""
        self._cluster = cluster
        self._takes_s = takes_s
        self._options = WriteOptions(
            manager="kube-controller-manager",
            user=f"system:serviceaccount:kube-system:{controller}",
            groups=("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
        )

    async def create(self, kind: ResourceKind, namespace: str, content: Object) -> Object:
        await self._wait_for_delivery()
        raw = await self._cluster.writer.create(kind, namespace, content, self._options)
        return _decoded(raw)

    async def change(
        self, kind: ResourceKind, content: Object, edit: Callable[[Object], None], *, subresource: str = ""
    ) -> Object:
        """Update an object; fail if it has changed since it was read."""
        version = content["metadata"]["resourceVersion"]

        def edit_that_version(live: Object) -> None:
            edit(live)
            live["metadata"]["resourceVersion"] = version

        return await self.patch(kind, content, edit_that_version, subresource=subresource)

    async def patch(
        self, kind: ResourceKind, content: Object, edit: Callable[[Object], None], *, subresource: str = ""
    ) -> Object:
        """Edit the current state of the object, if its uid is still the same."""
        metadata = content["metadata"]

        def edited(live: Object | None) -> Object:
            assert live is not None
            if live["metadata"]["uid"] != metadata["uid"]:
                raise _replaced(kind, metadata["name"])
            edit(live)
            return live

        await self._wait_for_delivery()
        raw, _ = await self._cluster.writer.change(
            kind,
            metadata.get("namespace", ""),
            metadata["name"],
            edited,
            self._options,
            subresource=subresource,
        )
        return _decoded(raw)

    async def set_status(self, kind: ResourceKind, content: Object, status: Object) -> Object:
        """Write the status if it differs from the one that was read."""
        if content.get("status", {}) == status:
            return content

        def edit(live: Object) -> None:
            live["status"] = status

        return await self.change(kind, content, edit, subresource="status")

    async def delete(
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        uid: str,
        *,
        policy: str = "",
        grace_s: int | None = None,
    ) -> bool:
        """Delete an object and return whether it existed."""
        await self._wait_for_delivery()
        options = DeleteOptions(grace_s=grace_s, policy=policy, preconditions=Preconditions(uid=uid))
        record = self._cluster.store.find(kind, namespace, name)
        if record is not None and record.uid == uid:
            await self._cluster.admission.webhooks.review_deletion(kind, record, self._options)
        try:
            self._cluster.deletion.delete(kind, namespace, name, options)
        except StatusError as failure:
            if failure.code not in {404, 409}:
                raise
            return False
        return True

    async def _wait_for_delivery(self) -> None:
        if self._takes_s:
            await pause(self._cluster.clock, self._takes_s)


def _decoded(raw: bytes) -> Object:
    content: Object = decode(raw)
    return content


def _replaced(kind: ResourceKind, name: str) -> StatusError:
    return StatusError(409, "Conflict", f'{kind.resource} "{name}" has been replaced since it was read')


_MOST_COMPLETED = 10_000

ChangeHandler = Callable[[StoreChange], None]


class ControllerContext:
    """The cluster, with an index of pods for controllers."""

    def __init__(
        self, cluster: SimulatedCluster, *, react_s: float, write_s: float, usage: UsageStore | None = None
    ) -> None:
        self.cluster = cluster
        self.store = cluster.store
        self.clock = cluster.clock
        self.react_s = react_s
        self.write_s = write_s
        self.usage = usage
        self.pod_kind = cluster.kind("v1", "Pod")
        self.pods = PodIndex(self.store.collection(self.pod_kind).ordered())
        self._completed: dict[str, tuple[int, bytes]] = {}
        """Objects with their defaults by uid, with the version of the object."""

    def now(self) -> datetime:
        return self.clock.now()

    def read(self, kind: ResourceKind, namespace: str, name: str) -> Object | None:
        """Return an object with its defaults, which loaded objects may lack.

        Return None also for an object without a spec: loading creates such owners from references, and
        there is nothing to reconcile.
        """
        record = self.store.find(kind, namespace, name)
        content = self.complete(kind, record) if record is not None and b'"spec"' in record.raw else None
        return content if content is not None and "spec" in content else None

    def complete(self, kind: ResourceKind, record: StoredObject) -> Object:
        version, raw = self._completed.get(record.uid, (0, b""))
        if version == record.version:
            return _decoded(raw)  # controllers read an object several times per change
        content = object_defaults.apply_defaults(
            kind,
            record.object,
            "UPDATE",
            now=self.now(),
            lookup=self.cluster.admission.lookup,
            subresource="status",
        )
        if len(self._completed) >= _MOST_COMPLETED:  # deleted objects are not removed singly
            self._completed.clear()
        self._completed[record.uid] = record.version, encode(content)
        return content


class ControllerBase(ABC):
    name: str
    """The name of its service account."""

    def __init__(self, context: ControllerContext) -> None:
        self.context = context
        self.writes = ControllerWrites(context.cluster, self.name, context.write_s)
        self.queue = KeyQueue(context.clock, context.react_s, self.reconcile)

    def kind(self, api_version: str, name: str) -> ResourceKind:
        return self.context.cluster.kind(api_version, name)

    @abstractmethod
    def watches(self) -> Mapping[ResourceKind, ChangeHandler]:
        """Return a handler for changes of each kind; pods go to `pod_changed`."""

    def pod_changed(self, before: IndexedPod | None, after: IndexedPod | None) -> None:  # noqa: B027 - few controllers need it
        """Handle a change of a pod."""

    @abstractmethod
    async def reconcile(self, key: str) -> float | None:
        """Make the state match the spec; return after how many seconds to reconcile again, if at all.

        May be called at any time and any number of times. A `StatusError` leads to a retry with back-off.
        Any other exception is a bug in the controller.
        """

    def enqueue(self, change: StoreChange) -> None:
        """Enqueue an object of the controller's own kind."""
        record = change.after or change.before
        assert record is not None
        self.queue.add(key_of(record.namespace, record.name))


class SelectingController(ControllerBase):
    """A controller whose own objects select pods by labels."""

    selectors: SelectorIndex

    def own_changed(self, change: StoreChange) -> None:
        self.selectors.update(change)
        self.enqueue(change)

    def enqueue_selecting(self, *pods: IndexedPod | None) -> None:
        """Enqueue all objects that select one of these pods."""
        for pod in pods:
            if pod is not None:
                for key in self.selectors.matching(pod.namespace, pod.labels):
                    self.queue.add(key)


def split_key(key: str) -> tuple[str, str]:
    namespace, _, name = key.rpartition("/")
    return namespace, name
