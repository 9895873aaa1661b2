"""The object store: like etcd, JSON bytes by key, one version counter and a history of changes.

A `StoredObject` is immutable; a write makes a new one. `kind` and `apiVersion` are not stored but added when
an object is served, so that one object can be served in several API versions.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from operator import attrgetter

import msgspec

from kubesim.apiserver.api_messages import Object, decode, encode
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.selectable_fields import selectable
from kubesim.apiserver.status_errors import StatusError

__all__ = ["Compacted", "ObjectStore", "StoreChange", "StoredCollection", "StoredObject", "key_of"]


_MAX_BYTES = 1_572_864
"""The largest object in bytes: etcd's default."""


class StoredObject(msgspec.Struct, frozen=True, gc=False):
    """One object at one version: its bytes, and the values that lists, watches and owners need."""

    raw: bytes
    key: str
    version: int
    namespace: str
    name: str
    uid: str
    labels: dict[str, str]
    fields: dict[str, str]
    owners: tuple[str, ...]
    deleting: bool

    @property
    def object(self) -> Object:
        """Return a decoded copy that the caller may change."""
        decoded: Object = decode(self.raw)
        return decoded

    def shown_at(self, version: int) -> bytes:
        """Return the bytes with another version, as a watch shows a deleted object."""
        if version == self.version:
            return self.raw
        content = self.object
        content["metadata"]["resourceVersion"] = str(version)
        return encode(content)


class StoreChange(msgspec.Struct, frozen=True, gc=False):
    version: int
    before: StoredObject | None
    after: StoredObject | None


class Compacted(Exception):  # noqa: N818 - says what happened to the history, is answered with 410
    """The requested history is gone; `oldest` is the first version that is still available."""

    def __init__(self, version: int, oldest: int) -> None:
        super().__init__(f"version {version} was compacted, the oldest known is {oldest}")
        self.version = version
        self.oldest = oldest


def key_of(namespace: str, name: str) -> str:
    """Return the key, which sorts as in etcd: by the bytes of `namespace/name`."""
    return f"{namespace}/{name}" if namespace else name


class StoredCollection:
    """All objects of one resource, and the history of their changes."""

    def __init__(self, history_limit: int) -> None:
        self.records: dict[str, StoredObject] = {}
        self.changes: list[StoreChange] = []
        self.dropped = 0
        """The number of forgotten changes, so that positions in the history stay valid."""
        self.listeners: dict[Callable[[], object], None] = {}
        self._forgotten_version = 0
        self._sorted: list[str] | None = []
        self._limit = history_limit

    def record(self, change: StoreChange) -> None:
        old, new = change.before, change.after
        if new is not None:
            if old is None:
                self._sorted = None
            self.records[new.key] = new
        elif old is not None:
            del self.records[old.key]
            self._sorted = None
        self.changes.append(change)
        if len(self.changes) > self._limit * 1.25:  # dropping many together is cheap
            self._drop(len(self.changes) - self._limit)
        for listener in tuple(self.listeners):
            listener()

    def ordered(self, namespace: str = "", after: str = "") -> Iterator[StoredObject]:
        """Return records by key, optionally of one namespace or after the key `after`."""
        keys = self._keys()
        start = bisect_right(keys, after) if after else 0
        if not namespace:
            return map(self.records.__getitem__, keys[start:])
        start = max(start, bisect_left(keys, f"{namespace}/"))
        return map(self.records.__getitem__, keys[start : bisect_left(keys, f"{namespace}0")])

    def _keys(self) -> list[str]:
        if self._sorted is None:
            self._sorted = sorted(self.records)
        return self._sorted

    def as_of(self, version: int) -> "StoredCollection":
        """Return the collection at an earlier version."""
        undone = self.changes[self.position_after(version) - self.dropped :]
        if not undone:
            return self
        past = StoredCollection(self._limit)
        past.records = dict(self.records)
        for change in reversed(undone):
            if change.before is not None:
                past.records[change.before.key] = change.before
            elif change.after is not None:
                del past.records[change.after.key]
        past._sorted = None
        return past

    def position_after(self, version: int) -> int:
        """Return the position of the first change after `version`; raise `Compacted` if it is forgotten."""
        if version < self._forgotten_version:
            raise Compacted(version, self._forgotten_version)
        return self.dropped + bisect_right(self.changes, version, key=attrgetter("version"))

    def changes_from(self, position: int) -> list[StoreChange]:
        if position < self.dropped:
            raise Compacted(0, self._forgotten_version)
        return self.changes[position - self.dropped :]

    def forget_up_to(self, version: int) -> None:
        self._drop(bisect_right(self.changes, version, key=attrgetter("version")))
        self._forgotten_version = max(self._forgotten_version, version)

    def _drop(self, count: int) -> None:
        if count:
            self._forgotten_version = max(self._forgotten_version, self.changes[count - 1].version)
            del self.changes[:count]
            self.dropped += count


