"""Before an eviction: which pods get a temporary budget, and which budgets prevent the eviction."""

import msgspec
import pytest

from rescheduler.api.podmigration import Handover
from rescheduler.cluster.budget_record import BudgetRecord
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.config.policy import Policy
from rescheduler.migrations.effects import CreateBudget, EvictSource, UnlabelSource
from rescheduler.migrations.handovers import protecting
from rescheduler.migrations.observation import Perform, Transition, Wait
from rescheduler.migrations.source_eviction import evicting
from rescheduler.migrations.transition_table import MigrationStep
from tests.unit.migrations.observations import NOW, US, migration, node, observation, pod, replica_set

BUDGETS = tuple(BudgetRecord(f"shop/{name}", "shop", disruptions_allowed=1) for name in ("one", "other"))


def at(step):
    return migration(step, Handover.EVICT)


def test_several_replicas_without_a_budget_get_one_for_the_time_being():
    seen = protecting(observation(at(MigrationStep.PROTECTING)))
    assert isinstance(seen, Perform)
    assert isinstance(seen.effect, CreateBudget)


def test_pods_of_a_job_get_none_because_it_has_no_scale():
    job = replica_set(kind="Job", api_version="batch/v1")
    assert isinstance(protecting(observation(at(MigrationStep.PROTECTING), owner=job)), Transition)


def test_of_several_budgets_none_lets_a_running_pod_go():
    seen = evicting(observation(at(MigrationStep.EVICTING), source=pod(), budgets=BUDGETS))
    assert isinstance(seen, Transition)
    assert seen.failure == "SeveralBudgets"


def test_a_pod_that_has_not_begun_to_run_goes_whatever_budgets_say():
    waiting = pod(ready=False, marked=True, phase="Pending")
    seen = evicting(observation(at(MigrationStep.EVICTING), source=waiting, budgets=BUDGETS, is_steered=True))
    assert isinstance(seen, Perform)
    assert isinstance(seen.effect, EvictSource)


@pytest.mark.parametrize(("strategy", "goes_on"), [("FailedPods", True), ("LoadBalancing", False)])
def test_only_failing_pods_are_evicted_from_a_rollout(strategy, goes_on):
    """A failing pod blocks the rollout, so it may leave."""
    moving = at(MigrationStep.EVICTING)
    moving = msgspec.structs.replace(moving, spec=msgspec.structs.replace(moving.spec, strategy=strategy))
    rolling_out = replica_set(
        kind="StatefulSet", update_type="RollingUpdate", current_revision="1", update_revision="2"
    )
    seen = evicting(observation(moving, owner=rolling_out, is_steered=True))
    assert (isinstance(seen, Perform) and isinstance(seen.effect, EvictSource)) is goes_on


STEERED = {
    "a webhook is there": {"is_steered": True},
    "that is allowed": {"policy": Policy(allow_unsteered=True)},
    "its node is cordoned": {"nodes": {"old": NodeRecord("old", unschedulable=True), "new": node("new")}},
}


@pytest.mark.parametrize("because", STEERED.values(), ids=STEERED)
def test_a_pod_whose_replacement_would_not_come_back_is_evicted_as(because):
    seen = evicting(observation(at(MigrationStep.EVICTING), source=pod(marked=True), **because))
    assert isinstance(seen, Perform)
    assert isinstance(seen.effect, EvictSource)


def test_a_pod_is_not_evicted_once_its_replacement_is_not_steered():
    calling_off = evicting(observation(at(MigrationStep.EVICTING), source=pod(marked=True)))
    assert isinstance(calling_off, Perform)
    assert isinstance(calling_off.effect, UnlabelSource), "first the lock goes, which fences off an eviction"
    seen = evicting(observation(at(MigrationStep.EVICTING), source=pod()))
    assert isinstance(seen, Transition)
    assert (seen.failure, seen.final) == ("Unsteered", False)


def test_an_unsynced_budget_is_waited_for():
    """The disruption controller never sees it; the wait ends with the attempt."""
    ours = BudgetRecord(
        "shop/web-1-rescheduler-pdb", "shop", owners=(US,), disruptions_allowed=0, is_current=False
    )
    waits = protecting(observation(at(MigrationStep.PROTECTING), budgets=(ours,)))
    assert isinstance(waits, Wait)
    assert waits.until == NOW + Policy().migration_timeout
