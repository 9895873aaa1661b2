"""The same resource asked for in one encoding only, and what the server then really sent."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Generic, TypeVar

from rescheduler.kube.api_resources import ApiResource
from rescheduler.kube.codecs.codec import Codec, ListPage, WatchDecoder
from rescheduler.kube.transport import ApiRequest, ApiResponse, Transport

__all__ = ["JSON", "PROTOBUF", "RecordedRequests", "only"]

T = TypeVar("T")

JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"


class _Only(Generic[T]):
    """A codec that accepts one encoding; it reads whatever comes."""

    def __init__(self, codec: Codec[T], encoding: str) -> None:
        self._codec = codec
        self.accept = encoding
        self.watch_accept = f"{encoding};stream=watch"

    def decode_one(self, content_type: str, body: bytes) -> T:
        return self._codec.decode_one(content_type, body)

    def decode_page(self, content_type: str, body: bytes) -> ListPage[T]:
        return self._codec.decode_page(content_type, body)

    def watch_decoder(self, content_type: str) -> WatchDecoder[T]:
        return self._codec.watch_decoder(content_type)


def only(encoding: str, resource: ApiResource[T]) -> ApiResource[T]:
    return replace(resource, codec=_Only(resource.codec, encoding))


class RecordedRequests:
    """A transport that notes the content type of every answer."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.content_types: list[str] = []

    async def send(self, request: ApiRequest) -> ApiResponse:
        response = await self._transport.send(request)
        self.content_types.append(response.headers.get("content-type", "").partition(";")[0])
        return response

    async def close(self) -> None:
        await self._transport.close()

    @contextmanager
    def expecting(self, content_type: str) -> Iterator[None]:
        """Fails if any answer meanwhile was in another encoding: the comparison would be of equals."""
        before = len(self.content_types)
        yield
        received = set(self.content_types[before:])
        assert received == {content_type}, f"asked for {content_type}, the server sent {received}"
