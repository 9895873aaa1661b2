"""Workloads without their templates, which are most of what would be read of them, and decide nothing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec
from msgspec import Raw

from rescheduler.kube.resources import Resource
from rescheduler.kube.wire.generic import Json

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
    return replace(resource, codec=Json(f"the {resource.kind} list", _read, _version_of))


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
