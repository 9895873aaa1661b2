"""The contract of every encoding: decode one object, a page of a list, or the events of a watch.

A codec has no visible state and may be shared. A watch decoder belongs to one connection: chunks end
anywhere, so it keeps the incomplete rest. `ApiStatus` and `WatchEvent` are the same for JSON and protobuf.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, Literal, Protocol, TypeVar, cast

import msgspec

__all__ = [
    "INITIAL_EVENTS_END",
    "JSON",
    "PROTOBUF",
    "ApiStatus",
    "Codec",
    "EventType",
    "ListPage",
    "Object",
    "StatusCause",
    "StatusDetails",
    "Undecodable",
    "WatchDecoder",
    "WatchEvent",
    "is_protobuf",
    "watch_event_of",
]

T = TypeVar("T")

JSON: Final = "application/json"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends the initial events of a watch."""

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
