"""Send requests: rate limit, back-off, retries, and each answer as a value or an error.

The kernel detects connections whose peer is gone (`http_transport` sets keep-alive and user timeout). It
can't detect a proxy that keeps a connection open and forwards nothing, or a server process that is stopped.
Only unanswered requests reveal those. Therefore:

- An unanswered request makes every watch suspect that has received nothing since. Informers open such a watch
  again; if the server accepts it, it is alive.
- If nothing else is sent, the client sends a cheap read every `PROBE_EVERY_S`. A leader renews its Lease more
  often, so it hardly needs one.
"""

import asyncio
import logging
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import msgspec

from rescheduler.kube import errors
from rescheduler.kube.api_resources import ApiCall, ApiResource, InvalidPathSegment
from rescheduler.kube.codecs.codec import JSON, ApiStatus, ListPage, Undecodable
from rescheduler.kube.codecs.negotiated_codec import StreamedPage, decode_any_status
from rescheduler.kube.transport import ApiRequest, ApiResponse, NoResponse, Transport, loop_s

__all__ = [
    "DEFAULT_RETRIES",
    "PROBE_EVERY_S",
    "PROBE_TIMEOUT_S",
    "QUICK_RETRIES",
    "Backoff",
    "Query",
    "RateLimiter",
    "RequestObserver",
    "RequestSender",
    "RetryPolicy",
    "ServerLiveness",
    "collection_path",
    "decode_body",
    "error_from_response",
    "object_path",
    "retry_while_overloaded",
]


class RateLimiter:
    """A token bucket as in client-go: `burst` requests immediately, then `per_second`. 0 means no limit.

    First come, first served: each caller reserves the next free slot and waits for it, so no caller overtakes
    another. Time is that of the running loop, so a virtual clock works too.
    """

    def __init__(self, per_second: float = 0.0, burst: int = 1) -> None:
        if per_second < 0:
            raise ValueError(f"invalid rate limit of {per_second} requests per second: use 0 for no limit")
        if burst < 1:
            raise ValueError(f"invalid burst of {burst}: use at least 1")
        self.per_second = per_second
        self.burst = burst
        self._full_at = float("-inf")
        """When the bucket will be full again; each request adds one interval."""

    async def wait(self) -> float:
        """Wait until the caller may proceed; return how many seconds that took.

        A caller that is cancelled while waiting leaves its slot unused: the rate gets lower, never higher.
        """
        if not self.per_second:
            return 0.0
        loop = asyncio.get_running_loop()
        now = loop.time()
        interval = 1.0 / self.per_second
        self._full_at = max(self._full_at, now) + interval
        delay = self._full_at - self.burst * interval - now
        if delay <= 1e-9:
            return 0.0
        await asyncio.sleep(delay)
        return delay


class Backoff:
    """Exponential back-off: each delay is random in the upper half of a range that doubles up to `longest_s`.

    The jitter prevents a thousand clients from reconnecting to a restarted server at the same time.
    """

    def __init__(self, first_s: float, longest_s: float, rng: random.Random) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._rng = rng
        self._tries = 0

    def next_delay_s(self) -> float:
        # The exponent is bounded: it grows for as long as a server is unreachable.
        ceiling = min(self._longest_s, self._first_s * 2.0 ** min(self._tries, 32))
        self._tries += 1
        return ceiling * self._rng.uniform(0.5, 1.0)

    def reset(self) -> None:
        self._tries = 0


log = logging.getLogger(__name__)

R = TypeVar("R")

LONGEST_RETRY_DELAY_S = 10.0
"""If a server asks for a longer delay, its error is raised."""


class RetryPolicy(NamedTuple):
    tries: int
    wait_at_most_s: float
    """The longest wait between two tries, even if the server asks for more."""


DEFAULT_RETRIES: Final = RetryPolicy(tries=4, wait_at_most_s=LONGEST_RETRY_DELAY_S)
QUICK_RETRIES: Final = RetryPolicy(tries=2, wait_at_most_s=0.2)
"""The retries of optional reads that everything else waits for."""


