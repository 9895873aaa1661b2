"""What the client needs of an encoding: one object, a page of a list, the events of a watch.

A codec is stateless towards its caller and may be shared; a watch decoder belongs to one connection,
because chunks are cut anywhere and it keeps what is left over.

`Status`: how the API server says that something went wrong, the same in JSON and in protobuf.

One event of a watch, the same from both encodings.
"""

from collections.abc import Callable, Iterator
from typing import Generic, Literal, Protocol, TypeVar, cast

import msgspec

__all__ = [
    "ApiStatus",
    "Codec",
    "EventType",
    "ListPage",
    "StatusCause",
    "StatusDetails",
    "Undecodable",
    "WatchDecoder",
    "WatchEvent",
    "watch_event_of",
]

T = TypeVar("T")


class StatusCause(msgspec.Struct, frozen=True):
    """One fault: a field of a refused object, or the budget that refuses an eviction."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    """Which object the status is about, and why in detail."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class ApiStatus(msgspec.Struct, frozen=True):
    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails = StatusDetails()


EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]


class ListPage(msgspec.Struct, Generic[T], frozen=True):
    """One answer to a list; `continue_token` is empty on the last page."""

    items: list[T]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None
    """How many items follow after this page, where the server says so."""


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One change. A bookmark has no object, only a version; an error has a status and nothing else."""

    type: EventType
    object: T | None = None
    resource_version: str = ""
    initial_events_end: bool = False
    """On the bookmark that says: all that existed when the watch began has been sent."""
    status: ApiStatus | None = None


class WatchDecoder(Protocol[T]):
    def feed(self, chunk: bytes) -> Iterator[WatchEvent[T]]:
        """The events that this chunk completes; raises `Undecodable`, after which the watch is lost."""
        ...


class Codec(Protocol[T]):
    @property
    def accept(self) -> str:
        """The Accept header of a get or a list."""
        ...

    @property
    def watch_accept(self) -> str:
        """The Accept header of a watch."""
        ...

    def decode_one(self, content_type: str, body: bytes) -> T: ...

    def decode_page(self, content_type: str, body: bytes) -> ListPage[T]: ...

    def watch_decoder(self, content_type: str) -> WatchDecoder[T]: ...


class Undecodable(ValueError):  # noqa: N818 - named after what the bytes are
    """These bytes are not what their content type promises. Asking again is the only remedy."""

    def __init__(self, resource: str, content_type: str, why: str, *, position: int | str = "start") -> None:
        super().__init__(
            f"can't read {resource} from {content_type or 'no content type'} at {position}: {why}"
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
    """Raises ValueError for a type of event that doesn't exist."""
    match kind:
        case "ADDED" | "MODIFIED" | "DELETED":
            found = read(raw)
            return WatchEvent(cast("EventType", kind), found, version_of(found))
        case "BOOKMARK":
            version, initial_events_end = read_bookmark(raw)
            return WatchEvent("BOOKMARK", None, version, initial_events_end)
        case "ERROR":
            return WatchEvent("ERROR", status=read_status(raw))
        case _:
            raise ValueError(f"{kind!r} is no type of event")
