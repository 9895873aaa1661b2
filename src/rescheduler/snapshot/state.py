"""The cluster as it is known now: takes single changes, in any order, and gives frozen snapshots.

Changes are cheap and keep no more than the record and its numbers; `freeze` puts everything together. Two
states that hold the same records give the same snapshot, whatever happened before.
"""

from collections.abc import Iterable, Mapping

from rescheduler.model.budgets import BudgetRecord
from rescheduler.model.migrations import Migration
from rescheduler.model.nodes import NodeRecord
from rescheduler.model.pods import PodRecord
from rescheduler.model.storage_objects import StorageRecord
from rescheduler.model.workloads import WorkloadRecord
from rescheduler.snapshot.amounts import AmountTable, extended_names
from rescheduler.snapshot.assumptions import pods_on_unknown_nodes
from rescheduler.snapshot.freezing import node_table, pod_table
from rescheduler.snapshot.moves import moves_of
from rescheduler.snapshot.node_rows import NodeRows
from rescheduler.snapshot.ownership import Ownership
from rescheduler.snapshot.pod_rows import PodRows
from rescheduler.snapshot.shelf import Shelf
from rescheduler.snapshot.snapshot import Snapshot
from rescheduler.snapshot.storage_shelves import StorageShelves
from rescheduler.usage.readings import UsageByName

__all__ = ["ClusterState"]


class ClusterState:
    """`apply_…` adds or replaces by key, `remove_…` takes away; removing what isn't there does nothing."""

    def __init__(self) -> None:
        self._pods = PodRows()
        self._nodes = NodeRows()
        self._workloads: Shelf[WorkloadRecord] = Shelf()
        self._budgets: Shelf[BudgetRecord] = Shelf()
        self._namespaces: Shelf[Mapping[str, str]] = Shelf()
        self._migrations: Shelf[Migration] = Shelf()
        self._by_uid: Mapping[str, WorkloadRecord] | None = None
        self._ownership = Ownership()
        self._amounts = AmountTable(set())
        self._storage = StorageShelves()

    def apply_pod(self, pod: PodRecord) -> None:
        self._pods.put(pod)

    def remove_pod(self, key: str) -> None:
        self._pods.remove(key)

    def apply_node(self, node: NodeRecord) -> None:
        self._nodes.nodes.put(node.name, node)

    def remove_node(self, name: str) -> None:
        """Its pods stay as they are: on a node that isn't known."""
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

    def apply_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        self._namespaces.put(name, labels)

    def remove_namespace(self, name: str) -> None:
        self._namespaces.remove(name)

    def apply_migration(self, migration: Migration) -> None:
        self._migrations.put(migration.key, migration)

    def remove_migration(self, key: str) -> None:
        self._migrations.remove(key)

    def apply_usage(self, pods: UsageByName) -> None:
        """What pods use, by key: these readings replace all earlier ones; other pods are not measured."""
        self._pods.measure(pods)

    def apply_storage(self, record: StorageRecord) -> None:
        self._storage.put(record)

    def remove_storage(self, kind: type[StorageRecord], key: str) -> None:
        self._storage.remove(kind, key)

    def freeze(self, now_s: float, *, staleness_s: float = 0.0, assumptions: Iterable[str] = ()) -> Snapshot:
        """`assumptions` are those that the source of the records made; ours are added."""
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
        moves = moves_of(self._migrations.frozen().values())
        return Snapshot(
            taken_at_s=now_s,
            resources=amounts.resources,
            nodes=node_table(nodes, pods),
            pods=pods,
            classes=classes,
            workloads=workloads,
            controllers=controllers,
            budgets=tuple(self._budgets.frozen().values()),
            namespaces=self._namespaces.frozen(),
            storage=self._storage.frozen(),
            recent_moves=moves.recent,
            moves_in_vain=moves.in_vain,
            moving=moves.moving,
            failed_on=moves.failed_on,
            left_failing=moves.left_failing,
            staleness_s=staleness_s,
            assumptions=(*assumptions, *pods_on_unknown_nodes(pods)),
        )

    def _amount_table(self) -> AmountTable:
        """With a column for every resource that a node has or a pod asks for, however little."""
        names = extended_names(node.allocatable for node in self._nodes.nodes.frozen().values())
        names |= extended_names(self._pods.templates.amounts.values())
        names |= extended_names(self._pods.templates.classes.asks.values())
        if names != self._amounts.extended:
            self._amounts = AmountTable(names)
        return self._amounts

    def _controllers(self) -> Mapping[str, WorkloadRecord]:
        """By uid."""
        if self._by_uid is None:
            found = self._workloads.frozen().values()
            self._by_uid = {record.uid: record for record in found if record.uid}
        return self._by_uid
