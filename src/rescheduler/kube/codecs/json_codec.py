"""How JSON comes from the API server: objects, lists, and the lines of a watch.

Nulls in JSON mean "absent"; the API server hardly ever writes them, files made by hand do.

Any resource from JSON: as plain dicts, or as a msgspec type that names what is needed of it.

Everything but pods and nodes is read this way: there is little of it, and custom resources come as JSON only.

Objects without spec and status: the server leaves them out, where only annotations or owners matter.

Servers that can't do that send the whole object, of which nothing but the metadata is kept.

Times as the API writes them, in seconds since 1970.

The API server drops fractions of a second in both encodings, so nothing is lost here that it keeps.
"""

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from math import floor
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Raw

from rescheduler.kube.codecs.codec import (
    ApiStatus,
    ListPage,
    Undecodable,
    WatchDecoder,
    WatchEvent,
    watch_event_of,
)

__all__ = [
    "OBJECT_CODEC",
    "JsonCodec",
    "JsonWatchDecoder",
    "MetadataCodec",
    "decode_list",
    "decode_object",
    "decode_status",
    "epoch_seconds",
    "typed_json_codec",
    "without_nulls",
]

T = TypeVar("T")


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(part) for key, part in value.items() if part is not None}
    if isinstance(value, list):
        return [without_nulls(part) for part in value]
    return value


Read = Callable[[bytes | Raw], T]

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
_PLACE = re.compile(r"(?:- at `\$(?P<path>[^`]*)`|\(?byte (?P<byte>\d+)\)?)")
_FAULTS = (msgspec.DecodeError, ValueError, RecursionError)


class _ListMeta(msgspec.Struct, rename={"continue_token": "continue"}):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    continue_token: str = ""
    remaining: int | None = msgspec.field(name="remainingItemCount", default=None)


class _List(msgspec.Struct):
    """Items stay unparsed until their turn comes, so that only one is unpacked at a time."""

    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: Raw


class _BookmarkMeta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    annotations: dict[str, str] | None = None


class _Bookmark(msgspec.Struct):
    metadata: _BookmarkMeta


_decode_list = msgspec.json.Decoder(_List).decode
_decode_event = msgspec.json.Decoder(_Event).decode
_decode_bookmark = msgspec.json.Decoder(_Bookmark).decode
_decode_status = msgspec.json.Decoder(ApiStatus).decode


def decode_object(resource: str, content_type: str, body: bytes, read: Read[T]) -> T:
    try:
        return read(body)
    except _FAULTS as error:
        raise _undecodable(resource, content_type, error) from error


def decode_list(resource: str, content_type: str, body: bytes, read: Read[T]) -> ListPage[T]:
    items: list[T] = []
    path = ""
    try:
        found = _decode_list(body)
        for number, raw in enumerate(found.items or ()):
            path = f".items[{number}]"
            items.append(read(raw))
    except _FAULTS as error:
        raise _undecodable(resource, content_type, error, path) from error
    meta = found.metadata
    return ListPage(items, meta.resource_version, meta.continue_token, meta.remaining)


def decode_status(content_type: str, body: bytes) -> ApiStatus:
    return decode_object("a status", content_type, body, _read_status)


def _read_status(raw: bytes | Raw) -> ApiStatus:
    try:
        return _decode_status(raw)
    except msgspec.ValidationError:
        return msgspec.convert(without_nulls(msgspec.json.decode(raw)), ApiStatus)


class JsonWatchDecoder(Generic[T]):
    """A `WatchDecoder`: one event a line, of any length, in chunks cut anywhere."""

    def __init__(
        self, resource: str, content_type: str, read: Read[T], version_of: Callable[[T], str]
    ) -> None:
        self._resource = resource
        self._content_type = content_type
        self._read = read
        self._version_of = version_of
        self._begun: list[bytes] = []
        """The pieces of a line whose end has not come yet."""

    def feed(self, chunk: bytes) -> Iterator[WatchEvent[T]]:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line = b"".join((*self._begun, end))
            self._begun.clear()
            if line.strip():
                yield self._event(line)
        if rest:
            self._begun.append(rest)

    def _event(self, line: bytes) -> WatchEvent[T]:
        try:
            event = _decode_event(line)
            return watch_event_of(
                event.type, event.object, self._read, self._version_of, _bookmark, _read_status
            )
        except _FAULTS as error:
            raise _undecodable(self._resource, self._content_type, error) from error


