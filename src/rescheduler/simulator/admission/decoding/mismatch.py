"""A value of the wrong JSON type, worded as the real server's JSON decoder words it."""

from typing import Any

__all__ = ["Malformed", "Mismatch", "json_type"]


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


class Malformed(Exception):  # noqa: N818 - it becomes a refusal, it is no error of ours
    """The right JSON type, but text that can't be read: a quantity, a time."""


class Mismatch(Malformed):
    """Raised at the value; each record it passes on its way out adds the field it came through."""

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
