"""The promises on clusters that nobody thought of."""

from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.battery.executing import executed, present, rebuilt
from tests.battery.measures import misplaced_pods
from tests.battery.scenarios import random_cluster
from tests.battery.test_promises import SETTINGS, every_setting, planned, unlimited
from tests.replay import replay

seeds = st.integers(0, 2**32)
MOST_CHECKS = 2
some = settings(max_examples=12, deadline=None)


@every_setting
@some
@given(seed=seeds, room=st.sampled_from([1, 3, 10]))
@example(seed=68, room=3)  # where a search once went on for ever
def test_every_step_is_feasible_and_within_all_limits(setting, seed, room):
    cluster, policy = random_cluster(seed), replace(SETTINGS[setting], max_reschedule_pods=room)
    made = planned(cluster, policy)
    assert replay(present(cluster.objects), made, policy) == []
    assert planned(rebuilt(reversed(present(cluster.objects))), policy) == made


@every_setting
@some
@given(seed=seeds)
def test_all_that_can_be_done_is_done_at_once_and_nothing_is_spoiled(setting, seed):
    cluster, policy = random_cluster(seed), unlimited(SETTINGS[setting])
    made = planned(cluster, policy)
    assert replay(present(cluster.objects), made, policy) == []
    after = executed(cluster, made)
    # A pod moves once in a plan. Where spread or anti-affinity keep it from a place that it can reach from
    # elsewhere, the next check takes it there; then there is nothing left to do.
    checks = MOST_CHECKS if "LoadBalancing" in policy.enabled_strategies else 1
    again, at_rest = planned(after, policy), after
    for _ in range(1, checks):
        at_rest = executed(at_rest, again)
        again = planned(at_rest, policy)
    assert (again.moves, again.changes) == ((), ())
    # Who must leave may have to go where it is one too many, and an emptied node counts as a domain.
    if not any(move.strategy == "NodeMaintenance" for move in made.moves):
        assert misplaced_pods(after) <= misplaced_pods(cluster)
