"""MakeRoom: pods that can't be scheduled get room on one node, with the fewest moves."""

from dataclasses import replace
from datetime import timedelta

import pytest

from kubevalues import parse_selector
from rescheduler.config.policy import NodeAutoscaler, Policy
from rescheduler.config.policy_blocks import Defragment, MakeRoomPolicy, RoomWithAutoscaler
from rescheduler.planner.plan_builder import build_plan
from rescheduler.strategies.make_room import MakeRoom
from rescheduler.strategies.make_room.room_search import RoomSearch
from rescheduler.strategies.strategy_registry import strategies_of
from tests.battery.pod_constraints import ZONE, spread
from tests.building import cluster

GPU = "nvidia.com/gpu"
ALONE = Policy(enabled_strategies=("MakeRoom",))
DISABLED = {"scheduler.alpha.kubernetes.io/rescheduling": "disabled"}
GROUP = "scheduling.x-k8s.io/pod-group"


def waiting(made, key, *, since="2026-03-02T11:00:00Z", message="3 Insufficient cpu.", **parts):
    """A pod for which the scheduler found no node, since an hour ago."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": since,
    }
    return made.pod(key, status={"conditions": [condition], **parts.pop("status", {})}, **parts)


def planned(made, policy=ALONE, **setting):
    policy = replace(policy, make_room=MakeRoomPolicy(**setting)) if setting else policy
    return build_plan(made.snapshot(), policy, [MakeRoom()])


def moves(plan):
    return [(move.pod, move.source, move.target) for move in plan.moves]


def rooms(plan):
    return {(room.pod, room.node) for move in plan.moves for room in move.rooms}


def reasons(plan):
    return {each.subject: each.reason for each in plan.refused}


def fragmented(names="abc"):
    """Nodes with 2 of 8 GPUs free each, beside a pod with 4 and one with 2."""
    made = cluster().nodes(*names, more={GPU: "8"})
    made.deployment("ml/four", replicas=len(names), on=names, more={GPU: "4"})
    return made.deployment("ml/two", replicas=len(names), on=names, more={GPU: "2"})


def test_a_pod_gets_the_room_that_is_scattered_over_three_nodes():
    made = waiting(fragmented(), "ml/train", more={GPU: "4"})
    plan = planned(made)
    assert moves(plan) == [("ml/two-1-0", "a", "b")]
    assert rooms(plan) == {("ml/train", "a")}


def test_the_reason_says_for_whom_and_what_is_missing():
    made = waiting(fragmented(), "ml/train", more={GPU: "4"})
    (move,) = planned(made).moves
    assert move.reason == "makes room for ml/train on a: requests 4 nvidia.com/gpu, 2 of 8 free"
    assert move.gain == pytest.approx(1.0)


def test_pods_that_fit_nowhere_keep_no_other_namespace_from_getting_room():
    made = waiting(fragmented(), "ml/train", more={GPU: "4"})
    for number in range(150):
        waiting(made, f"hostile/huge-{number:03}", cpu=f"{number + 50}")
    assert rooms(planned(made)) == {("ml/train", "a")}


def test_namespaces_take_turns_for_the_moves_of_a_check():
    """One namespace has more pods waiting than moves are allowed; one more pod of another waits."""
    made = fragmented("abcdef")
    for number in range(10):
        waiting(made, f"hostile/train-{number}", more={GPU: "4"})
    waiting(made, "ml/train", more={GPU: "4"})
    plan = planned(made, replace(ALONE, max_reschedule_pods=2))
    assert {pod for pod, _ in rooms(plan)} == {"hostile/train-0", "ml/train"}


def test_nothing_moves_while_every_pod_is_scheduled():
    assert planned(fragmented()).moves == ()


def test_a_pod_that_fits_by_now_is_left_to_the_scheduler():
    assert planned(waiting(fragmented(), "ml/small", more={GPU: "2"})).moves == ()


def test_room_that_is_there_is_there_for_one_pod_only():
    """Three nodes have 2 GPUs free; the fourth pod needs a move."""
    made = fragmented()
    made.node("d", more={GPU: "3"}).deployment("ml/three", on=["d"], more={GPU: "1"})
    made.node("e", more={GPU: "1"})
    for number in range(5):
        waiting(made, f"ml/small-{number}", more={GPU: "2"})
    assert len(planned(made).moves) == 0
    made.node("f", more={GPU: "2"}).deployment("ml/last", on=["f"], more={GPU: "1"})
    assert moves(planned(made)) == [("ml/last-1-0", "f", "e")]


def test_a_pod_that_no_node_is_large_enough_for_is_reported():
    plan = planned(waiting(fragmented(), "ml/huge", more={GPU: "9"}))
    assert plan.moves == ()
    assert reasons(plan)["ml/huge"] == "NoRoomToMake"


def test_no_pod_of_higher_priority_moves_and_one_of_the_same_does():
    made = cluster().nodes("a", "b", cpu="4")
    made.deployment("shop/high", on=["a"], cpu="3", priority=10)
    made.deployment("shop/same", on=["b"], cpu="2", priority=5).pod(
        "shop/bare", on="a", cpu="500m", priority=9
    )
    waiting(made, "shop/new", cpu="4", priority=5)
    assert planned(made).moves == ()
    made.node("c", cpu="2")
    assert moves(planned(made)) == [("shop/same-1-0", "b", "c")]


def test_protected_pods_stay():
    made = cluster().nodes("a", "b", cpu="4")
    made.deployment("shop/fixed", on=["a"], cpu="2", labels=DISABLED).deployment(
        "shop/free", on=["b"], cpu="2"
    )
    waiting(made, "shop/new", cpu="4")
    assert moves(planned(made)) == [("shop/free-1-0", "b", "a")]


def test_one_large_move_goes_before_two_small_ones():
    made = cluster().nodes("a", "b", cpu="4")
    made.deployment("shop/small", replicas=2, on=["a"], cpu="1").deployment("shop/large", on=["b"], cpu="2")
    waiting(made, "shop/new", cpu="4")
    assert moves(planned(made)) == [("shop/large-1-0", "b", "a")]


def test_a_pod_that_can_be_copied_goes_before_one_that_has_to_be_evicted():
    made = cluster().nodes("a", "b", cpu="4").node("c", cpu="2")
    made.stateful_set("shop/db", replicas=2, on=["a", "c"], cpu="1").deployment("shop/web", on=["b"], cpu="1")
    waiting(made, "shop/new", cpu="4")
    assert moves(planned(made)) == [("shop/web-1-0", "b", "c")]


def test_a_leaver_without_a_target_gets_room_itself():
    """The leaver fits only on c, from which a smaller pod has to go first."""
    made = cluster().node("a", cpu="8").node("b", cpu="1").node("c", cpu="4")
    made.deployment("shop/leaver", on=["a"], cpu="4").deployment("shop/tiny", on=["c"], cpu="1")
    waiting(made, "shop/new", cpu="8")
    assert moves(planned(made)) == [("shop/tiny-1-0", "c", "b"), ("shop/leaver-1-0", "a", "c")]


def test_pods_that_exclude_it_leave():
    apart = {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "labelSelector": {"matchLabels": {"app": "noisy"}},
                        "topologyKey": "kubernetes.io/hostname",
                    }
                ]
            }
        }
    }
    made = cluster().nodes("a", "b", cpu="4").deployment("shop/noisy", replicas=2, on=["a", "b"], cpu="1")
    waiting(made, "shop/quiet", cpu="1", spec=apart)
    assert len(planned(made).moves) == 1


def test_pods_of_the_zone_that_exclude_it_leave_the_zone():
    apart = {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"app": "noisy"}}, "topologyKey": ZONE}
                ]
            }
        }
    }
    made = cluster().node("a", labels={ZONE: "x"}).node("b", labels={ZONE: "x"}).node("c", labels={ZONE: "y"})
    made.deployment("shop/noisy", replicas=2, on=["b", "c"], cpu="1")
    waiting(made, "shop/quiet", cpu="1", spec=apart)
    (move,) = planned(made).moves
    assert (move.source, move.target) in {("b", "c"), ("c", "b"), ("c", "a")}


def test_a_zone_that_spread_asks_for_gets_the_room():
    made = cluster().node("a", cpu="4", labels={ZONE: "x"}).node("b", cpu="4", labels={ZONE: "y"})
    made.deployment("shop/web", replicas=1, on=["a"], cpu="1", pod_spec=spread("web"))
    made.deployment("shop/other", on=["b"], cpu="3500m").node("c", cpu="4", labels={ZONE: "x"})
    waiting(made, "shop/web-1-9", cpu="1", labels={"app": "web"}, spec=spread("web"))
    assert moves(planned(made)) == [("shop/other-1-0", "b", "c")]


def test_a_group_gets_room_as_a_whole():
    """Also the member that would fit anyway: its room must not be used for the other."""
    made = fragmented()
    waiting(made, "ml/gang-0", more={GPU: "4"}, labels={GROUP: "gang"})
    waiting(made, "ml/gang-1", more={GPU: "2"}, labels={GROUP: "gang"})
    plan = planned(made)
    assert len(plan.moves) == 1
    assert rooms(plan) == {("ml/gang-0", "a"), ("ml/gang-1", "c")}


def test_a_group_of_which_one_gets_no_room_gets_none():
    made = fragmented()
    waiting(made, "ml/gang-0", more={GPU: "4"}, labels={GROUP: "gang"})
    waiting(made, "ml/gang-1", more={GPU: "9"}, labels={GROUP: "gang"})
    assert planned(made).moves == ()


def test_the_whole_group_of_a_leaver_moves():
    made = cluster().nodes("a", "b", "c", cpu="4")
    made.deployment("ml/gang", replicas=2, on=["a", "b"], cpu="2", labels={GROUP: "gang"})
    made.deployment("ml/fixed", on=["b"], cpu="1", labels=DISABLED).deployment(
        "ml/more", on=["c"], cpu="500m", labels=DISABLED
    )
    waiting(made, "ml/new", cpu="4")
    assert moves(planned(made)) == []
    made.node("d", cpu="4")
    made.deployment("ml/last", on=["d"], cpu="500m", labels=DISABLED)
    assert {move.pod for move in planned(made).moves} == {"ml/gang-1-0", "ml/gang-1-1"}


def test_two_pending_pods_get_two_rooms():
    made = waiting(waiting(fragmented("abcd"), "ml/one", more={GPU: "4"}), "ml/other", more={GPU: "4"})
    assert {pod for pod, _ in rooms(planned(made))} == {"ml/one", "ml/other"}


def test_the_pod_of_higher_priority_comes_first():
    made = waiting(fragmented(), "ml/a-low", more={GPU: "4"})
    waiting(made, "ml/z-high", more={GPU: "4"}, priority=10)
    assert rooms(planned(made, max_moves=1)) == {("ml/z-high", "a")}


def test_it_waits_before_it_acts():
    made = waiting(fragmented(), "ml/train", more={GPU: "4"}, since="2026-03-02T11:59:50Z")
    assert planned(made).moves == ()
    assert len(planned(made, min_pending_time=timedelta(seconds=5)).moves) == 1


@pytest.mark.parametrize(
    ("setting", "since", "acts"),
    [
        pytest.param("never", "2026-03-02T11:00:00Z", False, id="never"),
        pytest.param("always", "2026-03-02T11:59:00Z", True, id="always"),
        pytest.param("afterTimeout", "2026-03-02T11:59:00Z", False, id="not before the timeout"),
        pytest.param("afterTimeout", "2026-03-02T11:50:00Z", True, id="after the timeout"),
    ],
)
def test_an_autoscaler_comes_first_as_configured(setting, since, acts):
    made = waiting(fragmented(), "ml/train", more={GPU: "4"}, since=since)
    policy = replace(ALONE, node_autoscaler=NodeAutoscaler.OTHER)
    plan = planned(made, policy, with_autoscaler=RoomWithAutoscaler(setting))
    assert bool(plan.moves) is acts
    assert ("LeftToAutoscaler" in reasons(plan).values()) is not acts


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"labels": DISABLED}, "OptedOut"),
        ({"spec": {"schedulerName": "volcano"}}, "OtherScheduler"),
        ({"spec": {"resourceClaims": [{"name": "gpu"}]}}, "ResourceClaims"),
    ],
)
def test_pods_that_are_not_ours_to_care_for_are_reported(parts, reason):
    plan = planned(waiting(fragmented(), "ml/train", more={GPU: "4"}, **parts))
    assert (plan.moves, reasons(plan)["ml/train"]) == ((), reason)


def test_pods_of_excluded_namespaces_are_left_alone():
    assert planned(waiting(fragmented(), "kube-system/train", more={GPU: "4"})).moves == ()


def test_no_room_is_made_for_pods_of_namespaces_that_opted_out():
    made = waiting(fragmented(), "ml/train", more={GPU: "4"}).namespace("ml", rescheduling="off")
    selecting = replace(ALONE, namespace_selector=parse_selector("rescheduling!=off"))
    plan = planned(made.namespace("shop"), selecting)
    assert (plan.moves, reasons(plan)["ml/train"]) == ((), "NamespaceNotSelected")


def test_a_nominated_pod_whose_room_is_not_there_yet_is_still_helped():
    """Its own nomination is not in its way."""
    made = waiting(fragmented(), "ml/train", more={GPU: "4"}, status={"nominatedNodeName": "b"})
    plan = planned(made)
    assert rooms(plan) <= {("ml/train", node) for node in "abc"}
    assert len(plan.moves) == 1


def test_while_pods_leave_its_nominated_node_nothing_is_planned():
    made = waiting(fragmented(), "ml/train", more={GPU: "4"}, status={"nominatedNodeName": "b"})
    made.pod("ml/victim", on="b", deleted="2026-03-02T11:59:59Z")
    assert planned(made).moves == ()


def test_no_later_strategy_fills_the_room():
    """LoadBalancing would send the next pod to the node that was just relieved."""
    made = cluster().nodes("a", "b", "c", cpu="4")
    made.deployment("shop/x", replicas=3, on=["a", "b", "b"], cpu="1").deployment("shop/y", on=["c"], cpu="1")
    waiting(made, "shop/new", cpu="4")
    policy = Policy(enabled_strategies=("MakeRoom", "LoadBalancing"))
    plan = build_plan(made.snapshot(), policy, strategies_of(policy))
    (room,) = rooms(plan)
    assert all(move.target != room[1] for move in plan.moves)


# -- defragment


def test_a_block_is_freed_and_kept():
    made = cluster().nodes("a", "b", "c", more={GPU: "8"})
    made.deployment("ml/one", replicas=3, on=["a", "b", "c"], more={GPU: "1"})
    setting = {"defragment": Defragment(resource=GPU, keep_free=8)}
    plan = planned(made, **setting)
    assert len(plan.moves) == 1
    assert plan.moves[0].reason.startswith("keeps 8 nvidia.com/gpu free on ")
    assert plan.moves[0].rooms == ()


def test_a_block_that_is_free_already_costs_nothing():
    made = cluster().nodes("a", "b", more={GPU: "8"}).deployment("ml/one", on=["a"], more={GPU: "1"})
    assert planned(made, defragment=Defragment(resource=GPU, keep_free=8)).moves == ()


def test_a_block_larger_than_every_node_is_reported():
    made = cluster().nodes("a", "b", more={GPU: "8"}).deployment("ml/one", on=["a"], more={GPU: "1"})
    plan = planned(made, defragment=Defragment(resource=GPU, keep_free=16))
    assert (plan.moves, reasons(plan)) == ((), {"": "NoRoomToMake"})


def test_no_pod_is_evicted_only_to_keep_a_block_free():
    made = cluster().nodes("a", "b", more={GPU: "8"})
    made.stateful_set("ml/db", replicas=2, on=["a", "b"], more={GPU: "1"})
    assert planned(made, defragment=Defragment(resource=GPU, keep_free=8)).moves == ()


def test_no_pod_moves_twice_to_make_room():
    """The leaver of the node could only go where a pod that moved aside would have to move again."""
    made = cluster().node("a", cpu="6").node("b", cpu="4").node("c", cpu="3")
    made.deployment("shop/big", on=["a"], cpu="4").deployment("shop/mid", on=["b"], cpu="3")
    made.deployment("shop/tiny", on=["c"], cpu="1")
    waiting(made, "shop/new", cpu="6")
    pods = [move.pod for move in planned(made).moves]
    assert len(pods) == len(set(pods))


def test_many_pods_that_are_alike_and_get_no_room_are_searched_for_once(monkeypatch):
    made = fragmented()
    for number in range(50):
        waiting(made, f"ml/huge-{number:02}", more={GPU: "9"})
    searched = []
    find = RoomSearch.find
    monkeypatch.setattr(RoomSearch, "find", lambda *rest: searched.append(rest) or find(*rest))
    plan = planned(made)
    assert len(searched) == 1
    assert [each.reason for each in plan.refused].count("NoRoomToMake") == 50
