"""What pods share: their workload, their template, and their class for the scheduler.

Pods of one class are equal to the scheduler. Comparing pods by value is expensive, and pods of one template
mostly share the same Python objects. So a pod is looked up by the identity of its parts first; the parts
are compared by value only for the first pod that has them. A template is dropped with its last pod: until
then that pod holds the parts, so no other object can get their identity.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from rescheduler.api.well_known_names import AVOIDED_NODES_ANNOTATION
from rescheduler.cluster.object_meta import OwnerReference
from rescheduler.cluster.pod_constraints import Affinity, SchedulingConstraints, without_exclusions
from rescheduler.cluster.pod_record import PodRecord, PodVolume
from rescheduler.cluster.resource_amounts import Resources
from rescheduler.cluster.snapshot import (
    NO_ROW,
    AmountTable,
    InternedValues,
    PodClass,
    Rows,
    Workload,
    renumber_by_first_use,
)
from rescheduler.cluster.workload_record import WORKLOAD_KINDS, WorkloadRecord, controller_of

__all__ = ["PodClasses", "PodOwners", "PodTemplates", "WorkloadResolver", "top_workload"]


PodOwners = InternedValues[tuple[str, OwnerReference]]
"""Of pods: the namespace, and the controller."""


class WorkloadResolver:
    """Resolves each owner once, as long as neither owners nor controllers change."""

    def __init__(self) -> None:
        self._known: tuple[int, int] | None = None
        self._workload = np.zeros(0, dtype=np.int32)
        """By the number of an owner; the last is for pods without."""
        self._workloads: list[Workload] = []

    def of(
        self, owners: PodOwners, numbers: Rows, controllers: Mapping[str, WorkloadRecord], version: int
    ) -> tuple[Rows, tuple[Workload, ...]]:
        """For rows with those numbers of owners: the index of each row's workload, and the workloads.

        `version` identifies the state of the controllers.
        """
        if self._known != (owners.version, version):
            self._resolve(owners, controllers)
            self._known = (owners.version, version)
        anew, used = renumber_by_first_use(self._workload.take(numbers), len(self._workloads))
        return anew, tuple(self._workloads[number] for number in used.tolist())

    def _resolve(self, owners: PodOwners, controllers: Mapping[str, WorkloadRecord]) -> None:
        found: dict[tuple[str, str, str], int] = {}
        self._workload = np.full(len(owners) + 1, NO_ROW, dtype=np.int32)
        self._workloads = []
        for number, owner in enumerate(owners.values()):
            if owner is not None:
                workload = top_workload(*owner, controllers)
                identity = (workload.kind, workload.key, workload.uid)
                self._workload[number] = found.setdefault(identity, len(self._workloads))
                if len(found) > len(self._workloads):
                    self._workloads.append(workload)


def top_workload(
    namespace: str, owner: OwnerReference, controllers: Mapping[str, WorkloadRecord]
) -> Workload:
    """The topmost of the kinds that we read, from the pod's own controller upwards.

    What stands above them (an operator's own kind above its StatefulSet) says nothing about pods. Where the
    chain leads to something that was not read, its name is all that is known.
    """
    seen: set[str] = set()
    while True:
        record = controller_of(controllers, namespace, owner)
        above = None if record is None else record.owner
        if above is None or not _is_read(above) or above.uid in seen:
            return Workload(owner.kind, f"{namespace}/{owner.name}", owner.uid, record)
        seen.add(owner.uid)
        owner = above


def _is_read(owner: OwnerReference) -> bool:
    return WORKLOAD_KINDS.get(owner.kind) == owner.api_version


T = TypeVar("T")


class _SchedulingInputs:
    """The parts of a pod that the scheduler considers, hashed once."""

    __slots__ = ("_hash", "affinity", "asks", "constraints", "labels", "namespace", "volumes")

    def __init__(self, pod: PodRecord) -> None:
        self.namespace = pod.namespace
        self.labels: Mapping[str, str] = pod.labels
        self.constraints: SchedulingConstraints = pod.shape.constraints
        annotations = pod.annotations
        self.affinity: Affinity = (
            without_exclusions(pod.affinity, annotations) if annotations else pod.affinity
        )
        self.volumes: tuple[PodVolume, ...] = pod.volumes
        self.asks: Resources = pod.shape.requests
        # Constraints are left to the comparison: expensive to hash, and hardly ever all that differs.
        self._hash = hash(
            (self.namespace, frozenset(self.labels.items()), self.affinity, self.volumes, self.asks)
        )

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _SchedulingInputs)
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
        self.asks: InternedValues[Resources] = InternedValues()
        """What new copies ask for."""
        self._judged: InternedValues[_SchedulingInputs] = InternedValues()
        self._asks_of: list[int] = []
        self._made: list[PodClass | None] = []
        """The classes by number; each is built on first use."""
        self._made_for: tuple[str, ...] = ()

    def take(self, pod: PodRecord) -> int:
        """The number of its class."""
        judged, known = _SchedulingInputs(pod), self._judged.version
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
        anew, used = renumber_by_first_use(numbers, len(self._judged))
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


_PartIdentities = tuple[str, int, int, int, int, int, int, str | None]
_ROW: Final = np.dtype(
    [
        ("pod_class", np.int32),
        ("amount", np.int32),
        ("owner", np.int32),  # or NO_ROW
        ("priority", np.int32),
    ]
)
_LEAST_PRIORITY: Final = -(2**31)
_HIGHEST_PRIORITY: Final = 2**31 - 1
_FIRST_ROWS: Final = 16


class PodTemplates:
    def __init__(self) -> None:
        self.classes = PodClasses()
        self.amounts: InternedValues[Resources] = InternedValues()
        """What pods count for."""
        self.owners: PodOwners = InternedValues()
        self._likenesses: InternedValues[_PartIdentities] = InternedValues()
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
                pod.annotations.get(AVOIDED_NODES_ANNOTATION),
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
            if owner != NO_ROW:
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
            NO_ROW if owner is None else self.owners.take((pod.namespace, owner)),
            min(max(pod.shape.priority, _LEAST_PRIORITY), _HIGHEST_PRIORITY),
        )
