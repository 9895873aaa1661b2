"""What pods share with each other, found by identity first.

Whether two pods are the same to the scheduler is dear to find out, and pods of one template mostly share the
very same parts. So a pod is looked up by the identity of its parts, and only for the first with those parts
are they compared by value. A template is forgotten with its last pod: until then some pod holds the parts,
so that no others can take their identity.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from rescheduler.model.pods import PodRecord
from rescheduler.model.resources import Resources
from rescheduler.model.steering import AVOIDS
from rescheduler.snapshot.classes import PodClasses
from rescheduler.snapshot.numbering import Numbers
from rescheduler.snapshot.ownership import Owners
from rescheduler.snapshot.snapshot import NOWHERE

__all__ = ["Templates"]

_Likeness = tuple[str, int, int, int, int, int, int, str | None]
_ROW: Final = np.dtype(
    [
        ("pod_class", np.int32),
        ("amount", np.int32),
        ("owner", np.int32),  # or NOWHERE
        ("priority", np.int32),
    ]
)
_LEAST_PRIORITY: Final = -(2**31)
_HIGHEST_PRIORITY: Final = 2**31 - 1
_FIRST_ROWS: Final = 16


class Templates:
    def __init__(self) -> None:
        self.classes = PodClasses()
        self.amounts: Numbers[Resources] = Numbers()
        """What pods count for."""
        self.owners: Owners = Numbers()
        self._likenesses: Numbers[_Likeness] = Numbers()
        self._rows = np.zeros(_FIRST_ROWS, dtype=_ROW)

    def take(self, pod: PodRecord) -> int:
        """The number of its template, for one more pod."""
        known = self._likenesses.version
        number = self._likenesses.take(
            (
                pod.namespace,
                id(pod.labels),
                id(pod.shape),
                id(pod.affinity),
                id(pod.volumes),
                id(pod.requests),
                id(pod.owners),
                pod.marks.get(AVOIDS),
            )
        )
        if self._likenesses.version != known:
            self._write(number, pod)
        return number

    def drop(self, number: int) -> None:
        """One pod of that template less."""
        if self._likenesses.drop(number):
            pod_class, amount, owner, _ = self._rows[number].item()
            self.classes.drop(pod_class)
            self.amounts.drop(amount)
            if owner != NOWHERE:
                self.owners.drop(owner)

    def rows(self) -> npt.NDArray[np.void]:
        """By number: `pod_class`, `amount`, `owner` and `priority`. To be read only."""
        return self._rows

    def _write(self, number: int, pod: PodRecord) -> None:
        if number == len(self._rows):
            self._rows = np.concatenate((self._rows, np.zeros_like(self._rows)))
        owner = pod.owner
        self._rows[number] = (
            self.classes.take(pod),
            self.amounts.take(pod.requests),
            NOWHERE if owner is None else self.owners.take((pod.namespace, owner)),
            min(max(pod.shape.priority, _LEAST_PRIORITY), _HIGHEST_PRIORITY),
        )
