"""Compare records field by field, and list the fields that are set."""

from collections.abc import Iterator, Mapping
from typing import Any, get_args

import msgspec

__all__ = ["all_fields", "differences", "filled"]

_MISSING = object()


def differences(left: Any, right: Any, path: str = "") -> Iterator[str]:
    """Each place where they differ, with both values. Types count: 1 is not True, a list is not a tuple."""
    if type(left) is not type(right):
        yield f"{path}: {left!r} is not {right!r}"
    elif isinstance(left, msgspec.Struct):
        for field in msgspec.structs.fields(left):
            yield from differences(
                getattr(left, field.name), getattr(right, field.name), f"{path}.{field.name}"
            )
    elif isinstance(left, tuple) and len(left) == len(right):
        for number, (mine, theirs) in enumerate(zip(left, right, strict=True)):
            yield from differences(mine, theirs, f"{path}[{number}]")
    elif isinstance(left, Mapping):
        for key in sorted({*left, *right}):
            yield from differences(left.get(key, _MISSING), right.get(key, _MISSING), f"{path}[{key}]")
    elif left != right:
        yield f"{path}: {left!r} is not {right!r}"


def filled(value: Any) -> Iterator[tuple[type, str]]:
    """The fields in this record, and in all it contains, whose value is not what they have by default."""
    if isinstance(value, msgspec.Struct):
        for field in msgspec.structs.fields(value):
            held = getattr(value, field.name)
            if field.required or held != field.default:
                yield type(value), field.name
            yield from filled(held)
    elif isinstance(value, tuple):
        for part in value:
            yield from filled(part)


def all_fields(*kinds: type) -> set[tuple[type, str]]:
    """Return the fields of these types and of every type in them."""
    found: set[tuple[type, str]] = set()
    waiting: list[Any] = list(kinds)
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            fields = msgspec.structs.fields(kind)
            if not {(kind, field.name) for field in fields} <= found:
                found |= {(kind, field.name) for field in fields}
                waiting += [field.type for field in fields]
        else:
            waiting += get_args(kind)  # of a union, a tuple, a mapping
    return found
