"""How JSON comes from the API server: objects, lists, and the lines of a watch."""

import re
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import Raw

from rescheduler.kube.wire.codec import Page, Undecodable, WatchEvent
from rescheduler.kube.wire.events import event_of
from rescheduler.kube.wire.nulls import without_nulls
from rescheduler.kube.wire.status import Status

__all__ = ["JsonWatch", "one", "page", "status"]

T = TypeVar("T")
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
_decode_status = msgspec.json.Decoder(Status).decode


def one(resource: str, content_type: str, body: bytes, read: Read[T]) -> T:
    try:
        return read(body)
    except _FAULTS as error:
        raise _undecodable(resource, content_type, error) from error


def page(resource: str, content_type: str, body: bytes, read: Read[T]) -> Page[T]:
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
    return Page(items, meta.resource_version, meta.continue_token, meta.remaining)


def status(content_type: str, body: bytes) -> Status:
    return one("a status", content_type, body, _status)


def _status(raw: bytes | Raw) -> Status:
    try:
        return _decode_status(raw)
    except msgspec.ValidationError:
        return msgspec.convert(without_nulls(msgspec.json.decode(raw)), Status)


class JsonWatch(Generic[T]):
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
            return event_of(event.type, event.object, self._read, self._version_of, _bookmark, _status)
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