def _bookmark(raw: bytes | Raw) -> tuple[str, bool]:
    meta = _decode_bookmark(raw).metadata
    return meta.resource_version, (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true"


def _undecodable(resource: str, content_type: str, error: Exception, path: str = "") -> Undecodable:
    place = _PLACE.search(str(error))
    if place is None:
        position = f"${path}"
    elif place["byte"]:
        position = f"byte {place['byte']} of ${path}" if path else f"byte {place['byte']}"
    else:
        position = f"${path}{place['path']}"
    return Undecodable(resource, content_type, str(error) or type(error).__name__, position=position)


Object = dict[str, Any]


class JsonCodec(Generic[T]):
    """A `Codec` that asks for JSON only."""

    accept: Final = "application/json"
    watch_accept: Final = "application/json"

    def __init__(
        self, resource: str, read: Callable[[bytes | Raw], T], version_of: Callable[[T], str]
    ) -> None:
        self._resource = resource
        self._read = read
        self._version_of = version_of

    def decode_one(self, content_type: str, body: bytes) -> T:
        return decode_object(self._resource, content_type, body, self._read)

    def decode_page(self, content_type: str, body: bytes) -> ListPage[T]:
        return decode_list(self._resource, content_type, body, self._read)

    def watch_decoder(self, content_type: str) -> WatchDecoder[T]:
        return JsonWatchDecoder(self._resource, content_type, self._read, self._version_of)


def typed_json_codec(resource: str, kind: type[T], version_of: Callable[[T], str]) -> JsonCodec[T]:
    """A codec for a msgspec type (or anything msgspec can decode into); unknown fields are skipped."""
    decode = msgspec.json.Decoder(kind).decode

    def read(raw: bytes | Raw) -> T:
        try:
            return decode(raw)
        except msgspec.ValidationError:
            return msgspec.convert(without_nulls(msgspec.json.decode(raw)), kind)

    return JsonCodec(resource, read, version_of)


_decode_object = msgspec.json.Decoder(Object).decode


def _version_of(found: Object) -> str:
    metadata = found.get("metadata")
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return version if isinstance(version, str) else ""


OBJECT_CODEC: Final[JsonCodec[Object]] = JsonCodec("objects", _decode_object, _version_of)
"""Whole objects as plain dicts, of whatever kind."""

Metadata = dict[str, Any]
_ACCEPT_AS: Final = "application/json;as={};g=meta.k8s.io;v=v1,application/json"


class _PartialObject(msgspec.Struct):
    metadata: Metadata


_decode_partial_object = msgspec.json.Decoder(_PartialObject).decode


class MetadataCodec:
    """A `Codec`. `keep` says what is kept of the metadata."""

    accept: Final = _ACCEPT_AS.format("PartialObjectMetadataList")
    watch_accept: Final = _ACCEPT_AS.format("PartialObjectMetadata")

    def __init__(
        self, resource: str, keep: Callable[[Metadata], Metadata] = lambda metadata: metadata
    ) -> None:
        self._resource = resource
        self._keep = keep

    def decode_one(self, content_type: str, body: bytes) -> Metadata:
        return decode_object(self._resource, content_type, body, self._read)

    def decode_page(self, content_type: str, body: bytes) -> ListPage[Metadata]:
        return decode_list(self._resource, content_type, body, self._read)

    def watch_decoder(self, content_type: str) -> WatchDecoder[Metadata]:
        return JsonWatchDecoder(self._resource, content_type, self._read, _version_of_metadata)

    def _read(self, raw: bytes | Raw) -> Metadata:
        metadata = _decode_partial_object(raw).metadata
        return {"metadata": self._keep(metadata)}


def _version_of_metadata(found: Metadata) -> str:
    version: str = found["metadata"].get("resourceVersion", "")
    return version


def epoch_seconds(moment: datetime | int | None) -> int:
    """From JSON; protobuf has the number already. 0 where there is none, as in protobuf."""
    if isinstance(moment, datetime):
        return floor(moment.timestamp())
    return moment or 0
