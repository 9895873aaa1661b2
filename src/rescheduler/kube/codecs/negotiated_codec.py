"""A codec for both encodings: the server chooses, its content type says which it chose.

The `Status` in a refusal, in whichever encoding the server chose to refuse.
"""

from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Raw

from rescheduler.kube.codecs import json_codec, protobuf_codec
from rescheduler.kube.codecs.codec import ApiStatus, ListPage, WatchDecoder
from rescheduler.kube.codecs.json_codec import JsonWatchDecoder
from rescheduler.kube.codecs.protobuf_codec import ProtobufWatchDecoder

__all__ = ["NegotiatedCodec", "ObjectReader", "decode_any_status"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
JSON: Final = "application/json"


class ObjectReader(Protocol[T_co]):
    """Both raise ValueError, or what their parser raises, where the bytes make no sense."""

    def from_json(self, raw: bytes | Raw) -> T_co:
        """One object from the bytes of it alone."""
        ...

    def from_protobuf(self, items: bytes) -> Sequence[T_co]:
        """Several, from consecutive items of a list: each with its tag and length before it."""
        ...


class NegotiatedCodec(Generic[T]):
    """A `Codec` that asks for protobuf and takes JSON as well."""

    accept = f"{PROTOBUF}, {JSON}"
    watch_accept = f"{PROTOBUF};stream=watch, {JSON}"

    def __init__(self, resource: str, reader: ObjectReader[T], version_of: Callable[[T], str]) -> None:
        self._resource = resource
        self._reader = reader
        self._version_of = version_of

    def decode_one(self, content_type: str, body: bytes) -> T:
        if is_protobuf(content_type):
            return protobuf_codec.decode_object(
                self._resource, content_type, body, self._reader.from_protobuf
            )
        return json_codec.decode_object(self._resource, content_type, body, self._reader.from_json)

    def decode_page(self, content_type: str, body: bytes) -> ListPage[T]:
        if is_protobuf(content_type):
            return protobuf_codec.decode_list(self._resource, content_type, body, self._reader.from_protobuf)
        return json_codec.decode_list(self._resource, content_type, body, self._reader.from_json)

    def watch_decoder(self, content_type: str) -> WatchDecoder[T]:
        if is_protobuf(content_type):
            return ProtobufWatchDecoder(
                self._resource, content_type, self._reader.from_protobuf, self._version_of
            )
        return JsonWatchDecoder(self._resource, content_type, self._reader.from_json, self._version_of)


def is_protobuf(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == PROTOBUF


def decode_any_status(content_type: str, body: bytes) -> ApiStatus:
    """Raises `Undecodable` for what is no Status, such as the page of a proxy."""
    if is_protobuf(content_type):
        return protobuf_codec.decode_status(content_type, body)
    return json_codec.decode_status(content_type, body)
