"""Objects of every kind but pods and nodes, as plain dicts, into the state of the cluster."""

from collections.abc import Callable, Mapping

from rescheduler.model.budgets import budget_of
from rescheduler.model.migrations import migration_of
from rescheduler.model.objects import Form, Object, read
from rescheduler.model.storage_objects import STORAGE_READERS
from rescheduler.model.workloads import WORKLOAD_KINDS, workload_of
from rescheduler.snapshot.state import ClusterState

__all__ = ["OBJECT_KINDS", "apply_object"]


def apply_object(state: ClusterState, kind: str, item: Object) -> None:
    """`kind` must be one of `OBJECT_KINDS`. Raises `UnreadableObject` and `UnreadableMigration`."""
    _APPLY[kind](state, item)


def _workload(kind: str) -> Callable[[ClusterState, Object], None]:
    return lambda state, item: state.apply_workload(workload_of(item, kind))


def _storage(kind: str) -> Callable[[ClusterState, Object], None]:
    record_of = STORAGE_READERS[kind]
    return lambda state, item: state.apply_storage(record_of(item))


def _namespace(state: ClusterState, item: Object) -> None:
    meta = read("Namespace", item, Form).metadata
    state.apply_namespace(meta.name, meta.labels)


_APPLY: Mapping[str, Callable[[ClusterState, Object], None]] = {
    **{kind: _workload(kind) for kind in WORKLOAD_KINDS},
    **{kind: _storage(kind) for kind in STORAGE_READERS},
    "Namespace": _namespace,
    "PodDisruptionBudget": lambda state, item: state.apply_budget(budget_of(item)),
    "PodMigration": lambda state, item: state.apply_migration(migration_of(item)),
}

OBJECT_KINDS = frozenset(_APPLY)
"""What can be applied this way."""
