"""Codecs for both encodings, and pages that are decoded while they arrive.

The server chooses the encoding; its content type says which one.

An informer's first list may have hundreds of megabytes. `StreamedPage` cuts protobuf into pieces at the
borders of items as soon as they arrive, and decodes each piece: it never holds the whole answer, the server
goes on writing, and nothing else on the event loop waits for long. JSON can't be cut without parsing it, so
it is held until it is complete.
"""

from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Raw

from rescheduler.kube.codecs import protobuf_codec
from rescheduler.kube.codecs.codec import (
    JSON,
    PROTOBUF,
    ApiStatus,
    Codec,
    JsonWatchDecoder,
    ListPage,
    Undecodable,
    WatchDecoder,
    decode_list,
    decode_object,
    decode_status,
    is_protobuf,
)
from rescheduler.kube.codecs.protobuf_codec import MAGIC, ProtobufWatchDecoder, encoded_varint

__all__ = ["NegotiatedCodec", "ObjectReader", "StreamedPage", "decode_any_status"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class ObjectReader(Protocol[T_co]):
    """Read objects of one kind. Both methods raise ValueError or the error of their parser for invalid
    bytes."""

    def from_json(self, raw: bytes | Raw) -> T_co:
        """Return the object that these bytes encode."""
        ...

    def from_protobuf(self, items: bytes) -> Sequence[T_co]:
        """Return the objects of consecutive list items, each with its tag and length before it."""
        ...


class NegotiatedCodec(Generic[T]):
    """A `Codec` that asks for protobuf and also accepts JSON."""

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
        return decode_object(self._resource, content_type, body, self._reader.from_json)

    def decode_page(self, content_type: str, body: bytes) -> ListPage[T]:
        if is_protobuf(content_type):
            return protobuf_codec.decode_list(self._resource, content_type, body, self._reader.from_protobuf)
        return decode_list(self._resource, content_type, body, self._reader.from_json)

    def watch_decoder(self, content_type: str) -> WatchDecoder[T]:
        if is_protobuf(content_type):
            return ProtobufWatchDecoder(
                self._resource, content_type, self._reader.from_protobuf, self._version_of
            )
        return JsonWatchDecoder(self._resource, content_type, self._reader.from_json, self._version_of)


def decode_any_status(content_type: str, body: bytes) -> ApiStatus:
    """Decode a `Status`; raise `Undecodable` for anything else, such as the HTML page of a proxy."""
    if is_protobuf(content_type):
        return protobuf_codec.decode_status(content_type, body)
    return decode_status(content_type, body)


PIECE_BYTES: Final = 2**18
"""How many bytes are decoded together, approximately."""
_OBJECT: Final = 2 << 3 | 2
"""The tag of the object in its envelope."""
_ITEM: Final = 2 << 3 | 2
"""The tag of an item in any list."""
_BYTES, _VARINT, _FIXED64, _FIXED32 = 2, 0, 1, 5  # wire types
_FIXED: Final = {_FIXED64: 8, _FIXED32: 4}


class StreamedPage(Generic[T]):
    def __init__(self, codec: Codec[T], content_type: str) -> None:
        self._codec = codec
        self._content_type = content_type
        self._is_protobuf = is_protobuf(content_type)
        self._rest = bytearray()
        self._position = 0
        """The offset of `_rest` in the answer."""
        self._list_end: int | None = None
        """The end of the list in the answer; None until its beginning has arrived."""
        self._page: ListPage[T] = ListPage([], "")

    def feed(self, chunk: bytes) -> None:
        """Take the next chunk; raise `Undecodable`, after which the answer is lost."""
        self._rest += chunk
        if self._is_protobuf and len(self._rest) >= PIECE_BYTES:
            self._decode_complete_items()

    def finish(self) -> ListPage[T]:
        """Return the page; raise `Undecodable` if it is incomplete."""
        if self._list_end is None:
            return self._codec.decode_page(self._content_type, bytes(self._rest))
        self._decode_complete_items()
        # The rest of the envelope after the list, and the part of the list that never arrived.
        missing = self._list_end - self._position
        self._decode(self._rest, announced=max(missing, 0))
        return self._page

    def _decode_complete_items(self) -> None:
        if self._list_end is None and not self._find_list():
            return
        assert self._list_end is not None
        limit = min(len(self._rest), self._list_end - self._position)
        end = _end_of_whole_fields(self._rest, limit)
        if end:
            with memoryview(self._rest) as rest, rest[:end] as piece:
                self._decode(piece, announced=end)
            self._drop(end)

    def _find_list(self) -> bool:
        at = len(MAGIC)
        if not self._rest.startswith(MAGIC):
            self._is_protobuf = False  # the codec will report the error
            return False
        while (start := _varint(self._rest, at)) is not None:
            tag, after = start
            if tag == _OBJECT:
                if (length := _varint(self._rest, after)) is None:
                    return False
                self._list_end = length[1] + length[0]
                self._drop(length[1])
                return True
            if (end := _end_of_field(self._rest, at)) is None:
                return False
            at = end
        return False

    def _drop(self, count: int) -> None:
        del self._rest[:count]
        self._position += count

    def _decode(self, piece: bytearray | memoryview, *, announced: int) -> None:
        header = MAGIC + bytes([_OBJECT]) + encoded_varint(announced)
        try:
            page = self._codec.decode_page(self._content_type, b"".join((header, piece)))
        except Undecodable as error:
            raise self._with_position(error, len(header)) from error
        before = self._page
        before.items.extend(page.items)
        self._page = ListPage(
            before.items,
            page.resource_version or before.resource_version,
            page.continue_token or before.continue_token,
            before.remaining if page.remaining is None else page.remaining,
        )

    def _with_position(self, error: Undecodable, header: int) -> Undecodable:
        """Return the error with its position in the whole answer."""
        within = str(error.position).removeprefix("byte ")
        at = self._position + int(within) - header if within.isdecimal() else self._position
        return Undecodable(error.resource, error.content_type, error.why, position=f"byte {max(at, 0)}")


def _end_of_whole_fields(data: bytearray, limit: int) -> int:
    at = 0
    while at < limit:
        # Nearly all are items of 128 to 16,383 bytes: there may be 150,000 of them.
        if at + 2 < limit and data[at] == _ITEM and data[at + 1] & 0x80 and not data[at + 2] & 0x80:
            end: int | None = at + 3 + (data[at + 1] & 0x7F | data[at + 2] << 7)
        else:
            end = _end_of_field(data, at)
        if end is None or end > limit:
            break
        at = end
    return at


def _end_of_field(data: bytearray, at: int) -> int | None:
    """Return where the field ends; None if it is incomplete or invalid: the codec reports that later."""
    if (tag := _varint(data, at)) is None:
        return None
    kind, after = tag[0] & 7, tag[1]
    if kind in _FIXED:
        return after + _FIXED[kind]
    if kind not in {_BYTES, _VARINT} or (number := _varint(data, after)) is None:
        return None
    end = number[1] + (number[0] if kind == _BYTES else 0)
    return end if end <= len(data) else None


def _varint(data: bytearray, at: int) -> tuple[int, int] | None:
    """Return the number at `at` and where it ends; None if it is incomplete."""
    value = shift = 0
    while at < len(data):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if not byte & 0x80:
            return value, at
        shift += 7
    return None
