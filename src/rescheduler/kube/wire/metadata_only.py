"""Objects without spec and status: the server leaves them out, where only annotations or owners matter.

Servers that can't do that send the whole object, of which nothing but the metadata is kept.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Raw

from rescheduler.kube.wire import json_frames
from rescheduler.kube.wire.codec import Page, WatchDecoder
from rescheduler.kube.wire.json_frames import JsonWatch

__all__ = ["MetadataOnly"]

Object = dict[str, Any]
_AS: Final = "application/json;as={};g=meta.k8s.io;v=v1,application/json"


class _Kept(msgspec.Struct):
    metadata: Object


_kept = msgspec.json.Decoder(_Kept).decode


class MetadataOnly:
    """A `Codec`. `keep` says what is kept of the metadata."""

    accept: Final = _AS.format("PartialObjectMetadataList")
    watch_accept: Final = _AS.format("PartialObjectMetadata")

    def __init__(self, resource: str, keep: Callable[[Object], Object] = lambda metadata: metadata) -> None:
        self._resource = resource
        self._keep = keep

    def decode_one(self, content_type: str, body: bytes) -> Object:
        return json_frames.one(self._resource, content_type, body, self._read)

    def decode_page(self, content_type: str, body: bytes) -> Page[Object]:
        return json_frames.page(self._resource, content_type, body, self._read)

    def watch_decoder(self, content_type: str) -> WatchDecoder[Object]:
        return JsonWatch(self._resource, content_type, self._read, _version_of)

    def _read(self, raw: bytes | Raw) -> Object:
        metadata = _kept(raw).metadata
        return {"metadata": self._keep(metadata)}


def _version_of(found: Object) -> str:
    version: str = found["metadata"].get("resourceVersion", "")
    return version