async def retry_while_overloaded(
    read: Callable[[], Awaitable[R]], retry_policy: RetryPolicy = DEFAULT_RETRIES
) -> R:
    """Repeat a read while the server is overloaded and says how long to wait."""
    for left in reversed(range(retry_policy.tries)):
        try:
            return await read()
        except errors.Overloaded as overloaded:
            if not left or overloaded.delay_s > LONGEST_RETRY_DELAY_S:
                raise
            log.info("%s", overloaded)
            await asyncio.sleep(min(overloaded.delay_s, retry_policy.wait_at_most_s))
    raise AssertionError("the last try returns or raises")


def decode_body(call: ApiCall, content_type: str, body: bytes, decode: Callable[[str, bytes], R]) -> R:
    try:
        return decode(content_type, body)
    except Undecodable as error:
        raise errors.InvalidResponse(call, str(error)) from error


def error_from_response(call: ApiCall, response: ApiResponse, body: bytes) -> errors.KubeError:
    """Return the error for an answer outside 2xx."""
    status = _status_from_body(response.headers.get("content-type", ""), body)
    return errors.error_from_status(call, response.status, status, retry_after_s=_retry_after(response))


def _retry_after(response: ApiResponse) -> float | None:
    """Return the seconds in Retry-After. HTTP also allows a date, but no API server sends one."""
    value = response.headers.get("retry-after", "")
    return float(value) if value.isdecimal() else None


def _status_from_body(content_type: str, body: bytes) -> ApiStatus:
    """Decode a `Status`. If a proxy answered with HTML or plain text, use that as the message."""
    try:
        return decode_any_status(content_type, body)
    except Undecodable:
        return ApiStatus(message=body[:200].decode(errors="replace").strip())


PROBE_EVERY_S: Final = 3.0
PROBE_TIMEOUT_S: Final = 3.0

OnUnanswered = Callable[[float], None]
"""Called with the loop time at which the request was sent."""


class ServerLiveness:
    """Record when the server last answered, and report unanswered requests. Times are of the event loop."""

    def __init__(self) -> None:
        self.answered_at = -math.inf
        """When the latest answer arrived, with any HTTP status."""
        self._handlers: dict[object, OnUnanswered] = {}

    def answered(self) -> None:
        self.answered_at = loop_s()

    def unanswered(self, sent_at: float) -> None:
        for handler in tuple(self._handlers.values()):
            handler(sent_at)

    def on_unanswered(self, handler: OnUnanswered) -> Callable[[], None]:
        """Call `handler` for each unanswered request; return a function that ends the subscription."""
        subscription = object()
        self._handlers[subscription] = handler

        def end() -> None:
            self._handlers.pop(subscription, None)

        return end


T = TypeVar("T")

Query = tuple[tuple[str, str], ...]


class RequestObserver(Protocol):
    def __call__(self, call: ApiCall, code: int, seconds: float, /) -> None:
        """Observe a request: `code` is the HTTP status, or 0 without an answer."""
        ...


