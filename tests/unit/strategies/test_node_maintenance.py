"""NodeMaintenance cordons nodes in maintenance and moves every movable pod off them."""

import random

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rescheduler.api.podmigration import MAX_TEXT_LENGTH
from rescheduler.api.well_known_names import (
    CORDONED_BY_ANNOTATION,
    MAINTENANCE_LABEL,
    REQUESTED_BY_ANNOTATION,
)
from rescheduler.cluster.node_record import NodeChange
from rescheduler.config.policy import Policy
from rescheduler.planner.plan_builder import build_plan
from rescheduler.rules.placement import Placement
from rescheduler.strategies.node_maintenance import NodeMaintenance
from tests.battery.pod_constraints import ZONE, apart, spread
from tests.building import cluster

LEAVING = {MAINTENANCE_LABEL: "true"}
DISABLED = {"scheduler.alpha.kubernetes.io/rescheduling": "disabled"}


def planned(made, **policy):
    return build_plan(made.snapshot(), Policy(**policy), [NodeMaintenance()])


def ways(found):
    return [(move.pod.removeprefix("shop/"), move.source, move.target) for move in found.moves]


def changes(found):
    return [(change.node, change.change) for change in found.changes]


def test_the_node_is_cordoned_and_emptied():
    made = cluster().nodes("a", "b").node("old", labels=LEAVING)
    made.deployment("shop/web", replicas=3, on=["old", "old", "a"])
    found = planned(made)
    assert changes(found) == [("old", NodeChange.CORDON)]
    assert {(move.pod, move.source) for move in found.moves} == {
        ("shop/web-1-0", "old"),
        ("shop/web-1-1", "old"),
    }


def test_the_reason_names_the_node_and_the_load_of_the_target():
    made = (
        cluster().node("a", cpu="4").node("old", labels=LEAVING).deployment("shop/web", on=["old"], cpu="1")
    )
    (move,) = planned(made).moves
    assert move.reason == "old in maintenance, target 25.0%"
    assert move.gain == 1.0


def test_the_reason_names_the_user_who_drains_the_node():
    """Whoever moves the pods, the daemon or the command: the user is in an annotation of the node."""
    by = {REQUESTED_BY_ANNOTATION: "ann@example.com (ann@laptop)"}
    made = cluster().node("a", cpu="4").node("old", labels=LEAVING, annotations=by)
    made.deployment("shop/web", on=["old"], cpu="1")
    (move,) = planned(made).moves
    assert move.reason == "old in maintenance, requested by ann@example.com (ann@laptop), target 25.0%"


def test_an_annotation_of_any_length_leaves_a_valid_reason():
    by = {REQUESTED_BY_ANNOTATION: "x" * 100_000}
    made = cluster().node("a").node("old", labels=LEAVING, annotations=by).deployment("shop/web", on=["old"])
    (move,) = planned(made).moves
    assert len(move.reason) < MAX_TEXT_LENGTH


def test_a_node_that_is_cordoned_already_stays_whose_it_is():
    made = cluster().node("a").node("old", labels=LEAVING, cordoned=True).deployment("shop/web", on=["old"])
    found = planned(made)
    assert changes(found) == []
    assert ways(found) == [("web-1-0", "old", "a")]


def test_another_value_of_the_label_means_nothing():
    made = cluster().node("a").node("b", labels={MAINTENANCE_LABEL: "false"}).deployment("shop/web", on=["b"])
    assert planned(made).moves == ()


def test_when_the_label_is_gone_what_we_cordoned_is_uncordoned():
    made = cluster().node("back", cordoned=True, annotations={CORDONED_BY_ANNOTATION: "NodeMaintenance"})
    made.node("theirs", cordoned=True).node(
        "cost", cordoned=True, annotations={CORDONED_BY_ANNOTATION: "CostOptimization"}
    )
    made.node("by-hand", annotations={CORDONED_BY_ANNOTATION: "NodeMaintenance"})
    assert changes(planned(made)) == [("back", NodeChange.UNCORDON)]


def test_what_can_not_be_moved_is_reported_with_its_reason():
    made = cluster().node("a", cpu="1").node("old", labels=LEAVING)
    made.deployment("shop/large", on=["old"], cpu="4").deployment("shop/fixed", on=["old"], labels=DISABLED)
    made.daemon_set("kube-system/proxy", on=["old"])
    found = planned(made)
    assert found.moves == ()
    assert {each.subject: each.reason for each in found.refused} == {
        "kube-system/proxy-old": "DaemonSetPod",
        "shop/fixed-1-0": "OptedOut",
        "shop/large-1-0": "NoTarget",
    }


def test_pods_of_lower_priority_go_first_and_our_own_last():
    made = cluster().node("a").node("old", labels=LEAVING)
    made.deployment("shop/a-high", on=["old"], priority=9)
    made.deployment("shop/b-low", on=["old"], priority=1)
    made.deployment("shop/c-ours", on=["old"], labels={"app.kubernetes.io/name": "rescheduler"})
    assert [move.pod for move in planned(made).moves] == [
        "shop/b-low-1-0",
        "shop/a-high-1-0",
        "shop/c-ours-1-0",
    ]
    assert [move.pod for move in planned(made, max_reschedule_pods=1).moves] == ["shop/b-low-1-0"]


def test_the_cluster_stays_even_where_there_is_room():
    made = cluster().nodes("a", "b", "c").node("old", labels=LEAVING)
    made.deployment("shop/web", replicas=6, on=["old"], cpu="1", memory="2Gi")
    targets = [move.target for move in planned(made).moves]
    assert sorted(targets) == ["a", "a", "b", "b", "c", "c"]


