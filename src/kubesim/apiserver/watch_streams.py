"""Serve watches: the changes of a collection since a version, as a stream of lines."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime, timedelta

import msgspec

from kubesim.apiserver.api_messages import encode
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.list_requests import ListSelection
from kubesim.apiserver.object_presentation import ObjectPresentation
from kubesim.apiserver.object_store import Compacted, ObjectStore, StoreChange, StoredObject
from kubesim.apiserver.status_errors import StatusError, expired
from kubesim.virtual_time import Clock, Timer

__all__ = ["OpenWatches", "WatchOptions"]

_BOOKMARK_EVERY = timedelta(minutes=1)
_LAST_BOOKMARK_BEFORE_END = timedelta(seconds=2)
_INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}


class WatchOptions(msgspec.Struct, frozen=True):
    version: int | None
    """The version after which changes are sent; 0 or None: all existing objects first."""
    bookmarks: bool = False
    timeout_s: float = 1800
    initial_events: bool | None = None
    """Whether `sendInitialEvents` asks for all objects first, and a bookmark after them."""


class OpenWatches:
    """All open watches, so that they can be closed together."""

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        # In the order in which they were opened, so that the same history repeats.
        self._open: dict[_Watch, None] = {}

    def stream(
        self,
        kind: ResourceKind,
        selection: ListSelection,
        options: WatchOptions,
        presentation: ObjectPresentation,
    ) -> AsyncIterator[bytes]:
        """Register a watch immediately, so that its stream has all changes from now on."""
        watch = _Watch(self._store, self._clock, kind, selection, options, presentation)
        return self._lines(watch)

    async def _lines(self, watch: "_Watch") -> AsyncIterator[bytes]:
        self._open[watch] = None
        try:
            async for lines in watch.run():
                yield lines
        finally:
            self._open.pop(watch, None)
            watch.close()

    def __len__(self) -> int:
        return len(self._open)

    def drop(self, chosen: Callable[[ResourceKind], bool] = lambda _: True) -> int:
        """End watches as a server does that stops: without an error or a last bookmark."""
        ended = [watch for watch in self._open if chosen(watch.kind)]
        for watch in ended:
            watch.end()
        return len(ended)


class _Watch:
    def __init__(
        self,
        store: ObjectStore,
        clock: Clock,
        kind: ResourceKind,
        selection: ListSelection,
        options: WatchOptions,
        presentation: ObjectPresentation,
    ) -> None:
        self.kind = kind
        self._store = store
        self._collection = store.collection(kind)
        self._clock = clock
        self._selection = selection
        self._options = options
        self._presentation = presentation
        self._ended = False
        self._changed = asyncio.Event()
        self._timer: Timer | None = None
        self._deadline = clock.now() + timedelta(seconds=options.timeout_s)
        self._next_bookmark = self._bookmark_after(clock.now())
        self._first: list[StoredObject] = []
        self._first_version = store.version
        self._too_old: StatusError | None = None
        self._position = self._start()

    def _start(self) -> int:
        """Return the position in the history at which to begin, and keep the objects to send before."""
        wanted = self._options.version
        initial = self._options.initial_events
        if initial or (initial is None and not wanted):
            candidates = self._collection.ordered(self._selection.namespace)
            self._first = [record for record in candidates if self._selection.includes(record)]
            return self._collection.position_after(self._store.version)
        try:
            return self._collection.position_after(wanted or self._store.version)
        except Compacted as gone:
            self._too_old = expired(f"too old resource version: {gone.version} ({gone.oldest})")
            return self._collection.dropped

    async def run(self) -> AsyncIterator[bytes]:
        if self._too_old is not None:
            yield _error(self._too_old)
            return
        self._collection.listeners[self._changed.set] = None
        if first := b"".join(self._initial_lines()):
            yield first
        while not self._ended:
            self._changed.clear()
            if lines := b"".join(self._lines()):
                yield lines
            now = self._clock.now()
            if now >= self._deadline:
                return
            if now >= self._next_bookmark:
                self._next_bookmark = self._bookmark_after(now)
                # A slow client has not received changes that were made while it read the lines above.
                if (reached := self._version_reached()) is not None:
                    yield self._presentation.bookmark(reached)
            if not self._changed.is_set():
                self._set_timer(now)
                await self._changed.wait()

    def _initial_lines(self) -> Iterator[bytes]:
        for record in self._first:
            yield self._presentation.event("ADDED", record.raw)
        self._first = []
        if self._options.initial_events and self._options.bookmarks:
            yield self._presentation.bookmark(self._first_version, _INITIAL_EVENTS_END)

    def _version_reached(self) -> int | None:
        """Return the version up to which everything was sent, or None if changes were lost."""
        try:
            pending = self._collection.changes_from(self._position)
        except Compacted:
            return None
        return pending[0].version - 1 if pending else self._store.version

    def _lines(self) -> Iterator[bytes]:
        try:
            changes = self._collection.changes_from(self._position)
        except Compacted:  # too slow: a client has to come back and list
            self.end()
            return
        self._position += len(changes)
        for change in changes:
            line = self._line(change)
            if line is not None:
                yield line

    def _line(self, change: StoreChange) -> bytes | None:
        """Return the line of a change; an object that starts or stops to match is added or deleted."""
        if change.version <= (self._options.version or 0):  # the client asked for a later version
            return None
        before, after = change.before, change.after
        was = before is not None and self._selection.includes(before)
        matches = after is not None and self._selection.includes(after)
        if matches and after is not None:
            return self._presentation.event("MODIFIED" if was else "ADDED", after.raw)
        if was and before is not None:
            return self._presentation.event("DELETED", before.shown_at(change.version))
        return None

    def _bookmark_after(self, now: datetime) -> datetime:
        if not self._options.bookmarks:
            return datetime.max.replace(tzinfo=now.tzinfo)
        last = self._deadline - _LAST_BOOKMARK_BEFORE_END
        regular = now + _BOOKMARK_EVERY
        if now < last:
            return min(regular, last)
        return regular

    def _set_timer(self, now: datetime) -> None:
        if self._timer is not None:
            self._timer.cancel()
        due = min(self._deadline, self._next_bookmark)
        self._timer = self._clock.call_later(max(0.0, (due - now).total_seconds()), self._changed.set)

    def end(self) -> None:
        self._ended = True
        self._changed.set()

    def close(self) -> None:
        self._collection.listeners.pop(self._changed.set, None)
        if self._timer is not None:
            self._timer.cancel()


def _error(failure: StatusError) -> bytes:
    return b'{"type":"ERROR","object":%s}\n' % encode(failure.status)
