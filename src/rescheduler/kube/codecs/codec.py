"""The contract of every encoding (decode one object, a page of a list, or the events of a watch), and JSON.

A codec has no visible state and may be shared. A watch decoder belongs to one connection: chunks end
anywhere, so it keeps the incomplete rest. `ApiStatus` and `WatchEvent` are the same for JSON and protobuf.
"""

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from math import floor
from typing import Any, Final, Generic, Literal, Protocol, TypeVar, cast

import msgspec
from msgspec import Raw

__all__ = [
    "INITIAL_EVENTS_END",
    "JSON",
    "LATEST_S",
    "OBJECT_CODEC",
    "PROTOBUF",
    "ApiStatus",
    "Codec",
    "EventType",
    "JsonCodec",
    "JsonWatchDecoder",
    "ListPage",
    "Object",
    "StatusCause",
    "StatusDetails",
    "Undecodable",
    "WatchDecoder",
    "WatchEvent",
    "decode_list",
    "decode_object",
    "decode_status",
    "epoch_seconds",
    "is_protobuf",
    "metadata_codec",
    "watch_event_of",
    "without_nulls",
]


T = TypeVar("T")

JSON: Final = "application/json"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends the initial events of a watch."""

LATEST_S: Final = 250_000_000_000
"""A time in the year 9892: adding a duration to it still gives a valid date."""

Object = dict[str, Any]
"""A Kubernetes object as in JSON."""


def is_protobuf(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == PROTOBUF


class StatusCause(msgspec.Struct, frozen=True):
    """One cause of a refusal: an invalid field, or the budget that forbids an eviction."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    """The object that the status is about, and the causes."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class ApiStatus(msgspec.Struct, frozen=True):
    """The `Status` with which the API server reports a failure."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails = StatusDetails()


EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]


class ListPage(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list; `continue_token` is empty on the last page."""

    items: list[T]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None
    """How many items follow after this page, if the server says so."""


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One change. A bookmark has no object, only a version; an error has a status and nothing else."""

    type: EventType
    object: T | None = None
    resource_version: str = ""
    initial_events_end: bool = False
    """True on the bookmark that follows all objects that existed when the watch began."""
    status: ApiStatus | None = None


class WatchDecoder(Protocol[T]):
    def feed(self, chunk: bytes) -> Iterator[WatchEvent[T]]:
        """Return the events that this chunk completes; raise `Undecodable`, after which the watch is lost."""
        ...


class Codec(Protocol[T]):
    @property
    def accept(self) -> str:
        """Return the Accept header of a get or a list."""
        ...

    @property
    def watch_accept(self) -> str:
        """Return the Accept header of a watch."""
        ...

    def decode_one(self, content_type: str, body: bytes) -> T: ...

    def decode_page(self, content_type: str, body: bytes) -> ListPage[T]: ...

    def watch_decoder(self, content_type: str) -> WatchDecoder[T]: ...


class Undecodable(ValueError):  # noqa: N818 - named after what the bytes are
    """The bytes don't match their content type. The only remedy is to repeat the request."""

    def __init__(self, resource: str, content_type: str, why: str, *, position: int | str = "start") -> None:
        super().__init__(
            f"can't decode {resource} from {content_type or 'no content type'} at {position}: {why}"
        )
        self.resource = resource
        self.content_type = content_type
        self.position = position
        """A byte offset in protobuf, a JSON path in JSON."""
        self.why = why


B = TypeVar("B")


def watch_event_of(
    kind: str,
    raw: B,
    read: Callable[[B], T],
    version_of: Callable[[T], str],
    read_bookmark: Callable[[B], tuple[str, bool]],
    read_status: Callable[[B], ApiStatus],
) -> WatchEvent[T]:
    """Build an event from its type and undecoded object; raise ValueError for an unknown type."""
    match kind:
        case "ADDED" | "MODIFIED" | "DELETED":
            item = read(raw)
            return WatchEvent(cast("EventType", kind), item, version_of(item))
        case "BOOKMARK":
            version, initial_events_end = read_bookmark(raw)
            return WatchEvent("BOOKMARK", None, version, initial_events_end)
        case "ERROR":
            return WatchEvent("ERROR", status=read_status(raw))
        case _:
            raise ValueError(f"unknown event type {kind!r}")


def without_nulls(value: Any) -> Any:
    """Return `value` without nulls, which mean "absent". API servers hardly write them; people do."""
    if isinstance(value, dict):
        return {key: without_nulls(part) for key, part in value.items() if part is not None}
    if isinstance(value, list):
        return [without_nulls(part) for part in value]
    return value


Read = Callable[[bytes | Raw], T]

_POSITION = re.compile(r"(?:- at `\$(?P<path>[^`]*)`|\(?byte (?P<byte>\d+)\)?)")
_DECODE_ERRORS = (msgspec.DecodeError, ValueError, RecursionError)


class _ListMeta(msgspec.Struct, rename={"continue_token": "continue"}):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    continue_token: str = ""
    remaining: int | None = msgspec.field(name="remainingItemCount", default=None)


