"""Decode protobuf from the API server: envelopes, lists, and the frames of a watch.

A body is `k8s\\0` and a `runtime.Unknown` whose field 2 is the object. A list of 150,000 pods is never
unpacked as a whole: the decoder walks over its items and reads them in small groups. A watch is a sequence of
frames, each four bytes of length (big-endian) and a `WatchEvent`, whose object is an envelope again.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from rescheduler.kube.codecs import api_pb2
from rescheduler.kube.codecs.codec import (
    INITIAL_EVENTS_END,
    ApiStatus,
    ListPage,
    Undecodable,
    WatchEvent,
    watch_event_of,
)

__all__ = [
    "MAGIC",
    "ProtobufWatchDecoder",
    "builtins_of",
    "decode_list",
    "decode_object",
    "decode_status",
    "encoded_varint",
]

T = TypeVar("T")
ReadItems = Callable[[bytes], Sequence[T]]

MAGIC: Final = b"k8s\0"
_RAW, _CONTENT_ENCODING = 2, 3  # of runtime.Unknown
_LIST_META, _ITEMS = 1, 2  # of any list
_ITEM = _ITEMS << 3 | 2
_ITEM_TAG = bytes([_ITEM])
_ITEMS_PER_RUN = 64
"""How many items are read together: enough to be cheap, too few to need much memory."""


_DECODE_ERRORS = (DecodeError, ValueError)


class _InvalidEncoding(ValueError):  # noqa: N818 - becomes an `Undecodable`
    def __init__(self, why: str, position: int) -> None:
        super().__init__(why)
        self.position = position


def decode_object(resource: str, content_type: str, body: bytes, read: ReadItems[T]) -> T:
    start = 0
    try:
        start, end = _enveloped(body)
        return _read_single(body[start:end], read)
    except _DECODE_ERRORS as error:
        raise _undecodable(resource, content_type, error, start) from error


def decode_list(resource: str, content_type: str, body: bytes, read: ReadItems[T]) -> ListPage[T]:
    items: list[T] = []
    meta = api_pb2.ListMeta()
    start = end = 0
    try:
        for number, start, end in _runs(body, *_enveloped(body)):
            if number == _ITEMS:
                items += read(body[start:end])
            elif number == _LIST_META:
                meta = api_pb2.ListMeta.FromString(body[start:end])
    except _DECODE_ERRORS as error:
        raise _undecodable(
            resource, content_type, error, _position_of_error(body, start, end, read)
        ) from error
    remaining = meta.remainingItemCount if meta.HasField("remainingItemCount") else None
    return ListPage(items, meta.resourceVersion, getattr(meta, "continue"), remaining)


def _position_of_error(body: bytes, start: int, end: int, read: ReadItems[T]) -> int:
    """Return where the invalid item begins, of those that were read together."""
    at = start
    try:
        for _, begin, stop in _fields(body, start, end):
            at = begin
            _read_single(body[begin:stop], read)
    except _DECODE_ERRORS:
        return at
    return start


def decode_status(content_type: str, body: bytes) -> ApiStatus:
    try:
        start, end = _enveloped(body)
        return _read_status(body[start:end])
    except _DECODE_ERRORS as error:
        raise _undecodable("a status", content_type, error, 0) from error


def _read_single(raw: bytes, read: ReadItems[T]) -> T:
    (item,) = read(_ITEM_TAG + encoded_varint(len(raw)) + raw)
    return item


def _read_status(raw: bytes) -> ApiStatus:
    return msgspec.convert(builtins_of(api_pb2.Status.FromString(raw)), ApiStatus)


class ProtobufWatchDecoder(Generic[T]):
    """A `WatchDecoder` for frames."""

    def __init__(
        self, resource: str, content_type: str, read: ReadItems[T], version_of: Callable[[T], str]
    ) -> None:
        self._resource = resource
        self._content_type = content_type
        self._read: Callable[[bytes], T] = lambda raw: _read_single(raw, read)
        self._version_of = version_of
        self._rest = bytearray()
        self._position = 0

    def feed(self, chunk: bytes) -> Iterator[WatchEvent[T]]:
        self._rest += chunk
        at = 0
        try:
            while (end := self._end_of_frame(at)) is not None:
                frame = bytes(self._rest[at + 4 : end])
                at = end
                yield self._event(frame)
        finally:
            del self._rest[:at]
            self._position += at

    def _end_of_frame(self, at: int) -> int | None:
        if len(self._rest) - at < 4:
            return None
        end = at + 4 + int.from_bytes(self._rest[at : at + 4], "big")
        return end if end <= len(self._rest) else None

    def _event(self, frame: bytes) -> WatchEvent[T]:
        try:
            event = api_pb2.WatchEvent.FromString(frame)
            body = event.object.raw
            start, end = _enveloped(body)
            raw = body[start:end]
            return watch_event_of(event.type, raw, self._read, self._version_of, _bookmark, _read_status)
        except _DECODE_ERRORS as error:
            raise _undecodable(self._resource, self._content_type, error, self._position) from error


def _bookmark(raw: bytes) -> tuple[str, bool]:
    """Read the metadata of a bookmark; the rest of its object is empty."""
    for number, start, end in _fields(raw, 0, len(raw)):
        if number == 1:
            meta = api_pb2.ObjectMeta.FromString(raw[start:end])
            return meta.resourceVersion, meta.annotations.get(INITIAL_EVENTS_END) == "true"
    raise _InvalidEncoding("a bookmark without metadata", 0)


def _enveloped(body: bytes) -> tuple[int, int]:
    """Return where the object in the envelope begins and ends."""
    if not body.startswith(MAGIC):
        raise _InvalidEncoding("the body does not begin with k8s\\0", 0)
    place = None
    for number, start, end in _fields(body, len(MAGIC), len(body)):
        if number == _RAW:
            place = start, end
        elif number == _CONTENT_ENCODING and end > start:
            raise _InvalidEncoding(f"unknown content encoding {body[start:end]!r}", start)
    if place is None:
        raise _InvalidEncoding("the envelope is empty", len(body))
    return place


def _fields(body: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield number, start and end of each field that has a length; skip the others."""
    while at < end:
        # Nearly all are items of 128 to 16,383 bytes: a list may have 150,000 of them.
        if at + 2 < end and body[at] == _ITEM and body[at + 1] & 0x80 and not body[at + 2] & 0x80:
            start = at + 3
            stop = start + (body[at + 1] & 0x7F | body[at + 2] << 7)
            if stop <= end:
                yield _ITEMS, start, stop
                at = stop
                continue
        tag, after = _varint(body, at)
        match tag & 7:
            case 2:
                length, start = _varint(body, after)
                stop = start + length
            case 0:
                _, stop = _varint(body, after)
                start = stop
            case 1:
                start = stop = after + 8
            case 5:
                start = stop = after + 4
            case kind:
                raise _InvalidEncoding(f"unknown wire type {kind}", at)
        if stop > end:
            raise _InvalidEncoding("the data is truncated", at)
        if tag & 7 == 2:
            yield tag >> 3, start, stop
        at = stop


