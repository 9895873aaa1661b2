"""A page that is decoded while it arrives.

An informer's first list may be hundreds of megabytes in one answer. Protobuf is cut into pieces at the
borders of items as soon as they are there, and each piece is decoded and dropped: the answer is never held
as a whole, the server goes on writing meanwhile, and nothing else on the event loop waits for long. What
each byte means stays the codec's business: it gets every piece as a list of its own.

JSON can't be cut without reading it, so it is held until it is complete.
"""

from typing import Final, Generic, TypeVar

from rescheduler.kube.codecs.codec import Codec, ListPage, Undecodable

__all__ = ["StreamedPage"]

T = TypeVar("T")

PIECE_BYTES: Final = 2**18
"""About so many bytes are decoded in one go."""
_MAGIC: Final = b"k8s\0"
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
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
        self._cut = content_type.partition(";")[0].strip().lower() == _PROTOBUF
        self._rest = bytearray()
        self._position = 0
        """Of the rest, in the whole."""
        self._list_end: int | None = None
        """Where the list ends, in the whole; None until its beginning has come."""
        self._page: ListPage[T] = ListPage([], "")

    def feed(self, chunk: bytes) -> None:
        """Raises `Undecodable`, after which the answer is lost."""
        self._rest += chunk
        if self._cut and len(self._rest) >= PIECE_BYTES:
            self._decode_what_is_whole()

    def finish(self) -> ListPage[T]:
        """Raises `Undecodable` if that was not all."""
        if self._list_end is None:
            return self._codec.decode_page(self._content_type, bytes(self._rest))
        self._decode_what_is_whole()
        # Now what stands behind the list in its envelope, and whatever of the list has not come.
        missing = self._list_end - self._position
        self._decode(self._rest, announced=max(missing, 0))
        return self._page

    def _decode_what_is_whole(self) -> None:
        if self._list_end is None and not self._find_list():
            return
        assert self._list_end is not None
        limit = min(len(self._rest), self._list_end - self._position)
        end = _end_of_whole_fields(self._rest, limit)
        if end:
            with memoryview(self._rest) as all_of_it, all_of_it[:end] as piece:
                self._decode(piece, announced=end)
            self._drop(end)

    def _find_list(self) -> bool:
        at = len(_MAGIC)
        if not self._rest.startswith(_MAGIC):
            self._cut = False  # the codec shall say what it thinks of that
            return False
        while (found := _varint(self._rest, at)) is not None:
            tag, after = found
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
        header = _MAGIC + bytes([_OBJECT]) + _encoded_varint(announced)
        try:
            page = self._codec.decode_page(self._content_type, b"".join((header, piece)))
        except Undecodable as error:
            raise self._placed(error, len(header)) from error
        had = self._page
        had.items.extend(page.items)
        self._page = ListPage(
            had.items,
            page.resource_version or had.resource_version,
            page.continue_token or had.continue_token,
            had.remaining if page.remaining is None else page.remaining,
        )

    def _placed(self, error: Undecodable, header: int) -> Undecodable:
        """With its position in the whole."""
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
    """None if that much has not come yet, or makes no sense: the codec finds out in the end."""
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
    value = shift = 0
    while at < len(data):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if not byte & 0x80:
            return value, at
        shift += 7
    return None


def _encoded_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
