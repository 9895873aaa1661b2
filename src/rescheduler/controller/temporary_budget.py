"""The budget that protects a workload without one while its pods are evicted."""

import msgspec

from rescheduler.kube.resources import POD_DISRUPTION_BUDGETS, Object
from rescheduler.migrations.copying import migration_reference
from rescheduler.migrations.marks import ID, label_value
from rescheduler.migrations.scene import Scene
from rescheduler.model.constraints import LabelSelector

__all__ = ["temporary_budget"]


def temporary_budget(scene: Scene, name: str) -> Object:
    """Owned by the migration: whatever becomes of us, the budget does not outlive it."""
    migration, workload = scene.migration, scene.deployment or scene.owner
    assert workload is not None
    return {
        "apiVersion": POD_DISRUPTION_BUDGETS.api_version,
        "kind": POD_DISRUPTION_BUDGETS.kind,
        "metadata": {
            "namespace": migration.namespace,
            "name": name,
            "labels": {ID: label_value(migration.name)},
            "ownerReferences": [migration_reference(migration, controller=True)],
        },
        "spec": {"maxUnavailable": 1, "selector": _written(workload.selector)},
    }


def _written(selector: LabelSelector | None) -> Object:
    if selector is None:
        return {}
    written: Object = {"matchLabels": dict(selector.match_labels)}
    if selector.match_expressions:
        written["matchExpressions"] = msgspec.to_builtins(selector.match_expressions)
    return written
