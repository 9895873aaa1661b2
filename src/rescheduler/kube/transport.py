"""The one boundary to the outside: a request goes in, a response comes back.

Everything above (the client, the informers) speaks only this. Two transports exist: `network.Network`
for a cluster, and `in_process.InProcess` for a simulated API server in the same process. What a
transport owes its caller:

- `send` returns once the status line and headers are there; the body is read from the response.
- A connection that can't be made, breaks, or says nothing for too long raises `errors.Unreachable`;
  an answer of any HTTP status is an answer, not an error.
- A response that is not read to its end must be closed; `async with` does it.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

__all__ = ["Request", "Response", "Transport"]


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    timeout_s: float = 30.0
    """Until the response is complete; for a watch, the longest silence between two chunks."""
    streaming: bool = False
    """True for a watch: its length has no limit, only its silences have."""


class Response(Protocol):
    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Names in lower case."""
        ...

    async def read(self) -> bytes:
        """The whole body."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives, cut anywhere."""
        ...

    async def close(self) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Transport(Protocol):
    async def send(self, request: Request) -> Response: ...

    async def close(self) -> None: ...
