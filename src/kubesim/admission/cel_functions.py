"""The functions and operators of CEL expressions."""

import operator
import re
from collections.abc import Callable
from typing import Any

__all__ = ["FUNCTIONS", "METHODS", "OPERATORS", "UndefinedValue"]


class UndefinedValue(Exception):  # noqa: N818 - in this language it is a value like any other
    """An expression without a value: a missing field, or a comparison of a number with a string."""


def _are_equal(one: Any, other: Any) -> bool:
    # To Python, true is 1.
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    return bool(one == other)


def _contains(element: Any, collection: Any) -> bool:
    if isinstance(collection, dict):
        return element in collection
    if isinstance(collection, list):
        return any(_are_equal(element, item) for item in collection)
    raise UndefinedValue("no such overload: in")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _comparing(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compared(one: Any, other: Any) -> bool:
        if (_is_number(one) and _is_number(other)) or (isinstance(one, str) and isinstance(other, str)):
            return compare(one, other)
        raise UndefinedValue("no such overload: comparison of different types")

    return compared


def _computing(compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def computed(one: Any, other: Any) -> Any:
        if not (_is_number(one) and _is_number(other)):
            raise UndefinedValue("no such overload: arithmetic on a value that is not a number")
        try:
            return compute(one, other)
        except ZeroDivisionError:
            raise UndefinedValue("division by zero") from None

    return computed


def _added(one: Any, other: Any) -> Any:
    for joined in (str, list):
        if isinstance(one, joined) and isinstance(other, joined):
            return one + other  # type: ignore[operator]
    return _computing(operator.add)(one, other)


def _divided(one: Any, other: Any) -> Any:
    if isinstance(one, int) and isinstance(other, int):
        return int(one / other)  # towards zero
    return one / other


def _negated(value: Any) -> Any:
    if not _is_number(value):
        raise UndefinedValue("no such overload: negation of a value that is not a number")
    return -value


def _not(value: Any) -> bool:
    if not isinstance(value, bool):
        raise UndefinedValue("no such overload: ! on a value that is not a boolean")
    return not value


def _size(value: Any) -> int:
    if isinstance(value, str | list | dict):
        return len(value)
    raise UndefinedValue("no such overload: size")


def _text_method(method: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    def called(text: Any, argument: Any) -> bool:
        if isinstance(text, str) and isinstance(argument, str):
            return method(text, argument)
        raise UndefinedValue("no such overload: string method on a value that is not a string")

    return called


def _matches(text: str, pattern: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error as error:
        raise UndefinedValue(f"invalid pattern: {pattern}") from error


def _as_int(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise UndefinedValue(f"not an integer: {value!r}") from None


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


OPERATORS: dict[str, Callable[..., Any]] = {
    "==": _are_equal,
    "!=": lambda one, other: not _are_equal(one, other),
    "<": _comparing(operator.lt),
    "<=": _comparing(operator.le),
    ">": _comparing(operator.gt),
    ">=": _comparing(operator.ge),
    "in": _contains,
    "+": _added,
    "-": _computing(operator.sub),
    "*": _computing(operator.mul),
    "/": _computing(_divided),
    "%": _computing(operator.mod),
    "!": _not,
    "negate": _negated,
}

FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "size": (1, _size),
    "int": (1, _as_int),
    "string": (1, _as_text),
}
"""Functions by name, each with its number of arguments."""

METHODS: dict[str, tuple[int, Callable[..., Any]]] = {
    "size": (1, _size),
    "startsWith": (2, _text_method(str.startswith)),
    "endsWith": (2, _text_method(str.endswith)),
    "contains": (2, _text_method(operator.contains)),
    "matches": (2, _text_method(_matches)),
}
