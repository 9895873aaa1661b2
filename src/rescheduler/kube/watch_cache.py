"""One watch, the cache that it keeps current, and how far that cache can be trusted.

Silence on a watch means nothing: there may be no changes. Therefore `WatchHealth` answers two questions:

- Is the cache followed? It is not, from the moment the watch is lost until another watch has held for
  `SETTLE_S`.
- How long ago was the last sign of life: an event, a bookmark, a list, or an accepted watch?

`IndexedCache` has objects by key, with indices; every change is reported as old and new. It has no network
and no clock. Versions decide which state is newer: Kubernetes guarantees that the resource versions of one
resource are increasing numbers.
"""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, Self, TypeVar

from rescheduler.kube import errors
from rescheduler.kube.api_resources import ApiCall, ObjectIdentity
from rescheduler.kube.codecs.codec import Codec, Undecodable, WatchDecoder, WatchEvent
from rescheduler.kube.transport import ApiResponse, NoResponse, loop_s

__all__ = ["SETTLE_S", "CacheChange", "IndexFunction", "IndexedCache", "Watch", "WatchHealth"]

T = TypeVar("T")

_PIECE_BYTES = 2**16


class Watch(Generic[T]):
    """A watch: `async with` opens it (and raises if the server refuses), `async for` yields its events.

    It yields only ADDED, MODIFIED, DELETED and BOOKMARK. An ERROR in the stream is raised (`Gone` for an
    expired version), and so are a broken connection (`Unreachable`) and a silence of more than `silence_s`
    (`WatchStalled`). If the server ends the watch normally, the iteration ends.
    """

    def __init__(
        self, call: ApiCall, codec: Codec[T], send: Callable[[], Awaitable[ApiResponse]], silence_s: float
    ) -> None:
        self._call = call
        self._codec = codec
        self._send = send
        self._silence_s = silence_s
        self._ready: deque[WatchEvent[T]] = deque()
        self._unread = b""
        """The rest of the last chunk: large chunks are decoded in pieces, so that other tasks can run in
        between."""
        self._limit: asyncio.Timeout | None = None
        """The timeout of the current read."""
        self.received_at = 0.0
        """When the newest event arrived, in loop time; before the first, when the server accepted the
        watch."""

    async def __aenter__(self) -> Self:
        self._response = await self._send()
        content_type = self._response.headers.get("content-type", "")
        try:
            self._decoder: WatchDecoder[T] = self._codec.watch_decoder(content_type)
        except Undecodable as error:
            await self._response.close()
            raise errors.InvalidResponse(self._call, str(error)) from error
        self._chunks: AsyncIterator[bytes] = self._response.chunks()
        self.received_at = loop_s()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._response.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchEvent[T]:
        while not self._ready:
            chunk = self._unread or await self._chunk()
            chunk, self._unread = chunk[:_PIECE_BYTES], chunk[_PIECE_BYTES:]
            try:
                self._ready.extend(self._decoder.feed(chunk))
            except Undecodable as error:
                raise errors.InvalidResponse(self._call, str(error)) from error
            if self._ready:
                self.received_at = loop_s()
        event = self._ready.popleft()
        if event.type == "ERROR":
            status = event.status
            assert status is not None
            raise errors.error_from_status(self._call, status.code or 500, status)
        return event

    async def _chunk(self) -> bytes:
        # Counted from the last complete event, not the last byte: single bytes are no sign of life.
        deadline = self.received_at + self._silence_s if self._silence_s else None
        try:
            async with asyncio.timeout_at(deadline) as self._limit:
                return await anext(self._chunks)
        except TimeoutError:
            raise errors.WatchStalled(self._call, f"no event for {self._silence_s:g} s") from None
        except NoResponse as broken:
            raise errors.Unreachable(self._call, broken.reason) from broken
        finally:
            self._limit = None

    def give_up(self) -> None:
        """End the current read with `WatchStalled`; call this on the event loop."""
        # Several requests may fail at the same time; a read can be ended only once.
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(loop_s())


SETTLE_S = 1.0
"""How long a new watch must hold before it counts: missed events arrive right after its headers."""


class WatchHealth:
    """Record when a cache last received something. The caller passes all times, from one clock."""

    def __init__(self) -> None:
        self._last_event_at = -math.inf
        self._open_since: float | None = None
        self._lost_at: float | None = -math.inf
        """None while a settled watch is open."""

    def listed(self, began: float, now: float) -> None:
        """Record a list that was requested at `began`; its watch is not open yet."""
        self._last_event_at = max(self._last_event_at, began)
        self._lost_at = now

    def received(self, now: float) -> None:
        """Record an event or a bookmark."""
        self._last_event_at = max(self._last_event_at, now)
        self._lost_at = None

    def opened(self, now: float) -> None:
        """Record that the server accepted a watch."""
        self._open_since = now

    def closed(self, now: float, suspect_since: float | None = None) -> None:
        """Record the end of the watch; if it had settled, the server was alive when it began.

        With `suspect_since`, the watch was abandoned because the server did not answer a request of that
        time.
        """
        self._settle(now)
        self._open_since = None
        if self._lost_at is None:
            self._lost_at = now if suspect_since is None else suspect_since

    def has_received_since(self, moment: float) -> bool:
        return self._last_event_at >= moment or (self._open_since is not None and self._open_since >= moment)

    def staleness(self, now: float) -> float:
        """Return the seconds since the last event, bookmark, list or settled watch; infinite before the
        first."""
        self._settle(now)
        return max(0.0, now - self._last_event_at)

    def lost(self, now: float) -> float:
        """Return the seconds since the watch was lost; 0 while it is open."""
        self._settle(now)
        return 0.0 if self._lost_at is None else max(0.0, now - self._lost_at)

    def _settle(self, now: float) -> None:
        if self._open_since is not None and now - self._open_since >= SETTLE_S:
            self._last_event_at = max(self._last_event_at, self._open_since)
            self._lost_at = None


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
        return list(self.find_by_key(index, value).values())

    def find_by_key(self, index: str, value: Hashable) -> Mapping[str, T]:
        """Return the same objects by key. The mapping is the cache's own: read it before the next change."""
        return self._entries[index].get(value, {})

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