class _List(msgspec.Struct):
    """A list whose items are decoded one at a time."""

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
    except _DECODE_ERRORS as error:
        raise _undecodable(resource, content_type, error) from error


def decode_list(resource: str, content_type: str, body: bytes, read: Read[T]) -> ListPage[T]:
    items: list[T] = []
    path = ""
    try:
        page = _decode_list(body)
        for number, raw in enumerate(page.items or ()):
            path = f".items[{number}]"
            items.append(read(raw))
    except _DECODE_ERRORS as error:
        raise _undecodable(resource, content_type, error, path) from error
    meta = page.metadata
    return ListPage(items, meta.resource_version, meta.continue_token, meta.remaining)


def decode_status(content_type: str, body: bytes) -> ApiStatus:
    return decode_object("a status", content_type, body, _read_status)


def _read_status(raw: bytes | Raw) -> ApiStatus:
    try:
        return _decode_status(raw)
    except msgspec.ValidationError:
        return msgspec.convert(without_nulls(msgspec.json.decode(raw)), ApiStatus)


class JsonWatchDecoder(Generic[T]):
    """A `WatchDecoder` for one event per line; lines have any length, and chunks end anywhere."""

    def __init__(
        self, resource: str, content_type: str, read: Read[T], version_of: Callable[[T], str]
    ) -> None:
        self._resource = resource
        self._content_type = content_type
        self._read = read
        self._version_of = version_of
        self._incomplete: list[bytes] = []
        """The pieces of a line whose end has not arrived."""

    def feed(self, chunk: bytes) -> Iterator[WatchEvent[T]]:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line = b"".join((*self._incomplete, end))
            self._incomplete.clear()
            if line.strip():
                yield self._event(line)
        if rest:
            self._incomplete.append(rest)

    def _event(self, line: bytes) -> WatchEvent[T]:
        try:
            event = _decode_event(line)
            return watch_event_of(
                event.type, event.object, self._read, self._version_of, _bookmark, _read_status
            )
        except _DECODE_ERRORS as error:
            raise _undecodable(self._resource, self._content_type, error) from error


def _bookmark(raw: bytes | Raw) -> tuple[str, bool]:
    meta = _decode_bookmark(raw).metadata
    return meta.resource_version, (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true"


def _undecodable(resource: str, content_type: str, error: Exception, path: str = "") -> Undecodable:
    match = _POSITION.search(str(error))
    if match is None:
        position = f"${path}"
    elif match["byte"]:
        position = f"byte {match['byte']} of ${path}" if path else f"byte {match['byte']}"
    else:
        position = f"${path}{match['path']}"
    return Undecodable(resource, content_type, str(error) or type(error).__name__, position=position)


class JsonCodec(Generic[T]):
    """A `Codec` that asks for JSON only."""

    def __init__(
        self,
        resource: str,
        read: Read[T],
        version_of: Callable[[T], str],
        accept: str = JSON,
        watch_accept: str = JSON,
    ) -> None:
        self.accept = accept
        self.watch_accept = watch_accept
        self._resource = resource
        self._read = read
        self._version_of = version_of

    def decode_one(self, content_type: str, body: bytes) -> T:
        return decode_object(self._resource, content_type, body, self._read)

    def decode_page(self, content_type: str, body: bytes) -> ListPage[T]:
        return decode_list(self._resource, content_type, body, self._read)

    def watch_decoder(self, content_type: str) -> WatchDecoder[T]:
        return JsonWatchDecoder(self._resource, content_type, self._read, self._version_of)


_decode_object = msgspec.json.Decoder(Object).decode


def _version_of(item: Object) -> str:
    metadata = item.get("metadata")
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return version if isinstance(version, str) else ""


OBJECT_CODEC: Final[JsonCodec[Object]] = JsonCodec("objects", _decode_object, _version_of)
"""Whole objects of any kind, as dictionaries."""

_ACCEPT_AS: Final = "application/json;as={};g=meta.k8s.io;v=v1,application/json"


class _PartialObject(msgspec.Struct):
    metadata: Object


_decode_partial_object = msgspec.json.Decoder(_PartialObject).decode


def metadata_codec(resource: str, keep: Callable[[Object], Object]) -> JsonCodec[Object]:
    """Return a codec for objects without spec and status; `keep` selects what to keep of the metadata.

    Servers that can't leave out spec and status send whole objects, of which only the metadata is kept.
    """

    def read(raw: bytes | Raw) -> Object:
        return {"metadata": keep(_decode_partial_object(raw).metadata)}

    accept = _ACCEPT_AS.format("PartialObjectMetadataList")
    return JsonCodec(resource, read, _version_of, accept, _ACCEPT_AS.format("PartialObjectMetadata"))


def epoch_seconds(moment: datetime | int | None) -> int:
    """Return a time from JSON as protobuf has it: in seconds since 1970, 0 if there is none.

    The API server drops fractions of a second in both encodings. Kubelets may report any time,
    and protobuf can hold years that no calendar has, so later times are read as `LATEST_S`.
    """
    seconds = floor(moment.timestamp()) if isinstance(moment, datetime) else moment or 0
    return min(max(seconds, 0), LATEST_S)
