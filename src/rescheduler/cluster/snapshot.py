"""A frozen view of the cluster: nodes and pods are rows, their numbers are columns.

Rows are sorted by name or key, so that a cluster gives the same snapshot in whichever order its changes
arrived. Snapshots are never modified; code that tries out positions uses a `Placement`.

Shared values are stored once and referred to by number; amounts of resources are rows of integers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from rescheduler.cluster.budget_record import BudgetRecord
from rescheduler.cluster.node_autoscalers import (
    NO_SIGNS,
    AutoscalerSigns,
    NodeAutoscalers,
    detect_autoscalers,
)
from rescheduler.cluster.node_record import (
    NodeEvacuation,
    NodeRecord,
    evacuation_of,
    in_maintenance,
    is_marked_by_autoscaler,
    leaving_because,
)
from rescheduler.cluster.pod_constraints import Affinity, SchedulingConstraints
from rescheduler.cluster.pod_record import PodRecord, PodVolume
from rescheduler.cluster.resource_amounts import Resources
from rescheduler.cluster.storage_records import Storage
from rescheduler.cluster.workload_record import WorkloadRecord
from rescheduler.config.policy import Policy

__all__ = [
    "CPU",
    "EPHEMERAL",
    "MANDATORY_RESOURCES",
    "MAX_AMOUNT",
    "MEMORY",
    "NO_ROW",
    "PODS",
    "AmountTable",
    "Flags",
    "Floats",
    "Indices",
    "Ints",
    "MoveRecord",
    "NodeTable",
    "PodClass",
    "PodTable",
    "PodsByWorkload",
    "Rows",
    "Snapshot",
    "Workload",
    "closed_because",
    "evacuations",
    "extended_resource_names",
    "is_selected_namespace",
    "is_selected_node",
    "map_in_slices",
    "nodes_being_emptied",
    "open_nodes",
    "profile_of",
    "slices",
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
"""The row number that means no node, or no workload."""


class PodClass(msgspec.Struct, frozen=True, eq=False, gc=False):
    """All properties of a pod that the scheduler considers: pods of one class are equal to it.

    There may be tens of thousands: pods of a StatefulSet differ in labels and claims, a DaemonSet's in nodes.
    """

    namespace: str
    labels: Mapping[str, str]
    constraints: SchedulingConstraints
    affinity: Affinity
    """The affinity without the exclusions that rescheduler added to the pod."""
    volumes: tuple[PodVolume, ...]
    asks: Ints
    """The requests of a new copy, by resource column (`PODS`: 1)."""


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """The topmost known controller above a pod: the Deployment, not its ReplicaSet."""

    kind: str
    key: str
    """`namespace/name`."""
    uid: str
    record: WorkloadRecord | None
    """None if it was not read (a kind we don't read, or a saved cluster without workloads)."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeTable:
    records: tuple[NodeRecord, ...]
    """Sorted by name."""
    row: Mapping[str, int]
    """The rows by name."""
    allocatable: Ints
    """[node, resource]"""
    requested: Ints
    """[node, resource]: the sum over the pods that count there."""
    load: Ints
    """[node, resource]: the sum of the pods' loads."""
    ready: Flags
    schedulable: Flags
    """Whether each node is not cordoned."""
    metrics: int = 0
    """How many of the last columns are custom metrics, which pods don't request: allocatable is the capacity,
    or 0 where the metric is not known."""

    def __len__(self) -> int:
        return len(self.records)


@dataclass(frozen=True, slots=True, eq=False)
class PodTable:
    records: tuple[PodRecord, ...]
    """Sorted by key."""
    row: Mapping[str, int]
    """The rows by key; lookups are slower than in a dict."""
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
        """Return the rows of the pods that count on that node, in order of their keys."""
        return self.by_node[self.first_on[node] : self.first_on[node + 1]]


class MoveRecord(NamedTuple):
    """A migration that has started, or waits to start."""

    migration: str
    """`namespace/name`."""
    pod: str
    """`namespace/name`."""
    source: str
    """Node that the pod leaves."""
    controller: str
    """Uid of its Deployment or other controller; empty if there is none, or none is recorded yet."""
    started_s: float | None
    """When its last attempt started, in seconds since 1970; None if it waits."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Snapshot:
    taken_at_s: float
    resources: tuple[str, ...]
    """Names of the resource columns: cpu (thousandths), memory, ephemeral-storage, pods, then the rest, and
    custom metrics last."""
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
    """When a pod was last moved, successfully or not, in seconds since 1970, by uid: from finished
    migrations. Successors are included."""
    failed_moves: Mapping[str, float]
    """When a move of a pod last failed, with the same times and keys as `recent_moves`."""
    moving: frozenset[str]
    """Uids of pods that a migration is moving now."""
    failed_on: Mapping[str, tuple[str, ...]]
    """Nodes on which a copy of the pod could not run, by the pod's uid: from finished migrations."""
    left_after_failure: Mapping[str, tuple[str, ...]]
    """Nodes on which a pod failed, so that a migration moved it away, by its uid."""
    staleness_s: float
    """How long ago the oldest of its caches was known to be current."""
    assumptions: tuple[str, ...]
    """Assumptions that were made because the input is incomplete."""
    autoscaler_signs: AutoscalerSigns = NO_SIGNS
    """Signs of node autoscalers, apart from the nodes."""
    namespace_annotations: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Annotations by namespace, only those that matter."""
    move_records: tuple[MoveRecord, ...] = ()
    """All migrations on record that have started or wait, in the order of their keys."""

    def has_autoscaler_signs(self) -> bool:
        """Return whether there is any sign of a node autoscaler; most clusters have none."""
        return self.autoscaler_signs != NO_SIGNS or any(map(is_marked_by_autoscaler, self.nodes.records))

    def autoscalers(self) -> NodeAutoscalers:
        """Return the node autoscalers that were detected. This reads every node."""
        return detect_autoscalers(self.nodes.records, self.autoscaler_signs, self.taken_at_s)


class PodsByWorkload:
    """An index of the pods of each workload, including those that don't count on any node."""

    def __init__(self, snapshot: Snapshot) -> None:
        workload = snapshot.pods.workload
        self._rows = np.argsort(workload, kind="stable").astype(np.int32)
        self._first = np.searchsorted(workload, np.arange(len(snapshot.workloads) + 1), sorter=self._rows)

    def of(self, workload: int) -> Rows:
        """Return the rows of its pods, in order of their keys."""
        return self._rows[self._first[workload] : self._first[workload + 1]]


MANDATORY_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")
"""The first columns: always there, in this order."""

MAX_AMOUNT = 2**53
"""The largest plausible amount (9 PB, 9·10¹² cores); sums of amounts must stay within 64 bits."""


def extended_resource_names(amounts: Iterable[Resources | None]) -> set[str]:
    return {name for each in amounts if each is not None for name, _ in each.extended}


class AmountTable:
    """The amounts of all nodes or pods, for one set of columns."""

    def __init__(self, extended: set[str], metrics: tuple[str, ...] = ()) -> None:
        self.extended = extended
        self.metrics = metrics
        self.resources = (*MANDATORY_RESOURCES, *sorted(extended), *metrics)
        self._column = {name: column for column, name in enumerate(self.resources)}
        self._of_new_pods: dict[Resources, Ints] = {}

    def of_nodes(self, amounts: Sequence[Resources]) -> Ints:
        """Return the amounts as [node, resource]."""
        return self._rows(amounts)

    def of_pods(self, amounts: Sequence[Resources | None]) -> Ints:
        """Return [pod, resource]: each is one pod; None is for an unused row."""
        rows = self._rows([each or Resources() for each in amounts])
        rows[:, PODS] = 1
        return rows

    def of_new_pod(self, amounts: Resources) -> Ints:
        """Return [resource]; the same array for the same amounts."""
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


def open_nodes(snapshot: Snapshot, policy: Policy) -> Flags:
    """Return [node]: whether it is ready, and not cordoned, being emptied or about to be removed."""
    stays = np.fromiter((not leaving_because(node) for node in snapshot.nodes.records), np.bool_)
    return snapshot.nodes.ready & snapshot.nodes.schedulable & ~nodes_being_emptied(snapshot, policy) & stays


def evacuations(snapshot: Snapshot, policy: Policy) -> dict[str, NodeEvacuation]:
    """Return why nodes have to be emptied, by their names.

    If every node gives a signal, their pods have no target, and the signals are probably wrong: then no pod
    is evicted without a move.
    """
    now_s, signals = snapshot.taken_at_s, policy.evacuate_on
    found = {
        node.name: evacuation
        for node in (snapshot.nodes.records if signals else ())
        if (evacuation := evacuation_of(node, signals, now_s)) is not None
    }
    if len(found) == len(snapshot.nodes) > 1:
        return {name: replace(each, is_everywhere=True, deadline_s=None) for name, each in found.items()}
    return found


def nodes_being_emptied(snapshot: Snapshot, policy: Policy) -> Flags:
    """Return [node]: whether the node is in maintenance, or evacuated."""
    now_s, signals = snapshot.taken_at_s, policy.evacuate_on
    return np.fromiter(
        (
            in_maintenance(node) or (bool(signals) and evacuation_of(node, signals, now_s) is not None)
            for node in snapshot.nodes.records
        ),
        np.bool_,
    )


def is_selected_namespace(snapshot: Snapshot, policy: Policy, name: str) -> bool:
    """Return whether `namespaceSelector` matches the namespace; if its labels are not known, it does not."""
    if policy.namespace_selector.selects_everything:
        return True
    labels = snapshot.namespaces.get(name)
    return labels is not None and policy.namespace_selector.matches(labels)


def is_selected_node(snapshot: Snapshot, policy: Policy, name: str) -> bool:
    """Return whether `nodeSelector` matches the node; True for a node that does not exist."""
    row = snapshot.nodes.row.get(name)
    return row is None or policy.node_selector.matches(snapshot.nodes.records[row].labels)


def profile_of(snapshot: Snapshot, policy: Policy, namespace: str, node: str) -> Policy:
    """Return the policy for pods of that namespace on that node; that of the first profile if none selects
    them, so that its refusal is reported."""
    for each in policy.every_profile:
        if is_selected_namespace(snapshot, each, namespace) and is_selected_node(snapshot, each, node):
            return each
    return policy


def closed_because(snapshot: Snapshot, policy: Policy, node: int) -> str:
    """Return why a node is closed to pods, such as "is cordoned"; empty if it is open."""
    if not snapshot.nodes.ready[node]:
        return "is not Ready"
    if not snapshot.nodes.schedulable[node]:
        return "is cordoned"
    record = snapshot.nodes.records[node]
    if in_maintenance(record):
        return "is in maintenance"
    evacuation = evacuation_of(record, policy.evacuate_on, snapshot.taken_at_s)
    return f"is evacuated ({evacuation.reason})" if evacuation is not None else leaving_because(record)


S = TypeVar("S")
T = TypeVar("T")
_SLICE = 20_000


def slices(count: int) -> Iterator[slice]:
    """Yield slices of this number of values, so that other threads can run in between.

    A thread that calls C code for all pods of a large cluster at once blocks the event loop.
    """
    return (slice(start, start + _SLICE) for start in range(0, count, _SLICE))


def map_in_slices(function: Callable[[S], T], values: Sequence[S]) -> list[T]:
    """Return `list(map(function, values))`, and let other threads run in between."""
    found: list[T] = []
    for some in slices(len(values)):
        found += map(function, values[some])
    return found
