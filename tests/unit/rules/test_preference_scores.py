"""Scores for what pods prefer, compared with values computed by hand from formulas of kube-scheduler 1.37.

Each test names the plugin in `pkg/scheduler/framework/plugins` and shows the computation.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.config.policy_blocks import Preference
from rescheduler.rules.placement import Placement
from rescheduler.rules.preference_scores import PLUGIN_WEIGHTS
from tests.battery.pod_constraints import HOSTNAME, REQUIRED, ZONE, spread
from tests.building import cluster
from tests.unit.rules.random_clusters import copy_of, random_cluster, with_pods

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ALL = tuple(Preference)


def scores(made, key, preference, among=None):
    """The value and the score of each node, by name."""
    snapshot = made.snapshot()
    placement, names = Placement(snapshot), [node.name for node in snapshot.nodes.records]
    compared = np.array([among is None or name in among for name in names])
    (found,) = placement.preference_scores(snapshot.pods.row[key], (preference,), compared)
    values = dict(zip(names, found.value.tolist(), strict=True))
    return values, dict(zip(names, found.score.tolist(), strict=True)), found.is_reason


def node_terms(*terms):
    written = [
        {"weight": weight, "preference": {"matchExpressions": expressions}} for weight, expressions in terms
    ]
    return {"affinity": {"nodeAffinity": {PREFERRED: written}}}


def is_in(key, *values):
    return {"key": key, "operator": "In", "values": [*values]}


def pod_terms(kind, *terms):
    written = [
        {
            "weight": weight,
            "podAffinityTerm": {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}},
        }
        for weight, app, key in terms
    ]
    return {"affinity": {kind: {PREFERRED: written}}}


def zones(**of):
    made = cluster()
    for name, zone in of.items():
        made.node(name, labels={ZONE: zone} if zone else {})
    return made


def test_weights_are_those_of_the_scheduler():
    """`pkg/scheduler/apis/config/v1/default_plugins.go`; the last two are ours."""
    assert {str(name): weight for name, weight in PLUGIN_WEIGHTS.items()} == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "Duplicates": 2,
        "Price": 2,
    }


def test_taint_toleration_counts_soft_taints_that_are_not_tolerated():
    """tainttoleration: 0, 1 and 3 taints of at most 3: 100 - 100·0/3, 100 - 100·1/3 = 100 - 33, 100 - 100."""
    soft = [f"{key}=:PreferNoSchedule" for key in "xyz"]
    made = cluster().node("none").node("one", taints=[soft[0], "t=:PreferNoSchedule"])
    made.node("three", taints=soft)
    tolerant = {"tolerations": [{"key": "t", "operator": "Exists"}]}
    made.pod("shop/web", on="three", pod_spec=tolerant)
    values, found, _ = scores(made, "shop/web", Preference.TAINT_TOLERATION)
    assert values == {"none": 0, "one": -1, "three": -3}
    assert found == {"none": 100, "one": 67, "three": 0}


def test_a_toleration_of_another_effect_does_not_count():
    """tainttoleration: only tolerations of PreferNoSchedule, or of every effect."""
    made = cluster().node("a", taints=["x=:PreferNoSchedule"]).node("b")
    hard = {"tolerations": [{"key": "x", "operator": "Exists", "effect": "NoSchedule"}]}
    assert scores(made.pod("shop/web", on="a", pod_spec=hard), "shop/web", Preference.TAINT_TOLERATION)[
        1
    ] == {
        "a": 0,
        "b": 100,
    }


def test_node_affinity_adds_the_weights_of_the_terms_that_match():
    """nodeaffinity: 30 + 50 = 80, 30 and 0; then 100·80/80, 100·30/80 = 37 (whole numbers) and 0."""
    made = cluster().node("both", labels={"disk": "ssd", "pool": "spot"}).node("disk", labels={"disk": "ssd"})
    made.node("neither")
    wanted = node_terms((30, [is_in("disk", "ssd", "nvme")]), (50, [is_in("pool", "spot")]))
    values, found, _ = scores(
        made.pod("shop/web", on="disk", pod_spec=wanted), "shop/web", Preference.NODE_AFFINITY
    )
    assert values == {"both": 80, "disk": 30, "neither": 0}
    assert found == {"both": 100, "disk": 37, "neither": 0}


def test_only_nodes_that_are_compared_normalize_a_score():
    """nodeaffinity: without the node that matches both, 30 is the most."""
    made = cluster().node("both", labels={"disk": "ssd", "pool": "spot"}).node("disk", labels={"disk": "ssd"})
    wanted = node_terms((30, [is_in("disk", "ssd")]), (50, [is_in("pool", "spot")]))
    made.node("neither").pod("shop/web", on="disk", pod_spec=wanted)
    assert scores(made, "shop/web", Preference.NODE_AFFINITY, {"disk", "neither"})[1]["disk"] == 100


def test_node_affinity_knows_the_names_of_nodes():
    named = {"weight": 30, "preference": {"matchFields": [is_in("metadata.name", "b")]}}
    made = cluster().nodes("a", "b")
    made.pod("shop/web", on="a", pod_spec={"affinity": {"nodeAffinity": {PREFERRED: [named]}}})
    assert scores(made, "shop/web", Preference.NODE_AFFINITY)[0] == {"a": 0, "b": 30}


def test_a_term_with_weight_or_conditions_of_nothing_counts_nothing():
    made = cluster().node("a", labels={"disk": "ssd"}).node("b")
    wanted = node_terms((0, [is_in("disk", "ssd")]), (50, []))
    assert scores(made.pod("shop/web", on="a", pod_spec=wanted), "shop/web", Preference.NODE_AFFINITY)[0] == {
        "a": 0,
        "b": 0,
    }


def test_inter_pod_affinity_adds_weights_by_pod_in_its_domain():
    """interpodaffinity: two caches in zone a weigh 2·10, the log in zone b -5, nothing in zone c.

    So 20, -5 and 0, of a range of 25: 100·25/25, 0, and 100·5/25 = 20.
    """
    made = zones(a1="a", a2="a", b1="b", c1="c", bare="")
    made.deployment("shop/cache", replicas=2, on=["a1"]).deployment("shop/log", on=["b1"])
    both = pod_terms("podAffinity", (10, "cache", ZONE))
    both["affinity"] |= pod_terms("podAntiAffinity", (5, "log", ZONE))["affinity"]
    made.pod("shop/web", on="c1", pod_spec=both)
    values, found, _ = scores(made, "shop/web", Preference.INTER_POD_AFFINITY)
    assert values == {"a1": 20, "a2": 20, "b1": -5, "c1": 0, "bare": 0}
    assert found == {"a1": 100, "a2": 100, "b1": 0, "c1": 20, "bare": 20}


def test_inter_pod_affinity_counts_what_the_others_prefer():
    """interpodaffinity, `processExistingPod`: preferred affinity +40, anti-affinity -10, required affinity
    +1 (`hardPodAffinityWeight`), each for the domain of the pod that has it."""
    made = zones(a1="a", b1="b", c1="c").pod("shop/web", on="b1", labels={"app": "web"})
    made.pod("shop/fan", on="a1", pod_spec=pod_terms("podAffinity", (40, "web", ZONE)))
    made.pod("shop/foe", on="a1", pod_spec=pod_terms("podAntiAffinity", (10, "web", ZONE)))
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}
    made.pod("shop/tied", on="b1", pod_spec={"affinity": {"podAffinity": {REQUIRED: [term]}}})
    values, found, _ = scores(made, "shop/web", Preference.INTER_POD_AFFINITY)
    assert values == {"a1": 30, "b1": 1, "c1": 0}
    assert found == {"a1": 100, "b1": 3, "c1": 0}


def test_a_pod_does_not_count_for_itself():
    """It is not there when the scheduler places it: 1 other on a, none on b."""
    made = cluster().nodes("a", "b")
    terms = pod_terms("podAntiAffinity", (100, "web", HOSTNAME))
    made.deployment("shop/web", replicas=2, on=["a"], pod_spec=terms)
    # The term of the pod, and the same term of the other one.
    assert scores(made, "shop/web-1-0", Preference.INTER_POD_AFFINITY)[0] == {"a": -200, "b": 0}


def test_topology_spread_counts_pods_in_the_zone():
    """podtopologyspread: without itself 3, 1 and 0 pods; 3 zones weigh ln 5 = 1.609; maxSkew 1 adds 0.

    round(3·1.609) = 5, round(1.609) = 2 and 0; then 100·(5 + 0 - 5)/5, 100·(5 - 2)/5 and 100·5/5.
    """
    soft = spread("web", whenUnsatisfiable="ScheduleAnyway")
    made = zones(a1="a", b1="b", c1="c", bare="")
    made.deployment("shop/web", replicas=5, on=["a1", "a1", "a1", "a1", "b1"], pod_spec=soft)
    values, found, is_reason = scores(made, "shop/web-1-0", Preference.POD_TOPOLOGY_SPREAD)
    assert values == {"a1": -5, "b1": -2, "c1": 0, "bare": -math.inf}
    assert found == {"a1": 0, "b1": 60, "c1": 100, "bare": 0}
    assert is_reason


def test_only_nodes_that_are_compared_normalize_a_spread():
    """podtopologyspread: without zone c, 2 zones weigh ln 4 = 1.386: round(3·1.386) = 4 and round(1.386) = 1.

    Then 100·(4 + 1 - 4)/4 and 100·(4 + 1 - 1)/4.
    """
    soft = spread("web", whenUnsatisfiable="ScheduleAnyway")
    made = zones(a1="a", b1="b", c1="c")
    made.deployment("shop/web", replicas=5, on=["a1", "a1", "a1", "a1", "b1"], pod_spec=soft)
    values, found, _ = scores(made, "shop/web-1-0", Preference.POD_TOPOLOGY_SPREAD, {"a1", "b1"})
    assert (values["a1"], values["b1"]) == (-4, -1)
    assert (found["a1"], found["b1"]) == (25, 100)


def test_topology_spread_adds_max_skew_and_counts_nodes_for_hostnames():
    """podtopologyspread, `scoreForCount`: zone with maxSkew 3 adds 2; 2 zones weigh ln 4 = 1.386, 3 nodes
    ln 5 = 1.609.

    Without itself: a1 has 1 (zone 2), a2 has 1 (zone 2), b1 has 0 (zone 0).
    a1 and a2: 2·1.386 + 2 + 1·1.609 = 6.38 → 6; b1: 2 → 2. Then 100·(6 + 2 - 6)/6 = 33 and 100·6/6.
    """
    soft = spread("web", skew=3, whenUnsatisfiable="ScheduleAnyway")
    soft["topologySpreadConstraints"] += spread("web", HOSTNAME, whenUnsatisfiable="ScheduleAnyway")[
        "topologySpreadConstraints"
    ]
    made = zones(a1="a", a2="a", b1="b")
    made.deployment("shop/web", replicas=3, on=["a1", "a1", "a2"], pod_spec=soft)
    values, found, is_reason = scores(made, "shop/web-1-0", Preference.POD_TOPOLOGY_SPREAD)
    assert values == {"a1": -6, "a2": -6, "b1": -2}
    assert found == {"a1": 33, "a2": 33, "b1": 100}
    assert is_reason, "two on a1, none on b1"


def test_a_spread_within_its_max_skew_is_no_reason_to_move():
    soft = spread("web", skew=2, whenUnsatisfiable="ScheduleAnyway")
    made = zones(a1="a", b1="b").deployment("shop/web", replicas=2, on=["a1"], pod_spec=soft)
    assert not scores(made, "shop/web-1-0", Preference.POD_TOPOLOGY_SPREAD)[2]


def test_a_pod_may_be_better_off_by_any_of_its_preferences():
    """Its spread is fine where it is, but the other node has the disk."""
    made = cluster().node("a", labels={ZONE: "a"}).node("b", labels={ZONE: "b", "disk": "ssd"})
    soft = spread("web", skew=2, whenUnsatisfiable="ScheduleAnyway")
    made.pod(
        "shop/web", on="a", labels={"app": "web"}, pod_spec=soft | node_terms((30, [is_in("disk", "ssd")]))
    )
    snapshot = made.snapshot()
    preferences = Placement(snapshot).preferences(int(snapshot.pods.pod_class[0]))
    assert preferences.improvable(ALL, np.ones(2, np.bool_)).tolist() == [True, False]


def test_plugins_that_have_nothing_to_say_are_left_out():
    made = cluster().nodes("a", "b").pod("shop/web", on="a", pod_spec=spread("web"))
    snapshot = made.snapshot()
    assert Placement(snapshot).preference_scores(0, ALL, np.ones(2, np.bool_)) == []


@settings(max_examples=15, deadline=None, database=None)
@given(seed=st.integers(0, 100_000))
def test_a_pod_is_scored_as_if_it_were_not_there(seed):
    """The same as for a pending pod in the cluster without it."""
    built = random_cluster(seed)
    snapshot = built.snapshot()
    placement, everywhere = Placement(snapshot), np.ones(len(snapshot.nodes), np.bool_)
    for pod, record in enumerate(snapshot.pods.records):
        if not record.node or record.is_terminating or record.is_finished:
            continue
        others = [other for other in snapshot.pods.records if other is not record]
        fresh = with_pods(built, [*others, copy_of(record, "")])
        expected = Placement(fresh).preference_scores(fresh.pods.row[record.key], ALL, everywhere)
        found = placement.preference_scores(pod, ALL, everywhere)
        assert [each.preference for each in found] == [each.preference for each in expected]
        for one, other in zip(found, expected, strict=True):
            assert one.score == pytest.approx(other.score)
