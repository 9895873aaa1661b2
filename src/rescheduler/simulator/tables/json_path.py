"""The part of kubectl's JSONPath that printer columns use.

.spec.replicas   .metadata.labels['app']   .metadata.annotations.example\\.com/note
.status.conditions[0].reason   .items[-1]   .items[*].name   .status.conditions[?(@.type=="Ready")].status
"""

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from rescheduler.simulator.exchange import decode

__all__ = ["JsonPath", "PathError"]


class PathError(ValueError):
    """The path is not JSONPath, or of a part of it that is not spoken here."""


Step = Callable[[Any], Iterable[Any]]
"""From one value to those below it that are meant."""

_STEP = re.compile(
    r"""
      \.(?P<field>(?:\\.|[^.\[\]\\])+)
    | \[\s*(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\s*\]
    | \[\s*(?P<index>-?\d+)\s*\]
    | (?P<all>\[\*\])
    | \[\?\(\s*@(?P<path>.*?)\s*(?:(?P<compare>==|!=|<=|>=|<|>)\s*(?P<literal>[^<>=!]*?)\s*)?\)\]
    """,
    re.VERBOSE | re.DOTALL,
)

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


class JsonPath(NamedTuple):
    steps: tuple[Step, ...]

    @classmethod
    def parse(cls, text: str) -> "JsonPath":
        rest = text.strip().removeprefix("{").removesuffix("}").removeprefix("$")
        steps: list[Step] = []
        while rest:
            found = _STEP.match(rest)
            if found is None:
                raise PathError(f"unrecognized column definition {text!r}: can't read {rest!r}")
            steps.append(_step(found))
            rest = rest[found.end() :]
        return cls(tuple(steps))

    def find(self, value: Any) -> Iterator[Any]:
        """Nothing where a part of the path is missing: half-filled objects are no error."""
        found: Iterable[Any] = [value]
        for step in self.steps:
            found = [below for each in found for below in step(each)]
        yield from found

    def first(self, value: Any) -> Any:
        return next(self.find(value), None)


def _step(found: re.Match[str]) -> Step:
    if found["field"] == "*" or found["all"]:
        return _everything
    if found["field"] is not None:
        return _field(re.sub(r"\\(.)", r"\1", found["field"]))
    if found["quoted"] is not None:
        return _field(found["quoted"])
    if found["index"] is not None:
        return _item(int(found["index"]))
    return _filter(found["path"], found["compare"], found["literal"])


def _everything(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _field(key: str) -> Step:
    return lambda value: [value[key]] if isinstance(value, dict) and key in value else ()


def _item(index: int) -> Step:
    def step(value: Any) -> Iterable[Any]:
        return [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else ()

    return step


def _filter(path: str, compare: str | None, literal: str | None) -> Step:
    left = JsonPath.parse(path)
    if compare is None or literal is None:
        return lambda value: [each for each in _list(value) if any(True for _ in left.find(each))]
    right, holds = _literal(literal), _COMPARE[compare]

    def step(value: Any) -> Iterable[Any]:
        return [
            each
            for each in _list(value)
            for found in left.find(each)
            if type(found) is type(right) and holds(found, right)
        ]

    return step


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _literal(text: str) -> Any:
    if text[:1] == text[-1:] == "'":
        return text[1:-1]
    try:
        return decode(text.encode())
    except ValueError:
        raise PathError(
            f"can't compare with {text!r}: write a string in quotes, a number, true or false"
        ) from None
