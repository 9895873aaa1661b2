"""Report what happens: as Kubernetes Events to people who look at an object, and as lines of the log.

Events are best effort: they are written in the background, and dropped when there are too many or the server
refuses them. As in client-go's event correlator, a repeated Event increases a count, and there are limits: a
burst of Events per object, then one every few minutes, so that one object can't flood the API server; and the
same per namespace, so that a tenant with thousands of failing workloads can't use up the limit of others.
"""

import asyncio
import contextlib
import hashlib
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Generic, TypeVar

from rescheduler.kube import errors
from rescheduler.kube.api_resources import EVENTS, Object, merge_patch
from rescheduler.kube.client import Client
from rescheduler.kube.work_queue import background_task

__all__ = [
    "BURST",
    "NAMESPACE_BURST",
    "NAMESPACE_REFILL_S",
    "REFILL_S",
    "SERIES_ENDS_AFTER_S",
    "EventCorrelator",
    "EventRecorder",
    "EventSeries",
    "InvolvedObject",
    "log_event",
]

BURST: Final = 25
REFILL_S: Final = 300.0
"""The interval of further Events about the same object."""
NAMESPACE_BURST: Final = 100
NAMESPACE_REFILL_S: Final = 3.0
"""The interval of further Events about objects of the same namespace."""
SERIES_ENDS_AFTER_S: Final = 600.0
"""After this time without a repetition, the same Event starts a new series."""
_MAX_ENTRIES: Final = 4096

K = TypeVar("K")
V = TypeVar("V")


def log_event(log: logging.Logger, level: int, event: str, words: str, **facts: object) -> None:
    """Write a line with an event name for programs, a message for users, and facts.

    The event names the kind of line, whatever its message is. Never put a secret into the facts.

        log_event(log, logging.INFO, "CheckDone", "3 moves are planned", moves=3)
    """
    log.log(level, "%s", words, extra={"event": event, "facts": facts}, stacklevel=2)


@dataclass(frozen=True, slots=True)
class EventSeries:
    """An Event and its repetitions."""

    count: int
    """How often it has happened."""
    name: str
    """The name of the Event object."""
    first: str
    """The Event's `firstTimestamp`."""
    last_s: float


@dataclass(frozen=True, slots=True)
class _Bucket:
    tokens: float
    at_s: float


class _RecentlyUsed(OrderedDict[K, V], Generic[K, V]):
    """A dictionary that drops the least recently written entry."""

    def note(self, key: K, value: V) -> None:
        self[key] = value
        self.move_to_end(key)
        if len(self) > _MAX_ENTRIES:
            self.popitem(last=False)


class EventCorrelator:
    """Series and limits of Events. The caller passes all times, from one clock."""

    def __init__(self) -> None:
        self._series: _RecentlyUsed[tuple[str, ...], EventSeries] = _RecentlyUsed()
        self._objects: _RecentlyUsed[str, _Bucket] = _RecentlyUsed()
        self._namespaces: _RecentlyUsed[str, _Bucket] = _RecentlyUsed()
        self.dropped = 0

    def series_of(self, what: tuple[str, ...], now_s: float) -> EventSeries | None:
        """Return the current series of an Event, if it has not ended."""
        series = self._series.get(what)
        return series if series is not None and now_s - series.last_s < SERIES_ENDS_AFTER_S else None

    def admit(self, subject: str, namespace: str, now_s: float) -> bool:
        """Return whether the limits admit one more Event, and count it.

        Cluster-scoped objects have no limit per namespace, because no tenant can cause many Events for them.
        """
        is_admitted = _take(self._objects, subject, BURST, REFILL_S, now_s) and (
            not namespace or _take(self._namespaces, namespace, NAMESPACE_BURST, NAMESPACE_REFILL_S, now_s)
        )
        self.dropped += not is_admitted
        return is_admitted

    def note(self, what: tuple[str, ...], series: EventSeries) -> None:
        self._series.note(what, series)


