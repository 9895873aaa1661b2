"""Keep a cache in sync with the server: list, watch, and recover when either fails.

This is the loop behind an `Informer`, whose module draws the states and says what readers can rely on.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from rescheduler.kube import errors
from rescheduler.kube.api_resources import ApiCall, ApiResource
from rescheduler.kube.client import Client
from rescheduler.kube.codecs.codec import WatchEvent
from rescheduler.kube.request_sender import Backoff
from rescheduler.kube.transport import loop_s
from rescheduler.kube.watch_cache import CacheChange, IndexedCache, Watch, WatchHealth

__all__ = ["ListOptions", "Reflector", "ReflectorCounts", "ReflectorPhase", "ReflectorTiming"]

log = logging.getLogger(__name__)

T = TypeVar("T")

MIN_WATCH_S = 1.0
"""A watch that ends sooner, without any event, counts as failed even if the server ended it normally."""
STABLE_WATCH_S = 5.0
"""A watch that holds for this long resets the back-off."""
BURST = 20
"""After this many events in a row, other tasks can run."""
_TOO_LARGE = "ResourceVersionTooLarge"
"""The cause that a server names if it is behind our version: its store may have been restored."""
_LONGEST_NUMBER = 20
"""Digits of the largest 64-bit number."""


class ReflectorPhase(Enum):
    """The states that the `informer` module draws."""

    IDLE = "idle"
    LISTING = "listing"
    WATCHING = "watching"
    WAITING = "waiting"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ReflectorTiming:
    """Timeouts and delays, in seconds.

    API servers send a bookmark about once a minute, but only if they know a newer version. For a resource
    without changes, they learn newer versions only from etcd's progress notifications, every 10 minutes.
    """

    watch_s: tuple[float, float] = (300.0, 600.0)
    """Each watch ends after a random time in this range, so that not all end together."""
    silence_s: float = 90.0
    """Without an event or a bookmark for this long, the watch is opened again, to see if the server accepts
    it."""
    relist_after_s: float = 900.0
    """Without an event or a bookmark for this long, over any number of watches, list again. The server would
    have sent a bookmark; a proxy may hold it back."""
    lost_after_s: float = 5.0
    """A cache is not fresh when its watch has been lost for this long."""
    stale_after_s: float = 120.0
    """A cache with this staleness is not fresh, even if its watch is open."""
    first_delay_s: float = 0.5
    longest_delay_s: float = 30.0


@dataclass(slots=True)
class ReflectorCounts:
    """Counters for metrics; only `lag_s` can decrease."""

    lists: int = 0
    relists: int = 0
    """Lists after the first: each means that the sequence of events was lost."""
    watches: int = 0
    events: int = 0
    bookmarks: int = 0
    repeated: int = 0
    """Events that were already known."""
    failures: int = 0
    rewinds: int = 0
    """How often the server's store returned to an older version."""
    handler_failures: int = 0
    lag_s: float = 0.0
    """Seconds from the arrival of the latest event to the end of its last handler."""
    worst_lag_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Which objects to list and watch."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""
    page_size: int = 500
    start_from_cache: bool = True
    """The first list may come from the server's cache (`resourceVersion=0`): cheap, perhaps a little old."""


class _OutOfSync(Exception):  # noqa: N818 - a signal, not an error
    """An event does not follow the cached state."""


