"""A codec for both encodings: the server chooses, its content type says which it chose."""

from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Raw

from rescheduler.kube.wire import json_frames, protobuf_frames
from rescheduler.kube.wire.codec import Page, WatchDecoder
from rescheduler.kube.wire.json_frames import JsonWatch
from rescheduler.kube.wire.protobuf_frames import ProtobufWatch

__all__ = ["Dual", "Reader"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
JSON: Final = "application/json"


class Reader(Protocol[T_co]):
    """Both raise ValueError, or what their parser raises, where the bytes make no sense."""

    def from_json(self, raw: bytes | Raw) -> T_co:
        """One object from the bytes of it alone."""
        ...

    def from_protobuf(self, items: bytes) -> Sequence[T_co]:
        """Several, from consecutive items of a list: each with its tag and length before it."""
        ...


class Dual(Generic[T]):
    """A `Codec` that asks for protobuf and takes JSON as well."""

    accept = f"{PROTOBUF}, {JSON}"
    watch_accept = f"{PROTOBUF};stream=watch, {JSON}"

    def __init__(self, resource: str, reader: Reader[T], version_of: Callable[[T], str]) -> None:
        self._resource = resource
        self._reader = reader
        self._version_of = version_of

    def decode_one(self, content_type: str, body: bytes) -> T:
        if is_protobuf(content_type):
            return protobuf_frames.one(self._resource, content_type, body, self._reader.from_protobuf)
        return json_frames.one(self._resource, content_type, body, self._reader.from_json)

    def decode_page(self, content_type: str, body: bytes) -> Page[T]:
        if is_protobuf(content_type):
            return protobuf_frames.page(self._resource, content_type, body, self._reader.from_protobuf)
        return json_frames.page(self._resource, content_type, body, self._reader.from_json)

    def watch_decoder(self, content_type: str) -> WatchDecoder[T]:
        if is_protobuf(content_type):
            return ProtobufWatch(self._resource, content_type, self._reader.from_protobuf, self._version_of)
        return JsonWatch(self._resource, content_type, self._reader.from_json, self._version_of)


def is_protobuf(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == PROTOBUF
