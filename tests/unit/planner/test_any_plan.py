"""For random strategies and clusters, the plan can be executed and breaks no promise."""

import dataclasses
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.config.policy import Policy, ZeroBudget
from rescheduler.planner.plan import Plan
from rescheduler.planner.plan_builder import build_plan, validate_move
from tests.building import ClusterBuilder, Json, cluster
from tests.replay import replay
from tests.scripted_strategies import RandomStrategy

GROUP = "scheduling.x-k8s.io/pod-group"
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"

seeds = st.integers(0, 2**32)


def random_cluster(rng: Random) -> ClusterBuilder:
    """Small and crowded, with a little of everything that makes moving difficult."""
    built = cluster()
    free = {f"n{number}": rng.choice([2000, 3000]) for number in range(rng.randint(3, 6))}
    for number, (name, cpu_millis) in enumerate(free.items()):
        cordoned = rng.random() < 0.1
        built.node(name, cpu=f"{cpu_millis + 50}m", labels={ZONE: f"z{number % 2}"}, cordoned=cordoned)
    for number in range(rng.randint(3, 12)):
        _random_app(rng, built, f"app{number}", free)
    return built.daemon_set("kube-system/agent", on=list(free), cpu="50m")


def _random_app(rng: Random, built: ClusterBuilder, app: str, free: dict[str, int]) -> None:
    """Add as many replicas as there is room for."""
    cpu_millis = rng.choice([200, 500, 1000])
    places: list[str] = []
    for _ in range(rng.randint(1, 3)):
        roomy = [node for node, left in free.items() if left >= cpu_millis]
        if roomy:
            places.append(rng.choice(roomy))
            free[places[-1]] -= cpu_millis
    replicas = len(places)
    kind = rng.choice(["Deployment", "Deployment", "StatefulSet", "Pod"])
    prefix, owner = app, ""
    if kind == "Deployment":
        surge = rng.choice([0, 1, 1])
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}}
        built.deployment(f"shop/{app}", replicas=replicas, on=places, strategy=rolling)
        prefix, owner = f"{app}-1", f"ReplicaSet/{app}-1"
    elif kind == "StatefulSet":
        built.stateful_set(f"shop/{app}", replicas=replicas, on=places)
        owner = f"StatefulSet/{app}"
    labels = {"app": app}
    if rng.random() < 0.2:
        labels |= {GROUP: rng.choice(["red", "blue"])}
    spec, cpu, priority = _constraints(rng, app), f"{cpu_millis}m", rng.choice([0, 10])
    for number, place in enumerate(places):
        marks = {"karpenter.sh/do-not-disrupt": "true"} if rng.random() < 0.1 else {}
        parts = {"labels": labels, "annotations": marks, "cpu": cpu, "priority": priority, "spec": spec}
        built.pod(f"shop/{prefix}-{number}", on=place, owner=owner, ready=rng.random() < 0.9, **parts)
    if rng.random() < 0.3:
        built.budget(f"shop/{app}", selector={"app": app}, allowed=rng.randint(0, 2))


def _constraints(rng: Random, app: str) -> Json:
    selector = {"matchLabels": {"app": app}}
    term = {"topologyKey": rng.choice([ZONE, HOST]), "labelSelector": selector}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    spread = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **term}
    return rng.choice(
        [
            {},
            {},
            {"affinity": {"podAntiAffinity": required}},
            {"affinity": {"podAffinity": required}},
            {"topologySpreadConstraints": [spread]},
        ]
    )


def random_policy(rng: Random) -> Policy:
    return dataclasses.replace(
        Policy(),
        max_reschedule_pods=rng.randint(1, 12),
        max_concurrent_migrations=rng.randint(1, 6),
        max_concurrent_per_node=rng.randint(1, 3),
        max_concurrent_per_workload=rng.randint(1, 2),
        move_under_zero_budget=rng.choice(list(ZeroBudget)),
        min_replicas_for_evict=rng.randint(1, 3),
    )


def random_plan(seed: int) -> tuple[ClusterBuilder, Policy, Plan]:
    rng = Random(seed)
    built, policy = random_cluster(rng), random_policy(rng)
    return (
        built,
        policy,
        build_plan(built.snapshot(), policy, [RandomStrategy(seed), RandomStrategy(seed + 1, urgent=True)]),
    )


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_every_plan_can_be_executed_and_keeps_all_limits(seed):
    built, policy, found = random_plan(seed)
    assert replay(built.objects, found, policy) == []


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_the_same_cluster_gives_the_same_plan_in_whatever_order_it_was_reported(seed):
    built, policy, found = random_plan(seed)
    latest = {(item["kind"], item["metadata"]["uid"]): item for item in built.objects}
    objects = list(latest.values())
    Random(seed).shuffle(objects)
    shuffled = cluster()
    for item in objects:
        shuffled.apply(item)
    again = build_plan(
        shuffled.snapshot(), policy, [RandomStrategy(seed), RandomStrategy(seed + 1, urgent=True)]
    )
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
