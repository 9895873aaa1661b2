"""Every strategy keeps its promises on random clusters."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.battery.executing import executed, present, rebuilt
from tests.battery.measures import misplaced_pods
from tests.battery.scenarios import random_cluster
from tests.battery.test_promises import SETTINGS, every_setting, planned, unlimited
from tests.replay import replay

seeds = st.integers(0, 2**32)
some = settings(max_examples=12, deadline=None)
FEW_CHECKS = 3
"""After so many, strategies leave each other's moves alone."""


@every_setting
@some
@given(seed=seeds, room=st.sampled_from([1, 3, 10]))
@example(seed=68, room=3)  # where a search once went on forever
def test_every_step_is_feasible_and_within_all_limits(setting, seed, room):
    cluster, policy = random_cluster(seed), replace(SETTINGS[setting], max_reschedule_pods=room)
    made = planned(cluster, policy)
    assert replay(present(cluster.objects), made, policy) == []
    assert planned(rebuilt(reversed(present(cluster.objects))), policy) == made


@every_setting
@some
@given(seed=seeds)
@example(seed=753)  # where strategies improve a little on each other, once
@example(seed=186)  # where a pod is best placed where it can't go straight
@example(seed=10062)  # where one has to stop on the way
@example(seed=19210)  # where a pod could only move after others if its surplus pod were not guarded
@example(seed=20804)  # where what maintenance moves had better share a node
def test_all_that_can_be_done_is_done_at_once_and_nothing_is_spoiled(setting, seed):
    cluster, policy = random_cluster(seed), unlimited(SETTINGS[setting])
    # Without the guard, a pod may have to wait until other moves have made room for its surplus pod.
    made = planned(cluster, policy, guarded=True)
    assert replay(present(cluster.objects), made, policy) == []
    after = executed(cluster, made)
    again = planned(after, policy, guarded=True)  # pods that moved stay where they are
    assert (again.moves, again.changes) == ((), ())
    # Pods may move again. A strategy has nothing left to do; several may improve a little on each other.
    policy, last = replace(policy, pod_cooldown=timedelta()), after
    for _ in range(FEW_CHECKS if len(policy.enabled_strategies) > 1 else 0):
        last = executed(last, planned(last, policy, guarded=True))
    again = planned(last, policy, guarded=True)
    assert (again.moves, again.changes) == ((), ())
    # Who must leave may have to go where it is one too many, and an emptied node counts as a domain.
    if not any(move.strategy == "NodeMaintenance" for move in made.moves):
        assert misplaced_pods(after) <= misplaced_pods(cluster)
