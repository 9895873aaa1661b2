"""Averages of many pods or nodes, as columns: every check works all of them out anew."""

from collections.abc import Iterator, Mapping

import msgspec
import numpy as np
import numpy.typing as npt

from rescheduler.usage.readings import Used

__all__ = ["AT_S", "CPU", "MEMORY", "UNKNOWN", "Average", "Averages", "Columns"]

Columns = npt.NDArray[np.float64]
"""[column, name]: cpu in thousandths, memory in bytes, and when it was last measured. In fractions: in whole
units a slow drift would be rounded away at every step."""

CPU, MEMORY, AT_S = range(3)

UNKNOWN = -1
"""Place of a name that has no average."""


class Average(msgspec.Struct, frozen=True, gc=False):
    """Of one pod or node."""

    uid: str
    """Another object of the same name starts anew."""
    cpu_millis: float
    memory_bytes: float
    at_s: float
    """When it was last measured."""


class Averages(Mapping[str, Average]):
    """By name. Whoever wants all of them takes the columns."""

    __slots__ = ("_names", "_place", "_uids", "columns")

    def __init__(self, names: list[str], uids: list[str], columns: Columns) -> None:
        """All in the same order."""
        self._names = names
        self._uids = uids
        self.columns = columns
        self._place: dict[str, int] | None = None
        """By name, once somebody asks for it."""

    def places_of(self, names: list[str], uids: list[str]) -> npt.NDArray[np.int64]:
        """Of each in the columns; `UNKNOWN` also where the name is another object's by now."""
        if names == self._names and uids == self._uids:  # as in most checks
            return np.arange(len(names))
        place, known = self._places(), self._uids
        found = [place.get(name, UNKNOWN) for name in names]
        pairs = zip(found, uids, strict=True)
        return np.array(
            [at if at != UNKNOWN and known[at] == uid else UNKNOWN for at, uid in pairs], np.int64
        )

    def whole(self) -> dict[str, Used]:
        """In whole units."""
        cpu_millis, memory_bytes, at_s = self.columns
        used = map(Used, _whole(cpu_millis), _whole(memory_bytes), at_s.tolist())
        return dict(zip(self._names, used, strict=True))

    def __getitem__(self, name: str) -> Average:
        place = self._places()[name]
        return Average(self._uids[place], *self.columns[:, place].tolist())

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def _places(self) -> dict[str, int]:
        if self._place is None:
            self._place = {name: place for place, name in enumerate(self._names)}
        return self._place


def _whole(column: Columns) -> list[int]:
    whole: list[int] = np.rint(column).astype(np.int64).tolist()
    return whole
