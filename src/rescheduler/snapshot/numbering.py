"""Numbers for values that many rows share."""

from collections.abc import Hashable
from typing import Generic, TypeVar

import numpy as np

from rescheduler.snapshot.snapshot import NOWHERE, Rows

__all__ = ["Numbers", "by_first_use"]

K = TypeVar("K", bound=Hashable)


class Numbers(Generic[K]):
    """Each value has one number as long as some row uses it; then the number goes to another value."""

    def __init__(self) -> None:
        self._number: dict[K, int] = {}
        self._values: list[K | None] = []
        self._uses: list[int] = []
        self._free: list[int] = []
        self._next = 0
        """The number that a new value gets."""
        self.version = 0
        """Grows whenever a value comes or goes."""

    def __len__(self) -> int:
        """How many numbers there are, free ones included."""
        return len(self._values)

    def take(self, value: K) -> int:
        """One more use of that value."""
        number = self._number.setdefault(value, self._next)
        if number == self._next:
            self._add(value)
        else:
            self._uses[number] += 1
        return number

    def _add(self, value: K) -> None:
        if self._free:
            number = self._free.pop()
            self._values[number], self._uses[number] = value, 1
        else:
            self._values.append(value)
            self._uses.append(1)
        self._next = self._free[-1] if self._free else len(self._values)
        self.version += 1

    def drop(self, number: int) -> bool:
        """One use less; whether that was the last, so that the value is forgotten."""
        self._uses[number] -= 1
        if self._uses[number]:
            return False
        self.version += 1
        del self._number[self.value(number)]
        self._values[number] = None
        self._free.append(number)
        self._next = number
        return True

    def value(self, number: int) -> K:
        """Of a number in use."""
        value = self._values[number]
        assert value is not None
        return value

    def values(self) -> list[K | None]:
        """By number; None where a number is free. To be read only."""
        return self._values


def by_first_use(numbers: Rows, limit: int) -> tuple[Rows, Rows]:
    """The same numbers counted anew in the order in which rows use them, and what each was before.

    Which number a value got depends on what happened earlier; the order of its rows does not.
    """
    rows = len(numbers)
    first = np.full(limit + 1, rows, dtype=np.int64)  # the last place is for rows that have none
    np.minimum.at(first, numbers, np.arange(rows))
    found = np.flatnonzero(first[:limit] < rows)
    used: Rows = found[np.argsort(first[found])].astype(np.int32)
    anew = np.full(limit + 1, NOWHERE, dtype=np.int32)
    anew[used] = np.arange(len(used), dtype=np.int32)
    return anew.take(numbers), used
