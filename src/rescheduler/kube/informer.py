"""A cache that follows the server: one list, then changes as they happen.

                  list done                 ended, broken, silent, 5xx
    LISTING ─────────────────▶ WATCHING ───────────────────────────────▶ WAITING
     ▲    │ failed              │   ▲                                      │
     │    ▼                     │   └──── resume after the last version ───┘
     └─ WAITING ◀───────────────┘
                   410 Gone, refused (4xx), unreadable, events that don't follow on what
                   we have, a server behind our version, nothing told for `relist_after_s`

What a reader of the cache may rely on:

- The cache is the server's state at some version, whole: a list is swapped in at once, then events follow
  one by one, in the server's order. An older state never takes the place of a newer one.
- Before a handler hears of a change, the cache has it. Each handler hears of every change of the cache
  once and in order, as old and new. After a new list it hears of what was missed as of any other change,
  deletions first; what came and went in between is not told.
- `is_fresh` says whether the cache is followed: it is synced, and its watch is open, or was lost only a few
  seconds ago. Silence alone means nothing: a quiet kind has nothing to tell. A watch is suspect when a
  request of the same client got no answer (`liveness`): then it is opened again, and fresh once it is
  accepted. The kernel ends connections whose peer is gone within about ten seconds (`network`).
- `staleness()` is the time since the server's last sign of life (event, bookmark, accepted watch, list). A
  quiet watch is opened again every `silence_s`, so it hardly exceeds that. It can't see how far the server
  itself is behind its store: what is irreversible is preceded by a live read.
- Lists after the first are read with a quorum, so they never go back to what a lagging server remembers. If
  one does go back, the store was restored from a backup: the cache follows it, and the log says so.

Handlers are called in line and must be quick. One that raises is logged and counted; the cache, the other
handlers and the next change are not affected, but that handler has missed this change.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping
from typing import Generic, Protocol, Self, TypeVar

from rescheduler.kube import errors
from rescheduler.kube.api_resources import ApiResource
from rescheduler.kube.client import Client
from rescheduler.kube.indexed_cache import CacheChange, IndexedCache, IndexFunction
from rescheduler.kube.reflector import (
    ListOptions,
    Reflector,
    ReflectorCounts,
    ReflectorPhase,
    ReflectorTiming,
)

__all__ = ["ChangeHandler", "Informer", "ListOptions", "ReflectorCounts", "ReflectorPhase", "ReflectorTiming"]

log = logging.getLogger(__name__)

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class ChangeHandler(Protocol[T_contra]):
    def __call__(self, old: T_contra | None, new: T_contra | None, /) -> None:
        """Added: no old. Deleted: no new. Otherwise both, with the same uid."""
        ...


class Informer(Generic[T]):
    """Run it with `async with informer.running():`, or `run()` in a task group; then await `synced()`.

    For custom resources too: while the server does not know the kind, it keeps asking and `failure` says so.
    """

    def __init__(
        self,
        client: Client,
        resource: ApiResource[T],
        selection: ListOptions = ListOptions(),  # noqa: B008 - frozen
        *,
        indices: Mapping[str, IndexFunction[T]] | None = None,
        pace: ReflectorTiming = ReflectorTiming(),  # noqa: B008 - frozen
        dice: random.Random | None = None,
    ) -> None:
        """`indices` say under which values `find` finds an object; they must never raise."""
        self.resource = resource
        self._pace = pace
        self._cache: IndexedCache[T] = IndexedCache(resource.identify, indices)
        self._handlers: dict[object, ChangeHandler[T]] = {}
        """By subscription: the same handler may come twice, or go and come again."""
        self._reflector = Reflector(
            client,
            resource,
            selection,
            cache=self._cache,
            tell=self._deliver,
            pace=pace,
            dice=dice or random.Random(),  # noqa: S311 - jitter, not a secret
        )

    # --- running ---

    async def run(self) -> None:
        """Until cancelled; then no task and no connection is left."""
        await self._reflector.run()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        task = asyncio.create_task(self.run(), name=f"informer of {self.resource.label}")
        try:
            yield self
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def synced(self) -> None:
        """Returns once the first list is in the cache and the handlers have heard of it.

        Raises RuntimeError if the informer stops before that.
        """
        await self._reflector.synced_or_over.wait()
        if not self.is_synced:
            raise RuntimeError(f"the informer of {self.resource.label} stopped before its first list")

    def subscribe(self, handler: ChangeHandler[T]) -> Callable[[], None]:
        """Calls `handler` with all that is there, as added, and from then on with every change.

        Returns what ends it.
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

    # --- how far to trust it ---

    @property
    def is_synced(self) -> bool:
        return self._reflector.synced.is_set()

    def staleness(self, now: float | None = None) -> float:
        """Seconds since the server's last sign of life, infinite before the first; `now` is loop time."""
        return self._reflector.contact.staleness(asyncio.get_running_loop().time() if now is None else now)

    @property
    def is_fresh(self) -> bool:
        """Synced and followed; see the top of this module."""
        pace = self._pace
        return (
            self.is_synced and self.lost_s() < pace.lost_after_s and self.staleness() < pace.stale_after_s
        )  # fmt: skip

    def lost_s(self) -> float:
        """For how long no watch follows the server, in seconds; 0 while one does."""
        return self._reflector.contact.lost(asyncio.get_running_loop().time())

    @property
    def failure(self) -> errors.KubeError | None:
        """Why the cache does not follow right now; None when all is well."""
        return self._reflector.failure

    @property
    def phase(self) -> ReflectorPhase:
        return self._reflector.phase

    @property
    def counts(self) -> ReflectorCounts:
        return self._reflector.counts

    # --- telling ---

    def _deliver(self, changes: list[CacheChange[T]]) -> None:
        # Who subscribes from within a handler has been shown the whole cache by then.
        listening = tuple(self._handlers.items())
        for change in changes:
            for subscription, handler in listening:
                if subscription in self._handlers:
                    self._call(handler, change)

    def _call(self, handler: ChangeHandler[T], change: CacheChange[T]) -> None:
        try:
            handler(change.old, change.new)
        except Exception:
            self.counts.handler_failures += 1
            log.exception("a handler of %s failed on %s", self.resource.label, self._subject(change))

    def _subject(self, change: CacheChange[T]) -> str:
        item = change.old if change.new is None else change.new
        assert item is not None
        return self.resource.identify(item).key
