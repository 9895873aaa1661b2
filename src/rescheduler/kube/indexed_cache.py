"""A cache of objects by key, with indices; every change is reported as old and new.

It has no network and no clock. Versions decide which state is newer: Kubernetes guarantees that the resource
versions of one resource are increasing numbers.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

from rescheduler.kube.api_resources import ObjectIdentity

__all__ = ["CacheChange", "IndexFunction", "IndexedCache"]

T = TypeVar("T")

IndexFunction = Callable[[T], Iterable[Hashable]]
"""Returns the values under which an object is indexed, e.g. the node of a pod."""


class CacheChange(NamedTuple, Generic[T]):
    """A change: without `old` if added, without `new` if deleted."""

    old: T | None
    new: T | None


class IndexedCache(Generic[T]):
    def __init__(
        self, identify: Callable[[T], ObjectIdentity], indices: Mapping[str, IndexFunction[T]] | None = None
    ) -> None:
        self._identify = identify
        self._objects: dict[str, T] = {}
        self._indices = dict(indices or {})
        self._entries: dict[str, dict[Hashable, dict[str, T]]] = {name: {} for name in self._indices}

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def __contains__(self, key: str) -> bool:
        return key in self._objects

    def get(self, key: str) -> T | None:
        return self._objects.get(key)

    def find(self, index: str, value: Hashable) -> list[T]:
        """Return all objects with `value` in `index`; raise KeyError for an undeclared index."""
        return list(self._entries[index].get(value, {}).values())

    def version(self, key: str) -> int:
        """Return the version of the cached object; 0 if there is none."""
        held = self._objects.get(key)
        return 0 if held is None else int(self._identify(held).version)

    def put(self, item: T) -> list[CacheChange[T]]:
        """Add or replace an object, unless the cached state is as new or newer."""
        identity = self._identify(item)
        if int(identity.version) <= self.version(identity.key):
            return []
        return self._exchange(identity.key, item)

    def remove(self, key: str) -> list[CacheChange[T]]:
        """Remove an object, if it is cached."""
        return self._exchange(key, None)

    def replace(self, items: Iterable[T], *, rewound: bool = False) -> list[CacheChange[T]]:
        """Replace the whole content by `items`; return the changes, deletions first.

        Any difference counts as a change, even to an older version. With `rewound`, equal versions may have
        different content: a store that was restored from a backup assigns the same numbers again.
        """
        new = {self._identify(item).key: item for item in items}
        changes: list[CacheChange[T]] = []
        for key in [key for key in self._objects if key not in new]:
            changes += self.remove(key)
        for key, item in new.items():
            held = self._objects.get(key)
            if held is None or self._identify(held) != self._identify(item) or (rewound and held != item):
                changes += self._exchange(key, item)
        return changes

    def _exchange(self, key: str, new: T | None) -> list[CacheChange[T]]:
        old = self._objects.get(key)
        self._reindex(key, old, new)
        if new is not None:
            self._objects[key] = new
        elif old is not None:
            del self._objects[key]
        else:
            return []
        if old is not None and new is not None and self._identify(old).uid != self._identify(new).uid:
            # Deleted and recreated with the same name: handlers must not confuse the two.
            return [CacheChange(old, None), CacheChange(None, new)]
        return [CacheChange(old, new)]

    def _reindex(self, key: str, old: T | None, new: T | None) -> None:
        for name, values_of in self._indices.items():
            entries = self._entries[name]
            before = set() if old is None else set(values_of(old))
            after = set() if new is None else set(values_of(new))
            for value in before - after:
                del entries[value][key]
                if not entries[value]:
                    del entries[value]
            if new is not None:
                for value in after:
                    entries.setdefault(value, {})[key] = new
