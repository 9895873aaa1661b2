"""One event of a watch, the same from both encodings."""

from collections.abc import Callable
from typing import TypeVar, cast

from rescheduler.kube.wire.codec import EventType, WatchEvent
from rescheduler.kube.wire.status import Status

__all__ = ["event_of"]

T = TypeVar("T")
B = TypeVar("B")


def event_of(
    kind: str,
    raw: B,
    read: Callable[[B], T],
    version_of: Callable[[T], str],
    read_bookmark: Callable[[B], tuple[str, bool]],
    read_status: Callable[[B], Status],
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
