"""A budget whose sync failed: the copy is changed, so that it is synced again; not in a loop."""

import itertools
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from rescheduler.api.podmigration import ConditionType
from rescheduler.api.well_known_names import SYNC_REQUESTED_ANNOTATION
from rescheduler.cluster.budget_record import BudgetRecord, decode_budget
from rescheduler.cluster.pod_constraints import LabelSelector
from rescheduler.migrations import effects, labels_and_names
from rescheduler.migrations.observation import Perform, Wait
from rescheduler.migrations.state_machine import decide
from rescheduler.migrations.transition_table import MigrationStep
from tests.unit.migrations.observations import NOW, POLICY, copy, migration, observation, pod

WHY = 'no matches for kind "PodMigration" in version "rescheduler.dev/v1alpha1"'
BUDGET = BudgetRecord(
    "shop/budget",
    "shop",
    "b",
    selector=LabelSelector(match_labels=(("app", "web"),)),
    disruptions_allowed=0,
    sync_failure=WHY,
)


def seen(at_s=0, asked="", step=MigrationStep.EVICTING, **more):
    target = copy()
    reported = {labels_and_names.ORIGINAL_POD_ANNOTATION: "source-uid"} | (
        {SYNC_REQUESTED_ANNOTATION: asked} if asked else {}
    )
    now = NOW + timedelta(seconds=at_s)
    return observation(
        migration(step, status={"eviction_requested_at": now}),
        target=msgspec.structs.replace(target, annotations=reported),
        budgets=(BUDGET,),
        policy=replace(POLICY, settle_time=timedelta()),
        now=now,
        **more,
    )


def test_a_budget_shows_that_its_sync_failed():
    condition = {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": WHY}
    item = {"metadata": {"namespace": "shop", "name": "budget"}, "status": {"conditions": [condition]}}
    assert decode_budget(item).sync_failure == WHY
    item["status"]["conditions"] = [condition | {"reason": "InsufficientPods"}]
    assert decode_budget(item).sync_failure == ""


def test_the_copy_is_changed_at_once_and_then_after_pauses_that_double():
    """A minute at most, for as long as the attempt lasts."""
    asked, at_s, moments = "", 0, []
    while at_s < 300:
        decision = decide(seen(at_s, asked))
        if isinstance(decision, Perform):
            assert isinstance(decision.effect, effects.RequestBudgetSync)
            moments.append(at_s)
            asked = decision.effect.value
        else:
            assert isinstance(decision, Wait)
            assert WHY in decision.message
            assert [(each.kind, each.reason) for each in decision.reports] == [
                (ConditionType.BUDGET_ALLOWS, "SyncFailed")
            ]
            at_s = (decision.until - NOW).total_seconds()
    pauses = [later - earlier for earlier, later in itertools.pairwise(moments)]
    assert moments[0] == 0
    assert pauses == sorted(pauses)
    assert pauses[:3] == [5, 9, 17]
    assert pauses[-1] == 61


def test_a_status_that_another_client_wrote_does_not_end_the_attempts():
    for asked in ("nonsense", "99999999999 2026-01-01T00:00:00Z", "3 9999-01-01T00:00:00Z"):
        later = decide(seen(120, asked))
        assert isinstance(later, Perform | Wait)
        if isinstance(later, Wait):
            assert later.until <= NOW + timedelta(seconds=181)


def test_a_budget_that_was_synced_decides_as_always():
    synced = msgspec.structs.replace(BUDGET, sync_failure="", disruptions_allowed=1)
    assert isinstance(decide(replace(seen(), budgets=(synced,))).effect, effects.EvictSource)


def test_a_source_that_is_not_ready_may_go_under_any_budget():
    assert isinstance(decide(seen(source=pod(marked=True, ready=False))).effect, effects.EvictSource)


def test_a_rollback_asks_for_the_sync_too():
    """The copy is removed within that budget."""
    assert isinstance(decide(seen(step=MigrationStep.ROLLING_BACK)).effect, effects.RequestBudgetSync)
    asked = "1 2026-01-01T12:00:00Z"
    assert isinstance(decide(seen(1, asked, step=MigrationStep.ROLLING_BACK)).effect, effects.DeleteCopy)


@pytest.mark.parametrize(
    "written", ["-5 2026-01-01T12:00:00Z", "-1 9999-12-31T23:59:59Z", "1 9999-12-31T23:59:59Z", "9 x", "-"]
)
def test_what_tenants_write_there_blocks_no_other(written):
    assert isinstance(decide(seen(30, written)), Perform | Wait)
    assert isinstance(decide(seen(3000, written)), Perform), "the attempt is over, and cancelled"
