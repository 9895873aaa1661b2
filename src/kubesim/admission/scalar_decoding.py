"""Decode single values, with the error messages of the real server's JSON decoder."""

import binascii
import re
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any

from kubevalues.quantity import QuantityError, quantity_of

__all__ = ["SCALARS", "MalformedValue", "Reader", "TypeMismatch", "json_type"]


def json_type(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int():
            return "number"
        case float():
            return f"number {value}"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return "null"


class MalformedValue(Exception):  # noqa: N818 - becomes a rejection, not an error of the server
    """A value of the right JSON type that can't be parsed: a quantity, a time."""


class TypeMismatch(MalformedValue):
    """A value of the wrong JSON type; each enclosing record adds its field to the path."""

    def __init__(self, value: Any, wanted: str, got: str = "") -> None:
        super().__init__()
        self._got = got or json_type(value)
        self._wanted = wanted
        self._record = ""
        self._path: list[str] = []

    def came_through(self, record: str, field: str) -> None:
        self._record = self._record or record
        self._path.insert(0, field)

    def __str__(self) -> str:
        where = f"struct field {self._record}.{'.'.join(self._path)}" if self._path else "value"
        return f"json: cannot unmarshal {self._got} into Go {where} of type {self._wanted}"


Reader = Callable[[Any], Any]

_QUANTITY_FORM = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_INT32 = 1 << 31
_INT64 = 1 << 63


def _text(value: Any) -> str:
    if type(value) is str:
        return value
    raise TypeMismatch(value, "string")


def _truth(value: Any) -> bool:
    if type(value) is bool:
        return value
    raise TypeMismatch(value, "bool")


def _whole(value: Any, bound: int, name: str) -> int:
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int:
        raise TypeMismatch(value, name)
    if not -bound <= value < bound:
        raise TypeMismatch(value, name, got=f"number {value}")
    return value


def _int32(value: Any) -> int:
    return _whole(value, _INT32, "int32")


def _int64(value: Any) -> int:
    return _whole(value, _INT64, "int64")


def _number(value: Any) -> float:
    if type(value) in (int, float):
        return value  # type: ignore[no-any-return]
    raise TypeMismatch(value, "float64")


def _int_or_text(value: Any) -> int | str:
    return value if type(value) is str else _whole(value, _INT32, "int32")


def _quantity(value: Any) -> str:
    if type(value) not in (str, int, float):
        raise TypeMismatch(value, "string")
    return _canonical(value)


@lru_cache(maxsize=4096, typed=True)
def _canonical(value: str | float) -> str:
    """Return the quantity in the form that the server stores: `500m` for `0.5`, `1Gi` for `1024Mi`."""
    try:
        return str(quantity_of(value))
    except QuantityError:
        raise MalformedValue(f"quantities must match the regular expression '{_QUANTITY_FORM}'") from None


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def _time(value: Any, layout: str = "2006-01-02T15:04:05Z07:00") -> str:
    text = _text(value)
    if not _is_time(text):
        raise MalformedValue(f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"')
    return text


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text[:19])
    except ValueError:
        return False
    return _TIME.fullmatch(text) is not None


def _micro_time(value: Any) -> str:
    return _time(value, "2006-01-02T15:04:05.000000Z07:00")


def _bytes(value: Any) -> str:
    text = _text(value)
    try:
        binascii.a2b_base64(text.replace("\n", "").replace("\r", ""), strict_mode=bool(text.strip()))
    except (binascii.Error, ValueError):
        raise MalformedValue("illegal base64 data at input byte 0") from None
    return text


def _anything(value: Any) -> Any:
    return value


SCALARS: dict[str, tuple[Reader, Any]] = {
    "string": (_text, ""),
    "bool": (_truth, False),
    "int32": (_int32, 0),
    "int64": (_int64, 0),
    "double": (_number, 0),
    "intstr": (_int_or_text, 0),
    "quantity": (_quantity, "0"),
    "time": (_time, None),
    "microtime": (_micro_time, None),
    "bytes": (_bytes, ""),
    "any": (_anything, None),
}
"""The reader of each scalar type, and the value of a `null` inside a list or a map."""
