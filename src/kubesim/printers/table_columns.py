"""The layout of a table, and cells that many kinds share: labels, conditions, ages (`45s`, `3d4h`)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from kubesim.apiserver.api_messages import Object
from kubesim.common_fields import parse_timestamp

__all__ = [
    "AGE",
    "NAME",
    "NONE",
    "UNKNOWN",
    "UNSET",
    "Cell",
    "Rows",
    "TableColumn",
    "TableLayout",
    "age",
    "condition_status",
    "container_images",
    "container_names",
    "each",
    "first_few",
    "human_duration",
    "labels",
    "name",
    "selector",
    "since",
    "spec",
    "status",
    "wide",
]

Cell = str | int | float | bool | None


class TableColumn(NamedTuple):
    """One column of a Table's `columnDefinitions`."""

    name: str
    type: str = "string"
    description: str = ""
    format: str = ""
    priority: int = 0
    """Above zero, the column is shown with `-o wide` only."""

    def definition(self) -> Object:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


Rows = Callable[[Sequence[Object], datetime], Iterator[list[Cell]]]
"""Returns one row of cells for each object, in the same order."""


class TableLayout(NamedTuple):
    """Columns and the function that fills the rows; wide cells are always filled, and kubectl hides them."""

    columns: tuple[TableColumn, ...]
    rows: Rows


NAME = TableColumn("Name", format="name", description="Unique among the objects of its kind and namespace.")
AGE = TableColumn("Age", description="How long ago the object was created.")


def wide(name: str, description: str = "") -> TableColumn:
    return TableColumn(name, description=description, priority=1)


def each(cells: Callable[[Object, datetime], list[Cell]]) -> Rows:
    """Return a row function for cells that depend on one object only."""

    def rows(objects: Sequence[Object], now: datetime) -> Iterator[list[Cell]]:
        return (cells(obj, now) for obj in objects)

    return rows


NONE = "<none>"
UNSET = "<unset>"


def name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def spec(obj: Object) -> Object:
    return obj.get("spec") or {}


def status(obj: Object) -> Object:
    return obj.get("status") or {}


def labels(pairs: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((pairs or {}).items())) or NONE


def selector(label_selector: Object | None) -> str:
    """Return the selector in the notation of `kubectl get -l`, sorted by key."""
    found = label_selector or {}
    terms = [(key, f"{key}={value}") for key, value in (found.get("matchLabels") or {}).items()]
    terms += [(term["key"], _expression(term)) for term in found.get("matchExpressions") or ()]
    return ",".join(text for _, text in sorted(terms, key=lambda term: term[0])) or NONE


def _expression(term: Object) -> str:
    key, values = term["key"], ",".join(sorted(term.get("values") or ()))
    match term["operator"]:
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "Exists":
            return str(key)
        case _:
            return f"!{key}"


def container_names(pod_spec: Object) -> str:
    return ",".join(container.get("name", "") for container in pod_spec.get("containers") or ())


def container_images(pod_spec: Object) -> str:
    return ",".join(container.get("image", "") for container in pod_spec.get("containers") or ())


def condition_status(conditions: Iterable[Object] | None, condition_type: str) -> str | None:
    """Return `True`, `False`, `Unknown`, or None if there is no such condition."""
    return next((c.get("status") for c in conditions or () if c.get("type") == condition_type), None)


def first_few(found: Sequence[str], most: int, *, separator: str = ",") -> str:
    shown = separator.join(found[:most])
    return f"{shown} + {len(found) - most} more..." if len(found) > most else shown


UNKNOWN = "<unknown>"
INVALID = "<invalid>"

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY

# Up to this many seconds a duration is shown in these units; a second, smaller unit only for small numbers.
# (limit, unit, its letter, second unit, its letter)
_SCALES = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)


def human_duration(duration: timedelta) -> str:
    """Return a duration with two or three significant figures, rounded down as in the real server.

    Less than two seconds in the future counts as now, because clocks differ between machines.
    """
    seconds = int(duration.total_seconds())
    if seconds < -1:
        return INVALID
    seconds = max(seconds, 0)
    for limit, unit, letter, second_unit, second_letter in _SCALES:
        if seconds < limit:
            whole, rest = divmod(seconds, unit)
            second = rest // second_unit if second_unit else 0
            return f"{whole}{letter}{second}{second_letter}" if second else f"{whole}{letter}"
    return f"{seconds // _YEAR}y"


def since(timestamp: str | None, now: datetime) -> str:
    if not timestamp:
        return UNKNOWN
    try:
        return human_duration(now - parse_timestamp(timestamp))
    except ValueError:
        return INVALID


def age(obj: Object, now: datetime) -> str:
    return since(obj["metadata"].get("creationTimestamp"), now)
