"""Amounts of resources as rows of whole numbers, one column for each resource that somebody mentions."""

from collections.abc import Iterable, Sequence

import numpy as np

from rescheduler.model.resources import Resources
from rescheduler.snapshot.snapshot import PODS, Ints

__all__ = ["LARGEST", "MANDATORY", "AmountTable", "extended_names"]

MANDATORY = ("cpu", "memory", "ephemeral-storage", "pods")
"""The first columns: always there, in this order."""

LARGEST = 2**53
"""Larger amounts (9 PB, 9·10¹² cores) are nonsense, as negative ones are, and sums of them must stay within
64 bits."""


def extended_names(amounts: Iterable[Resources | None]) -> set[str]:
    return {name for each in amounts if each is not None for name, _ in each.extended}


class AmountTable:
    """For one set of columns."""

    def __init__(self, extended: set[str]) -> None:
        self.extended = extended
        self.resources = (*MANDATORY, *sorted(extended))
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
            table[:, : len(MANDATORY)] = [
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
    return 0 if amount < 0 else min(amount, LARGEST)
