"""Table columns of custom resources, of their definitions, and of kinds without columns of their own.

Printer columns use this part of kubectl's JSONPath:

    .spec.replicas   .metadata.labels['app']   .metadata.annotations.example\\.com/note
    .status.conditions[0].reason   .items[-1]   .items[*].name   .status.conditions[?(@.type=="Ready")].status
"""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from kubesim.apiserver.api_messages import Object, decode, encode
from kubesim.printers.table_columns import (
    NAME,
    Cell,
    TableColumn,
    TableLayout,
    condition_status,
    each,
    name,
    since,
    spec,
    status,
    wide,
)

__all__ = ["DEFINITION", "PLAIN", "JsonPath", "PathError", "custom_layout"]


class PathError(ValueError):
    """The path is not JSONPath, or uses a feature that is not supported here."""


Step = Callable[[Any], Iterable[Any]]
"""Returns the values below a value that a path step selects."""

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
        """Yield the values at the path; a missing part is no error."""
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


def custom_layout(printer_columns: Iterable[Object]) -> TableLayout:
    """Return the layout for a definition's `additionalPrinterColumns`; without any, it shows the age."""
    found = list(printer_columns) or [
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    ]
    paths = [(JsonPath.parse(column["jsonPath"]), column["type"]) for column in found]

    def rows(objects: Sequence[Object], now: datetime) -> Iterator[list[Cell]]:
        for obj in objects:
            yield [name(obj), *(_cell(path.first(obj), kind, now) for path, kind in paths)]

    return TableLayout((NAME, *map(_column, found)), rows)


def _column(printer_column: Object) -> TableColumn:
    default_description = (
        f"Custom resource definition column (in JSONPath format): {printer_column['jsonPath']}"
    )
    return TableColumn(
        name=printer_column["name"],
        type=printer_column["type"],
        format=printer_column.get("format", ""),
        description=printer_column.get("description") or default_description,
        priority=printer_column.get("priority", 0),
    )


def _cell(value: object, column_type: str, now: datetime) -> Cell:  # noqa: C901 - one line per type
    """Return the cell; a value of another type than the column's is left out, as in the real server."""
    match column_type, value:
        case [_, None]:
            return None
        case ["string", str()]:
            return value
        case ["string", bool()]:
            return "true" if value else "false"
        case ["string", dict() | list()]:
            return encode(value).decode()
        case ["string", _]:
            return str(value)
        case ["date", str()]:
            return since(value, now)
        case ["boolean", bool()]:
            return value
        case (("integer" | "number"), bool()):
            return None
        case ["integer", int() | float()]:
            return int(value)
        case ["number", int() | float()]:
            return float(value)
    return None


def _plain_cells(obj: Object, _: datetime) -> list[Cell]:
    return [name(obj), obj["metadata"].get("creationTimestamp")]


_CREATED_AT = TableColumn("Created At", "date", "When the object was created.")

PLAIN = TableLayout((NAME, _CREATED_AT), each(_plain_cells))


def _definition_cells(definition: Object, _: datetime) -> list[Cell]:
    wanted = spec(definition)
    names = wanted.get("names") or {}
    return [
        name(definition),
        wanted.get("scope", ""),
        ",".join(
            sorted(_version(version) for version in wanted.get("versions") or () if version.get("served"))
        ),
        definition["metadata"].get("creationTimestamp"),
        wanted.get("group", ""),
        names.get("kind", ""),
        ",".join(names.get("shortNames") or ()),
        condition_status(status(definition).get("conditions"), "Established") == "True",
    ]


def _version(version: Object) -> str:
    return f"{version['name']}(storage)" if version.get("storage") else str(version["name"])


DEFINITION = TableLayout(
    (
        NAME,
        TableColumn("Scope", description="Namespaced or Cluster."),
        TableColumn("Versions", description="Versions served, and which of them is stored."),
        _CREATED_AT,
        wide("Group", "Group of its resources."),
        wide("Kind", "Kind of its resources."),
        wide("ShortNames", "Short names for the command line."),
        TableColumn("Established", "boolean", "Whether its resources are served.", priority=1),
    ),
    each(_definition_cells),
)
