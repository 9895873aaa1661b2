"""Apply a schema to a custom object: drop unknown fields, set defaults and validate values.

Messages are those of the real server, including its field `<nil>` for errors in alternatives. A `null` that
the schema does not allow counts as absent.
"""

import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import date
from functools import lru_cache
from typing import Any

from kubesim.admission import field_errors
from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.status_errors import FieldError

__all__ = ["OF_EVERY_OBJECT", "check_value", "shaped", "type_name", "unknown"]

OF_EVERY_OBJECT = ("apiVersion", "kind", "metadata")
"""Fields that need no schema; metadata has its own type."""


def _keeps_unknown(schema: Object) -> bool:
    return bool(schema.get("x-kubernetes-preserve-unknown-fields"))


def _schema_of_field(schema: Object, field: str) -> Object | None:
    """Return the schema of a field, or None if the field is unknown."""
    properties: dict[str, Object] = schema.get("properties", {})
    if field in properties:
        return properties[field]
    further = schema.get("additionalProperties")
    if isinstance(further, dict):
        return further
    return {"x-kubernetes-preserve-unknown-fields": True} if further else None


def shaped(value: Any, schema: Object, *, whole_object: bool = False) -> Any:
    """Return a copy of `value` in the shape of its schema; a `whole_object` has a kind and metadata."""
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
    """Yield the paths of unknown fields."""
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


_NOWHERE = "<nil>"
_INT32 = range(-(1 << 31), 1 << 31)