def _take(buckets: _RecentlyUsed[str, _Bucket], key: str, burst: int, refill_s: float, now_s: float) -> bool:
    bucket = buckets.get(key, _Bucket(burst, now_s))
    tokens = min(burst, bucket.tokens + (now_s - bucket.at_s) / refill_s)
    is_admitted = tokens >= 1
    buckets.note(key, _Bucket(tokens - is_admitted, now_s))
    return is_admitted


log = logging.getLogger(__name__)

_COMPONENT: Final = "rescheduler"
_MAX_PENDING: Final = 1000
_MAX_MESSAGE_LENGTH: Final = 1024
_FLUSH_TIMEOUT_S: Final = 2.0
"""How long the recorder waits at the end until pending Events are written."""


@dataclass(frozen=True, slots=True)
class InvolvedObject:
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def of_node(cls, name: str) -> "InvolvedObject":
        # As in the kubelet: `kubectl describe node` looks for Events with the node's name as uid.
        return cls("v1", "Node", "", name, name)


class EventRecorder:
    """Write Events in the background."""

    def __init__(self, client: Client, now: Callable[[], datetime]) -> None:
        self._client = client
        self._now = now
        self._waiting: asyncio.Queue[Object] = asyncio.Queue(_MAX_PENDING)
        self._limits = EventCorrelator()

    def record(
        self, subject: InvolvedObject, reason: str, message: str, *, warning: bool = False, once: bool = False
    ) -> None:
        """Write an Event. With `once`, it is not repeated while it exists on the server, even by another
        process."""
        now_s, time = asyncio.get_running_loop().time(), self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        message = message[:_MAX_MESSAGE_LENGTH]
        what = (subject.kind, subject.uid, reason, message, str(warning))
        known = self._limits.series_of(what, now_s)
        if known is not None and once:
            return
        if not self._limits.admit(f"{subject.kind} {subject.uid}", subject.namespace, now_s):
            return
        if known is None:
            suffix = _name_suffix(subject, reason, message, "" if once else str(self._now().timestamp()))
            series = EventSeries(1, f"{subject.name[:230].rstrip('.-')}.{suffix}", time, now_s)
        else:
            series = replace(known, count=known.count + 1, last_s=now_s)
        self._limits.note(what, series)
        with contextlib.suppress(asyncio.QueueFull):
            self._waiting.put_nowait(_event(subject, reason, message, series, time=time, warning=warning))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write Events while the body runs, and pending ones at its end."""
        async with background_task(self._write_all(), "events"):
            yield
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FLUSH_TIMEOUT_S):
                    await self._waiting.join()

    async def _write_all(self) -> None:
        while True:
            event = await self._waiting.get()
            try:
                await self._write(event)
            except errors.AlreadyExists:
                continue
            except errors.KubeError as error:
                log.info("can't write an Event: %s", error)
            finally:
                self._waiting.task_done()

    async def _write(self, event: Object) -> None:
        """Increase the count of an Event, or create it if it is new or has expired on the server."""
        if event["count"] > 1:
            metadata = event["metadata"]
            repetition = {name: event[name] for name in ("count", "lastTimestamp")}
            with contextlib.suppress(errors.NotFound):
                await self._client.patch(
                    EVENTS, f"{metadata['namespace']}/{metadata['name']}", merge_patch(repetition)
                )
                return
        await self._client.create(EVENTS, event)


def _event(
    subject: InvolvedObject, reason: str, message: str, series: EventSeries, *, time: str, warning: bool
) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": subject.namespace or "default", "name": series.name},
        "involvedObject": {
            "apiVersion": subject.api_version,
            "kind": subject.kind,
            "name": subject.name,
            "uid": subject.uid,
            **({"namespace": subject.namespace} if subject.namespace else {}),
        },
        "reason": reason,
        "message": message,
        "type": "Warning" if warning else "Normal",
        "source": {"component": _COMPONENT},
        "firstTimestamp": series.first,
        "lastTimestamp": time,
        "count": series.count,
    }


def _name_suffix(subject: InvolvedObject, *content: str) -> str:
    """Return the suffix of the Event's name, the same for equal content."""
    return hashlib.sha256("".join((subject.uid, *content)).encode()).hexdigest()[:16]
