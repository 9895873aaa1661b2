"""Gives a custom object the shape of its schema: unknown fields go, defaults come.

A `null` where the schema does not allow one counts as left out.
"""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from rescheduler.simulator.exchange import Object

__all__ = ["OF_EVERY_OBJECT", "shaped", "unknown"]

OF_EVERY_OBJECT = ("apiVersion", "kind", "metadata")
"""Fields that no schema has to name; metadata has a type of its own."""


def _keeps_unknown(schema: Object) -> bool:
    return bool(schema.get("x-kubernetes-preserve-unknown-fields"))


def _schema_of_field(schema: Object, field: str) -> Object | None:
    """None if the field is unknown."""
    properties: dict[str, Object] = schema.get("properties", {})
    if field in properties:
        return properties[field]
    further = schema.get("additionalProperties")
    if isinstance(further, dict):
        return further
    return {"x-kubernetes-preserve-unknown-fields": True} if further else None


def shaped(value: Any, schema: Object, *, whole_object: bool = False) -> Any:
    """A copy of `value`. `whole_object`: it has a kind and metadata of its own."""
    if isinstance(value, dict):
        return _shaped_object(
            value, schema, whole_object or bool(schema.get("x-kubernetes-embedded-resource"))
        )
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [shaped(item, schema["items"]) for item in value]
    return value


def _shaped_object(value: Object, schema: Object, whole_object: bool) -> Object:
    result: Object = {}
    for field, inner in value.items():
        if whole_object and field in OF_EVERY_OBJECT:
            result[field] = inner
            continue
        known = _schema_of_field(schema, field)
        if known is None:
            if _keeps_unknown(schema):
                result[field] = inner
        elif inner is not None or known.get("nullable") or _keeps_unknown(known):
            result[field] = shaped(inner, known)
    for field, known in schema.get("properties", {}).items():
        if field not in result and "default" in known:
            result[field] = shaped(deepcopy(known["default"]), known)
    return result


def unknown(value: Any, schema: Object, path: str = "", *, whole_object: bool = False) -> Iterator[str]:
    """Paths of the fields that would go."""
    if isinstance(value, dict):
        whole_object = whole_object or bool(schema.get("x-kubernetes-embedded-resource"))
        for field, inner in sorted(value.items()):
            if whole_object and field in OF_EVERY_OBJECT:
                continue
            here = f"{path}.{field}" if path else field
            known = _schema_of_field(schema, field)
            if known is not None:
                yield from unknown(inner, known, here)
            elif not _keeps_unknown(schema):
                yield here
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            yield from unknown(item, schema["items"], f"{path}[{index}]")
