"""TopologySpread restores the distribution that pods require, with the fewest moves."""

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kubevalues import parse_selector
from rescheduler.config.policy import Policy
from rescheduler.planner.plan_builder import build_plan
from rescheduler.rules.placement import Placement
from rescheduler.strategies.topology_spread import TopologySpread
from tests.battery.executing import executed
from tests.battery.measures import misplaced_pods
from tests.battery.pod_constraints import HOSTNAME, REQUIRED, ZONE, apart, spread
from tests.building import cluster

DISABLED = {"scheduler.alpha.kubernetes.io/rescheduling": "disabled"}


def zones(*names, **parts):
    """A node in each, called n0, n1, …"""
    made = cluster()
    for number, zone in enumerate(names):
        made.node(f"n{number}", labels={ZONE: zone}, **parts)
    return made


def planned(made, **policy):
    return build_plan(made.snapshot(), Policy(**policy), [TopologySpread()])


def ways(made):
    return [(move.pod.removeprefix("shop/"), move.source, move.target) for move in made.moves]


def test_pods_go_from_the_fullest_zone_to_the_emptiest():
    made = zones(*"abc").deployment(
        "shop/web", replicas=4, on=["n0", "n0", "n0", "n1"], pod_spec=spread("web")
    )
    assert ways(planned(made)) == [("web-1-0", "n0", "n2")]


def test_the_reason_says_how_uneven_it_is():
    made = zones(*"abc").deployment(
        "shop/web", replicas=4, on=["n0", "n0", "n0", "n1"], pod_spec=spread("web")
    )
    (move,) = planned(made).moves
    assert move.reason == f"{ZONE}: 3 pods in a, 0 in c, maxSkew 1"
    assert move.gain == 1.0


def test_a_skew_that_is_allowed_is_left_alone():
    constraints = spread("web", skew=2)
    made = zones(*"ab").deployment("shop/web", replicas=2, on=["n0"], pod_spec=constraints)
    assert planned(made).moves == ()


def test_a_preference_is_no_reason_to_move_a_pod():
    constraints = spread("web", whenUnsatisfiable="ScheduleAnyway")
    made = zones(*"ab").deployment("shop/web", replicas=4, on=["n0"], pod_spec=constraints)
    assert planned(made).moves == ()


def test_one_move_that_sets_right_two_constraints_is_preferred():
    # Two on n0 and three in zone a: only a pod of n0 that leaves the zone sets both right at once.
    constraints = spread("web")
    constraints["topologySpreadConstraints"] += spread("web", HOSTNAME)["topologySpreadConstraints"]
    made = zones(*"aabb").deployment(
        "shop/web", replicas=4, on=["n0", "n0", "n1", "n2"], pod_spec=constraints
    )
    assert ways(planned(made)) == [("web-1-0", "n0", "n3")]


def test_with_too_few_zones_the_emptiest_counts_as_empty():
    constraints = spread("web", minDomains=3)
    made = zones(*"aabb").deployment("shop/web", replicas=2, on=["n0", "n1"], pod_spec=constraints)
    assert len(planned(made).moves) == 1
    made.deployment("shop/web", replicas=4, on=["n0", "n0", "n2", "n2"], pod_spec=constraints)
    assert planned(made).moves == (), "there is nowhere that more would be allowed"


def test_what_is_set_right_does_not_set_another_wrong():
    # Shy pods keep apart by node and by pool, and count for the spread that the others ask for. One that
    # went to n2 would set right two things, but be one too many in zone b.
    made = cluster().nodes("n0", "n1", labels={ZONE: "a", "pool": "x"})
    made.node("n2", labels={ZONE: "b", "pool": "y"})
    made.deployment("shop/web", replicas=3, on=["n2"], pod_spec=spread("web"))
    anti_affine = {"labelSelector": {"matchLabels": {"anti-affine": "yes"}}}
    terms = [anti_affine | {"topologyKey": HOSTNAME}, anti_affine | {"topologyKey": "pool"}]
    made.deployment(
        "shop/anti-affine",
        replicas=2,
        on=["n0"],
        labels={"app": "web", "anti-affine": "yes"},
        pod_spec={"affinity": {"podAntiAffinity": {REQUIRED: terms}}},
    )
    made.deployment("shop/load", on=["n1"], cpu="7", labels=DISABLED)
    assert "n2" not in {move.target for move in planned(made).moves}


def test_of_pods_that_keep_apart_one_stays():
    made = zones(*"aaaa").deployment("shop/web", replicas=3, on=["n1"], pod_spec=apart("web"))
    assert [move.source for move in planned(made).moves] == ["n1", "n1"]
    assert misplaced_pods(executed(made, planned(made))) == set()


def test_of_one_pod_that_many_keep_away_from_the_one_moves():
    made = zones(*"aa").deployment("shop/loud", on=["n0"])
    made.deployment("shop/web", replicas=3, on=["n0"], pod_spec=apart("loud"))
    assert ways(planned(made)) == [("loud-1-0", "n0", "n1")]


def test_if_the_one_can_not_move_the_many_do():
    made = zones(*"aa").deployment("shop/loud", on=["n0"], labels=DISABLED)
    made.deployment("shop/web", replicas=3, on=["n0"], pod_spec=apart("loud"))
    assert {move.pod for move in planned(made).moves} == {f"shop/web-1-{number}" for number in range(3)}


