"""What an informer knows: objects by key, with indices; every change of it as old and new.

Pure bookkeeping, without a network or a clock. Versions decide what is newer: Kubernetes guarantees that
resource versions of one resource are numbers that grow.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

from rescheduler.kube.api_resources import ObjectIdentity

__all__ = ["CacheChange", "IndexFunction", "IndexedCache"]

T = TypeVar("T")

IndexFunction = Callable[[T], Iterable[Hashable]]
"""The values under which an object is to be found, e.g. the node of a pod."""


class CacheChange(NamedTuple, Generic[T]):
    """Added: no old. Deleted: no new. Otherwise both."""

    old: T | None
    new: T | None


class IndexedCache(Generic[T]):
    def __init__(
        self, identify: Callable[[T], ObjectIdentity], indices: Mapping[str, IndexFunction[T]] | None = None
    ) -> None:
        self._identify = identify
        self._objects: dict[str, T] = {}
        self._indices = dict(indices or {})
        self._found: dict[str, dict[Hashable, dict[str, T]]] = {name: {} for name in self._indices}

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def __contains__(self, key: str) -> bool:
        return key in self._objects

    def get(self, key: str) -> T | None:
        return self._objects.get(key)

    def find(self, index: str, value: Hashable) -> list[T]:
        """All objects that `index` files under `value`; raises KeyError for an index that nobody declared."""
        return list(self._found[index].get(value, {}).values())

    def version(self, key: str) -> int:
        """Of the object as it is held; 0 if it is not."""
        held = self._objects.get(key)
        return 0 if held is None else int(self._identify(held).version)

    def put(self, item: T) -> list[CacheChange[T]]:
        """Adds or replaces; nothing happens if the held state is as new or newer."""
        identity = self._identify(item)
        if int(identity.version) <= self.version(identity.key):
            return []
        return self._exchange(identity.key, item)

    def remove(self, key: str) -> list[CacheChange[T]]:
        """Nothing happens if there is no such object."""
        return self._exchange(key, None)

    def replace(self, items: Iterable[T], *, rewound: bool = False) -> list[CacheChange[T]]:
        """Makes `items` all there is; returns what that changed, deletions first.

        Here a difference counts, not an order. `rewound` says that versions are worth nothing: a store that
        was restored from a backup gives the same numbers again, to other states.
        """
        fresh = {self._identify(item).key: item for item in items}
        changes: list[CacheChange[T]] = []
        for key in [key for key in self._objects if key not in fresh]:
            changes += self.remove(key)
        for key, item in fresh.items():
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
            # Deleted and made anew under the same name: nobody may take one for the other.
            return [CacheChange(old, None), CacheChange(None, new)]
        return [CacheChange(old, new)]

    def _reindex(self, key: str, old: T | None, new: T | None) -> None:
        for name, values_of in self._indices.items():
            shelves = self._found[name]
            before = set() if old is None else set(values_of(old))
            after = set() if new is None else set(values_of(new))
            for value in before - after:
                del shelves[value][key]
                if not shelves[value]:
                    del shelves[value]
            if new is not None:
                for value in after:
                    shelves.setdefault(value, {})[key] = new
