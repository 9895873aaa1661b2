"""Field errors of rejected objects, in the words of the real API server.

A path is plain text: `spec.containers[0].image`, `spec.limits[cpu]`.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from kubesim.apiserver.status_errors import FieldError

__all__ = [
    "duplicate",
    "forbidden",
    "immutable",
    "invalid",
    "not_found",
    "not_supported",
    "quoted",
    "required",
    "shown_value",
    "too_few",
    "too_long",
    "too_many",
    "type_invalid",
]

IMMUTABLE = "field is immutable"


def quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def shown_value(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _detailed(message: str, detail: str) -> str:
    return f"{message}: {detail}" if detail else message


def required(path: str, detail: str = "") -> FieldError:
    return FieldError(path, "FieldValueRequired", _detailed("Required value", detail))


def invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError(path, "FieldValueInvalid", f"Invalid value: {shown_value(value)}: {detail}")


def type_invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError(path, "FieldValueTypeInvalid", f"Invalid value: {shown_value(value)}: {detail}")


def immutable(path: str, value: Any) -> FieldError:
    return invalid(path, value, IMMUTABLE)


def not_supported(path: str, value: Any, allowed: Iterable[str]) -> FieldError:
    values = ", ".join(quoted(value) for value in allowed)
    message = f"Unsupported value: {shown_value(value)}: supported values: {values}"
    return FieldError(path, "FieldValueNotSupported", message)


def duplicate(path: str, value: Any, detail: str = "") -> FieldError:
    return FieldError(
        path, "FieldValueDuplicate", _detailed(f"Duplicate value: {shown_value(value)}", detail)
    )


def not_found(path: str, value: Any) -> FieldError:
    return FieldError(path, "FieldValueNotFound", f"Not found: {shown_value(value)}")


def forbidden(path: str, detail: str) -> FieldError:
    return FieldError(path, "FieldValueForbidden", f"Forbidden: {detail}")


def too_long(path: str, most_bytes: int) -> FieldError:
    unit = "byte" if most_bytes == 1 else "bytes"
    return FieldError(path, "FieldValueTooLong", f"Too long: may not be more than {most_bytes} {unit}")


def too_many(path: str, count: int, most: int) -> FieldError:
    items = "item" if most == 1 else "items"
    return FieldError(path, "FieldValueTooMany", f"Too many: {count}: must have at most {most} {items}")


def too_few(path: str, count: int, fewest: int) -> FieldError:
    items = "item" if fewest == 1 else "items"
    return FieldError(path, "FieldValueTooFew", f"Too few: {count}: must have at least {fewest} {items}")
