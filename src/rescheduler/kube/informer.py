"""A cache that follows the server: one list, then changes as they happen.

                  list done                 ended, broken, silent, 5xx
    LISTING ─────────────────▶ WATCHING ───────────────────────────────▶ WAITING
     ▲    │ failed              │   ▲                                      │
     │    ▼                     │   └──── resume after the last version ───┘
     └─ WAITING ◀───────────────┘
                   410 Gone, refused (4xx), undecodable, events out of sequence, a server
                   behind our version, no event or bookmark for `relist_after_s`

What readers of the cache can rely on:

- The cache is the complete state of the server at some version: a list replaces it in one step, then events
  follow one by one, in the server's order. An older state never replaces a newer one.
- The cache has a change before any handler is called. Each handler gets every change once and in order, as
  old and new. After a new list it gets the missed changes, deletions first; objects that were created and
  deleted in between are not reported.
- `is_fresh` says whether the cache is followed: it is synced, and its watch is open, or was lost only a few
  seconds ago. Silence alone means nothing: there may be no changes. A watch is suspect when a request of the
  same client got no answer (`ServerLiveness`): then it is opened again, and fresh when the server accepts it.
  The kernel ends connections whose peer is gone within about ten seconds (`http_transport`).
- `staleness()` is the time since the server's last sign of life (event, bookmark, accepted watch, list). A
  quiet watch is opened again every `silence_s`, so staleness hardly exceeds that. It does not show how far
  the server is behind its own store, so every irreversible action does a live read first.
- Lists after the first are read with a quorum, so they never return to the state of a lagging server. If one
  does, the store was restored from a backup: the cache follows it and logs that.

Handlers are called synchronously and must be quick. If a handler raises, the error is logged and counted; the
cache, the other handlers and later changes are not affected, but that handler has missed this change.
"""

import contextlib
import logging
import math
import random
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping
from itertools import takewhile
from typing import Final, Generic, Protocol, Self, TypeVar

from rescheduler.kube import errors
from rescheduler.kube.api_resources import ApiResource
from rescheduler.kube.client import Client
from rescheduler.kube.reflector import (
    ListOptions,
    Reflector,
    ReflectorCounts,
    ReflectorPhase,
    ReflectorTiming,
)
from rescheduler.kube.transport import loop_s
from rescheduler.kube.watch_cache import CacheChange, IndexedCache, IndexFunction
from rescheduler.kube.work_queue import background_task

__all__ = [
    "ChangeHandler",
    "Informer",
    "ListOptions",
    "ReadYourWrites",
    "ReflectorCounts",
    "ReflectorPhase",
    "ReflectorTiming",
]

log = logging.getLogger(__name__)

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class ChangeHandler(Protocol[T_contra]):
    def __call__(self, old: T_contra | None, new: T_contra | None, /) -> None:
        """Handle a change: without `old` if added, without `new` if deleted; otherwise both have the same
        uid."""
        ...