def test_small_pods_do_not_take_the_only_place_of_a_large_one():
    # By load the small ones would go to `wide`, where the large one must go.
    made = cluster().node("tight", cpu="2").node("wide", cpu="4").node("old", labels=LEAVING)
    made.deployment("shop/a-small", replicas=2, on=["old"], cpu="1").deployment(
        "shop/large", on=["old"], cpu="4"
    )
    assert {pod: target for pod, _, target in ways(planned(made))} == {
        "a-small-1-0": "tight",
        "a-small-1-1": "tight",
        "large-1-0": "wide",
    }


def test_also_with_room_for_one_move_the_hard_ones_keep_their_place():
    made = cluster().node("tight", cpu="2").node("wide", cpu="4").node("old", labels=LEAVING)
    made.deployment("shop/a-small", replicas=2, on=["old"], cpu="1").deployment(
        "shop/large", on=["old"], cpu="4"
    )
    assert ways(planned(made, max_reschedule_pods=1)) == [("a-small-1-0", "old", "tight")]


def test_pods_are_packed_if_even_loads_leave_a_pod_without_target():
    made = cluster().nodes("a", "b", cpu="4").node("old", labels=LEAVING)
    made.deployment("shop/three", replicas=2, on=["old"], cpu="1500m")
    made.deployment("shop/four", replicas=1, on=["old"], cpu="2500m").deployment(
        "shop/rest", on=["old"], cpu="2500m"
    )
    assert len(planned(made).moves) == 4


def test_a_bystander_makes_room_if_nothing_else_helps():
    made = cluster().node("a", cpu="4").node("b", cpu="2").node("old", labels=LEAVING)
    made.deployment("shop/by", on=["a"], cpu="1").deployment("shop/large", on=["old"], cpu="3500m")
    found = planned(made)
    assert ways(found) == [("by-1-0", "a", "b"), ("large-1-0", "old", "a")]
    assert found.moves[0].reason == "makes room for shop/large-1-0"


def test_a_bystander_that_would_be_interrupted_is_left_alone():
    made = cluster().node("a", cpu="4").node("b", cpu="2").node("old", labels=LEAVING)
    made.stateful_set("shop/by", on=["a"], cpu="1").deployment("shop/large", on=["old"], cpu="3500m")
    assert planned(made).moves == ()


def test_spread_and_distance_are_kept():
    made = cluster().node("old", labels=LEAVING | {ZONE: "a"})
    for number, zone in enumerate("abcabc"):
        made.node(f"n{number}", labels={ZONE: zone})
    constraints = spread("web") | apart("web")
    made.deployment("shop/web", replicas=5, on=["old", "n1", "n2", "n3", "n4"], pod_spec=constraints)
    assert ways(planned(made)) == [("web-1-0", "old", "n5")], "n0 would make three in a while it is copied"


def test_members_of_a_group_on_leaving_nodes_go_together():
    label = {"scheduling.x-k8s.io/pod-group": "ring"}
    made = cluster().nodes("a", "b").nodes("old", "older", labels=LEAVING)
    made.deployment("shop/ring", replicas=3, on=["old", "older", "a"], labels=label)
    moves = planned(made).moves
    assert {(move.pod, move.group) for move in moves} == {
        ("shop/ring-1-0", "shop/ring"),
        ("shop/ring-1-1", "shop/ring"),
    }


def test_a_group_of_which_one_can_not_go_stays_and_says_so():
    label = {"scheduling.x-k8s.io/pod-group": "ring"}
    made = cluster().nodes("a", "b").node("old", labels=LEAVING)
    made.pod("shop/x", on="old", labels=label).pod("shop/y", on="old", labels=label | DISABLED)
    found = planned(made)
    assert found.moves == ()
    assert ("shop/x", "GroupIncomplete") in {(each.subject, each.reason) for each in found.refused}


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
@example(seed=33)
@example(seed=118)
def test_all_find_a_place_wherever_a_search_of_all_ways_finds_places_for_all(seed):
    made = crammed(random.Random(seed))
    leaving = [pod.key for pod in made.snapshot().pods.records if pod.node == "old"]
    if all_have_places(made.snapshot()):
        assert {move.pod for move in planned(made, max_concurrent_per_workload=9).moves} >= set(leaving)


def crammed(rng):
    """Hardly more room than it takes."""
    made = cluster().node("old", cpu="16", labels=LEAVING | {ZONE: "a"})
    for number in range(3):
        made.node(f"n{number}", cpu=str(rng.randint(2, 4)), labels={ZONE: rng.choice("ab")})
    for number in range(rng.randint(2, 4)):
        app = f"app-{number}"
        constraints = apart(app) if rng.random() < 0.4 else {}
        replicas, cpu = rng.randint(1, 2), rng.choice(("1", "1500m", "2"))
        made.deployment(f"shop/{app}", replicas=replicas, on=["old"], cpu=cpu, pod_spec=constraints)
    return made


def all_have_places(snapshot):
    placement, old = Placement(snapshot), snapshot.nodes.row["old"]

    def from_here(pods):
        if not pods:
            return True
        for node in np.flatnonzero(placement.fits(pods[0], source_stays=True)).tolist():
            with placement.trial():
                placement.move(pods[0], node)
                if from_here(pods[1:]):
                    return True
        return False

    return from_here(snapshot.pods.on(old).tolist())
