"""Budgets that the disruption controller could not compute, because it does not know PodMigration yet.

It discovers a new kind about every half a minute. A budget whose sync fails before that allows nothing, and
is not synced again until one of its pods changes. So the copy is changed: an annotation says how often that
was done and when, so that another process that goes on with the migration keeps to the same pauses.

The budget that protects a workload without one while its pods are evicted.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from rescheduler.api.podmigration import ConditionType
from rescheduler.api.well_known_names import SYNC_REQUESTED_ANNOTATION, label_value
from rescheduler.cluster.budget_record import BudgetRecord
from rescheduler.cluster.pod_constraints import LabelSelector
from rescheduler.kube.api_resources import POD_DISRUPTION_BUDGETS, Object
from rescheduler.migrations.copy_manifest import owner_reference_to
from rescheduler.migrations.effects import RequestBudgetSync
from rescheduler.migrations.interruptions import time_left
from rescheduler.migrations.labels_and_names import MIGRATION_ID_LABEL
from rescheduler.migrations.observation import ConditionUpdate, Observation, Perform, Wait

__all__ = [
    "sync_request",
    "temporary_budget_manifest",
]


_MIN_SYNC_INTERVAL: Final = timedelta(seconds=2)
_MAX_SYNC_INTERVAL: Final = timedelta(minutes=1)
_TIMESTAMP_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"


def sync_request(scene: Observation) -> Perform | Wait | None:
    """Return what is to be done about a budget whose sync failed; None if there is none."""
    budget = next((each for each in scene.budgets if each.sync_failure), None)
    if budget is None or not scene.target_stands:
        return None
    count, due_at = _sync_requests_made(scene)
    if scene.now >= due_at:
        value = f"{count + 1} {scene.now.strftime(_TIMESTAMP_FORMAT)}"
        return Perform(RequestBudgetSync(scene.target_reference, value))
    report = ConditionUpdate(ConditionType.BUDGET_ALLOWS, holds=False, reason="SyncFailed")
    return Wait(min(due_at, scene.now + time_left(scene)), _sync_message(budget, count), (report,))


def _sync_requests_made(scene: Observation) -> tuple[int, datetime]:
    """How many were made, and when the next one is due."""
    assert scene.target is not None
    count, _, written = scene.target.annotations.get(SYNC_REQUESTED_ANNOTATION, "").partition(" ")
    try:
        last = datetime.strptime(written, _TIMESTAMP_FORMAT).replace(tzinfo=UTC)
        made = max(0, min(int(count), 100))
    except ValueError:
        return 0, scene.now
    # A time that lies ahead is of another clock, or made up. Whole seconds, rounded down.
    last = min(last, scene.now - timedelta(seconds=1)) + timedelta(seconds=1)
    return made, last + min(_MIN_SYNC_INTERVAL * (1 << min(made, 10)), _MAX_SYNC_INTERVAL)


def _sync_message(budget: BudgetRecord, count: int) -> str:
    return (
        f"the disruption controller could not sync budget {budget.name} ({budget.sync_failure}); "
        f"asked it to sync again, {count} times so far"
    )


def temporary_budget_manifest(scene: Observation, name: str) -> Object:
    """Owned by the migration: whatever becomes of us, the budget does not outlive it."""
    migration, workload = scene.migration, scene.deployment or scene.owner
    assert workload is not None
    return {
        "apiVersion": POD_DISRUPTION_BUDGETS.api_version,
        "kind": POD_DISRUPTION_BUDGETS.kind,
        "metadata": {
            "namespace": migration.namespace,
            "name": name,
            "labels": {MIGRATION_ID_LABEL: label_value(migration.name)},
            "ownerReferences": [owner_reference_to(migration, controller=True)],
        },
        "spec": {"maxUnavailable": 1, "selector": _selector_manifest(workload.selector)},
    }


def _selector_manifest(selector: LabelSelector | None) -> Object:
    if selector is None:
        return {}
    written: Object = {"matchLabels": dict(selector.match_labels)}
    if selector.match_expressions:
        written["matchExpressions"] = msgspec.to_builtins(selector.match_expressions)
    return written
