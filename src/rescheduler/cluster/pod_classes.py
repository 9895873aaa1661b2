"""Find the workload, the template and the pod class that pods share.

Pods of one class are equal to the scheduler. Comparing pods by value is expensive, and pods of one template
mostly share the same Python objects. So a pod is looked up by the identity of its parts first; the parts
are compared by value only for the first pod that has them. A template is dropped with its last pod: until
then that pod holds the parts, so no other object can get their identity.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Final, Generic, TypeVar

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
    PodClass,
    Rows,
    Workload,
)
from rescheduler.cluster.workload_record import WORKLOAD_KINDS, WorkloadRecord, controller_of

__all__ = [
    "InternedValues",
    "PodClasses",
    "PodOwners",
    "PodTemplates",
    "WorkloadResolver",
    "controllers_above",
    "owner_chain",
    "top_workload",
]

_MAX_CONTROLLERS: Final = 3
"""The most controllers above a pod that are followed; a pod of a Deployment has two."""

K = TypeVar("K", bound=Hashable)


class InternedValues(Generic[K]):
    """A table that numbers each value while some row uses it; later, another value may get the number."""

    def __init__(self) -> None:
        self._number: dict[K, int] = {}
        self._values: list[K | None] = []
        self._uses: list[int] = []
        self._free: list[int] = []
        self._next = 0
        """The next unused number."""
        self.version = 0
        """Increases whenever a value is added or dropped."""

    def __len__(self) -> int:
        """Return how many numbers there are, free ones included."""
        return len(self._values)

    def take(self, value: K) -> int:
        """Count one more use of the value and return its number."""
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
        """Count one use fewer. Drop the value after its last use; return whether this was the last one."""
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
        """Return the value of a number that is in use."""
        value = self._values[number]
        assert value is not None
        return value

    def values(self) -> list[K | None]:
        """Return the values by number; None if a number is free. Read-only."""
        return self._values


def renumber_by_first_use(numbers: Rows, limit: int) -> tuple[Rows, Rows]:
    """Number the values by the order in which rows use them, and also return the former number of each.

    The former numbers depend on earlier events; the order of rows does not.
    """
    rows = len(numbers)
    first = np.full(limit + 1, rows, dtype=np.int64)  # the last entry is for rows without a value
    np.minimum.at(first, numbers, np.arange(rows))
    found = np.flatnonzero(first[:limit] < rows)
    used: Rows = found[np.argsort(first[found])].astype(np.int32)
    renumbered = np.full(limit + 1, NO_ROW, dtype=np.int32)
    renumbered[used] = np.arange(len(used), dtype=np.int32)
    return renumbered.take(numbers), used


PodOwners = InternedValues[tuple[str, OwnerReference]]
"""The namespaces and controllers of pods."""


class WorkloadResolver:
    """A cache of the workload of each owner, until owners or controllers change."""

    def __init__(self) -> None:
        self._known: tuple[int, int] | None = None
        self._workload = np.zeros(0, dtype=np.int32)
        """The workloads by the number of an owner; the last entry is for pods without an owner."""
        self._workloads: list[Workload] = []

    def of(
        self, owners: PodOwners, numbers: Rows, controllers: Mapping[str, WorkloadRecord], version: int
    ) -> tuple[Rows, tuple[Workload, ...]]:
        """Return the index of each row's workload, and the workloads, for rows with these numbers of owners.

        `version` identifies the state of the controllers.
        """
        if self._known != (owners.version, version):
            self._resolve(owners, controllers)
            self._known = (owners.version, version)
        renumbered, used = renumber_by_first_use(self._workload.take(numbers), len(self._workloads))
        return renumbered, tuple(self._workloads[number] for number in used.tolist())

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
    """Return the topmost controller of the kinds that we read, starting at the pod's own controller.

    Owners above them (an operator's own kind above its StatefulSet) say nothing about pods. If the chain
    leads to an object that was not read, only its name is known.
    """
    chain = owner_chain(namespace, owner, controllers)
    above = chain[-1].owner if chain else owner
    if above is not None and _is_read(above) and len(chain) < _MAX_CONTROLLERS:
        return Workload(above.kind, f"{namespace}/{above.name}", above.uid, None)
    if not chain:
        return Workload(owner.kind, f"{namespace}/{owner.name}", owner.uid, None)
    top = chain[-1]
    return Workload(top.kind, top.key, top.uid, top)


def owner_chain(
    namespace: str, owner: OwnerReference | None, controllers: Mapping[str, WorkloadRecord]
) -> tuple[WorkloadRecord, ...]:
    """Return the known controllers from this owner upwards, the nearest first."""
    return controllers_above(owner, lambda each: controller_of(controllers, namespace, each))


def controllers_above(
    owner: OwnerReference | None, find: Callable[[OwnerReference], WorkloadRecord | None]
) -> tuple[WorkloadRecord, ...]:
    """Return the controllers from this owner upwards, as far as `find` knows them."""
    found: list[WorkloadRecord] = []
    # Any client can write owner references that form a cycle, so the number is limited.
    while owner is not None and len(found) < _MAX_CONTROLLERS:
        record = find(owner) if _is_read(owner) else None
        if record is None:
            break
        found.append(record)
        owner = record.owner
    return tuple(found)


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
        # Constraints are compared but not hashed: hashing is slow, and other parts usually differ, too.
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
        """The requests of new copies."""
        self._inputs: InternedValues[_SchedulingInputs] = InternedValues()
        self._asks_of: list[int] = []
        self._built: list[PodClass | None] = []
        """The classes by number; each is built on first use."""
        self._built_for: tuple[str, ...] = ()

    def take(self, pod: PodRecord) -> int:
        """Count one more pod of its class, and return the number of the class."""
        inputs, known = _SchedulingInputs(pod), self._inputs.version
        number = self._inputs.take(inputs)
        if self._inputs.version != known:
            _put(self._asks_of, number, self.asks.take(inputs.asks))
            _put(self._built, number, None)
        return number

    def drop(self, number: int) -> None:
        if self._inputs.drop(number):
            self.asks.drop(self._asks_of[number])

    def of(self, numbers: Rows, amounts: AmountTable) -> tuple[Rows, tuple[PodClass, ...]]:
        """Return the index of each row's class, and the classes, for rows with these numbers.

        The requests of the classes have the columns of `amounts`.
        """
        renumbered, used = renumber_by_first_use(numbers, len(self._inputs))
        return renumbered, self._frozen(used.tolist(), amounts)

    def _frozen(self, numbers: list[int], amounts: AmountTable) -> tuple[PodClass, ...]:
        if self._built_for != amounts.resources:
            self._built, self._built_for = [None] * len(self._built), amounts.resources
        built = self._built
        for number in numbers:
            if built[number] is None:
                built[number] = self._class(number, amounts)
        return tuple(map(built.__getitem__, numbers))  # type: ignore[arg-type]

    def _class(self, number: int, amounts: AmountTable) -> PodClass:
        inputs = self._inputs.value(number)
        return PodClass(
            inputs.namespace,
            inputs.labels,
            inputs.constraints,
            inputs.affinity,
            inputs.volumes,
            amounts.of_new_pod(inputs.asks),
        )


def _put(values: list[T], number: int, value: T) -> None:
    """Set the value of a number; a new number is the next one of the list."""
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
        """The requests of running pods."""
        self.owners: PodOwners = InternedValues()
        self._templates: InternedValues[_PartIdentities] = InternedValues()
        self._rows = np.zeros(_FIRST_ROWS, dtype=_ROW)

    def take(self, pod: PodRecord) -> int:
        """Count one more pod of its template, and return the template's number."""
        known = self._templates.version
        number = self._templates.take(
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
        if self._templates.version != known:
            self._write(number, pod)
        return number

    def drop(self, number: int) -> None:
        """Count one pod fewer of that template."""
        if self._templates.drop(number):
            pod_class, amount, owner, _ = self._rows[number].item()
            self.classes.drop(pod_class)
            self.amounts.drop(amount)
            if owner != NO_ROW:
                self.owners.drop(owner)

    def rows(self) -> npt.NDArray[np.void]:
        """Return `pod_class`, `amount`, `owner` and `priority` by number. Read-only."""
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