class Informer(Generic[T]):
    """Follow one resource. Use `async with informer.running():` or `run()` in a task group, then `synced()`.

    Custom resources work, too: while the server does not have the kind, the informer retries and `failure`
    says so.
    """

    def __init__(
        self,
        client: Client,
        resource: ApiResource[T],
        options: ListOptions = ListOptions(),  # noqa: B008 - frozen
        *,
        indices: Mapping[str, IndexFunction[T]] | None = None,
        timing: ReflectorTiming = ReflectorTiming(),  # noqa: B008 - frozen
        rng: random.Random | None = None,
    ) -> None:
        """`indices` return the values under which `find` finds an object; they must never raise."""
        self.resource = resource
        self._timing = timing
        self._cache: IndexedCache[T] = IndexedCache(resource.identify, indices)
        self._handlers: dict[object, ChangeHandler[T]] = {}
        """The handlers by subscription: the same handler may subscribe several times."""
        self._reflector = Reflector(
            client,
            resource,
            options,
            cache=self._cache,
            on_changes=self._deliver,
            timing=timing,
            rng=rng or random.Random(),  # noqa: S311 - jitter, not a secret
        )

    # --- running ---

    async def run(self) -> None:
        """Follow the server until cancelled; then no task and no connection remains."""
        await self._reflector.run()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Follow the server while the body runs."""
        async with background_task(self.run(), f"informer of {self.resource.label}"):
            yield self

    async def synced(self) -> None:
        """Wait until the first list is in the cache and the handlers have been called.

        Raises RuntimeError if the informer stops before that.
        """
        await self._reflector.synced_or_stopped.wait()
        if not self.is_synced:
            raise RuntimeError(f"the informer of {self.resource.label} stopped before its first list")

    def subscribe(self, handler: ChangeHandler[T]) -> Callable[[], None]:
        """Call `handler` with every cached object, as added, and from then on with every change.

        Returns a function that ends the subscription.
        """
        subscription = object()
        self._handlers[subscription] = handler
        for item in list(self._cache):
            self._call(handler, CacheChange(None, item))

        def end() -> None:
            self._handlers.pop(subscription, None)

        return end

    # --- reading ---

    def __len__(self) -> int:
        return len(self._cache)

    def __iter__(self) -> Iterator[T]:
        return iter(self._cache)

    def __contains__(self, key: str) -> bool:
        return key in self._cache

    def get(self, key: str) -> T | None:
        return self._cache.get(key)

    def find(self, index: str, value: Hashable) -> list[T]:
        return self._cache.find(index, value)

    def find_by_key(self, index: str, value: Hashable) -> Mapping[str, T]:
        return self._cache.find_by_key(index, value)

    # --- freshness ---

    @property
    def is_synced(self) -> bool:
        return self._reflector.synced.is_set()

    def staleness(self, now: float | None = None) -> float:
        """Return the seconds since the server's last sign of life, infinite before the first; `now` is loop
        time."""
        return self._reflector.health.staleness(loop_s() if now is None else now)

    @property
    def is_fresh(self) -> bool:
        """Return whether the cache is synced and followed; see the top of this module."""
        timing = self._timing
        is_current = self.lost_s() < timing.lost_after_s and self.staleness() < timing.stale_after_s
        return self.is_synced and is_current

    def lost_s(self) -> float:
        """Return for how many seconds no watch has been open; 0 while one is."""
        return self._reflector.health.lost(loop_s())

    @property
    def failure(self) -> errors.KubeError | None:
        """Return why the cache does not follow the server now; None if it does."""
        return self._reflector.failure

    @property
    def phase(self) -> ReflectorPhase:
        return self._reflector.phase

    @property
    def counts(self) -> ReflectorCounts:
        return self._reflector.counts

    # --- handlers ---

    def _deliver(self, changes: list[CacheChange[T]]) -> None:
        # A handler that subscribes during this call gets the whole cache instead.
        handlers = tuple(self._handlers.items())
        for change in changes:
            for subscription, handler in handlers:
                if subscription in self._handlers:
                    self._call(handler, change)

    def _call(self, handler: ChangeHandler[T], change: CacheChange[T]) -> None:
        try:
            handler(change.old, change.new)
        except Exception:
            self.counts.handler_failures += 1
            log.exception("a handler of %s failed for %s", self.resource.label, self._key(change))

    def _key(self, change: CacheChange[T]) -> str:
        item = change.old if change.new is None else change.new
        assert item is not None
        return self.resource.identify(item).key


_TRUSTED_S: Final = 30.0
"""How long an answer counts if the informer does not catch up."""


class ReadYourWrites(Generic[T]):
    """An informer's cache, combined with the answers to our own writes: the newer state counts.

    Without it, a reconciler that runs right after a write would not see the write, and repeat it. An answer
    is dropped when the informer has caught up with it, and in any case after a while: the informer may have
    missed that the object was created and deleted.
    """

    def __init__(self, informer: Informer[T], indices: Mapping[str, IndexFunction[T]]) -> None:
        """`indices` must be those of the informer."""
        self.informer = informer
        self._indices = indices
        self._identify = informer.resource.identify
        self._answers: IndexedCache[T] = IndexedCache(self._identify, indices)
        """The answers that the informer has not caught up with."""
        self._answered_s: dict[str, float] = {}
        """When each of these answers arrived, the oldest first."""
        self._deleted: dict[str, tuple[str, float]] = {}
        informer.subscribe(self._on_change)

    def key(self, item: T) -> str:
        return self._identify(item).key

    def get(self, key: str) -> T | None:
        cached = self.informer.get(key)
        if cached is not None and self._is_deleted(key, cached):
            cached = None
        answer = self._trusted(key)
        if answer is None or (cached is not None and self._version(cached) >= self._version(answer)):
            return cached
        return answer

    def find(self, index: str, value: Hashable) -> list[T]:
        cached = self.informer.find_by_key(index, value)
        found = {**self._answers.find_by_key(index, value), **cached}
        if not self._answers and not self._deleted:
            return [found[key] for key in sorted(found)]
        return [
            item for key in sorted(found) if (item := self._newest_if_matching(found[key], key, index, value))
        ]

    def _newest_if_matching(self, item: T, key: str, index: str, value: Hashable) -> T | None:
        """Return the newest state of a found object, if that has the value, too."""
        if key not in self._answers and key not in self._deleted:
            return item  # The usual case: there may be thousands of objects.
        newest = self.get(key)
        return newest if newest is not None and value in set(self._indices[index](newest)) else None

    def observe(self, item: T) -> None:
        """Record the answer to a write or a live read; older answers change nothing.

        An answer may arrive after the informer has reported that the object was deleted.
        """
        key, now_s = self.key(item), loop_s()
        self._drop_expired(now_s)
        version, cached, known = self._version(item), self.informer.get(key), self._trusted(key)
        if self._is_deleted(key, item) or (cached is not None and self._version(cached) >= version):
            return  # The informer was faster.
        if known is not None and self._version(known) > version:
            return
        self._drop(key)
        self._answers.put(item)
        self._answered_s[key] = now_s

    def observe_deleted(self, key: str, uid: str) -> None:
        """Record that the server has deleted the object."""
        now_s = loop_s()
        self._drop_expired(now_s)
        self._deleted.pop(key, None)
        self._deleted[key] = uid, now_s
        answer = self._answers.get(key)
        if answer is not None and self._uid(answer) == uid:
            self._drop(key)

    def _on_change(self, old: T | None, new: T | None) -> None:
        if new is None:
            assert old is not None
            self.observe_deleted(self.key(old), self._uid(old))
            return
        answer = self._answers.get(self.key(new))
        if answer is not None and self._version(answer) <= self._version(new):
            self._drop(self.key(new))

    def _trusted(self, key: str) -> T | None:
        if loop_s() - self._answered_s.get(key, math.inf) > _TRUSTED_S:
            self._drop(key)
        return self._answers.get(key)

    def _drop(self, key: str) -> None:
        self._answers.remove(key)
        self._answered_s.pop(key, None)

    def _drop_expired(self, now_s: float) -> None:
        """Drop expired answers and deletions, which no read has dropped."""
        horizon_s = now_s - _TRUSTED_S
        for key in list(takewhile(lambda key: self._answered_s[key] < horizon_s, self._answered_s)):
            self._drop(key)
        for key in list(takewhile(lambda key: self._deleted[key][1] < horizon_s, self._deleted)):
            del self._deleted[key]

    def _is_deleted(self, key: str, cached: T) -> bool:
        deleted = self._deleted.get(key)
        if deleted is None or deleted[0] != self._uid(cached):
            return False
        if loop_s() - deleted[1] > _TRUSTED_S:
            del self._deleted[key]
            return False
        return True

    def _version(self, item: T) -> int:
        return int(self._identify(item).version)

    def _uid(self, item: T) -> str:
        return self._identify(item).uid