class ObjectStore:
    def __init__(self, *, history_limit: int = 20_000) -> None:
        self.version = 1
        self._compacted = 0
        self._history_limit = history_limit
        self.observers: list[Callable[[ResourceKind, StoreChange], object]] = []
        """Called with every change, in order, after it is stored."""
        self._collections: dict[tuple[str, str], StoredCollection] = {}
        self._by_uid: dict[str, tuple[ResourceKind, StoredObject]] = {}
        self._dependents: dict[str, dict[str, tuple[ResourceKind, StoredObject]]] = {}

    def collection(self, kind: ResourceKind) -> StoredCollection:
        found = self._collections.get(kind.stored_as)
        if found is None:
            found = self._collections[kind.stored_as] = StoredCollection(self._history_limit)
            found.forget_up_to(self._compacted)
        return found

    def find(self, kind: ResourceKind, namespace: str, name: str) -> StoredObject | None:
        return self.collection(kind).records.get(key_of(namespace, name))

    def by_uid(self, uid: str) -> tuple[ResourceKind, StoredObject] | None:
        return self._by_uid.get(uid)

    def dependents(self, owner_uid: str) -> list[tuple[ResourceKind, StoredObject]]:
        """Return the objects that have this uid among their owners."""
        return list(self._dependents.get(owner_uid, {}).values())

    def put(self, kind: ResourceKind, content: Object, *, deletes: bool = False) -> StoredObject:
        """Store an object. The caller hands over `content`: its version is written into it."""
        metadata = content["metadata"]
        metadata["resourceVersion"] = str(self.version + 1)
        content.pop("apiVersion", None)
        content.pop("kind", None)
        raw = encode(content)
        if len(raw) > _MAX_BYTES and not deletes and metadata.pop("managedFields", None):
            raw = encode(content)  # the API server tries again without them
        if len(raw) > _MAX_BYTES:
            raise StatusError(500, "", "etcdserver: request is too large")
        self.version += 1
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        owners = metadata.get("ownerReferences")
        record = StoredObject(
            raw=raw,
            key=key_of(namespace, name),
            version=self.version,
            namespace=namespace,
            name=name,
            uid=metadata["uid"],
            labels=metadata.get("labels") or {},
            fields=selectable(kind, content),
            owners=tuple(owner["uid"] for owner in owners) if owners else (),
            deleting="deletionTimestamp" in metadata,
        )
        collection = self.collection(kind)
        self._record(kind, collection, StoreChange(self.version, collection.records.get(record.key), record))
        return record

    def remove(self, kind: ResourceKind, record: StoredObject) -> StoreChange:
        self.version += 1
        change = StoreChange(self.version, record, None)
        self._record(kind, self.collection(kind), change)
        return change

    def _record(self, kind: ResourceKind, collection: StoredCollection, change: StoreChange) -> None:
        if (old := change.before) is not None:
            self._by_uid.pop(old.uid, None)
            for owner in old.owners:
                siblings = self._dependents.get(owner, {})
                siblings.pop(old.uid, None)
                if not siblings:
                    self._dependents.pop(owner, None)
        if (new := change.after) is not None:
            self._by_uid[new.uid] = (kind, new)
            for owner in new.owners:
                self._dependents.setdefault(owner, {})[new.uid] = (kind, new)
        collection.record(change)
        for observer in self.observers:
            observer(kind, change)

    def compact(self, version: int | None = None) -> None:
        """Forget the history up to a version, by default all of it."""
        self._compacted = self.version if version is None else min(version, self.version)
        for collection in self._collections.values():
            collection.forget_up_to(self._compacted)

    def drop_collection(self, kind: ResourceKind) -> None:
        """Remove all objects of a resource that is no longer defined."""
        for record in list(self.collection(kind).records.values()):
            self.remove(kind, record)