def test_pods_of_lower_priority_go_first():
    made = zones(*"ab").pod("shop/x", on="n0", priority=5, labels={"app": "web"}, spec=apart("web"))
    made.pod("shop/y", on="n0", labels={"app": "web"}, spec=apart("web"))
    assert ways(planned(made)) == [("y", "n0", "n1")]


def test_a_full_zone_is_not_counted_on():
    # c would be the best zone to go to, but has no room; with b alone it takes no more moves.
    constraints = spread("web", skew=3)
    made = zones(*"abc", cpu="4").deployment("shop/web", replicas=5, on=["n0"], pod_spec=constraints)
    made.deployment("shop/wall", on=["n2"], cpu="3990m", labels=DISABLED)
    assert [(move.source, move.target) for move in planned(made).moves] == [("n0", "n1")] * 2


def test_a_bystander_makes_room_where_a_zone_is_full():
    made = zones("a", "b", "b").deployment("shop/web", replicas=2, on=["n0"], cpu="2", pod_spec=spread("web"))
    made.deployment("shop/left", replicas=1, on=["n1"], cpu="7", labels=DISABLED)
    made.deployment("shop/right", replicas=2, on=["n2"], cpu="3500m")
    made.node("n3", cpu="4", labels={"pool": "other"})
    moves = planned(made).moves
    assert [(move.target, "makes room" in move.reason) for move in moves] == [("n3", True), ("n2", False)]


def test_what_can_not_be_restored_is_reported():
    made = zones(*"ab", cpu="2").deployment(
        "shop/web", replicas=2, on=["n0"], cpu="800m", pod_spec=spread("web")
    )
    made.deployment("shop/wall", on=["n1"], cpu="1500m", labels=DISABLED)
    found = planned(made)
    assert found.moves == ()
    assert ("shop/web-1-0", "NoTarget") in {(each.subject, each.reason) for each in found.refused}


def test_a_group_is_not_torn_apart():
    label = {"scheduling.x-k8s.io/pod-group": "ring"}
    made = zones(*"ab").deployment("shop/web", replicas=2, on=["n0"], labels=label, pod_spec=spread("web"))
    assert planned(made).moves == ()


def test_only_nodes_that_it_is_asked_to_look_at_take_part():
    made = zones(*"abc").deployment("shop/web", replicas=3, on=["n0"], pod_spec=spread("web"))
    here = {"TopologySpread": parse_selector(f"{ZONE} in (a,b)")}
    assert [(move.source, move.target) for move in planned(made, strategy_node_selectors=here).moves] == [
        ("n0", "n1")
    ]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_what_a_search_of_all_ways_can_restore_is_restored_with_as_few_moves(seed):
    made = small_cluster(random.Random(seed), ["one"])
    fewest = fewest_moves(made, at_most=3)
    found = planned(made)
    if fewest is not None:
        assert misplaced_pods(executed(made, found)) == set(), f"could be restored with {fewest} moves"
        assert len(found.moves) == fewest


def test_interfering_workloads_need_few_moves():
    """Moves are chosen one by one; a full search finds fewer where workloads keep apart, but rarely."""
    as_few, possible = 0, 0
    for seed in range(150):
        made = small_cluster(random.Random(seed), ["one", "two"])
        if fewest := fewest_moves(made, at_most=2):
            found = planned(made)
            restored = not misplaced_pods(executed(made, found))
            possible += 1
            as_few += restored and len(found.moves) == fewest
    assert as_few >= 0.95 * possible, f"{as_few} of {possible}"


def small_cluster(rng, apps):
    made = cluster()
    count = rng.randint(2, 4)
    for number in range(count):
        made.node(f"n{number}", labels={ZONE: rng.choice("ab")}, cpu=rng.choice(("1", "8", "8")))
    for app in apps:
        constraints = {}
        if rng.random() < 0.7:
            constraints |= spread(app, rng.choice((ZONE, HOSTNAME)), rng.randint(1, 2))
        if rng.random() < 0.5:
            constraints |= apart(rng.choice(apps), rng.choice((ZONE, HOSTNAME, HOSTNAME)))
        nodes = [f"n{rng.randrange(count)}" for _ in range(4)]
        replicas = rng.randint(1, 3 if len(apps) > 1 else 4)
        made.deployment(f"shop/{app}", replicas=replicas, on=nodes, cpu="400m", pod_spec=constraints)
    return made


def fewest_moves(made, at_most):
    """Try everything that the rules allow, one move after the other; None if it takes more."""
    snapshot = made.snapshot()
    names = [node.name for node in snapshot.nodes.records]
    keys = [pod.key for pod in snapshot.pods.records]

    def is_right(places):
        return not misplaced_pods(made, dict(zip(keys, (names[node] for node in places), strict=True)))

    reached = {tuple(snapshot.pods.node.tolist())}
    known = set(reached)
    for moves in range(at_most + 1):
        if any(is_right(places) for places in reached):
            return moves
        reached = {after for places in reached for after in neighbours(snapshot, places)} - known
        known |= reached
    return None


def neighbours(snapshot, places):
    placement = Placement(snapshot)
    for pod, node in enumerate(places):
        if placement.position[pod] != node:
            placement.move(pod, node)
    for pod in range(len(places)):
        for node in np.flatnonzero(placement.fits(pod, source_stays=True)).tolist():
            yield (*places[:pod], node, *places[pod + 1 :])