def type_name(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case list():
            return "array"
        case _:
            return "object"


def check_value(value: Any, schema: Object, path: str) -> Iterator[FieldError]:
    if value is None and schema.get("nullable"):
        return
    if (wanted := _wanted_types(schema)) and not _is_one_of(type_name(value), wanted):
        given = type_name(value)
        yield field_errors.type_invalid(
            path, given, f'{path} in body must be of type {",".join(wanted)}: "{given}"'
        )
        if wanted == ("integer",) and given == "number":
            message = f"Checked value must be of type integer (default format) in {path}"
            yield field_errors.invalid(_NOWHERE, "", message)
        if "enum" not in schema:
            return
    if "enum" in schema and value not in schema["enum"]:
        yield field_errors.not_supported(path, value, [str(allowed) for allowed in schema["enum"]])
    for kind, check in _CHECKS:
        if isinstance(value, kind) and not isinstance(value, bool):
            yield from check(value, schema, path)
    yield from _check_alternatives(value, schema, path)


def _wanted_types(schema: Object) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    return (schema["type"],) if schema.get("type") else ()


def _is_one_of(given: str, wanted: tuple[str, ...]) -> bool:
    return given in wanted or (given == "integer" and "number" in wanted)


def _check_number(value: float, schema: Object, path: str) -> Iterator[FieldError]:
    if schema.get("format") == "int32" and value not in _INT32:
        detail = f"Checked value must be of type {schema.get('type')} with format int32 in {path}"
        yield field_errors.invalid(_NOWHERE, "", detail)
    if (factor := schema.get("multipleOf")) and value % factor:
        yield field_errors.invalid(path, value, f"{path} in body should be a multiple of {factor}")
    highest, lowest = schema.get("maximum"), schema.get("minimum")
    if highest is not None:
        if schema.get("exclusiveMaximum") and value >= highest:
            yield field_errors.invalid(path, value, f"{path} in body should be less than {highest}")
        elif value > highest:
            yield field_errors.invalid(
                path, value, f"{path} in body should be less than or equal to {highest}"
            )
    if lowest is not None:
        if schema.get("exclusiveMinimum") and value <= lowest:
            yield field_errors.invalid(path, value, f"{path} in body should be greater than {lowest}")
        elif value < lowest:
            yield field_errors.invalid(
                path, value, f"{path} in body should be greater than or equal to {lowest}"
            )


def _check_text(value: str, schema: Object, path: str) -> Iterator[FieldError]:
    if len(value) > schema.get("maxLength", len(value)):
        yield field_errors.too_long(path, schema["maxLength"])
    if len(value) < schema.get("minLength", 0):
        yield field_errors.invalid(
            path, value, f"{path} in body should be at least {schema['minLength']} chars long"
        )
    if "pattern" in schema and not _pattern(schema["pattern"]).search(value):
        yield field_errors.invalid(path, value, f"{path} in body should match '{schema['pattern']}'")
    recognised = _FORMATS.get(schema.get("format", ""))
    if recognised and not recognised(value):
        detail = f"{path} in body must be of type {schema['format']}: {field_errors.quoted(value)}"
        yield field_errors.type_invalid(path, value, detail)


@lru_cache(maxsize=256)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == len("2006-01-02")


def _is_date_time(text: str) -> bool:
    shape = r"(\d{4}-\d\d-\d\d)[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)"
    match = re.fullmatch(shape, text)
    return match is not None and _is_date(match[1])


_FORMATS: dict[str, Callable[[str], bool]] = {"date": _is_date, "date-time": _is_date_time}


def _check_list(value: list[Any], schema: Object, path: str) -> Iterator[FieldError]:
    if len(value) > schema.get("maxItems", len(value)):
        yield field_errors.too_many(path, len(value), schema["maxItems"])
    if len(value) < schema.get("minItems", 0):
        detail = f"{path} in body should have at least {schema['minItems']} items"
        yield field_errors.invalid(path, len(value), detail)
    if isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            yield from check_value(item, schema["items"], f"{path}[{index}]")
    yield from _check_unique(value, schema, path)


def _check_unique(value: list[Any], schema: Object, path: str) -> Iterator[FieldError]:
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys", ())
    if list_type not in ("set", "map"):
        return
    seen: list[Any] = []
    for index, item in enumerate(value):
        known_by = (
            {key: item[key] for key in keys if key in item}
            if list_type == "map" and isinstance(item, dict)
            else item
        )
        if known_by in seen:
            yield field_errors.duplicate(f"{path}[{index}]", known_by)
        seen.append(known_by)


def _check_object(value: Object, schema: Object, path: str) -> Iterator[FieldError]:
    if len(value) > schema.get("maxProperties", len(value)):
        yield field_errors.too_many(path, len(value), schema["maxProperties"])
    if len(value) < schema.get("minProperties", 0):
        detail = f"{path} in body should have at least {schema['minProperties']} properties"
        yield field_errors.invalid(path, len(value), detail)
    for field in schema.get("required", ()):
        if field not in value:
            yield field_errors.required(f"{path}.{field}" if path else field)
    properties, further = schema.get("properties", {}), schema.get("additionalProperties")
    for field, inner in sorted(value.items()):
        here = f"{path}.{field}" if path else field
        if not path and field in OF_EVERY_OBJECT:
            continue
        if field in properties:
            yield from check_value(inner, properties[field], here)
        elif isinstance(further, dict):
            yield from check_value(inner, further, here)


_CHECKS: tuple[tuple[type | tuple[type, ...], Callable[[Any, Object, str], Iterator[FieldError]]], ...] = (
    ((int, float), _check_number),
    (str, _check_text),
    (list, _check_list),
    (dict, _check_object),
)


def _check_alternatives(value: Any, schema: Object, path: str) -> Iterator[FieldError]:
    if "oneOf" in schema:
        yield from _check_one_of(value, schema["oneOf"], path)
    if "anyOf" in schema:
        tried = [list(check_value(value, option, path)) for option in schema["anyOf"]]
        if all(tried):
            yield field_errors.invalid(_NOWHERE, "", f'"{path}" must validate at least one schema (anyOf)')
            yield from tried[0]
    if "allOf" in schema:
        found = [fault for option in schema["allOf"] for fault in check_value(value, option, path)]
        yield from found
        if found:
            yield field_errors.invalid(_NOWHERE, "", f'"{path}" must validate all the schemas (allOf)')
    if "not" in schema and not any(check_value(value, schema["not"], path)):
        yield field_errors.invalid(_NOWHERE, "", f'"{path}" must not validate the schema (not)')


def _check_one_of(value: Any, options: list[Object], path: str) -> Iterator[FieldError]:
    tried = [list(check_value(value, option, path)) for option in options]
    fitting = sum(not found for found in tried)
    if fitting != 1:
        found = f"{fitting} valid alternatives" if fitting else "none valid"
        message = f'"{path}" must validate one and only one schema (oneOf). Found {found}'
        yield field_errors.invalid(_NOWHERE, "", message)
        if not fitting:
            yield from tried[0]
