"""Pods that are the same to the scheduler: found once, judged once.

Equality of everything the scheduler looks at is dear to find out, and pods of one template mostly share the
very same parts. So a pod is first looked up by the identity of its parts (a likeness), and only for the
first of each likeness are the parts compared. A likeness is forgotten with its last pod: until then some pod
holds the parts, so that no others can take their identity.
"""

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from rescheduler.model.constraints import Affinity, Constraints
from rescheduler.model.pods import PodRecord
from rescheduler.model.resources import Resources
from rescheduler.model.steering import AVOIDS, without_own_exclusions
from rescheduler.model.volumes import Volume
from rescheduler.snapshot.amounts import AmountTable
from rescheduler.snapshot.numbering import Numbers, by_first_use
from rescheduler.snapshot.snapshot import PodClass, Rows

__all__ = ["PodClasses"]

T = TypeVar("T")
_Likeness = tuple[str, int, int, int, int, str | None]


class _Judged:
    """What the scheduler looks at, hashed once."""

    __slots__ = ("_hash", "affinity", "asks", "constraints", "labels", "namespace", "volumes")

    def __init__(self, pod: PodRecord) -> None:
        self.namespace = pod.namespace
        self.labels: Mapping[str, str] = pod.labels
        self.constraints: Constraints = pod.shape.constraints
        self.affinity: Affinity = without_own_exclusions(pod.affinity, pod.marks)
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
        self._likenesses: Numbers[_Likeness] = Numbers()
        self._class_of: list[int] = []
        """By the number of a likeness."""
        self._judged: Numbers[_Judged] = Numbers()
        self._asks_of: list[int] = []
        """By the number of a class."""
        self._made: list[PodClass | None] = []
        """By the number of a class; None until it is asked for."""
        self._made_for: tuple[str, ...] = ()

    def take(self, pod: PodRecord) -> int:
        """The number of its likeness."""
        known = self._likenesses.version
        likeness = self._likenesses.take(
            (
                pod.namespace,
                id(pod.labels),
                id(pod.shape),
                id(pod.affinity),
                id(pod.volumes),
                pod.marks.get(AVOIDS),
            )
        )
        if self._likenesses.version != known:
            _put(self._class_of, likeness, self._take_class(_Judged(pod)))
        return likeness

    def drop(self, likeness: int) -> None:
        """One pod of that likeness less."""
        if self._likenesses.drop(likeness):
            number = self._class_of[likeness]
            if self._judged.drop(number):
                self.asks.drop(self._asks_of[number])

    def of(self, likenesses: Rows, amounts: AmountTable) -> tuple[Rows, tuple[PodClass, ...]]:
        """For rows of these likenesses: the index of each row's class, and the classes.

        What the classes ask for is in the columns of `amounts`.
        """
        class_of = np.array(self._class_of, dtype=np.int32)
        anew, used = by_first_use(class_of.take(likenesses), len(self._judged))
        return anew, self._frozen(used.tolist(), amounts)

    def _frozen(self, numbers: list[int], amounts: AmountTable) -> tuple[PodClass, ...]:
        if self._made_for != amounts.resources:
            self._made, self._made_for = [None] * len(self._made), amounts.resources
        made = self._made
        for number in numbers:
            if made[number] is None:
                made[number] = self._class(number, amounts)
        return tuple(map(made.__getitem__, numbers))  # type: ignore[arg-type]

    def _take_class(self, judged: _Judged) -> int:
        known = self._judged.version
        number = self._judged.take(judged)
        if self._judged.version != known:
            _put(self._asks_of, number, self.asks.take(judged.asks))
            _put(self._made, number, None)
        return number

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
