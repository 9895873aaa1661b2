"""Any resource from JSON: as plain dicts, or as a msgspec type that names what is needed of it.

Everything but pods and nodes is read this way: there is little of it, and custom resources come as JSON only.
"""

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Raw

from rescheduler.kube.wire import json_frames
from rescheduler.kube.wire.codec import Page, WatchDecoder
from rescheduler.kube.wire.json_frames import JsonWatch
from rescheduler.kube.wire.nulls import without_nulls

__all__ = ["OBJECTS", "Json", "typed"]

T = TypeVar("T")
Object = dict[str, Any]


class Json(Generic[T]):
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
        return json_frames.one(self._resource, content_type, body, self._read)

    def decode_page(self, content_type: str, body: bytes) -> Page[T]:
        return json_frames.page(self._resource, content_type, body, self._read)

    def watch_decoder(self, content_type: str) -> WatchDecoder[T]:
        return JsonWatch(self._resource, content_type, self._read, self._version_of)


def typed(resource: str, kind: type[T], version_of: Callable[[T], str]) -> Json[T]:
    """A codec for a msgspec type (or anything msgspec can decode into); unknown fields are skipped."""
    decode = msgspec.json.Decoder(kind).decode

    def read(raw: bytes | Raw) -> T:
        try:
            return decode(raw)
        except msgspec.ValidationError:
            return msgspec.convert(without_nulls(msgspec.json.decode(raw)), kind)

    return Json(resource, read, version_of)


_decode_object = msgspec.json.Decoder(Object).decode


def _version_of(found: Object) -> str:
    metadata = found.get("metadata")
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return version if isinstance(version, str) else ""


OBJECTS: Final[Json[Object]] = Json("objects", _decode_object, _version_of)
"""Whole objects as plain dicts, of whatever kind."""
