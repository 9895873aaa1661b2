"""Kubernetes Events: what happened to an object, for people who look at that object.

Best effort: written in the background, never waited for, the same one again as a higher count, and dropped
when there are too many or the server won't have them.
"""

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from rescheduler.controller.event_limits import EventLimits, Told
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.patches import merge_patch
from rescheduler.kube.resources import EVENTS, Object

__all__ = ["EventWriter", "Subject"]

log = logging.getLogger(__name__)

_COMPONENT: Final = "rescheduler"
_MOST_WAITING: Final = 1000
_LONGEST_MESSAGE: Final = 1024
_LAST_WORDS_S: Final = 2.0
"""At the end, how long Events that are not written yet are waited for."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def of_node(cls, name: str) -> "Subject":
        # As the kubelet does it: whoever describes a node looks for events by its name in this place.
        return cls("v1", "Node", "", name, name)


class EventWriter:
    def __init__(self, client: Client, now: Callable[[], datetime]) -> None:
        self._client = client
        self._now = now
        self._waiting: asyncio.Queue[Object] = asyncio.Queue(_MOST_WAITING)
        self._limits = EventLimits()

    def tell(
        self, subject: Subject, reason: str, message: str, *, warning: bool = False, once: bool = False
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
            suffix = _suffix(subject, reason, message, "" if once else str(self._now().timestamp()))
            told = Told(1, f"{subject.name[:230]}.{suffix}", time, now_s)
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
                async with asyncio.timeout(_LAST_WORDS_S):
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


def _event(subject: Subject, reason: str, message: str, told: Told, *, time: str, warning: bool) -> Object:
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


def _suffix(subject: Subject, *told: str) -> str:
    """Of the Event's name: the same for what is the same."""
    return hashlib.sha256("".join((subject.uid, *told)).encode()).hexdigest()[:16]
