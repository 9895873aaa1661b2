"""Consecutive checks, as the daemon makes them: the cluster settles, and then nothing moves any more."""

import random
from dataclasses import replace
from datetime import timedelta

import pytest

from rescheduler.config.policy import Policy
from tests.battery.executing import CheckLoop
from tests.battery.scenarios import SCENARIOS
from tests.battery.test_promises import SETTINGS, combined_settings

CHECKS = 50
UNBALANCED = ("one hot node", "a node that is hot by usage only", "nodes of different sizes")
"""Scenarios with loads to even out, in which noise could keep strategies busy forever."""


def noise(seed, amplitude=0.3):
    rng = random.Random(seed)
    return lambda pod: rng.uniform(1 - amplitude, 1 + amplitude)


@pytest.mark.parametrize("scenario", UNBALANCED)
@combined_settings
def test_noise_in_the_usage_does_not_make_pods_go_to_and_fro(scenario, setting):
    # No cooldown here: it is not the cooldown that keeps pods from coming back.
    policy = replace(SETTINGS[setting], pod_cooldown=timedelta())
    plans = list(CheckLoop(SCENARIOS[scenario](), policy, noise=noise(3)).plans(CHECKS))
    been: dict[str, list[str]] = {}
    for move in (move for made in plans for move in made.moves):
        nodes_visited = been.setdefault(move.pod, [move.source])
        assert move.target not in nodes_visited, f"{move.pod} comes back: {nodes_visited}"
        nodes_visited.append(move.target)
    moves = [len(made.moves) for made in plans]
    # Where load happens to lie at a threshold, noise may carry it across once.
    assert sum(moves[CHECKS // 2 :]) <= 1, f"it does not come to rest: {moves}"


def test_nothing_moves_by_usage_before_it_was_hot_for_some_checks():
    policy = Policy(hot_checks=3)
    plans = list(CheckLoop(SCENARIOS["a node that is hot by usage only"](), policy, noise=noise(1)).plans(3))
    assert [bool(made.moves) for made in plans] == [False, False, True]


@pytest.mark.parametrize("room", [1, 2, 3])
@combined_settings
def test_what_one_plan_has_no_room_for_is_done_by_the_next_ones(setting, room):
    """Little by little it comes to the same end, and the node changes are made once."""
    loop = CheckLoop(
        SCENARIOS["maintenance of a whole zone"](), replace(SETTINGS[setting], max_reschedule_pods=room)
    )
    plans = list(loop.plans(20))
    assert all(len(made.moves) <= room for made in plans)
    assert plans[-1].moves == ()
    changes = [(change.node, change.change) for made in plans for change in made.changes]
    assert len(changes) == len(set(changes))
