"""The one boundary to the outside: a request goes in, a response comes back.

Everything above (the client, the informers) speaks only this. Two transports exist: `network.Network`
for a cluster, and `in_process.InProcess` for a simulated API server in the same process. What a
transport owes its caller:

- `send` returns once the status line and headers are there; the body is read from the response.
- A connection that can't be made, breaks, or takes too long raises `NoAnswer`, from `send` or from
  reading the body; an answer of any HTTP status is an answer, not an error.
- No request is sent twice, except after a 401 that new credentials may cure (a 401 changed nothing).
- A response that is not read to its end must be closed; `async with` does it.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

__all__ = ["NoAnswer", "Request", "Response", "Transport"]


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    timeout_s: float = 30.0
    """Until the response is complete; for a watch, until its headers are there."""
    streaming: bool = False
    """True for a watch: its body may go on for ever, and its reader decides which silence is too long."""


class NoAnswer(Exception):  # noqa: N818 - named after what the caller is left with
    """Nothing came back, or not all of it."""

    def __init__(self, reason: str, *, sent: bool, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy
        """What to do about it, if more is known than that nothing came back."""
        self.sent = sent
        """False only if the request surely never left: then it surely changed nothing."""


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
