"""The boundary to the network: a request goes in, a response comes back.

The client and the informers use only this. There are two transports: `HttpTransport` for a cluster, and
`InProcessTransport` for a simulated API server in the same process. The contract of a transport:

- `send` returns when it has the status line and the headers; the body is read from the response.
- A connection that can't be made, breaks, or takes too long raises `NoResponse`, from `send` or from reading
  the body. An answer with any HTTP status is an answer, not an error.
- No request is sent twice, except after a 401 that new credentials may fix (a 401 changed nothing).
- A response that is not read to its end must be closed; `async with` does that.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol, Self
from urllib.parse import quote, urlencode

__all__ = [
    "ApiRequest",
    "ApiResponse",
    "Closeable",
    "HandlerResponse",
    "InProcessTransport",
    "NoResponse",
    "RequestHandler",
    "Transport",
    "loop_s",
    "wall_clock",
]


def wall_clock() -> datetime:
    """Return the current time of this machine, in UTC."""
    return datetime.now(UTC)


def loop_s() -> float:
    """Return the time of the running event loop in seconds; it may be virtual."""
    return asyncio.get_running_loop().time()


@dataclass(frozen=True, slots=True)
class ApiRequest:
    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    timeout_s: float = 30.0
    """The time until the response is complete; for a watch, until its headers have arrived."""
    streaming: bool = False
    """True if the body has no time limit: its reader decides how long it waits for the next chunk."""


class NoResponse(Exception):  # noqa: N818 - says what happened
    """No answer arrived, or only a part of it."""

    def __init__(self, reason: str, *, sent: bool, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy
        """The advice, if the cause is known; otherwise empty."""
        self.sent = sent
        """False only if the request was certainly not sent, so that it changed nothing."""


class ApiResponse(Protocol):
    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers; names are in lower case."""
        ...

    async def read(self) -> bytes:
        """Return the whole body."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives; chunks end anywhere."""
        ...

    async def close(self) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...


class Transport(Protocol):
    async def send(self, request: ApiRequest) -> ApiResponse: ...

    async def close(self) -> None: ...


class Closeable(ABC):
    """An object that is closed at the end of an `async with` block."""

    @abstractmethod
    async def close(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class HandlerResponse(Protocol):
    """Status, headers (names in lower case) and a body that arrives in chunks."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def chunks(self) -> AsyncIterator[bytes]: ...


RequestHandler = Callable[[str, str, Mapping[str, str], bytes], Awaitable[HandlerResponse]]
"""Called with method, target (path and query as on the request line), headers and body."""


class InProcessTransport:
    """A `Transport` to a `RequestHandler`, without a network.

    `handle` may raise `ConnectionError`, also while it produces the body, to drop the connection. Timeouts
    use the clock of the running loop, so a virtual clock works too.
    """

    def __init__(self, handle: RequestHandler) -> None:
        self._handle = handle
        self._open: set[_InProcessResponse] = set()

    async def send(self, request: ApiRequest) -> "_InProcessResponse":
        deadline = loop_s() + request.timeout_s
        target = quote(request.path, safe="/%:@!$&'()*+,;=~-._")
        if request.query:
            target += "?" + urlencode(request.query)
        headers = {name.lower(): value for name, value in request.headers.items()}
        try:
            async with asyncio.timeout_at(deadline):
                answer = await self._handle(request.method, target, headers, request.body)
        except TimeoutError:
            raise NoResponse(f"no answer within {request.timeout_s:g} s", sent=True) from None
        except ConnectionError as error:
            raise NoResponse(str(error) or "the connection was dropped", sent=True) from error
        response = _InProcessResponse(answer, request, deadline, forget=self._open.discard)
        self._open.add(response)
        return response

    async def close(self) -> None:
        for response in list(self._open):
            await response.close()


class _InProcessResponse(Closeable):
    def __init__(
        self,
        answer: HandlerResponse,
        request: ApiRequest,
        deadline: float,
        forget: Callable[["_InProcessResponse"], None],
    ) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self._body = answer.chunks
        self._request = request
        self._deadline = deadline
        self._forget = forget
        self._waiting: asyncio.Timeout | None = None
        """The timeout of a reader that waits for the next chunk."""
        self._closed = False

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncIterator[bytes]:
        deadline = None if self._request.streaming else self._deadline
        while True:
            try:
                async with asyncio.timeout_at(deadline) as self._waiting:
                    chunk = await anext(self._body)
            except StopAsyncIteration:
                break
            except TimeoutError:
                slow = f"the answer was not complete within {self._request.timeout_s:g} s"
                raise NoResponse("the connection was closed" if self._closed else slow, sent=True) from None
            except ConnectionError as error:
                raise NoResponse(str(error) or "the connection was dropped", sent=True) from error
            finally:
                self._waiting = None
            yield chunk
        await self.close()

    async def close(self) -> None:
        self._forget(self)
        self._closed = True
        if self._waiting is not None:
            # Another task is reading: end its wait, and with it the generator.
            self._waiting.reschedule(loop_s())
            return
        # Closing the generator tells the server that the client has disconnected.
        if isinstance(self._body, AsyncGenerator):
            await self._body.aclose()
