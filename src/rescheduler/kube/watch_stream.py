"""One watch: a request whose answer goes on as long as there are changes to tell.

When the server last gave a sign of life: the measure of how far a cache can be trusted.

Two questions, because silence on a watch means nothing by itself (a quiet kind has nothing to tell):

- Is it followed? From the moment the watch is lost until another one has held for `SETTLE_S`, it is not.
- How long ago was the last sign of life: an event, a bookmark, a list, an accepted watch?
"""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

from rescheduler.kube import errors
from rescheduler.kube.api_resources import ApiCall
from rescheduler.kube.codecs.codec import Codec, Undecodable, WatchDecoder, WatchEvent
from rescheduler.kube.transport import ApiResponse, NoResponse

__all__ = ["SETTLE_S", "Watch", "WatchHealth"]

T = TypeVar("T")

_PART = 2**16


class Watch(Generic[T]):
    """`async with` begins it (and raises what the server answers), `async for` gives its events.

    Only ADDED, MODIFIED, DELETED and BOOKMARK come out. An ERROR in the stream is raised as the error it
    means (`Gone` for an expired version), as are a broken connection and a silence of more than
    `silence_s` (`Silent`). If the server ends the watch in good order, the iteration just ends.
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
        """Of the last chunk: a large one is decoded in parts, so that others have their turn in between."""
        self._limit: asyncio.Timeout | None = None
        """Of the read that is waited for."""
        self.heard_at = 0.0
        """When the newest event came in, in loop time; at first, when the server accepted the watch."""

    async def __aenter__(self) -> Self:
        self._response = await self._send()
        content_type = self._response.headers.get("content-type", "")
        try:
            self._decoder: WatchDecoder[T] = self._codec.watch_decoder(content_type)
        except Undecodable as error:
            await self._response.close()
            raise errors.InvalidResponse(self._call, str(error)) from error
        self._chunks: AsyncIterator[bytes] = self._response.chunks()
        self.heard_at = asyncio.get_running_loop().time()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._response.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchEvent[T]:
        while not self._ready:
            chunk = self._unread or await self._chunk()
            chunk, self._unread = chunk[:_PART], chunk[_PART:]
            try:
                self._ready.extend(self._decoder.feed(chunk))
            except Undecodable as error:
                raise errors.InvalidResponse(self._call, str(error)) from error
            if self._ready:
                self.heard_at = asyncio.get_running_loop().time()
        event = self._ready.popleft()
        if event.type == "ERROR":
            status = event.status
            assert status is not None
            raise errors.error_from_status(self._call, status.code or 500, status)
        return event

    async def _chunk(self) -> bytes:
        # Counted from the last whole event, not the last byte: a trickle of bytes is no sign of life.
        deadline = self.heard_at + self._silence_s if self._silence_s else None
        try:
            async with asyncio.timeout_at(deadline) as self._limit:
                return await anext(self._chunks)
        except TimeoutError:
            raise errors.WatchStalled(self._call, f"silent for {self._silence_s:g} s") from None
        except NoResponse as broken:
            raise errors.Unreachable(self._call, broken.reason) from broken
        finally:
            self._limit = None

    def give_up(self) -> None:
        """Ends a read that waits, as a silence does; to be called on the event loop."""
        # Several requests may find out at once; a read that is being ended can't be ended again.
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time())


SETTLE_S = 1.0
"""How long a new watch must hold before it counts: what was missed comes right after its headers."""


class WatchHealth:
    """Times are the caller's, of one clock."""

    def __init__(self) -> None:
        self._heard_at = -math.inf
        self._open_since: float | None = None
        self._lost_at: float | None = -math.inf
        """None while a watch that has settled is open."""

    def listed(self, began: float, now: float) -> None:
        """A list came in that was asked for when it `began`; the watch after it is still to be opened."""
        self._heard_at = max(self._heard_at, began)
        self._lost_at = now

    def heard(self, now: float) -> None:
        """An event or a bookmark came in."""
        self._heard_at = max(self._heard_at, now)
        self._lost_at = None

    def opened(self, now: float) -> None:
        """The server accepted a watch."""
        self._open_since = now

    def closed(self, now: float, suspect_since: float | None = None) -> None:
        """The watch is over; if it had held for a while, the server was there when it began.

        `suspect_since` if it was given up because the server did not answer a request of that time.
        """
        self._settle(now)
        self._open_since = None
        if self._lost_at is None:
            self._lost_at = now if suspect_since is None else suspect_since

    def has_heard_since(self, moment: float) -> bool:
        return self._heard_at >= moment or (self._open_since is not None and self._open_since >= moment)

    def staleness(self, now: float) -> float:
        """Seconds since the last event, bookmark, list or settled watch; infinite before the first."""
        self._settle(now)
        return max(0.0, now - self._heard_at)

    def lost(self, now: float) -> float:
        """Seconds since the watch was lost; 0 while it is open."""
        self._settle(now)
        return 0.0 if self._lost_at is None else max(0.0, now - self._lost_at)

    def _settle(self, now: float) -> None:
        if self._open_since is not None and now - self._open_since >= SETTLE_S:
            self._heard_at = max(self._heard_at, self._open_since)
            self._lost_at = None
