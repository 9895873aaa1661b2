"""Objects cut down to what `fields` names."""

from collections.abc import Collection, Mapping
from typing import Any

from rescheduler.model.metadata import is_mark
from rescheduler.sources.fields import FIELDS, PARTS, Fields, What

__all__ = ["STORAGE_MARKS", "trimmed"]

Object = dict[str, Any]

STORAGE_MARKS = frozenset(
    {
        "pv.kubernetes.io/bind-completed",
        "storage.alpha.kubernetes.io/migrated-plugins",
        "storageclass.kubernetes.io/is-default-class",
        "volume.beta.kubernetes.io/storage-class",
        "volume.kubernetes.io/selected-node",
    }
)
"""Annotations that the scheduler's rules about volumes look at."""


def trimmed(kind: str, content: Object) -> Object:
    """What matters of an object of that kind. What has another type than it should is left as it is."""
    kept: Object = {name: content[name] for name in ("apiVersion", "kind") if name in content}
    rest: Object = _cut(content, FIELDS[kind])
    return kept | rest


def _cut(value: Any, fields: Fields) -> Any:
    if isinstance(fields, Mapping):
        if isinstance(value, list):
            return [_cut(each, fields) for each in value]
        if isinstance(value, dict):
            return {
                name: _cut(part, fields[name])
                for name, part in value.items()
                if name in fields and part is not None
            }
    elif fields in PARTS:
        return _with_parts(value, PARTS[fields])
    elif fields is What.MARKS and isinstance(value, dict):
        return {name: text for name, text in value.items() if is_mark(name) or name in STORAGE_MARKS}
    elif fields is What.ANYTHING and isinstance(value, list):
        return [{} for _ in value]
    return value


def _with_parts(value: Any, parts: Collection[str]) -> Any:
    if isinstance(value, list):
        return [_with_parts(each, parts) for each in value]
    if isinstance(value, dict):
        return {name: part for name, part in value.items() if name in parts}
    return value
