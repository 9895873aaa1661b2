"""A cache that has not heard of our own writes yet, and the answers to them: whichever is newer.

Without it, a second look right after a write would not see what the first has done, and do it again. What an
answer said is forgotten as soon as the informer has caught up with it, and in any case after a while: the
informer may have missed that the object came and went.
"""

import asyncio
from collections.abc import Hashable, Mapping
from typing import Final, Generic, TypeVar

from rescheduler.kube.indexed_cache import IndexFunction
from rescheduler.kube.informer import Informer

__all__ = ["ReadYourWrites"]

T = TypeVar("T")

_TRUSTED_S: Final = 30.0


class ReadYourWrites(Generic[T]):
    def __init__(self, informer: Informer[T], indices: Mapping[str, IndexFunction[T]]) -> None:
        """`indices` are those of the informer."""
        self.informer = informer
        self._indices = indices
        self._identify = informer.resource.identify
        self._learnt: dict[str, tuple[T, float]] = {}
        self._gone: dict[str, tuple[str, float]] = {}
        informer.subscribe(self._on_change)

    def key(self, item: T) -> str:
        return self._identify(item).key

    def get(self, key: str) -> T | None:
        cached = self.informer.get(key)
        if cached is not None and self._is_gone(key, cached):
            cached = None
        learnt = self._trusted(key)
        if learnt is None or (cached is not None and self._version(cached) >= self._version(learnt)):
            return cached
        return learnt

    def find(self, index: str, value: Hashable) -> list[T]:
        cached = self.informer.find(index, value)
        if not self._learnt and not self._gone:
            # The usual case, and there may be thousands.
            return sorted(cached, key=self.key)
        values_of = self._indices[index]
        learnt = (key for key, (item, _) in self._learnt.items() if value in values_of(item))
        found = (self.get(key) for key in sorted({*map(self.key, cached), *learnt}))
        return [item for item in found if item is not None and value in set(values_of(item))]

    def learn(self, item: T) -> None:
        """What the server answered; older answers change nothing."""
        key = self._identify(item).key
        known = self._trusted(key)
        if known is None or self._version(known) <= self._version(item):
            self._learnt[key] = item, _now_s()

    def learn_gone(self, key: str, uid: str) -> None:
        self._gone[key] = uid, _now_s()
        learnt = self._learnt.get(key)
        if learnt is not None and self._identify(learnt[0]).uid == uid:
            del self._learnt[key]

    def _on_change(self, old: T | None, new: T | None) -> None:
        key = self._identify(old if new is None else new).key  # type: ignore[arg-type]  # one of them is there
        learnt = self._learnt.get(key)
        if new is None:
            self._gone.pop(key, None)
            if learnt is not None and old is not None and self._uid(learnt[0]) == self._uid(old):
                del self._learnt[key]
        elif learnt is not None and self._version(learnt[0]) <= self._version(new):
            del self._learnt[key]

    def _trusted(self, key: str) -> T | None:
        learnt = self._learnt.get(key)
        if learnt is None:
            return None
        if _now_s() - learnt[1] > _TRUSTED_S:
            del self._learnt[key]
            return None
        return learnt[0]

    def _is_gone(self, key: str, cached: T) -> bool:
        gone = self._gone.get(key)
        if gone is None or gone[0] != self._uid(cached):
            return False
        if _now_s() - gone[1] > _TRUSTED_S:
            del self._gone[key]
            return False
        return True

    def _version(self, item: T) -> int:
        return int(self._identify(item).version)

    def _uid(self, item: T) -> str:
        return self._identify(item).uid


def _now_s() -> float:
    return asyncio.get_running_loop().time()
