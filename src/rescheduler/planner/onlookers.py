"""Which of the units that are under way together mind how far another one is, beyond the room that it takes.

Only spread and affinity can forbid a node because pods are elsewhere, or not there at all. Most pods ask for
neither: those mind nobody, and are not asked about everybody.
"""

from collections.abc import Sequence
from typing import NamedTuple

from rescheduler.planner.legs import Unit
from rescheduler.snapshot.snapshot import PodClass, Snapshot

__all__ = ["Onlookers"]


class _Gaze(NamedTuple):
    """Where the pods are that could matter to somebody."""

    namespaces: frozenset[str]
    everywhere: bool

    def meets(self, namespaces: frozenset[str]) -> bool:
        return self.everywhere or not self.namespaces.isdisjoint(namespaces)


_NOWHERE = _Gaze(frozenset(), everywhere=False)


class Onlookers:
    def __init__(self, snapshot: Snapshot) -> None:
        self._classes, self._class_of = snapshot.classes, snapshot.pods.pod_class
        self._gazes: dict[int, _Gaze] = {}
        """By class."""

    def minded_by(self, unit: Unit, others: Sequence[Unit]) -> list[Unit]:
        """Those of the others that the unit minds."""
        gaze = self._gaze(unit)
        return [] if gaze is _NOWHERE else [other for other in others if gaze.meets(self._namespaces(other))]

    def minding(self, unit: Unit, others: Sequence[Unit]) -> list[Unit]:
        """Those of the others that mind the unit."""
        namespaces = self._namespaces(unit)
        return [other for other in others if self._gaze(other).meets(namespaces)]

    def _namespaces(self, unit: Unit) -> frozenset[str]:
        return frozenset(self._classes[self._class_of[leg.pod]].namespace for leg in unit.legs)

    def _gaze(self, unit: Unit) -> _Gaze:
        if len(unit.legs) == 1:
            return self._of_class(int(self._class_of[unit.legs[0].pod]))
        each = [self._of_class(int(self._class_of[leg.pod])) for leg in unit.legs]
        return _Gaze(
            frozenset().union(*(gaze.namespaces for gaze in each)), any(gaze.everywhere for gaze in each)
        )

    def _of_class(self, number: int) -> _Gaze:
        found = self._gazes.get(number)
        if found is None:
            found = self._gazes[number] = _gaze_of(self._classes[number])
        return found


def _gaze_of(shared: PodClass) -> _Gaze:
    near = shared.affinity.pod_affinity.required
    if not near and not shared.constraints.spread:
        return _NOWHERE
    far = any(term.namespaces or term.namespace_selector is not None for term in near)
    return _Gaze(frozenset({shared.namespace}), far)
