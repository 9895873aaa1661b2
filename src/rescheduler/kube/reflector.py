"""Keeps a cache in step with the server: list, watch, and what to do when either fails.

The loop behind an `Informer`, whose docstring draws its states and says what readers may rely on.
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
from rescheduler.kube.flow_control import Backoff
from rescheduler.kube.indexed_cache import CacheChange, IndexedCache
from rescheduler.kube.watch_stream import Watch, WatchHealth

__all__ = ["ListOptions", "Reflector", "ReflectorCounts", "ReflectorPhase", "ReflectorTiming"]

log = logging.getLogger(__name__)

T = TypeVar("T")

SHORT_S = 1.0
"""A watch that ended sooner, and told nothing, counts as failed however politely it ended."""
STEADY_S = 5.0
"""A watch that held for so long shows that all is well again: the back-off starts anew."""
BURST = 20
"""After so many events in a row, others have their turn on the event loop."""
_TOO_LARGE = "ResourceVersionTooLarge"
"""The cause that a server names which has not come as far as we have: its store may have gone back."""
_LONGEST_NUMBER = 20
"""Digits of the largest number of 64 bits."""


class ReflectorPhase(Enum):
    IDLE = "idle"
    LISTING = "listing"
    WATCHING = "watching"
    WAITING = "waiting"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ReflectorTiming:
    """How patient to be, in seconds.

    API servers send a bookmark about once a minute, but only if they know of a newer version. Of a quiet kind
    they hear of newer versions only from etcd's progress notifications, every 10 minutes.
    """

    watch_s: tuple[float, float] = (300.0, 600.0)
    """Each watch is asked to end after a time drawn from this range, so that not all end together."""
    silence_s: float = 90.0
    """Without an event or a bookmark for so long, a watch is opened again: if it is accepted, all is well."""
    relist_after_s: float = 900.0
    """Without an event or a bookmark for so long, over any number of watches, list again. A server would have
    sent a bookmark by now; something between us may hold back what it sends."""
    lost_after_s: float = 5.0
    """So long after its watch was lost, and no other one accepted, a cache is not fresh."""
    stale_after_s: float = 120.0
    """From this staleness on, a cache is not fresh, whatever its watch is."""
    first_delay_s: float = 0.5
    longest_delay_s: float = 30.0


@dataclass(slots=True)
class ReflectorCounts:
    """For metrics; only ever growing, but for `lag_s`."""

    lists: int = 0
    relists: int = 0
    """Lists after the first: each means that the thread of events was lost."""
    watches: int = 0
    events: int = 0
    bookmarks: int = 0
    repeated: int = 0
    """Events that told what was known already."""
    failures: int = 0
    rewinds: int = 0
    """How often the server's store went back in time."""
    handler_failures: int = 0
    lag_s: float = 0.0
    """From the arrival of the latest event to the end of its last handler."""
    worst_lag_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ListOptions:
    namespace: str = ""
    labels: str = ""
    fields: str = ""
    page_size: int = 500
    start_from_cache: bool = True
    """The first list may be what the server remembers (`resourceVersion=0`): cheap, perhaps a little old."""


class _OutOfSync(Exception):  # noqa: N818 - a signal, not a fault
    """What the server tells can't follow on what we have."""


