"""Send the events of the hub to open pages, as server-sent events."""

import logging
from collections import Counter
from typing import Final

import msgspec
from aiohttp import web

from rescheduler.kube import errors
from rescheduler.kube.event_recorder import log_event
from rescheduler.web.plan_api_types import ResyncEvent
from rescheduler.web.web_api import ApiError, Caller
from rescheduler.web.web_events import EventHub, ResyncReason
from rescheduler.web.web_sessions import SessionStore

__all__ = ["EventStreams"]

log = logging.getLogger(__name__)

_HEARTBEAT_S: Final = 5.0
_MOST_STREAMS: Final = 200
_STREAMS_PER_SESSION: Final = 10
_STREAMS_PER_USER: Final = 40
_HEADERS: Final = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}


class EventStreams:
    def __init__(self, hub: EventHub, sessions: SessionStore) -> None:
        self._hub = hub
        self._sessions = sessions
        self._of_user: Counter[str] = Counter()

    async def stream(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Send changes until the client disconnects, or its session ends."""
        session, hub, user = caller.session, self._hub, caller.viewer.name
        if (
            hub.viewers >= _MOST_STREAMS
            or session.event_streams >= _STREAMS_PER_SESSION
            or self._of_user[user] >= _STREAMS_PER_USER
        ):
            raise ApiError(429, "TooManyRequests", "too many open pages")
        self._of_user[user] += 1
        session.event_streams += 1
        hub.viewers += 1
        response = web.StreamResponse(headers=_HEADERS)
        try:
            await response.prepare(request)
            await self._send(request, response, caller)
        except errors.KubeError as error:
            # It is not known now what the viewer may see. The page connects again and gets the reason.
            log_event(log, logging.WARNING, "PageStreamEnded", str(error))
        finally:
            session.event_streams -= 1
            hub.viewers -= 1
            self._of_user[user] -= 1
            if not self._of_user[user]:
                del self._of_user[user]
        return response

    async def _send(self, request: web.Request, response: web.StreamResponse, caller: Caller) -> None:
        hub = self._hub
        number, why = hub.start_after(request.headers.get("Last-Event-ID", "")[:64])
        await response.write(b"retry: 2000\n\n" + (self._resync(why, number) if why else b""))
        while await self._sessions.find(caller.secret) is caller.session:
            visibility = (await self._sessions.viewer(caller.session)).visibility
            found = hub.after(number)
            if found is None:
                number = hub.revision
                await response.write(self._resync("missed", number))
                continue
            for each in found:
                number = each.number
                if (data := each.render(visibility)) is not None:
                    await response.write(_event(hub.event_id(number), each.name, data))
            if not found:
                await response.write(b": still here\n\n")
            _extend(request)
            await hub.wait(_HEARTBEAT_S)
        await response.write(b"event: logout\ndata: {}\n\n")

    def _resync(self, why: ResyncReason, number: int) -> bytes:
        data = msgspec.json.encode(ResyncEvent(why, self._hub.epoch, number))
        return _event(self._hub.event_id(number), "resync", data)


def _event(number: str, name: str, data: bytes) -> bytes:
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (number.encode(), name.encode(), data)


def _extend(request: web.Request) -> None:
    """Keep the server's limit on the time of one request from ending a stream that is being read."""
    extend = getattr(request.protocol, "extend", None)
    if extend is not None:
        extend()