def _runs(body: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the fields of a list; consecutive items together, with their tags and lengths."""
    run_start = last = start
    waiting = 0
    for number, at, stop in _fields(body, start, end):
        if number == _ITEMS:
            waiting += 1
            if waiting < _ITEMS_PER_RUN:
                last = stop
                continue
            yield _ITEMS, run_start, stop
        else:
            if waiting:
                yield _ITEMS, run_start, last
            yield number, at, stop
        run_start, waiting = stop, 0
    if waiting:
        yield _ITEMS, run_start, end


def _varint(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    try:
        while (byte := body[at]) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
            at += 1
            if shift > 63:
                raise _InvalidEncoding("a varint is too long", at)
    except IndexError:
        raise _InvalidEncoding("the data is truncated", at) from None
    return value | byte << shift, at + 1


def encoded_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _undecodable(resource: str, content_type: str, error: Exception, at: int) -> Undecodable:
    position = error.position if isinstance(error, _InvalidEncoding) else at
    return Undecodable(resource, content_type, str(error), position=f"byte {position}")


# --- messages as JSON ---

_Convert = Callable[[Any], Any]


class _Field(NamedTuple):
    name: str
    read: _Convert | None
    """None if the value needs no conversion."""


class _Fields(dict[FieldDescriptor, _Field]):
    """Converters by field, each built once: a descriptor is slower than the field itself."""

    def __missing__(self, field: FieldDescriptor) -> _Field:
        self[field] = made = _Field(field.name, _reader(field))
        return made


_FIELDS = _Fields()


def builtins_of(message: Message) -> dict[str, Any]:
    """Return the message as the JSON of the same object: dicts, lists, strings and numbers; times in seconds.

    This is slow, and meant for parts that many objects share and that are therefore decoded only once.
    """
    converted = {}
    for field, value in message.ListFields():
        name, read = _FIELDS[field]
        converted[name] = value if read is None else read(value)
    return converted


def _reader(field: FieldDescriptor) -> _Convert | None:
    kind = field.message_type
    if kind is not None and kind.containing_type is not None:  # our schemas nest only map entries
        return _map_of(_single_reader(kind.fields_by_name["value"]))
    one = _single_reader(field)
    if not field.is_repeated:
        return one
    return list if one is None else lambda parts: [one(part) for part in parts]


def _map_of(one: _Convert | None) -> _Convert:
    # Not `items()`: protobuf maps inherit it from Python, which is twice as slow.
    if one is None:
        return lambda entries: {key: entries[key] for key in entries}
    return lambda entries: {key: one(entries[key]) for key in entries}


def _single_reader(field: FieldDescriptor) -> _Convert | None:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return lambda _: {}  # a volume source of which only the kind matters
    if field.message_type is None:
        return None
    if field.message_type.name == "Quantity":
        return lambda quantity: quantity.string
    if field.message_type.name == "Time":
        return lambda time: time.seconds
    return builtins_of
