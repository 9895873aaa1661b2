"""Whatever a strategy wishes for, in whatever cluster: the plan can be executed, and breaks no promise."""

import dataclasses
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.config.policy import Policy, ZeroBudget
from rescheduler.planner.plan import Plan
from rescheduler.planner.plan_builder import build_plan, validate_move
from tests.building import ClusterBuilder, Json, cluster
from tests.replay import replay
from tests.wishing import Restless

GROUP = "scheduling.x-k8s.io/pod-group"
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"

seeds = st.integers(0, 2**32)


def random_cluster(dice: Random) -> ClusterBuilder:
    """Small and crowded, with a little of everything that makes moving difficult."""
    built = cluster()
    free = {f"n{number}": dice.choice([2000, 3000]) for number in range(dice.randint(3, 6))}
    for number, (name, cpu_millis) in enumerate(free.items()):
        cordoned = dice.random() < 0.1
        built.node(name, cpu=f"{cpu_millis + 50}m", labels={ZONE: f"z{number % 2}"}, cordoned=cordoned)
    for number in range(dice.randint(3, 12)):
        _random_app(dice, built, f"app{number}", free)
    return built.daemon_set("kube-system/agent", on=list(free), cpu="50m")


def _random_app(dice: Random, built: ClusterBuilder, app: str, free: dict[str, int]) -> None:
    """As many replicas as there is room for."""
    cpu_millis = dice.choice([200, 500, 1000])
    places: list[str] = []
    for _ in range(dice.randint(1, 3)):
        roomy = [node for node, left in free.items() if left >= cpu_millis]
        if roomy:
            places.append(dice.choice(roomy))
            free[places[-1]] -= cpu_millis
    replicas = len(places)
    kind = dice.choice(["Deployment", "Deployment", "StatefulSet", "Pod"])
    prefix, owner = app, ""
    if kind == "Deployment":
        surge = dice.choice([0, 1, 1])
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}}
        built.deployment(f"shop/{app}", replicas=replicas, on=places, strategy=rolling)
        prefix, owner = f"{app}-1", f"ReplicaSet/{app}-1"
    elif kind == "StatefulSet":
        built.stateful_set(f"shop/{app}", replicas=replicas, on=places)
        owner = f"StatefulSet/{app}"
    labels = {"app": app}
    if dice.random() < 0.2:
        labels |= {GROUP: dice.choice(["red", "blue"])}
    spec, cpu, priority = _constraints(dice, app), f"{cpu_millis}m", dice.choice([0, 10])
    for number, place in enumerate(places):
        marks = {"karpenter.sh/do-not-disrupt": "true"} if dice.random() < 0.1 else {}
        parts = {"labels": labels, "annotations": marks, "cpu": cpu, "priority": priority, "spec": spec}
        built.pod(f"shop/{prefix}-{number}", on=place, owner=owner, ready=dice.random() < 0.9, **parts)
    if dice.random() < 0.3:
        built.budget(f"shop/{app}", selector={"app": app}, allowed=dice.randint(0, 2))


def _constraints(dice: Random, app: str) -> Json:
    selector = {"matchLabels": {"app": app}}
    term = {"topologyKey": dice.choice([ZONE, HOST]), "labelSelector": selector}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    spread = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **term}
    return dice.choice(
        [
            {},
            {},
            {"affinity": {"podAntiAffinity": required}},
            {"affinity": {"podAffinity": required}},
            {"topologySpreadConstraints": [spread]},
        ]
    )


def random_policy(dice: Random) -> Policy:
    return dataclasses.replace(
        Policy(),
        max_reschedule_pods=dice.randint(1, 12),
        max_concurrent_migrations=dice.randint(1, 6),
        max_concurrent_per_node=dice.randint(1, 3),
        max_concurrent_per_workload=dice.randint(1, 2),
        move_under_zero_budget=dice.choice(list(ZeroBudget)),
        min_replicas_for_evict=dice.randint(1, 3),
    )


def random_plan(seed: int) -> tuple[ClusterBuilder, Policy, Plan]:
    dice = Random(seed)
    built, policy = random_cluster(dice), random_policy(dice)
    return (
        built,
        policy,
        build_plan(built.snapshot(), policy, [Restless(seed), Restless(seed + 1, urgent=True)]),
    )


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_every_plan_can_be_executed_and_keeps_all_limits(seed):
    built, policy, found = random_plan(seed)
    assert replay(built.objects, found, policy, urgent=frozenset({"Restless"})) == []


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_the_same_cluster_gives_the_same_plan_in_whatever_order_it_was_told(seed):
    built, policy, found = random_plan(seed)
    latest = {(item["kind"], item["metadata"]["uid"]): item for item in built.objects}
    objects = list(latest.values())
    Random(seed).shuffle(objects)
    shuffled = cluster()
    for item in objects:
        shuffled.apply(item)
    again = build_plan(shuffled.snapshot(), policy, [Restless(seed), Restless(seed + 1, urgent=True)])
    assert repr(again) == repr(found)


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_the_first_wave_is_still_good_when_it_is_checked_again(seed):
    built, policy, found = random_plan(seed)
    snapshot = built.snapshot()
    alone = [move for move in found.moves if move.wave == 0 and not move.group]
    assert [validate_move(move, snapshot, policy, urgent=True) for move in alone] == [None] * len(alone)


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_a_pod_is_moved_or_refused_but_never_both(seed):
    _, _, found = random_plan(seed)
    assert not {move.pod for move in found.moves} & {each.subject for each in found.refused}


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_what_was_chosen_is_never_given_up_for_want_of_an_order(seed):
    _, _, found = random_plan(seed)
    assert not any("leave no room" in each.detail for each in found.refused)
