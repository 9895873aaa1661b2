"""A budget whose sync failed: the copy is changed, so that it is synced again; not in a loop."""

import itertools
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from rescheduler.migrations import effects, marks
from rescheduler.migrations.advance import look
from rescheduler.migrations.budget_sync import SYNC_REQUESTED
from rescheduler.migrations.scene import Do, Wait
from rescheduler.migrations.steps import Step
from rescheduler.model.budgets import BudgetRecord, budget_of
from rescheduler.model.constraints import LabelSelector
from rescheduler.model.migrations import ConditionType
from tests.unit.migrations.scenes import NOW, copy, migration, pod, scene

WHY = 'no matches for kind "PodMigration" in version "rescheduler.dev/v1alpha1"'
BUDGET = BudgetRecord(
    "shop/budget",
    "shop",
    "b",
    selector=LabelSelector(match_labels=(("app", "web"),)),
    disruptions_allowed=0,
    sync_failure=WHY,
)


def seen(at_s=0, asked="", step=Step.EVICTING, **more):
    target = copy()
    told = {marks.ORIGINAL_POD: "source-uid"} | ({SYNC_REQUESTED: asked} if asked else {})
    now = NOW + timedelta(seconds=at_s)
    return scene(
        migration(step, status={"eviction_requested_at": now}),
        target=msgspec.structs.replace(target, marks=told),
        budgets=(BUDGET,),
        now=now,
        **more,
    )


def test_a_budget_tells_that_its_sync_failed():
    condition = {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": WHY}
    item = {"metadata": {"namespace": "shop", "name": "budget"}, "status": {"conditions": [condition]}}
    assert budget_of(item).sync_failure == WHY
    item["status"]["conditions"] = [condition | {"reason": "InsufficientPods"}]
    assert budget_of(item).sync_failure == ""


def test_the_copy_is_changed_at_once_and_then_after_pauses_that_double():
    """A minute at most, for as long as the attempt lasts."""
    asked, at_s, moments = "", 0, []
    while at_s < 300:
        sight = look(seen(at_s, asked))
        if isinstance(sight, Do):
            assert isinstance(sight.effect, effects.RequestBudgetSync)
            moments.append(at_s)
            asked = sight.effect.value
        else:
            assert isinstance(sight, Wait)
            assert WHY in sight.message
            assert [(each.kind, each.reason) for each in sight.reports] == [
                (ConditionType.BUDGET_ALLOWS, "SyncFailed")
            ]
            at_s = (sight.until - NOW).total_seconds()
    pauses = [later - earlier for earlier, later in itertools.pairwise(moments)]
    assert moments[0] == 0
    assert pauses == sorted(pauses)
    assert pauses[:3] == [5, 9, 17]
    assert pauses[-1] == 61


def test_what_somebody_else_wrote_there_is_no_reason_to_stop_asking():
    for asked in ("nonsense", "99999999999 2026-01-01T00:00:00Z", "3 9999-01-01T00:00:00Z"):
        later = look(seen(120, asked))
        assert isinstance(later, Do | Wait)
        if isinstance(later, Wait):
            assert later.until <= NOW + timedelta(seconds=181)


def test_a_budget_that_was_synced_decides_as_always():
    synced = msgspec.structs.replace(BUDGET, sync_failure="", disruptions_allowed=1)
    assert isinstance(look(replace(seen(), budgets=(synced,))).effect, effects.EvictSource)


def test_a_source_that_is_not_ready_may_go_under_any_budget():
    assert isinstance(look(seen(source=pod(marked=True, ready=False))).effect, effects.EvictSource)


def test_on_the_way_back_it_is_asked_for_too_because_the_copy_goes_within_that_budget():
    assert isinstance(look(seen(step=Step.ROLLING_BACK)).effect, effects.RequestBudgetSync)
    asked = "1 2026-01-01T12:00:00Z"
    assert isinstance(look(seen(1, asked, step=Step.ROLLING_BACK)).effect, effects.DeleteCopy)


@pytest.mark.parametrize(
    "written", ["-5 2026-01-01T12:00:00Z", "-1 9999-12-31T23:59:59Z", "1 9999-12-31T23:59:59Z", "9 x", "-"]
)
def test_what_tenants_write_there_holds_up_nobody(written):
    assert isinstance(look(seen(30, written)), Do | Wait)
    assert isinstance(look(seen(3000, written)), Do), "the attempt is over, and called off"
