"""How the objects of one kind are laid out: which columns there are, and one function that fills a row."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from rescheduler.simulator.exchange import Object

__all__ = ["AGE", "NAME", "Cell", "Column", "Layout", "Rows", "each", "wide"]

Cell = str | int | float | bool | None


class Column(NamedTuple):
    """One column, as a Table's `columnDefinitions` has it."""

    name: str
    type: str = "string"
    description: str = ""
    format: str = ""
    priority: int = 0
    """Above zero: shown by `-o wide` only."""

    def definition(self) -> Object:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


Rows = Callable[[Sequence[Object], datetime], Iterator[list[Cell]]]
"""One row of cells for each object, in the same order."""


class Layout(NamedTuple):
    """Cells stand in the order of the columns; the wide ones are always filled, kubectl leaves them out."""

    columns: tuple[Column, ...]
    rows: Rows


NAME = Column("Name", format="name", description="Unique among the objects of its kind and namespace.")
AGE = Column("Age", description="How long ago the object was created.")


def wide(name: str, description: str = "") -> Column:
    return Column(name, description=description, priority=1)


def each(cells: Callable[[Object, datetime], list[Cell]]) -> Rows:
    """For the usual case that a row depends on its own object alone."""

    def rows(objects: Sequence[Object], now: datetime) -> Iterator[list[Cell]]:
        return (cells(obj, now) for obj in objects)

    return rows
