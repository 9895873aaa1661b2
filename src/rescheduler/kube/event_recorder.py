"""Kubernetes Events: what happened to an object, for people who look at that object.

Best effort: written in the background, never waited for, the same one again as a higher count, and dropped
when there are too many or the server won't have them.

Which Events are worth writing: as client-go's event correlator has it.

What is the same is one Event with a count. About one object there may be a burst of Events, then one every
few minutes: something that goes on and on must not drown the rest, nor the API server. Likewise about all
objects of one namespace: a tenant with thousands of failing workloads must not use up what others need.
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
from rescheduler.kube.api_resources import EVENTS, Object
from rescheduler.kube.client import Client
from rescheduler.kube.patches import merge_patch

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
]

BURST: Final = 25
REFILL_S: Final = 300.0
"""One more Event about the same object after so long."""
NAMESPACE_BURST: Final = 100
NAMESPACE_REFILL_S: Final = 3.0
"""One more Event about objects of the same namespace after so long."""
SERIES_ENDS_AFTER_S: Final = 600.0
"""What was last told longer ago is a new story."""
_MOST_RECENTLY_USED: Final = 4096

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class EventSeries:
    count: int
    """How often by now; 1 if it is new."""
    name: str
    """Of the Event that has it."""
    first: str
    """When it was first told, as the Event says it."""
    last_s: float


@dataclass(frozen=True, slots=True)
class _Bucket:
    tokens: float
    at_s: float


class _RecentlyUsed(OrderedDict[K, V], Generic[K, V]):
    """Forgets what was used longest ago."""

    def note(self, key: K, value: V) -> None:
        self[key] = value
        self.move_to_end(key)
        if len(self) > _MOST_RECENTLY_USED:
            self.popitem(last=False)


class EventCorrelator:
    """Times are the caller's, of one clock."""

    def __init__(self) -> None:
        self._told: _RecentlyUsed[tuple[str, ...], EventSeries] = _RecentlyUsed()
        self._objects: _RecentlyUsed[str, _Bucket] = _RecentlyUsed()
        self._namespaces: _RecentlyUsed[str, _Bucket] = _RecentlyUsed()
        self.dropped = 0

    def known(self, what: tuple[str, ...], now_s: float) -> EventSeries | None:
        """As it was last told, if that is not too long ago."""
        told = self._told.get(what)
        return told if told is not None and now_s - told.last_s < SERIES_ENDS_AFTER_S else None

    def admit(self, subject: str, namespace: str, now_s: float) -> bool:
        """Whether one more may be told about it now: then it counts. Objects without a namespace have no
        tenant who could cause more than a few."""
        is_admitted = _take(self._objects, subject, BURST, REFILL_S, now_s) and (
            not namespace or _take(self._namespaces, namespace, NAMESPACE_BURST, NAMESPACE_REFILL_S, now_s)
        )
        self.dropped += not is_admitted
        return is_admitted

    def note(self, what: tuple[str, ...], told: EventSeries) -> None:
        self._told.note(what, told)


def _take(buckets: _RecentlyUsed[str, _Bucket], key: str, burst: int, refill_s: float, now_s: float) -> bool:
    bucket = buckets.get(key, _Bucket(burst, now_s))
    tokens = min(burst, bucket.tokens + (now_s - bucket.at_s) / refill_s)
    is_admitted = tokens >= 1
    buckets.note(key, _Bucket(tokens - is_admitted, now_s))
    return is_admitted


log = logging.getLogger(__name__)

_COMPONENT: Final = "rescheduler"
_MOST_WAITING: Final = 1000
_LONGEST_MESSAGE: Final = 1024
_FLUSH_TIMEOUT_S: Final = 2.0
"""At the end, how long Events that are not written yet are waited for."""


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
        # As the kubelet does it: whoever describes a node looks for events by its name in this place.
        return cls("v1", "Node", "", name, name)


class EventRecorder:
    def __init__(self, client: Client, now: Callable[[], datetime]) -> None:
        self._client = client
        self._now = now
        self._waiting: asyncio.Queue[Object] = asyncio.Queue(_MOST_WAITING)
        self._limits = EventCorrelator()

    def tell(
        self, subject: InvolvedObject, reason: str, message: str, *, warning: bool = False, once: bool = False
    ) -> None:
        """`once`: as long as the server remembers it, it is not told again, not even by another process."""
        now_s, time = asyncio.get_running_loop().time(), self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        message = message[:_LONGEST_MESSAGE]
        what = (subject.kind, subject.uid, reason, message, str(warning))
        known = self._limits.known(what, now_s)
        if known is not None and once:
            return
        if not self._limits.admit(f"{subject.kind} {subject.uid}", subject.namespace, now_s):
            return
        if known is None:
            suffix = _name_suffix(subject, reason, message, "" if once else str(self._now().timestamp()))
            told = EventSeries(1, f"{subject.name[:230]}.{suffix}", time, now_s)
        else:
            told = replace(known, count=known.count + 1, last_s=now_s)
        self._limits.note(what, told)
        with contextlib.suppress(asyncio.QueueFull):
            self._waiting.put_nowait(_event(subject, reason, message, told, time=time, warning=warning))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._write_all(), name="events")
        try:
            yield
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FLUSH_TIMEOUT_S):
                    await self._waiting.join()
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _write_all(self) -> None:
        while True:
            event = await self._waiting.get()
            try:
                await self._write(event)
            except errors.AlreadyExists:
                continue
            except errors.KubeError as error:
                log.info("an Event was lost: %s", error)
            finally:
                self._waiting.task_done()

    async def _write(self, event: Object) -> None:
        """What was told before counts one more; unless the server has forgotten it."""
        if event["count"] > 1:
            metadata = event["metadata"]
            again = {name: event[name] for name in ("count", "lastTimestamp")}
            with contextlib.suppress(errors.NotFound):
                await self._client.patch(
                    EVENTS, f"{metadata['namespace']}/{metadata['name']}", merge_patch(again)
                )
                return
        await self._client.create(EVENTS, event)


def _event(
    subject: InvolvedObject, reason: str, message: str, told: EventSeries, *, time: str, warning: bool
) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": subject.namespace or "default", "name": told.name},
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
        "firstTimestamp": told.first,
        "lastTimestamp": time,
        "count": told.count,
    }


def _name_suffix(subject: InvolvedObject, *told: str) -> str:
    """Of the Event's name: the same for what is the same."""
    return hashlib.sha256("".join((subject.uid, *told)).encode()).hexdigest()[:16]
