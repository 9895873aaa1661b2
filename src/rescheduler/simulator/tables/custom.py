"""Custom resources, by the printer columns of their definition; the definitions; kinds without columns."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from rescheduler.simulator.exchange import Object, encode
from rescheduler.simulator.tables.ages import since
from rescheduler.simulator.tables.json_path import JsonPath
from rescheduler.simulator.tables.layout import NAME, Cell, Column, Layout, each, wide
from rescheduler.simulator.tables.phrases import condition_status, name, spec, status

__all__ = ["DEFINITION", "PLAIN", "custom_layout"]


def custom_layout(printer_columns: Iterable[Object]) -> Layout:
    """`printer_columns` are the definition's `additionalPrinterColumns`; without any, the age is shown."""
    found = list(printer_columns) or [
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    ]
    paths = [(JsonPath.parse(column["jsonPath"]), column["type"]) for column in found]

    def rows(objects: Sequence[Object], now: datetime) -> Iterator[list[Cell]]:
        for obj in objects:
            yield [name(obj), *(_cell(path.first(obj), kind, now) for path, kind in paths)]

    return Layout((NAME, *map(_column, found)), rows)


def _column(printer_column: Object) -> Column:
    told = f"Custom resource definition column (in JSONPath format): {printer_column['jsonPath']}"
    return Column(
        name=printer_column["name"],
        type=printer_column["type"],
        format=printer_column.get("format", ""),
        description=printer_column.get("description") or told,
        priority=printer_column.get("priority", 0),
    )


def _cell(value: object, column_type: str, now: datetime) -> Cell:  # noqa: C901 - one line per type
    """A value that is not of the column's type is left out, as the real server does it."""
    match column_type, value:
        case _, None:
            return None
        case "string", str():
            return value
        case "string", bool():
            return "true" if value else "false"
        case "string", dict() | list():
            return encode(value).decode()
        case "string", _:
            return str(value)
        case "date", str():
            return since(value, now)
        case "boolean", bool():
            return value
        case (("integer" | "number"), bool()):
            return None
        case "integer", int() | float():
            return int(value)
        case "number", int() | float():
            return float(value)
    return None


def _plain_cells(obj: Object, _: datetime) -> list[Cell]:
    return [name(obj), obj["metadata"].get("creationTimestamp")]


_CREATED_AT = Column("Created At", "date", "When the object was created.")

PLAIN = Layout((NAME, _CREATED_AT), each(_plain_cells))


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


DEFINITION = Layout(
    (
        NAME,
        Column("Scope", description="In namespaces, or one for the cluster."),
        Column("Versions", description="Versions served, and which of them is stored."),
        _CREATED_AT,
        wide("Group", "Group of its resources."),
        wide("Kind", "Kind of its resources."),
        wide("ShortNames", "Short names for the command line."),
        Column("Established", "boolean", "Whether its resources are served.", priority=1),
    ),
    each(_definition_cells),
)
