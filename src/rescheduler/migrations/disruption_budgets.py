"""Protect a workload without a budget during an eviction, and repair budgets that failed to sync.

The disruption controller discovers a new kind about every half minute. A budget that it syncs before it knows
PodMigration allows no disruption, and is not synced again until one of its pods changes. So the migration
changes an annotation of the copy. The annotation says how often and when that happened, so that another
process that continues the migration keeps the same intervals.
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


def sync_request(observation: Observation) -> Perform | Wait | None:
    """Return what is to be done about a budget whose sync failed; None if there is none."""
    budget = next((each for each in observation.budgets if each.sync_failure), None)
    if budget is None or not observation.target_stands:
        return None
    count, due_at = _sync_requests_made(observation)
    if observation.now >= due_at:
        value = f"{count + 1} {observation.now.strftime(_TIMESTAMP_FORMAT)}"
        return Perform(RequestBudgetSync(observation.target_reference, value))
    report = ConditionUpdate(ConditionType.BUDGET_ALLOWS, holds=False, reason="SyncFailed")
    return Wait(
        min(due_at, observation.now + time_left(observation)), _sync_message(budget, count), (report,)
    )


def _sync_requests_made(observation: Observation) -> tuple[int, datetime]:
    """How many were made, and when the next one is due."""
    assert observation.target is not None
    count, _, written = observation.target.annotations.get(SYNC_REQUESTED_ANNOTATION, "").partition(" ")
    try:
        last = datetime.strptime(written, _TIMESTAMP_FORMAT).replace(tzinfo=UTC)
        made = max(0, min(int(count), 100))
    except ValueError:
        return 0, observation.now
    # A time that lies ahead is of another clock, or made up. Whole seconds, rounded down.
    last = min(last, observation.now - timedelta(seconds=1)) + timedelta(seconds=1)
    return made, last + min(_MIN_SYNC_INTERVAL * (1 << min(made, 10)), _MAX_SYNC_INTERVAL)


def _sync_message(budget: BudgetRecord, count: int) -> str:
    return (
        f"the disruption controller could not sync budget {budget.name} ({budget.sync_failure}); "
        f"requested {count} syncs so far"
    )


def temporary_budget_manifest(observation: Observation, name: str) -> Object:
    """Owned by the migration: whatever becomes of us, the budget does not outlive it."""
    migration, workload = observation.migration, observation.deployment or observation.owner
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
