"""What all verbs share: send a request at the allowed pace, and make of the answer a value or an error."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol, TypeVar

import msgspec

from rescheduler.kube import errors
from rescheduler.kube.answers import decoded, refusal
from rescheduler.kube.call import Call
from rescheduler.kube.liveness import Liveness
from rescheduler.kube.paths import InvalidSegment
from rescheduler.kube.patience import Patience, patiently
from rescheduler.kube.rate_limit import RateLimit
from rescheduler.kube.resources import Resource
from rescheduler.kube.transport import NoAnswer, Request, Response, Transport
from rescheduler.kube.wire.arriving import ArrivingPage
from rescheduler.kube.wire.codec import Page, Undecodable

__all__ = ["Caller", "Observer", "Query", "collection_path", "object_path"]

log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

Query = tuple[tuple[str, str], ...]


class Observer(Protocol):
    def __call__(self, call: Call, code: int, seconds: float, /) -> None:
        """Told of every request: `code` is the HTTP status, or 0 if no answer came."""
        ...


@dataclass(frozen=True, slots=True)
class Caller:
    transport: Transport
    rate_limit: RateLimit
    timeout_s: float
    observer: Observer | None
    patience: Patience
    liveness: Liveness

    async def read(
        self, call: Call, resource: Resource[T], query: Query, decode: Callable[[str, bytes], R]
    ) -> R:
        request = self.request("GET", object_path(call, resource), query, resource.codec.accept)
        content_type, body = await patiently(lambda: self.exchange(call, request), self.patience)
        return decoded(call, content_type, body, decode)

    async def read_page(self, call: Call, resource: Resource[T], query: Query) -> Page[T]:
        path, accept = collection_path(call, resource), resource.codec.accept
        request = self.request("GET", path, query, accept, streaming=True)
        return await patiently(lambda: self._page(call, resource, request), self.patience)

    async def _page(self, call: Call, resource: Resource[T], request: Request) -> Page[T]:
        sent_at = _now()
        async with await self.send(call, request) as response:
            page = ArrivingPage(resource.codec, response.headers.get("content-type", ""))
            try:
                async for chunk in self._steadily(response.chunks()):
                    page.feed(chunk)
                return page.finish()
            except NoAnswer as broken:
                self.liveness.unanswered(sent_at)
                raise _unreachable(call, broken) from broken
            except Undecodable as error:
                raise errors.Unreadable(call, str(error)) from error

    async def _steadily(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """A large list may take its time as long as it goes on: the time-out is for each step of it."""
        while True:
            try:
                async with asyncio.timeout(self.timeout_s):
                    chunk = await anext(chunks, None)
            except TimeoutError:
                raise NoAnswer(f"the answer stopped for {self.timeout_s:g} s", sent=True) from None
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
        content_type: str = "application/json",
        streaming: bool = False,
    ) -> Request:
        headers = {"user-agent": USER_AGENT, "accept": accept}
        if content:
            headers["content-type"] = content_type
        body = content if isinstance(content, bytes) else msgspec.json.encode(content)
        return Request(method, path, query, headers, body, self.timeout_s, streaming)

    async def exchange(self, call: Call, request: Request) -> tuple[str, bytes]:
        """Content type and body of a good answer; anything else raises."""
        async with await self.send(call, request) as response:
            return response.headers.get("content-type", ""), await self._body(call, response)

    async def send(self, call: Call, request: Request) -> Response:
        """A response of status 2xx, to be closed by who asked for it; anything else raises."""
        await self.rate_limit.wait()
        began = _now()
        code = 0
        try:
            response = await self.transport.send(request)
            code = response.status
            self.liveness.answered()
        except NoAnswer as broken:
            if broken.sent:
                self.liveness.unanswered(began)
            raise _unreachable(call, broken) from broken
        finally:
            if self.observer:
                self.observer(call, code, _now() - began)
        if 200 <= code < 300:
            return response
        async with response:
            raise refusal(call, response, await self._body(call, response))

    async def _body(self, call: Call, response: Response) -> bytes:
        try:
            return b"".join([chunk async for chunk in self._steadily(response.chunks())])
        except NoAnswer as broken:
            raise _unreachable(call, broken) from broken


def object_path(call: Call, resource: Resource[Any]) -> str:
    """Return the path of the object that the call names; raise `InvalidName` before anything is sent."""
    try:
        return resource.object_path(call.namespace, call.name)
    except InvalidSegment as invalid:
        raise errors.InvalidName(call, str(invalid)) from invalid


def collection_path(call: Call, resource: Resource[Any]) -> str:
    """Return the path of the objects of the call's namespace; raise `InvalidName` before anything is sent."""
    try:
        return resource.collection_path(call.namespace)
    except InvalidSegment as invalid:
        raise errors.InvalidName(call, str(invalid)) from invalid


def _now() -> float:
    return asyncio.get_running_loop().time()


def _unreachable(call: Call, broken: NoAnswer) -> errors.Unreachable:
    return errors.Unreachable(call, broken.reason, sent=broken.sent, advice=broken.remedy)


def _user_agent() -> str:
    try:
        return f"rescheduler/{version('kube-rescheduler')}"
    except PackageNotFoundError:
        return "rescheduler/unknown"


USER_AGENT = _user_agent()