class Reflector(Generic[T]):
    def __init__(
        self,
        client: Client,
        resource: ApiResource[T],
        options: ListOptions,
        *,
        cache: IndexedCache[T],
        on_changes: Callable[[list[CacheChange[T]]], None],
        timing: ReflectorTiming,
        rng: random.Random,
    ) -> None:
        self.counts = ReflectorCounts()
        self.phase = ReflectorPhase.IDLE
        self.health = WatchHealth()
        self.synced = asyncio.Event()
        self.synced_or_stopped = asyncio.Event()
        self.failure: errors.KubeError | None = None
        self._client = client
        self._resource = resource
        self._options = options
        self._cache = cache
        self._on_changes = on_changes
        self._timing = timing
        self._rng = rng
        self._backoff = Backoff(timing.first_delay_s, timing.longest_delay_s, rng)
        self._version = 0
        """The cache has all changes up to this version."""
        self._open_watch: Watch[T] | None = None
        self._suspect_since: float | None = None
        """When the unanswered request was sent for which the watch was abandoned."""
        self._received_at = 0.0
        """When the last event, bookmark or list arrived."""
        self._logged_failure = ""
        """The failure that was logged last."""

    async def run(self) -> None:
        """Follow the server until cancelled."""
        if not self.synced.is_set():
            self.synced_or_stopped.clear()
        unsubscribe = self._client.liveness.on_unanswered(self._suspect)
        try:
            while True:
                await self._list()
                await self._watch()
        except Exception as error:
            self.failure = errors.InvalidResponse(
                self._call, f"the informer stopped because of a bug: {error!r}"
            )
            raise
        finally:
            unsubscribe()
            self.phase = ReflectorPhase.STOPPED
            self.synced_or_stopped.set()

    # --- listing ---

    async def _list(self) -> None:
        while True:
            self.phase = ReflectorPhase.LISTING
            began = loop_s()
            try:
                page = await self._client.list(
                    self._resource,
                    namespace=self._options.namespace,
                    labels=self._options.labels,
                    fields=self._options.fields,
                    version="0" if self._options.start_from_cache and not self.synced.is_set() else "",
                    page_size=self._options.page_size,
                )
                version = self._number(page.resource_version)
                for item in page.items:
                    self._key(item)
            except errors.KubeError as error:
                await self._wait(error)
                continue
            self._replace_cache(page.items, version)
            # The server has read this state after we sent the request.
            self.health.listed(began, loop_s())
            return

    def _replace_cache(self, items: list[T], version: int) -> None:
        rewound = version < self._version
        if rewound:
            self.counts.rewinds += 1
            log.warning(
                "%s: the server went back from version %d to %d (restored from a backup?); following it",
                self._resource.label, self._version, version,
            )  # fmt: skip
        self.counts.lists += 1
        self.counts.relists += self.synced.is_set()
        self._version = version
        self._received_at = loop_s()
        self._on_changes(self._cache.replace(items, rewound=rewound))
        self.synced.set()
        self.synced_or_stopped.set()

    # --- watching ---

    async def _watch(self) -> None:
        """Watch, and resume after failures; return when a new list is needed."""
        while True:
            self.phase = ReflectorPhase.WATCHING
            began = loop_s()
            received_before = self.counts.events + self.counts.bookmarks
            is_silent = False
            failure: errors.KubeError | None = None
            try:
                await self._watch_once()
            except _OutOfSync as lost:
                await self._wait(errors.Gone(self._call, str(lost)))
                return
            except errors.WatchStalled:
                # Not a failure by itself: there may be no changes.
                is_silent = True
            except errors.KubeError as error:
                failure = error
            lasted = loop_s() - began
            if lasted >= STABLE_WATCH_S:
                self._backoff.reset()
            has_received = self.counts.events + self.counts.bookmarks > received_before
            if failure is None and not is_silent and lasted < MIN_WATCH_S and not has_received:
                failure = errors.Unreachable(self._call, "the server ended the watch immediately")
            if is_silent and self._suspect_since is None:
                failure = await self._check_version()
            if failure is not None:
                await self._wait(failure)
            if self._needs_list(failure):
                return

    def _needs_list(self, failure: errors.KubeError | None) -> bool:
        is_out_of_sync = isinstance(failure, errors.Gone | errors.InvalidResponse | errors.Permanent)
        is_ahead = failure is not None and any(cause.reason == _TOO_LARGE for cause in failure.causes)
        return is_out_of_sync or is_ahead or loop_s() - self._received_at >= self._timing.relist_after_s

    async def _check_version(self) -> errors.KubeError | None:
        """Check after a silence that the server is not behind our version.

        A server whose store was restored from a backup accepts a watch from a future version, but sends
        nothing.
        """
        options = self._options
        try:
            version = await self._client.newest_version(
                self._resource, namespace=options.namespace, labels=options.labels, fields=options.fields
            )
            if self._number(version) < self._version:
                why = f"the server is at version {version}, behind our {self._version}"
                return errors.Gone(self._call, why)
        except errors.KubeError as error:
            return error
        return None

    def _suspect(self, sent_at: float) -> None:
        """Reopen the watch if it has received nothing since this unanswered request was sent: it may be
        dead."""
        if self._open_watch is not None and not self.health.has_received_since(sent_at):
            self._suspect_since = sent_at
            self._open_watch.give_up()

    async def _watch_once(self) -> None:
        watch = self._client.watch(
            self._resource,
            namespace=self._options.namespace,
            labels=self._options.labels,
            fields=self._options.fields,
            version=str(self._version),
            timeout_s=self._rng.uniform(*self._timing.watch_s),
            silence_s=self._timing.silence_s,
        )
        async with watch:
            self._open_watch, self._suspect_since = watch, None
            self.counts.watches += 1
            self.health.opened(loop_s())
            self.failure = None
            try:
                await self._receive_all(watch)
            finally:
                self._open_watch = None
                self.health.closed(loop_s(), self._suspect_since)

    async def _receive_all(self, watch: Watch[T]) -> None:
        count = 0
        async for event in watch:
            self._receive(event)
            self._record_contact(watch.received_at)
            count += 1
            if count % BURST == 0:
                await asyncio.sleep(0)

    def _receive(self, event: WatchEvent[T]) -> None:
        version = self._number(event.resource_version)
        if event.type == "BOOKMARK":
            if version < self._version:
                raise _OutOfSync(f"the server is at version {version}, behind our {self._version}")
            self.counts.bookmarks += 1
            self._version = version
            return
        assert event.object is not None
        key = self._key(event.object)
        self.counts.events += 1
        if version <= self._version:
            self._check_repeated(event, key, version)
            return
        changes = self._cache.remove(key) if event.type == "DELETED" else self._cache.put(event.object)
        self._version = version
        self._on_changes(changes)

    def _check_repeated(self, event: WatchEvent[T], key: str, version: int) -> None:
        """Accept an old event if the cache already has its state; otherwise we have missed an event."""
        cached = self._cache.version(key)
        if cached != (0 if event.type == "DELETED" else version):
            raise _OutOfSync(
                f"{event.type} {key} has version {version}, but arrived after version {self._version}"
            )
        self.counts.repeated += 1

    def _record_contact(self, received_at: float) -> None:
        self._received_at = received_at
        self.health.received(received_at)
        self.counts.lag_s = loop_s() - received_at
        self.counts.worst_lag_s = max(self.counts.worst_lag_s, self.counts.lag_s)
        if self._logged_failure:
            log.info("%s: following the server again", self._resource.label)
            self._logged_failure = ""
        self.failure = None

    # --- failures and versions ---

    async def _wait(self, failure: errors.KubeError) -> None:
        delay_s = self._backoff.next_delay_s()
        if isinstance(failure, errors.Overloaded):
            delay_s = max(delay_s, failure.delay_s)
        self.counts.failures += 1
        # Log each failure once: a server that is unreachable for an hour must not fill the log.
        is_logged = str(failure) == self._logged_failure
        log.log(logging.DEBUG if is_logged else logging.WARNING, "%s (retrying)", failure)
        self._logged_failure = str(failure)
        self.failure = failure
        self.phase = ReflectorPhase.WAITING
        await asyncio.sleep(delay_s)

    def _number(self, version: str) -> int:
        if not version.isdecimal() or len(version) > _LONGEST_NUMBER:
            raise errors.InvalidResponse(self._call, f'the resource version "{version[:80]}" is not a number')
        return int(version)

    def _key(self, item: T) -> str:
        """Return the key of an object; raise `InvalidResponse` if it has no name or no numeric version."""
        try:
            identity = self._resource.identify(item)
            self._number(identity.version)
        except (KeyError, TypeError, AttributeError) as error:
            raise errors.InvalidResponse(
                self._call, f"an object without a name or version: {error!r}"
            ) from error
        return identity.key

    @property
    def _call(self) -> ApiCall:
        verb = "list" if self.phase is ReflectorPhase.LISTING else "watch"
        return ApiCall(verb, self._resource.label, self._options.namespace)
