"""Kubernetes Events: what happened to an object, for people who look at that object.

Best effort: written in the background, never waited for, the same one not again within a few minutes, and
dropped when there are too many or the server won't have them.
"""

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.resources import EVENTS, Object

__all__ = ["EventWriter", "Subject"]

log = logging.getLogger(__name__)

_COMPONENT: Final = "rescheduler"
_MOST_WAITING: Final = 1000
_LONGEST_MESSAGE: Final = 1024
_SAME_FOR_S: Final = 300.0
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
        self._written_s: dict[tuple[str, str, str], float] = {}

    def tell(self, subject: Subject, reason: str, message: str, *, warning: bool = False) -> None:
        if self._was_told(subject, reason, message):
            return
        with contextlib.suppress(asyncio.QueueFull):
            self._waiting.put_nowait(
                self._event(subject, reason, message[:_LONGEST_MESSAGE], warning=warning)
            )

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
                await self._client.create(EVENTS, event)
            except errors.AlreadyExists:
                continue
            except errors.KubeError as error:
                log.info("an Event was lost: %s", error)
            finally:
                self._waiting.task_done()

    def _was_told(self, subject: Subject, reason: str, message: str) -> bool:
        now_s = asyncio.get_running_loop().time()
        for known, told_s in list(self._written_s.items()):
            if now_s - told_s < _SAME_FOR_S:
                break
            del self._written_s[known]
        what = (subject.uid, reason, message)
        if what in self._written_s:
            return True
        self._written_s[what] = now_s
        return False

    def _event(self, subject: Subject, reason: str, message: str, *, warning: bool) -> Object:
        now = self._now()
        time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        namespace = subject.namespace or "default"
        suffix = hashlib.sha256(f"{subject.uid}{reason}{message}{now.timestamp()}".encode()).hexdigest()[:16]
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": namespace, "name": f"{subject.name[:230]}.{suffix}"},
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
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
        }
