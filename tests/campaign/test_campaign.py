"""A short part of the campaign with fixed seeds; `make campaign` plays as many seeds as you like."""

import pytest

from rescheduler.cluster.codecs.record_resources import PODS
from tests.campaign import campaign_run
from tests.campaign.campaign_run import run_seed
from tests.campaign.fault_schedule import ACTIONS, ScheduledAction, fault_schedule
from tests.campaign.schedule_shrinking import shortened, shortest
from tests.campaign.targeted_actions import TargetedActions


@pytest.mark.parametrize("seed", [8, pytest.param(9, marks=pytest.mark.size)])
def test_nothing_is_lost_broken_or_left_behind(seed):
    """After minutes of faults, all is finished, nothing is left, and nothing more is planned."""
    result = run_seed(seed, minutes=2.5)
    assert result.violations == []
    assert result.migrations > 0


def test_a_seed_has_the_same_history_every_time():
    """A failing seed can be replayed: every change of every object comes again, in the same order."""
    once, again = run_seed(7, minutes=1.5), run_seed(7, minutes=1.5)
    assert once.history
    assert once.digest == again.digest
    assert once.history == again.history


def test_a_violation_is_found_and_its_history_shortened(monkeypatch):
    """Someone with the daemon's account deletes a ready pod that no migration names, among other actions."""

    async def delete_a_pod_as_the_daemon(self):
        pod = min(await self._pods(), key=lambda pod: pod["metadata"]["uid"])
        daemon = self.stage.daemons[0].connection
        client = self.stage.connect(daemon.user, "rogue").client()
        await client.delete(PODS, f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
        self.note("deleted as the daemon")

    monkeypatch.setattr(TargetedActions, "deletion", delete_a_pod_as_the_daemon, raising=False)
    monkeypatch.setattr(campaign_run, "CALM_FOR_S", 60.0)
    names = ("drop_watches", "deletion")
    schedule = [ScheduledAction(30.0 + at_s, name, at_s) for at_s, name in enumerate(names)]
    result = run_seed(8, schedule=schedule)
    assert any("unrelated write" in each for each in result.violations)
    found = shortened(result, attempts=2)
    assert [action.name for action in found.schedule] == ["deletion"]
    assert any("deleted as the daemon" in line for line in found.history)


def test_schedules_are_shortened_to_what_is_needed():
    assert shortest(list(range(50)), lambda items: {7, 31} <= set(items)) == [7, 31]
    assert shortest([1, 2, 3], lambda _: True) == []


def test_every_action_of_a_schedule_exists():
    assert [name for name in ACTIONS if not hasattr(TargetedActions, name)] == []
    assert {action.name for seed in range(20) for action in fault_schedule(seed, 30.0)} == set(ACTIONS)