@dataclass(frozen=True, slots=True)
class RequestSender:
    transport: Transport
    rate_limit: RateLimiter
    timeout_s: float
    observer: RequestObserver | None
    retry_policy: RetryPolicy
    liveness: ServerLiveness

    async def read(
        self, call: ApiCall, resource: ApiResource[T], query: Query, decode: Callable[[str, bytes], R]
    ) -> R:
        request = self.request("GET", object_path(call, resource), query, resource.codec.accept)
        content_type, body = await retry_while_overloaded(
            lambda: self.exchange(call, request), self.retry_policy
        )
        return decode_body(call, content_type, body, decode)

    async def read_page(self, call: ApiCall, resource: ApiResource[T], query: Query) -> ListPage[T]:
        path, accept = collection_path(call, resource), resource.codec.accept
        request = self.request("GET", path, query, accept, streaming=True)
        return await retry_while_overloaded(lambda: self._page(call, resource, request), self.retry_policy)

    async def _page(self, call: ApiCall, resource: ApiResource[T], request: ApiRequest) -> ListPage[T]:
        sent_at = loop_s()
        async with await self.send(call, request) as response:
            page = StreamedPage(resource.codec, response.headers.get("content-type", ""))
            try:
                async for chunk in self._with_idle_timeout(response.chunks()):
                    page.feed(chunk)
                return page.finish()
            except NoResponse as broken:
                self.liveness.unanswered(sent_at)
                raise _unreachable_error(call, broken) from broken
            except Undecodable as error:
                raise errors.InvalidResponse(call, str(error)) from error

    async def _with_idle_timeout(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the chunks, with the timeout for each of them: a large list may take long while data
        arrives."""
        while True:
            try:
                async with asyncio.timeout(self.timeout_s):
                    chunk = await anext(chunks, None)
            except TimeoutError:
                raise NoResponse(
                    f"no data for {self.timeout_s:g} s in the middle of the answer", sent=True
                ) from None
            if chunk is None:
                return
            yield chunk

    def request(
        self,
        method: str,
        path: str,
        query: Query,
        accept: str,
        content: Mapping[str, Any] | bytes = b"",
        *,
        content_type: str = JSON,
        streaming: bool = False,
    ) -> ApiRequest:
        headers = {"user-agent": USER_AGENT, "accept": accept}
        if content:
            headers["content-type"] = content_type
        body = content if isinstance(content, bytes) else msgspec.json.encode(content)
        return ApiRequest(method, path, query, headers, body, self.timeout_s, streaming)

    async def exchange(self, call: ApiCall, request: ApiRequest) -> tuple[str, bytes]:
        """Return content type and body of a successful answer; raise for anything else."""
        async with await self.send(call, request) as response:
            return response.headers.get("content-type", ""), await self._body(call, response)

    async def send(self, call: ApiCall, request: ApiRequest) -> ApiResponse:
        """Return a response with status 2xx, which the caller closes; raise for anything else."""
        await self.rate_limit.wait()
        began = loop_s()
        code = 0
        try:
            response = await self.transport.send(request)
            code = response.status
            self.liveness.answered()
        except NoResponse as broken:
            if broken.sent:
                self.liveness.unanswered(began)
            raise _unreachable_error(call, broken) from broken
        finally:
            if self.observer:
                self.observer(call, code, loop_s() - began)
        if 200 <= code < 300:
            return response
        async with response:
            raise error_from_response(call, response, await self._body(call, response))

    async def _body(self, call: ApiCall, response: ApiResponse) -> bytes:
        try:
            return b"".join([chunk async for chunk in self._with_idle_timeout(response.chunks())])
        except NoResponse as broken:
            raise _unreachable_error(call, broken) from broken


def object_path(call: ApiCall, resource: ApiResource[Any]) -> str:
    """Return the path of the object that the call names; raise `InvalidName` before anything is sent."""
    try:
        return resource.object_path(call.namespace, call.name)
    except InvalidPathSegment as invalid:
        raise errors.InvalidName(call, str(invalid)) from invalid


def collection_path(call: ApiCall, resource: ApiResource[Any]) -> str:
    """Return the path of the objects of the call's namespace; raise `InvalidName` before anything is sent."""
    try:
        return resource.collection_path(call.namespace)
    except InvalidPathSegment as invalid:
        raise errors.InvalidName(call, str(invalid)) from invalid


def _unreachable_error(call: ApiCall, broken: NoResponse) -> errors.Unreachable:
    return errors.Unreachable(call, broken.reason, sent=broken.sent, advice=broken.remedy)


def _user_agent() -> str:
    try:
        return f"rescheduler/{version('kube-rescheduler')}"
    except PackageNotFoundError:
        return "rescheduler/unknown"


USER_AGENT = _user_agent()
