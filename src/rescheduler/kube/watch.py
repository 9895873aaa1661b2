"""One watch: a request whose answer goes on as long as there are changes to tell."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

from rescheduler.kube import errors
from rescheduler.kube.call import Call
from rescheduler.kube.transport import NoAnswer, Response
from rescheduler.kube.wire.codec import Codec, Undecodable, WatchDecoder, WatchEvent

__all__ = ["Watch"]

T = TypeVar("T")

_PART = 2**16


class Watch(Generic[T]):
    """`async with` begins it (and raises what the server answers), `async for` gives its events.

    Only ADDED, MODIFIED, DELETED and BOOKMARK come out. An ERROR in the stream is raised as the error it
    means (`Gone` for an expired version), as are a broken connection and a silence of more than
    `silence_s` (`Silent`). If the server ends the watch in good order, the iteration just ends.
    """

    def __init__(
        self, call: Call, codec: Codec[T], send: Callable[[], Awaitable[Response]], silence_s: float
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
            raise errors.Unreadable(self._call, str(error)) from error
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
                raise errors.Unreadable(self._call, str(error)) from error
            if self._ready:
                self.heard_at = asyncio.get_running_loop().time()
        event = self._ready.popleft()
        if event.type == "ERROR":
            status = event.status
            assert status is not None
            raise errors.from_answer(self._call, status.code or 500, status)
        return event

    async def _chunk(self) -> bytes:
        # Counted from the last whole event, not the last byte: a trickle of bytes is no sign of life.
        deadline = self.heard_at + self._silence_s if self._silence_s else None
        try:
            async with asyncio.timeout_at(deadline) as self._limit:
                return await anext(self._chunks)
        except TimeoutError:
            raise errors.Silent(self._call, f"silent for {self._silence_s:g} s") from None
        except NoAnswer as broken:
            raise errors.Unreachable(self._call, broken.reason) from broken
        finally:
            self._limit = None

    def give_up(self) -> None:
        """Ends a read that waits, as a silence does; to be called on the event loop."""
        # Several requests may find out at once; a read that is being ended can't be ended again.
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time())
