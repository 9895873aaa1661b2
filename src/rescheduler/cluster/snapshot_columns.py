"""Columns of a snapshot: numbers for shared values, and amounts of resources as rows of integers."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, TypeVar

import numpy as np

from rescheduler.cluster.resource_amounts import Resources
from rescheduler.cluster.snapshot import NO_ROW, PODS, Ints, Rows

__all__ = [
    "MANDATORY_RESOURCES",
    "MAX_AMOUNT",
    "AmountTable",
    "InternedValues",
    "extended_resource_names",
    "renumber_by_first_use",
]

K = TypeVar("K", bound=Hashable)


class InternedValues(Generic[K]):
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


def renumber_by_first_use(numbers: Rows, limit: int) -> tuple[Rows, Rows]:
    """The same numbers counted anew in the order in which rows use them, and what each was before.

    Which number a value got depends on what happened earlier; the order of its rows does not.
    """
    rows = len(numbers)
    first = np.full(limit + 1, rows, dtype=np.int64)  # the last place is for rows that have none
    np.minimum.at(first, numbers, np.arange(rows))
    found = np.flatnonzero(first[:limit] < rows)
    used: Rows = found[np.argsort(first[found])].astype(np.int32)
    anew = np.full(limit + 1, NO_ROW, dtype=np.int32)
    anew[used] = np.arange(len(used), dtype=np.int32)
    return anew.take(numbers), used


MANDATORY_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")
"""The first columns: always there, in this order."""

MAX_AMOUNT = 2**53
"""Larger amounts (9 PB, 9·10¹² cores) are nonsense, as negative ones are, and sums of them must stay within
64 bits."""


def extended_resource_names(amounts: Iterable[Resources | None]) -> set[str]:
    return {name for each in amounts if each is not None for name, _ in each.extended}


class AmountTable:
    """For one set of columns."""

    def __init__(self, extended: set[str]) -> None:
        self.extended = extended
        self.resources = (*MANDATORY_RESOURCES, *sorted(extended))
        self._column = {name: column for column, name in enumerate(self.resources)}
        self._of_new_pods: dict[Resources, Ints] = {}

    def of_nodes(self, amounts: Sequence[Resources]) -> Ints:
        """[node, resource]"""
        return self._rows(amounts)

    def of_pods(self, amounts: Sequence[Resources | None]) -> Ints:
        """[pod, resource]: each is one pod; None is for a row that nobody uses."""
        rows = self._rows([each or Resources() for each in amounts])
        rows[:, PODS] = 1
        return rows

    def of_new_pod(self, amounts: Resources) -> Ints:
        """[resource]; the same array for the same amounts."""
        found = self._of_new_pods.get(amounts)
        if found is None:
            found = self._of_new_pods[amounts] = self.of_pods([amounts])[0]
            found.setflags(write=False)
        return found

    def _rows(self, amounts: Sequence[Resources]) -> Ints:
        table = np.zeros((len(amounts), len(self.resources)), dtype=np.int64)
        if amounts:
            table[:, : len(MANDATORY_RESOURCES)] = [
                (
                    _bounded(each.cpu_millis),
                    _bounded(each.memory_bytes),
                    _bounded(each.ephemeral_bytes),
                    _bounded(each.pods),
                )
                for each in amounts
            ]
        for row, each in enumerate(amounts):
            for name, amount in each.extended:
                table[row, self._column[name]] = _bounded(amount)
        return table


def _bounded(amount: int) -> int:
    return 0 if amount < 0 else min(amount, MAX_AMOUNT)
