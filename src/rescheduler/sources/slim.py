"""Workloads without their templates, which are most of what would be read of them, and decide nothing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec
from msgspec import Raw

from rescheduler.kube.resources import Resource
from rescheduler.kube.wire.codec import Codec
from rescheduler.kube.wire.dual import Dual
from rescheduler.kube.wire.generic import Json
from rescheduler.kube.wire.replica_sets import replica_sets_from

__all__ = ["slim"]

Object = dict[str, Any]
_HEAVY: Final[Mapping[str, tuple[str, ...]]] = {
    "metadata": ("managedFields",),
    "spec": ("jobTemplate", "template", "volumeClaimTemplates"),
}
_parts = msgspec.json.Decoder(dict[str, Raw] | None).decode
_object = msgspec.json.Decoder(Object).decode


def slim(resource: Resource[Object]) -> Resource[Object]:
    """The same resource, read like that; `as_json` is still all of it."""
    title = f"the {resource.kind} list"
    many = resource.kind == "ReplicaSet"
    codec: Codec[Object] = (
        Dual(title, _ReplicaSets(), _version_of) if many else Json(title, _read, _version_of)
    )
    return replace(resource, codec=codec)


class _ReplicaSets:
    """Of which there are so many that another encoding pays."""

    def from_json(self, raw: bytes | Raw) -> Object:
        return _read(raw)

    def from_protobuf(self, items: bytes) -> list[Object]:
        return replica_sets_from(items)


def _read(raw: bytes | Raw) -> Object:
    parts = _parts(raw) or {}
    for name, heavy in _HEAVY.items():
        if name in parts and (inner := _parts(parts[name])) is not None:
            for each in heavy:
                inner.pop(each, None)
            parts[name] = Raw(msgspec.json.encode(inner))
    return _object(msgspec.json.encode(parts))


def _version_of(found: Object) -> str:
    version: str = found["metadata"].get("resourceVersion", "")
    return version
