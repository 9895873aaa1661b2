"""A frozen view of the cluster: nodes and pods are rows, their numbers are columns.

Rows are sorted by name or key, so that a cluster gives the same snapshot in whichever order its changes
arrived. Snapshots are never modified; code that tries out positions uses a `Board`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from rescheduler.cluster.budget_record import BudgetRecord
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.pod_constraints import Affinity, SchedulingConstraints
from rescheduler.cluster.pod_record import PodRecord, PodVolume
from rescheduler.cluster.storage_records import Storage
from rescheduler.cluster.workload_record import WorkloadRecord

__all__ = [
    "CPU",
    "EPHEMERAL",
    "MEMORY",
    "NO_ROW",
    "PODS",
    "Flags",
    "Floats",
    "Indices",
    "Ints",
    "NodeTable",
    "PodClass",
    "PodTable",
    "PodsByWorkload",
    "Rows",
    "Snapshot",
    "Workload",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]
"""Row numbers as the tables store them."""
Indices = npt.NDArray[np.intp]
"""Row numbers as numpy returns them."""
Flags = npt.NDArray[np.bool_]

CPU, MEMORY, EPHEMERAL, PODS = range(4)
"""The first columns of every table of resources; extended resources follow, sorted by name."""

NO_ROW = -1
"""Row number of no node, no workload."""


class PodClass(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Everything the scheduler looks at in a pod; pods of one class are interchangeable to it.

    There may be tens of thousands: pods of a StatefulSet differ in labels and claims, a DaemonSet's in nodes.
    """

    namespace: str
    labels: Mapping[str, str]
    constraints: SchedulingConstraints
    affinity: Affinity
    """Without exclusions that we put into the pod ourselves."""
    volumes: tuple[PodVolume, ...]
    asks: Ints
    """What a new copy asks of a node, by resource column (`PODS`: 1)."""


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """The topmost controller that we know of above a pod: the Deployment, not its ReplicaSet."""

    kind: str
    key: str
    """`namespace/name`."""
    uid: str
    record: WorkloadRecord | None
    """None if the cluster did not show it (a kind we don't read, or a saved cluster without workloads)."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeTable:
    records: tuple[NodeRecord, ...]
    """Sorted by name."""
    row: Mapping[str, int]
    """By name."""
    allocatable: Ints
    """[node, resource]"""
    requested: Ints
    """[node, resource]: the sum over the pods that count there."""
    load: Ints
    """[node, resource]: the sum of the pods' loads."""
    ready: Flags
    schedulable: Flags
    """Not cordoned."""

    def __len__(self) -> int:
        return len(self.records)


@dataclass(frozen=True, slots=True, eq=False)
class PodTable:
    records: tuple[PodRecord, ...]
    """Sorted by key."""
    row: Mapping[str, int]
    """By key; a mapping for single questions, slower than a dict."""
    node: Rows
    """Row of the node it counts on; `NO_ROW` if unscheduled, finished, or its node is unknown."""
    requests: Ints
    """[pod, resource]: what it counts for on its node (`PODS`: 1)."""
    load: Ints
    """[pod, resource]: measured usage of cpu and memory where known, else the same as requests."""
    measured: Flags
    """Whether its load is measured."""
    priority: Rows
    workload: Rows
    """Index into `Snapshot.workloads`, or `NO_ROW`."""
    pod_class: Rows
    """Index into `Snapshot.classes`."""
    ready: Flags
    created_s: Ints
    by_node: Rows
    """Rows of all pods that count on a node, sorted by node, then key."""
    first_on: Rows
    """[node + 1]: the pods of node n are `by_node[first_on[n]:first_on[n + 1]]`."""

    def __len__(self) -> int:
        return len(self.records)

    def on(self, node: int) -> Rows:
        """Rows of the pods that count on that node, in order of their keys."""
        return self.by_node[self.first_on[node] : self.first_on[node + 1]]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Snapshot:
    taken_at_s: float
    resources: tuple[str, ...]
    """Names of the resource columns: cpu (thousandths), memory, ephemeral-storage, pods, then the rest."""
    nodes: NodeTable
    pods: PodTable
    classes: tuple[PodClass, ...]
    workloads: tuple[Workload, ...]
    controllers: Mapping[str, WorkloadRecord]
    """Every workload that was read, by uid: also ReplicaSets of Deployments."""
    budgets: tuple[BudgetRecord, ...]
    """Sorted by key."""
    namespaces: Mapping[str, Mapping[str, str]]
    """Labels by name."""
    storage: Storage
    recent_moves: Mapping[str, float]
    """When a pod was last moved, in vain or not, in seconds since 1970, by uid: from finished migrations.
    Successors are in here too."""
    failed_moves: Mapping[str, float]
    """When moving a pod last failed, likewise."""
    moving: frozenset[str]
    """Uids of pods that a migration is moving now."""
    failed_on: Mapping[str, tuple[str, ...]]
    """Nodes on which a copy of the pod could not run, by the pod's uid: from finished migrations."""
    left_after_failure: Mapping[str, tuple[str, ...]]
    """Nodes on which a pod failed, so that a migration moved it away, by its uid: from all migrations that
    were begun for that."""
    staleness_s: float
    """How long ago the oldest of the caches it was made from was known to be current."""
    assumptions: tuple[str, ...]
    """What was taken for granted because the input did not say, in words."""


class PodsByWorkload:
    """Find all pods of a workload, also those that don't count on any node."""

    def __init__(self, snapshot: Snapshot) -> None:
        workload = snapshot.pods.workload
        self._rows = np.argsort(workload, kind="stable").astype(np.int32)
        self._first = np.searchsorted(workload, np.arange(len(snapshot.workloads) + 1), sorter=self._rows)

    def of(self, workload: int) -> Rows:
        """Return the rows of its pods, in order of their keys."""
        return self._rows[self._first[workload] : self._first[workload + 1]]
