"""Budgets that the disruption controller could not compute, because it does not know PodMigration yet.

It discovers a new kind about every half a minute. A budget whose sync fails before that allows nothing, and
is not synced again until one of its pods changes. So the copy is changed: an annotation says how often that
was done and when, so that another process that goes on with the migration keeps to the same pauses.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from rescheduler.migrations.effects import RequestBudgetSync
from rescheduler.migrations.interference import deadline
from rescheduler.migrations.scene import Do, Report, Scene, Wait
from rescheduler.model.budgets import BudgetRecord
from rescheduler.model.migrations import ConditionType

__all__ = ["SYNC_REQUESTED", "sync_request"]

SYNC_REQUESTED: Final = "rescheduler.dev/budget-sync-requested"
"""Annotation of a copy: the number of requests and the time of the last, such as `2 2026-01-31T12:00:00Z`."""

_FIRST_PAUSE: Final = timedelta(seconds=2)
_LONGEST_PAUSE: Final = timedelta(minutes=1)
_FORM: Final = "%Y-%m-%dT%H:%M:%SZ"


def sync_request(scene: Scene) -> Do | Wait | None:
    """Return what is to be done about a budget whose sync failed; None if there is none."""
    budget = next((each for each in scene.budgets if each.sync_failure), None)
    if budget is None or not scene.target_stands:
        return None
    count, due_at = _requests(scene)
    if scene.now >= due_at:
        value = f"{count + 1} {scene.now.strftime(_FORM)}"
        return Do(RequestBudgetSync(scene.target_reference, value))
    report = Report(ConditionType.BUDGET_ALLOWS, holds=False, reason="SyncFailed")
    return Wait(min(due_at, scene.now + deadline(scene)), _words(budget, count), (report,))


def _requests(scene: Scene) -> tuple[int, datetime]:
    """How many were made, and when the next one is due."""
    assert scene.target is not None
    count, _, written = scene.target.marks.get(SYNC_REQUESTED, "").partition(" ")
    try:
        last = datetime.strptime(written, _FORM).replace(tzinfo=UTC)
        made = max(0, min(int(count), 100))
    except ValueError:
        return 0, scene.now
    # A time that lies ahead is of another clock, or made up. Whole seconds, rounded down.
    last = min(last, scene.now - timedelta(seconds=1)) + timedelta(seconds=1)
    return made, last + min(_FIRST_PAUSE * (1 << min(made, 10)), _LONGEST_PAUSE)


def _words(budget: BudgetRecord, count: int) -> str:
    return (
        f"the disruption controller could not sync budget {budget.name} ({budget.sync_failure}); "
        f"asked it to sync again, {count} times so far"
    )
