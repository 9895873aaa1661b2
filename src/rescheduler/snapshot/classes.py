"""Pods that are the same to the scheduler: judged once."""

from collections.abc import Mapping
from typing import TypeVar

from rescheduler.model.constraints import Affinity, Constraints
from rescheduler.model.pods import PodRecord
from rescheduler.model.resources import Resources
from rescheduler.model.steering import without_own_exclusions
from rescheduler.model.volumes import Volume
from rescheduler.snapshot.amounts import AmountTable
from rescheduler.snapshot.numbering import Numbers, by_first_use
from rescheduler.snapshot.snapshot import PodClass, Rows

__all__ = ["PodClasses"]

T = TypeVar("T")


class _Judged:
    """What the scheduler looks at, hashed once."""

    __slots__ = ("_hash", "affinity", "asks", "constraints", "labels", "namespace", "volumes")

    def __init__(self, pod: PodRecord) -> None:
        self.namespace = pod.namespace
        self.labels: Mapping[str, str] = pod.labels
        self.constraints: Constraints = pod.shape.constraints
        marks = pod.marks
        self.affinity: Affinity = without_own_exclusions(pod.affinity, marks) if marks else pod.affinity
        self.volumes: tuple[Volume, ...] = pod.volumes
        self.asks: Resources = pod.shape.requests
        # Constraints are left to the comparison: dear to hash, and hardly ever all that differs.
        self._hash = hash(
            (self.namespace, frozenset(self.labels.items()), self.affinity, self.volumes, self.asks)
        )

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Judged)
            and self._hash == other._hash
            and self.namespace == other.namespace
            and self.labels == other.labels
            and self.constraints == other.constraints
            and self.affinity == other.affinity
            and self.volumes == other.volumes
            and self.asks == other.asks
        )


class PodClasses:
    def __init__(self) -> None:
        self.asks: Numbers[Resources] = Numbers()
        """What new copies ask for."""
        self._judged: Numbers[_Judged] = Numbers()
        self._asks_of: list[int] = []
        self._made: list[PodClass | None] = []
        """Both by the number of a class. It is not made until somebody asks for it."""
        self._made_for: tuple[str, ...] = ()

    def take(self, pod: PodRecord) -> int:
        """The number of its class."""
        judged, known = _Judged(pod), self._judged.version
        number = self._judged.take(judged)
        if self._judged.version != known:
            _put(self._asks_of, number, self.asks.take(judged.asks))
            _put(self._made, number, None)
        return number

    def drop(self, number: int) -> None:
        if self._judged.drop(number):
            self.asks.drop(self._asks_of[number])

    def of(self, numbers: Rows, amounts: AmountTable) -> tuple[Rows, tuple[PodClass, ...]]:
        """For rows with these numbers: the index of each row's class, and the classes.

        What the classes ask for is in the columns of `amounts`.
        """
        anew, used = by_first_use(numbers, len(self._judged))
        return anew, self._frozen(used.tolist(), amounts)

    def _frozen(self, numbers: list[int], amounts: AmountTable) -> tuple[PodClass, ...]:
        if self._made_for != amounts.resources:
            self._made, self._made_for = [None] * len(self._made), amounts.resources
        made = self._made
        for number in numbers:
            if made[number] is None:
                made[number] = self._class(number, amounts)
        return tuple(map(made.__getitem__, numbers))  # type: ignore[arg-type]

    def _class(self, number: int, amounts: AmountTable) -> PodClass:
        judged = self._judged.value(number)
        return PodClass(
            judged.namespace,
            judged.labels,
            judged.constraints,
            judged.affinity,
            judged.volumes,
            amounts.of_new_pod(judged.asks),
        )


def _put(values: list[T], number: int, value: T) -> None:
    """New numbers follow on those that there are."""
    if number == len(values):
        values.append(value)
    else:
        values[number] = value
