"""What the client needs of an encoding: one object, a page of a list, the events of a watch.

A codec is stateless towards its caller and may be shared; a watch decoder belongs to one connection,
because chunks are cut anywhere and it keeps what is left over.
"""

from collections.abc import Iterator
from typing import Generic, Literal, Protocol, TypeVar

import msgspec

from rescheduler.kube.wire.status import Status

__all__ = ["Codec", "EventType", "Page", "Undecodable", "WatchDecoder", "WatchEvent"]

T = TypeVar("T")

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]


class Page(msgspec.Struct, Generic[T], frozen=True):
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
    status: Status | None = None


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

    def decode_page(self, content_type: str, body: bytes) -> Page[T]: ...

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
