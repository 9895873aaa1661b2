"""A transport without a network: requests go straight to a simulated API server in the same process.

Nothing is imported from the simulator. Anything that answers `(method, target, headers, body)` with a
status, headers and chunks will do, so tests can put a dozen lines in its place.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import Protocol, Self
from urllib.parse import quote, urlencode

from rescheduler.kube.transport import NoAnswer, Request

__all__ = ["Answer", "Handle", "InProcess"]


class Answer(Protocol):
    """Status, headers (names in lower case) and a body that arrives in chunks."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def chunks(self) -> AsyncIterator[bytes]: ...


Handle = Callable[[str, str, Mapping[str, str], bytes], Awaitable[Answer]]
"""`(method, target, headers, body)`; `target` is path and query as on the request line."""


class InProcess:
    """A `Transport` over a `Handle`.

    `handle` may raise `ConnectionError` (also while the body is produced): that is how a server in the
    same process drops a connection. Time-outs follow the clock of the running loop, a virtual one too.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._open: set[_Response] = set()

    async def send(self, request: Request) -> "_Response":
        deadline = asyncio.get_running_loop().time() + request.timeout_s
        target = quote(request.path, safe="/%:@!$&'()*+,;=~-._")
        if request.query:
            target += "?" + urlencode(request.query)
        headers = {name.lower(): value for name, value in request.headers.items()}
        try:
            async with asyncio.timeout_at(deadline):
                answer = await self._handle(request.method, target, headers, request.body)
        except TimeoutError:
            raise NoAnswer(f"no answer within {request.timeout_s:g} s", sent=True) from None
        except ConnectionError as error:
            raise NoAnswer(str(error) or "the connection was dropped", sent=True) from error
        response = _Response(answer, request, deadline, forget=self._open.discard)
        self._open.add(response)
        return response

    @property
    def open_responses(self) -> int:
        """How many responses were neither read to their end nor closed."""
        return len(self._open)

    async def close(self) -> None:
        for response in list(self._open):
            await response.close()


class _Response:
    def __init__(
        self, answer: Answer, request: Request, deadline: float, forget: Callable[["_Response"], None]
    ) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self._body = answer.chunks
        self._request = request
        self._deadline = deadline
        self._forget = forget
        self._waiting: asyncio.Timeout | None = None
        """The reader's wait for the next chunk, while there is one."""
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
                raise NoAnswer("the connection was closed" if self._closed else slow, sent=True) from None
            except ConnectionError as error:
                raise NoAnswer(str(error) or "the connection was dropped", sent=True) from error
            finally:
                self._waiting = None
            yield chunk
        await self.close()

    async def close(self) -> None:
        self._forget(self)
        self._closed = True
        if self._waiting is not None:
            # Another task reads: its wait ends now, and with it the generator.
            self._waiting.reschedule(asyncio.get_running_loop().time())
            return
        # Closing the generator is how the server learns that nobody listens any more.
        if isinstance(self._body, AsyncGenerator):
            await self._body.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