class Reflector(Generic[T]):
    def __init__(
        self,
        client: Client,
        resource: ApiResource[T],
        selection: ListOptions,
        *,
        cache: IndexedCache[T],
        tell: Callable[[list[CacheChange[T]]], None],
        pace: ReflectorTiming,
        dice: random.Random,
    ) -> None:
        self.counts = ReflectorCounts()
        self.phase = ReflectorPhase.IDLE
        self.contact = WatchHealth()
        self.synced = asyncio.Event()
        self.synced_or_over = asyncio.Event()
        self.failure: errors.KubeError | None = None
        self._client = client
        self._resource = resource
        self._selection = selection
        self._cache = cache
        self._tell = tell
        self._pace = pace
        self._dice = dice
        self._backoff = Backoff(pace.first_delay_s, pace.longest_delay_s, dice)
        self._version = 0
        """All changes up to this one are in the cache."""
        self._watching: Watch[T] | None = None
        """The watch that is open."""
        self._suspect_since: float | None = None
        """When the request was sent whose missing answer made us give the watch up."""
        self._told_at = 0.0
        """When the last event, bookmark or list came."""
        self._complaint = ""
        """What the log was last told of."""

    async def run(self) -> None:
        """Until cancelled."""
        if not self.synced.is_set():
            self.synced_or_over.clear()
        end = self._client.liveness.on_unanswered(self._suspect)
        try:
            while True:
                await self._list()
                await self._watch()
        except Exception as error:
            # Nobody may be waiting for this task: say at once what its end would say too late.
            log.exception("%s: the informer stopped by a fault of its own", self._resource.label)
            self.failure = errors.InvalidResponse(self._call, f"the informer stopped: {error!r}")
            raise
        finally:
            end()
            self.phase = ReflectorPhase.STOPPED
            self.synced_or_over.set()

    # --- listing ---

    async def _list(self) -> None:
        while True:
            self.phase = ReflectorPhase.LISTING
            began = _now()
            try:
                page = await self._client.list(
                    self._resource,
                    namespace=self._selection.namespace,
                    labels=self._selection.labels,
                    fields=self._selection.fields,
                    version="0" if self._selection.start_from_cache and not self.synced.is_set() else "",
                    page_size=self._selection.page_size,
                )
                version = self._number(page.resource_version)
                for item in page.items:
                    self._key(item)
            except errors.KubeError as error:
                await self._wait(error)
                continue
            self._adopt(page.items, version)
            # What the server read for us, it read after we asked.
            self.contact.listed(began, _now())
            return

    def _adopt(self, items: list[T], version: int) -> None:
        rewound = version < self._version
        if rewound:
            self.counts.rewinds += 1
            log.warning(
                "%s: the server's store went back from version %d to %d; following it",
                self._resource.label, self._version, version,
            )  # fmt: skip
        self.counts.lists += 1
        self.counts.relists += self.synced.is_set()
        self._version = version
        self._told_at = _now()
        self._tell(self._cache.replace(items, rewound=rewound))
        self.synced.set()
        self.synced_or_over.set()

    # --- watching ---

    async def _watch(self) -> None:
        """Returns when only a new list can help."""
        while True:
            self.phase = ReflectorPhase.WATCHING
            began = _now()
            told_before = self.counts.events + self.counts.bookmarks
            is_silent = False
            failure: errors.KubeError | None = None
            try:
                await self._watch_once()
            except _OutOfSync as lost:
                await self._wait(errors.Gone(self._call, str(lost)))
                return
            except errors.WatchStalled:
                # Nothing by itself: a quiet kind has nothing to tell.
                is_silent = True
            except errors.KubeError as error:
                failure = error
            lasted = _now() - began
            if lasted >= STEADY_S:
                self._backoff.reset()
            told = self.counts.events + self.counts.bookmarks > told_before
            if failure is None and not is_silent and lasted < SHORT_S and not told:
                failure = errors.Unreachable(self._call, "the server ended the watch at once")
            if is_silent and self._suspect_since is None:
                failure = await self._compared()
            if failure is not None:
                await self._wait(failure)
            if self._needs_list(failure):
                return

    def _needs_list(self, failure: errors.KubeError | None) -> bool:
        lost_thread = isinstance(failure, errors.Gone | errors.InvalidResponse | errors.Permanent)
        ahead = failure is not None and any(cause.reason == _TOO_LARGE for cause in failure.causes)
        return lost_thread or ahead or _now() - self._told_at >= self._pace.relist_after_s

    async def _compared(self) -> errors.KubeError | None:
        """After a silence: a server whose store was restored from a backup accepts a watch from a version of
        its future, and then never says a word."""
        chosen = self._selection
        try:
            version = await self._client.newest_version(
                self._resource, namespace=chosen.namespace, labels=chosen.labels, fields=chosen.fields
            )
            if self._number(version) < self._version:
                why = f"the server is at version {version}, behind our {self._version}"
                return errors.Gone(self._call, why)
        except errors.KubeError as error:
            return error
        return None

    def _suspect(self, sent_at: float) -> None:
        """A request of that time was not answered: a watch that has told nothing since may be dead, too."""
        if self._watching is not None and not self.contact.has_heard_since(sent_at):
            self._suspect_since = sent_at
            self._watching.give_up()

    async def _watch_once(self) -> None:
        watch = self._client.watch(
            self._resource,
            namespace=self._selection.namespace,
            labels=self._selection.labels,
            fields=self._selection.fields,
            version=str(self._version),
            timeout_s=self._dice.uniform(*self._pace.watch_s),
            silence_s=self._pace.silence_s,
        )
        async with watch:
            self._watching, self._suspect_since = watch, None
            self.counts.watches += 1
            self.contact.opened(_now())
            self.failure = None
            try:
                await self._take_all(watch)
            finally:
                self._watching = None
                self.contact.closed(_now(), self._suspect_since)

    async def _take_all(self, watch: Watch[T]) -> None:
        count = 0
        async for event in watch:
            self._take(event)
            self._told(watch.heard_at)
            count += 1
            if count % BURST == 0:
                await asyncio.sleep(0)

    def _take(self, event: WatchEvent[T]) -> None:
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
        self._tell(changes)

    def _check_repeated(self, event: WatchEvent[T], key: str, version: int) -> None:
        """An event from the past is harmless if it tells what we have; else we have missed something."""
        held = self._cache.version(key)
        if held != (0 if event.type == "DELETED" else version):
            raise _OutOfSync(f"{event.type} {key} came with version {version}, after version {self._version}")
        self.counts.repeated += 1

    def _told(self, heard_at: float) -> None:
        self._told_at = heard_at
        self.contact.heard(heard_at)
        self.counts.lag_s = _now() - heard_at
        self.counts.worst_lag_s = max(self.counts.worst_lag_s, self.counts.lag_s)
        if self._complaint:
            log.info("%s: following the server again", self._resource.label)
            self._complaint = ""
        self.failure = None

    # --- how it goes ---

    async def _wait(self, failure: errors.KubeError) -> None:
        delay_s = self._backoff.next_delay_s()
        if isinstance(failure, errors.Overloaded):
            delay_s = max(delay_s, failure.delay_s)
        self.counts.failures += 1
        # Once per kind of trouble: a server that is away for an hour must not fill the log.
        known = str(failure) == self._complaint
        log.log(logging.DEBUG if known else logging.WARNING, "%s (trying again)", failure)
        self._complaint = str(failure)
        self.failure = failure
        self.phase = ReflectorPhase.WAITING
        await asyncio.sleep(delay_s)

    def _number(self, version: str) -> int:
        if not version.isdecimal() or len(version) > _LONGEST_NUMBER:
            raise errors.InvalidResponse(self._call, f'the resource version "{version[:80]}" is not a number')
        return int(version)

    def _key(self, item: T) -> str:
        """Of an object that can be kept: it has a name, and a version that can be compared."""
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
        return ApiCall(verb, self._resource.label, self._selection.namespace)


def _now() -> float:
    return asyncio.get_running_loop().time()
