"""What every strategy promises in every scenario, alone and together with the others."""

import random
from dataclasses import replace
from datetime import timedelta
from functools import cache

import pytest

from rescheduler.config.policy import Policy
from rescheduler.config.strategies import BUILT_IN
from rescheduler.planner.planning import plan
from rescheduler.strategies.registry import strategies_of
from tests.battery.executing import executed, present, rebuilt
from tests.battery.measures import DISTANCE
from tests.battery.scenarios import CALM, SCENARIOS
from tests.replay import replay

TOGETHER = {
    "maintenance, spread and balance": (
        "NodeMaintenance",
        "TopologySpread",
        "ResourceOptimization",
        "LoadBalancing",
    ),
    "maintenance, spread and cost": (
        "NodeMaintenance",
        "TopologySpread",
        "ResourceOptimization",
        "CostOptimization",
    ),
}
SETTINGS = {name: Policy(enabled_strategies=(name,)) for name in sorted(BUILT_IN)} | {
    words: Policy(enabled_strategies=names) for words, names in TOGETHER.items()
}

every_setting = pytest.mark.parametrize("setting", SETTINGS)
every_strategy = pytest.mark.parametrize("name", sorted(BUILT_IN))
every_scenario = pytest.mark.parametrize("scenario", SCENARIOS)


@cache
def built(scenario):
    """Nobody changes a cluster here: plans are carried out on a new one."""
    return SCENARIOS[scenario]()


def planned(cluster, policy):
    return plan(cluster.snapshot(), policy, strategies_of(policy))


@every_setting
@every_scenario
def test_every_step_is_feasible_and_within_all_limits(scenario, setting):
    cluster, policy = built(scenario), SETTINGS[setting]
    for limits in (policy, replace(policy, max_reschedule_pods=3, max_concurrent_migrations=2)):
        assert replay(present(cluster.objects), planned(cluster, limits), limits) == []


@every_setting
@every_scenario
def test_the_same_cluster_gives_the_same_plan_in_whatever_order_it_arrived(scenario, setting):
    cluster, policy = built(scenario), SETTINGS[setting]
    objects = present(cluster.objects)
    random.Random(7).shuffle(objects)
    shuffled = rebuilt(objects)
    shuffled.usage_of = cluster.usage_of
    assert planned(cluster, policy) == planned(shuffled, policy)


@every_strategy
@every_scenario
def test_every_move_brings_the_cluster_nearer_to_what_its_strategy_wants(scenario, name):
    cluster, policy = built(scenario), unlimited(SETTINGS[name])
    made = planned(cluster, policy)
    distance = DISTANCE[name]
    after = distance(executed(cluster, made), policy)
    for move in made.moves:
        assert move.gain > 0 or move.hop
        if "makes room" in move.reason or move.hop:
            continue
        without = replace(made, moves=tuple(each for each in made.moves if each.uid != move.uid))
        assert after < distance(executed(cluster, without), policy), f"{move} is of no use"


@every_setting
@every_scenario
def test_after_all_moves_there_is_nothing_more_to_do(scenario, setting):
    cluster, policy = built(scenario), unlimited(SETTINGS[setting])
    if len(policy.enabled_strategies) == 1:
        # One strategy finds its end at once. Several may undo what the others did only in the end, which
        # is what pods are given a rest for.
        policy = replace(policy, pod_cooldown=timedelta())
    again = planned(executed(cluster, planned(cluster, policy)), policy)
    assert (again.moves, again.changes) == ((), ())


@pytest.mark.parametrize("scenario", CALM)
@every_setting
def test_a_balanced_cluster_is_left_alone(scenario, setting):
    made = planned(built(scenario), SETTINGS[setting])
    assert (made.moves, made.changes) == ((), ())


@every_setting
def test_protected_pods_stay_where_they_are(setting):
    assert planned(built("all pods excluded"), SETTINGS[setting]).moves == ()


def test_maintenance_says_of_every_protected_pod_why_it_stays():
    cluster = built("all pods excluded")
    refused = {each.subject: each.reason for each in planned(cluster, SETTINGS["NodeMaintenance"]).refused}
    assert refused == {
        "kube-system/dns": "ExcludedNamespace",
        "shop/agent-n9": "DaemonSetPod",
        "shop/covered-1-0": "SeveralBudgets",
        "shop/critical": "SystemPod",
        "shop/device": "ResourceClaims",
        "shop/going": "Terminating",
        "shop/host-path": "LocalStorage",
        "shop/job-0": "JobPod",
        "shop/mirror": "MirrorPod",
        "shop/moved": "CoolingDown",
        "shop/moving": "AlreadyMoving",
        "shop/no-claim": "VolumeUnknown",
        "shop/once": "BarePod",
        "shop/opted-out": "OptedOut",
        "shop/other": "OtherScheduler",
        "shop/scratch": "LocalStorage",
        "shop/undisturbed": "DoNotDisrupt",
        "shop/unknown": "OwnerUnknown",
        "shop/unsafe": "NotSafeToEvict",
        "shop/young": "TooYoung",
    }


@every_strategy
def test_the_scenarios_give_every_strategy_something_to_do(name):
    """Otherwise promises would be easy to keep."""
    plans = [planned(built(scenario), SETTINGS[name]) for scenario in SCENARIOS]
    assert sum(bool(made.moves) for made in plans) >= 2, [made.moves for made in plans]


def unlimited(policy):
    """What a plan begins, it may finish."""
    return replace(policy, max_reschedule_pods=1000)
