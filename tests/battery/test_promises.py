"""What every strategy promises in every scenario, alone and together with the others."""

import random
from dataclasses import replace
from datetime import timedelta
from functools import cache

import pytest

from rescheduler.config.config_validation import BUILT_IN_STRATEGIES, FAILED_PODS
from rescheduler.config.policy import NodeAutoscaler, Policy
from rescheduler.planner.plan_builder import build_plan
from rescheduler.strategies.strategy_registry import strategies_of
from tests.battery.executing import executed, present, rebuilt
from tests.battery.measures import DISTANCE
from tests.battery.scenarios import CALM, SCENARIOS
from tests.building import LONG_AGO, merged
from tests.failing_pods import container, status_of
from tests.replay import replay

TOGETHER = {
    "maintenance, spread and balance": (
        "NodeMaintenance",
        "TopologySpread",
        "ResourceOptimization",
        "LoadBalancing",
    ),
    "drift, spread and balance": ("PlacementDrift", "TopologySpread", "LoadBalancing"),
    "life time, spread and balance": ("PodLifeTime", "TopologySpread", "LoadBalancing"),
    "maintenance, spread and cost": (
        "NodeMaintenance",
        "TopologySpread",
        "ResourceOptimization",
        "CostOptimization",
    ),
}
AUTO, REMOVED = NodeAutoscaler.AUTO, NodeAutoscaler.OTHER
"""Some component removes empty nodes: without one, CostOptimization has nothing to do."""
SETTINGS = {
    name: Policy(enabled_strategies=(name,), node_autoscaler=REMOVED if name == "CostOptimization" else AUTO)
    for name in sorted(BUILT_IN_STRATEGIES)
} | {
    words: Policy(enabled_strategies=names, node_autoscaler=REMOVED if "CostOptimization" in names else AUTO)
    for words, names in TOGETHER.items()
}

every_setting = pytest.mark.parametrize("setting", SETTINGS)
combined_settings = pytest.mark.parametrize(
    "setting",
    [*TOGETHER, *(pytest.param(each, marks=pytest.mark.size) for each in sorted(BUILT_IN_STRATEGIES))],
)
"""Every day strategies together; each one alone as well takes longer."""
every_strategy = pytest.mark.parametrize("name", sorted(BUILT_IN_STRATEGIES))
every_scenario = pytest.mark.parametrize("scenario", SCENARIOS)


@cache
def built(scenario):
    """No cluster is changed here: plans are executed on a new one."""
    return SCENARIOS[scenario]()


def planned(cluster, policy, *, guarded=False):
    return build_plan(cluster.snapshot(), policy, strategies_of(policy), guarded=guarded)


def carried_out(cluster, made):
    """What fails where it is runs well where it goes. What was too old has a young successor."""
    after = executed(cluster, made)
    too_old = {move.pod for move in made.moves if move.strategy == "PodLifeTime"}
    young = {"metadata": {"creationTimestamp": LONG_AGO}}
    recovered = {move.pod for move in made.moves if move.strategy == FAILED_PODS}
    well = {"status": status_of(container(ready=True), ready=True)["pod_status"]}
    for item in present(after.objects):
        key = f"{item['metadata'].get('namespace')}/{item['metadata']['name']}"
        if item["kind"] == "Pod" and key in recovered | too_old:
            after.apply(merged(item, well if key in recovered else young))
    return after


def failing(cluster, policy):
    return sum(not pod.is_ready for pod in cluster.snapshot().pods.records)


@combined_settings
@every_scenario
def test_every_step_is_feasible_and_within_all_limits(scenario, setting):
    cluster, policy = built(scenario), SETTINGS[setting]
    for limits in (policy, replace(policy, max_reschedule_pods=3, max_concurrent_migrations=2)):
        assert replay(present(cluster.objects), planned(cluster, limits), limits) == []


@combined_settings
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
    done = carried_out(cluster, made)
    for move in made.moves:
        assert move.gain > 0 or move.hop
        if "makes room" in move.reason or move.hop:
            continue
        distance = {name: DISTANCE[name], FAILED_PODS: failing}[move.strategy]
        without = replace(made, moves=tuple(each for each in made.moves if each.uid != move.uid))
        assert distance(done, policy) < distance(carried_out(cluster, without), policy), (
            f"{move} is of no use"
        )


@combined_settings
@every_scenario
def test_after_all_moves_there_is_nothing_more_to_do(scenario, setting):
    # No cooldown here: it is not the cooldown that keeps pods where they are.
    cluster, policy = built(scenario), replace(unlimited(SETTINGS[setting]), pod_cooldown=timedelta())
    first = planned(cluster, policy)
    after = carried_out(cluster, first)
    if any(move.strategy == FAILED_PODS for move in first.moves):
        # What has recovered is a pod like any other, and nodes are no longer suspect.
        after = carried_out(after, planned(after, policy))
    again = planned(after, policy)
    assert (again.moves, again.changes) == ((), ())


@pytest.mark.parametrize("scenario", CALM)
@every_setting
def test_a_balanced_cluster_is_left_alone(scenario, setting):
    made = planned(built(scenario), SETTINGS[setting])
    assert (made.moves, made.changes) == ((), ())


@every_setting
def test_protected_pods_stay_where_they_are(setting):
    """Only youth does not protect a pod on a node that must be empty."""
    moves = planned(built("all pods excluded"), SETTINGS[setting]).moves
    assert [(move.pod, move.strategy) for move in moves] in ([], [("shop/young", "NodeMaintenance")])


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
        "shop/moving": "AlreadyMoving",
        "shop/no-claim": "VolumeUnknown",
        "shop/once": "BarePod",
        "shop/opted-out": "OptedOut",
        "shop/other": "OtherScheduler",
        "shop/scratch": "LocalStorage",
        "shop/undisturbed": "DoNotDisrupt",
        "shop/unknown": "OwnerUnknown",
        "shop/unsafe": "NotSafeToEvict",
    }


@every_setting
def test_failing_pods_avoid_failing_nodes(setting):
    """Failing pods move if their owners request it, and not to nodes where other pods fail."""
    moves = planned(built("pods that keep failing"), SETTINGS[setting]).moves
    asked = ("shop/api-1-0", "shop/bare", "shop/mail-1-0", "shop/queue-0", "shop/web-1-0")
    recovering = [move for move in moves if move.strategy == FAILED_PODS]
    assert tuple(sorted(move.pod for move in recovering)) == asked
    targets = {move.pod: move.target for move in recovering}
    assert "n0" not in targets.values(), "three workloads fail there"
    assert targets["shop/queue-0"] not in {"n2", "n3"}, "it was tried there"


@every_strategy
def test_the_scenarios_give_every_strategy_something_to_do(name):
    """Otherwise promises would be easy to keep."""
    plans = [planned(built(scenario), SETTINGS[name]) for scenario in SCENARIOS]
    assert sum(bool(made.moves) for made in plans) >= 2, [made.moves for made in plans]


def unlimited(policy):
    """What a plan begins, it may finish."""
    return replace(policy, max_reschedule_pods=1000)
