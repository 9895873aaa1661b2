"""Hold the current state of a cluster: take changes of single objects, in any order, and make snapshots.

A change only stores the record and its numbers; `freeze` puts everything together. Two states with the same
records make the same snapshot, whatever happened before.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from rescheduler.api.podmigration import (
    COPY_FAILING,
    Migration,
    MigrationPhase,
    decode_migration,
    traits_of,
)
from rescheduler.cluster.budget_record import BudgetRecord, decode_budget
from rescheduler.cluster.node_autoscalers import AutoscalerSigns
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.object_meta import Object, PartialObject, decode_object
from rescheduler.cluster.pod_classes import WorkloadResolver
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.snapshot import (
    NO_ROW,
    AmountTable,
    Flags,
    MoveRecord,
    PodTable,
    Snapshot,
    extended_resource_names,
)
from rescheduler.cluster.snapshot_tables import (
    NodeColumns,
    NodeRows,
    PodRows,
    RecordStore,
    counts_on_node,
    node_table,
    pod_table,
)
from rescheduler.cluster.storage_decoders import STORAGE_DECODERS, StorageRecord
from rescheduler.cluster.storage_records import (
    AttachmentRecord,
    CapacityRecord,
    ClaimRecord,
    CsiDriverRecord,
    CsiNodeRecord,
    Storage,
    StorageClassRecord,
    VolumeRecord,
)
from rescheduler.cluster.trusted_usage import metric_amounts
from rescheduler.cluster.usage_readings import MetricReadings, UsageByName
from rescheduler.cluster.workload_record import WORKLOAD_KINDS, WorkloadRecord, decode_workload

__all__ = [
    "APPLIERS",
    "ClusterState",
    "MigrationHistory",
    "apply_object",
    "migration_history",
    "observed_pod_failures",
    "pods_on_unknown_nodes",
]


class MigrationHistory(NamedTuple):
    """Facts about pods from migrations, by the uid of the pod and of its successor."""

    recent: Mapping[str, float]
    """When each pod was last moved. A failed migration counts as well, because an immediate retry would
    probably fail, too."""
    failed: Mapping[str, float]
    """When a move of each pod last failed."""
    moving: frozenset[str]
    failed_on: Mapping[str, tuple[str, ...]]
    """Nodes on which a copy of the pod could not run, sorted."""
    left_after_failure: Mapping[str, tuple[str, ...]]
    """Nodes from which a migration has moved the pod because it failed there, sorted."""
    records: tuple[MoveRecord, ...] = ()
    """The moves that have started or wait, by key."""


def migration_history(migrations: Iterable[Migration]) -> MigrationHistory:
    recent: dict[str, float] = {}
    failed: dict[str, float] = {}
    moving: set[str] = set()
    failed_on: dict[str, set[str]] = {}
    left_after_failure: dict[str, set[str]] = {}
    records: list[MoveRecord] = []
    for migration in migrations:
        if not migration.is_finished or migration.status.started_at is not None:
            records.append(_move_record(migration))
        for uid, node in observed_pod_failures(migration):
            left_after_failure.setdefault(uid, set()).add(node)
        if migration.is_finished and migration.status.failure == COPY_FAILING and migration.target_node:
            failed_on.setdefault(migration.spec.pod.uid, set()).add(migration.target_node)
        finished = migration.status.finished_at
        if not migration.is_finished:
            moving.update(_pods_of(migration))
        elif finished is not None:
            for uid in _pods_of(migration):
                recent[uid] = max(finished.timestamp(), recent.get(uid, 0.0))
                if migration.status.phase is MigrationPhase.FAILED:
                    failed[uid] = max(finished.timestamp(), failed.get(uid, 0.0))
    return MigrationHistory(
        dict(sorted(recent.items())),
        dict(sorted(failed.items())),
        frozenset(moving),
        {uid: tuple(sorted(nodes)) for uid, nodes in sorted(failed_on.items())},
        {uid: tuple(sorted(nodes)) for uid, nodes in sorted(left_after_failure.items())},
        tuple(sorted(records)),
    )


def _move_record(migration: Migration) -> MoveRecord:
    status = migration.status
    controller = status.workload or status.owner
    return MoveRecord(
        migration=migration.key,
        pod=migration.pod_key,
        source=migration.spec.source_node,
        controller="" if controller is None else controller.uid,
        started_s=None if status.started_at is None else status.started_at.timestamp(),
    )


def observed_pod_failures(migration: Migration) -> Iterator[tuple[str, str]]:
    """Yield the uids of pods, each with a node on which this migration saw it fail."""
    status = migration.status
    if not traits_of(migration.spec.strategy).recovers or status.started_at is None:
        return
    yield migration.spec.pod.uid, migration.spec.source_node
    if status.failure == COPY_FAILING and status.target_pod is not None:
        yield status.target_pod.uid, migration.target_node


def _pods_of(migration: Migration) -> Iterator[str]:
    yield migration.spec.pod.uid
    if migration.status.target_pod is not None:
        yield migration.status.target_pod.uid


_NAMED = 3


def pods_on_unknown_nodes(pods: PodTable) -> Iterator[str]:
    unplaced = np.flatnonzero(pods.node == NO_ROW).tolist()
    lost = [pod for row in unplaced if counts_on_node(pod := pods.records[row])]
    if lost:
        named = ", ".join(f"{pod.key} on {pod.node}" for pod in lost[:_NAMED])
        more = ", …" if len(lost) > _NAMED else ""
        subject = "1 pod is" if len(lost) == 1 else f"{len(lost)} pods are"
        yield f"{subject} ignored because their nodes don't exist: {named}{more}"


_SETTLING_S = 600.0
"""How long the value of a node may include a pod that has left: the time of a move and of a query."""


def _with_metrics(
    metrics: tuple[MetricReadings, ...],
    nodes: NodeColumns,
    pods: PodTable,
    moves: MigrationHistory,
    now_s: float,
) -> tuple[NodeColumns, PodTable, tuple[str, ...]]:
    """Return the tables with custom metrics as their last columns, and notes on what was left out."""
    allocatable, load = nodes.allocatable.copy(), pods.load.copy()
    settling = _settling_nodes(moves, nodes, pods, now_s)
    notes: list[str] = []
    for column, readings in enumerate(metrics, allocatable.shape[1] - len(metrics)):
        found = metric_amounts(readings, [node.name for node in nodes.records], pods, settling)
        allocatable[:, column], load[:, column] = found.capacity, found.load
        notes += found.notes
    for table in (allocatable, load):
        table.setflags(write=False)
    return replace(nodes, allocatable=allocatable), replace(pods, load=load), tuple(notes)


def _settling_nodes(moves: MigrationHistory, nodes: NodeColumns, pods: PodTable, now_s: float) -> Flags:
    """Return [node]: whether a recent move took a pod from the node or to it."""
    found = np.zeros(len(nodes.records) + 1, np.bool_)  # the last entry is for pods without a node
    earliest_s = now_s - _SETTLING_S
    for move in moves.records:
        if move.started_s is not None and move.started_s >= earliest_s:
            found[nodes.row.get(move.source, NO_ROW)] = True
    moved = {uid for uid, at_s in moves.recent.items() if at_s >= earliest_s} | moves.moving
    if moved:
        found[[pods.node[row] for row, pod in enumerate(pods.records) if pod.uid in moved]] = True
    return found[:-1]


_STORAGE_FIELDS: dict[type[StorageRecord], str] = {
    ClaimRecord: "claims",
    VolumeRecord: "volumes",
    StorageClassRecord: "classes",
    CsiNodeRecord: "csi_nodes",
    CsiDriverRecord: "csi_drivers",
    CapacityRecord: "capacities",
    AttachmentRecord: "attachments",
}


class _StorageStore:
    def __init__(self) -> None:
        self._stores: dict[type[StorageRecord], RecordStore[Any]] = {
            kind: RecordStore() for kind in _STORAGE_FIELDS
        }

    def put(self, record: StorageRecord) -> None:
        self._stores[type(record)].put(record.key, record)

    def remove(self, kind: type[StorageRecord], key: str) -> None:
        self._stores[kind].remove(key)

    def frozen(self) -> Storage:
        return Storage(**{name: self._stores[kind].frozen() for kind, name in _STORAGE_FIELDS.items()})


class ClusterState:
    """The records of all objects. `apply_…` adds or replaces by key; `remove_…` removes, and ignores unknown
    keys."""

    def __init__(self) -> None:
        self._pods = PodRows()
        self._nodes = NodeRows()
        self._workloads: RecordStore[WorkloadRecord] = RecordStore()
        self._budgets: RecordStore[BudgetRecord] = RecordStore()
        self._namespaces: RecordStore[Mapping[str, str]] = RecordStore()
        self._namespace_annotations: RecordStore[Mapping[str, str]] = RecordStore()
        self._migrations: RecordStore[Migration] = RecordStore()
        self._by_uid: Mapping[str, WorkloadRecord] | None = None
        self._ownership = WorkloadResolver()
        self._amounts = AmountTable(set())
        self._storage = _StorageStore()
        self._autoscaler_signs = AutoscalerSigns()
        self._metrics: tuple[MetricReadings, ...] = ()

    def apply_pod(self, pod: PodRecord) -> None:
        self._pods.put(pod)

    def apply_pods(self, pods: Sequence[PodRecord]) -> None:
        self._pods.put_all(pods)

    def remove_pod(self, key: str) -> None:
        self._pods.remove(key)

    def apply_node(self, node: NodeRecord) -> None:
        self._nodes.nodes.put(node.name, node)

    def remove_node(self, name: str) -> None:
        """Remove a node; its pods stay, on an unknown node."""
        self._nodes.nodes.remove(name)

    def apply_workload(self, workload: WorkloadRecord) -> None:
        self._workloads.put(f"{workload.kind} {workload.key}", workload)
        self._by_uid = None

    def remove_workload(self, kind: str, key: str) -> None:
        self._workloads.remove(f"{kind} {key}")
        self._by_uid = None

    def apply_budget(self, budget: BudgetRecord) -> None:
        self._budgets.put(budget.key, budget)

    def remove_budget(self, key: str) -> None:
        self._budgets.remove(key)

    def apply_namespace(
        self, name: str, labels: Mapping[str, str], annotations: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._namespaces.put(name, labels)
        if annotations:
            self._namespace_annotations.put(name, annotations)
        else:
            self._namespace_annotations.remove(name)

    def remove_namespace(self, name: str) -> None:
        self._namespaces.remove(name)
        self._namespace_annotations.remove(name)

    def apply_migration(self, migration: Migration) -> None:
        self._migrations.put(migration.key, migration)

    def remove_migration(self, key: str) -> None:
        self._migrations.remove(key)

    def apply_usage(self, pods: UsageByName) -> None:
        """Set the usage of pods, by key. It replaces all earlier readings; other pods are not measured."""
        self._pods.measure(pods)

    def apply_custom_metrics(self, metrics: tuple[MetricReadings, ...]) -> None:
        """Set the values of custom metrics, which replace all earlier ones."""
        self._metrics = metrics

    def apply_autoscaler_signs(self, signs: AutoscalerSigns) -> None:
        self._autoscaler_signs = signs

    def apply_storage(self, record: StorageRecord) -> None:
        self._storage.put(record)

    def remove_storage(self, kind: type[StorageRecord], key: str) -> None:
        self._storage.remove(kind, key)

    def freeze(self, now_s: float, *, staleness_s: float = 0.0, assumptions: Iterable[str] = ()) -> Snapshot:
        """Return a snapshot; `assumptions` are those of the source of the records; ours are added."""
        rows, templates = self._pods, self._pods.templates
        numbers = rows.gathered()
        shared = templates.rows().take(numbers["template"])
        amounts = self._amount_table()
        nodes = self._nodes.columns(amounts)
        controllers = self._controllers()
        workload, workloads = self._ownership.of(
            templates.owners, shared["owner"], controllers, self._workloads.version
        )
        pod_class, classes = templates.classes.of(shared["pod_class"], amounts)
        pods = pod_table(rows, numbers, shared, nodes.row, amounts, pod_class, workload)
        moves = migration_history(self._migrations.frozen().values())
        notes: tuple[str, ...] = ()
        if self._metrics:
            nodes, pods, notes = _with_metrics(self._metrics, nodes, pods, moves, now_s)
        return Snapshot(
            taken_at_s=now_s,
            resources=amounts.resources,
            nodes=node_table(nodes, pods, len(amounts.metrics)),
            pods=pods,
            classes=classes,
            workloads=workloads,
            controllers=controllers,
            budgets=tuple(self._budgets.frozen().values()),
            namespaces=self._namespaces.frozen(),
            storage=self._storage.frozen(),
            recent_moves=moves.recent,
            failed_moves=moves.failed,
            moving=moves.moving,
            failed_on=moves.failed_on,
            left_after_failure=moves.left_after_failure,
            move_records=moves.records,
            namespace_annotations=self._namespace_annotations.frozen(),
            staleness_s=staleness_s,
            assumptions=(*assumptions, *pods_on_unknown_nodes(pods), *notes),
            autoscaler_signs=self._autoscaler_signs,
        )

    def _amount_table(self) -> AmountTable:
        """Return a table with a column for every resource that a node has or a pod requests."""
        names = extended_resource_names(node.allocatable for node in self._nodes.nodes.frozen().values())
        names |= extended_resource_names(self._pods.templates.amounts.values())
        names |= extended_resource_names(self._pods.templates.classes.asks.values())
        metrics = tuple(each.metric.name for each in self._metrics)
        if names != self._amounts.extended or metrics != self._amounts.metrics:
            self._amounts = AmountTable(names, metrics)
        return self._amounts

    def _controllers(self) -> Mapping[str, WorkloadRecord]:
        """Return the controllers by uid."""
        if self._by_uid is None:
            found = self._workloads.frozen().values()
            self._by_uid = {record.uid: record for record in found if record.uid}
        return self._by_uid


def apply_object(state: ClusterState, kind: str, item: Object) -> None:
    """Apply an object of a kind of `APPLIERS`. Raise `UnreadableObject` and `UnreadableMigration`."""
    APPLIERS[kind](state, item)


def _workload(kind: str) -> Callable[[ClusterState, Object], None]:
    return lambda state, item: state.apply_workload(decode_workload(item, kind))


def _storage(kind: str) -> Callable[[ClusterState, Object], None]:
    record_of = STORAGE_DECODERS[kind]
    return lambda state, item: state.apply_storage(record_of(item))


def _namespace(state: ClusterState, item: Object) -> None:
    meta = decode_object("Namespace", item, PartialObject).metadata
    state.apply_namespace(meta.name, meta.labels, meta.kept_annotations)


APPLIERS: Mapping[str, Callable[[ClusterState, Object], None]] = {
    **{kind: _workload(kind) for kind in WORKLOAD_KINDS},
    **{kind: _storage(kind) for kind in STORAGE_DECODERS},
    "Namespace": _namespace,
    "PodDisruptionBudget": lambda state, item: state.apply_budget(decode_budget(item)),
    "PodMigration": lambda state, item: state.apply_migration(decode_migration(item)),
}
"""The functions that apply an object, by its kind."""
