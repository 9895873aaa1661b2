"""CostOptimization empties nodes that are not needed, and uncordons them when they are."""

from dataclasses import replace

import pytest

from kubevalues import parse_selector
from rescheduler.api.well_known_names import CORDONED_BY_ANNOTATION, MAINTENANCE_LABEL
from rescheduler.cluster.node_record import NodeChange
from rescheduler.config.policy import NodeAutoscaler, Policy
from rescheduler.config.policy_blocks import Cost
from rescheduler.planner.plan_builder import build_plan
from rescheduler.strategies.cost_optimization import CostOptimization
from tests.battery.executing import CheckLoop
from tests.battery.pod_constraints import ZONE, spread
from tests.building import cluster

DISABLED = {"scheduler.alpha.kubernetes.io/rescheduling": "disabled"}
OURS = {CORDONED_BY_ANNOTATION: "CostOptimization"}
PRICE = "example.com/price"
ALONE = Policy(enabled_strategies=("CostOptimization",), node_autoscaler=NodeAutoscaler.OTHER)


def planned(made, policy=ALONE, **parts):
    return build_plan(made.snapshot(), replace(policy, **parts), [CostOptimization()])


def changes(found):
    return [(change.node, change.change) for change in found.changes]


def emptied(found):
    return [change.node for change in found.changes if change.change is NodeChange.CORDON]


def waiting(made, key, cpu, message="0/3 nodes are available: 3 Insufficient cpu.", **parts):
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return made.pod(key, cpu=cpu, status={"conditions": [condition]}, **parts)


def test_the_node_that_takes_the_fewest_moves_is_emptied_and_cordoned():
    made = cluster().nodes("a", "b", cpu="4").deployment("shop/web", replicas=3, on=["a", "b", "a"], cpu="1")
    found = planned(made)
    assert [(move.pod, move.source, move.target) for move in found.moves] == [("shop/web-1-1", "b", "a")]
    assert changes(found) == [("b", NodeChange.CORDON)]


def test_the_reasons_say_what_is_saved():
    made = cluster().nodes("a", "b", cpu="4").deployment("shop/web", replicas=3, on=["a", "b", "a"], cpu="1")
    found = planned(made)
    assert found.moves[0].reason == "empties b, target 75.0%"
    assert found.moves[0].gain == pytest.approx(0.5)
    assert found.changes[0].reason == "not needed: 1 pod fits elsewhere, saves 1"


def test_a_node_of_which_one_pod_has_no_place_elsewhere_is_left_alone():
    made = cluster().nodes("a", "b", cpu="4").deployment("shop/web", replicas=2, on=["a", "b"], cpu="3")
    made.deployment("shop/small", on=["b"])
    assert planned(made).moves == ()


def test_a_node_of_which_one_pod_may_not_move_is_left_alone():
    made = cluster().nodes("a", "b").deployment("shop/web", replicas=3, on=["a", "b", "b"])
    made.deployment("shop/fixed", replicas=2, on=["a", "b"], labels=DISABLED)
    assert planned(made).moves == ()


def test_pods_that_belong_to_their_node_do_not_count():
    made = cluster().nodes("a", "b").deployment("shop/web", replicas=3, on=["a", "a", "b"])
    made.daemon_set("kube-system/proxy", on=["a", "b"])
    made.pod("kube-system/static-b", on="b", owner="Node/b", annotations={"kubernetes.io/config.mirror": "x"})
    assert emptied(planned(made)) == ["b"]


def test_the_dearer_node_is_emptied_by_its_label():
    made = cluster().node("a", labels={PRICE: "1"}).node("b", labels={PRICE: "5"})
    made.deployment("shop/web", replicas=3, on=["a", "b", "b"], cpu="1")
    assert emptied(planned(made, cost=Cost(price_label=PRICE))) == ["b"]
    assert emptied(planned(made)) == ["a"], "without prices the fewest moves count"


def test_the_dearer_node_is_emptied_by_the_price_of_its_type():
    kind = "node.kubernetes.io/instance-type"
    made = cluster().node("a", labels={kind: "small"}).node("b", labels={kind: "large"})
    made.deployment("shop/web", replicas=3, on=["a", "b", "b"], cpu="1")
    assert emptied(planned(made, cost=Cost(prices={"small": 1.0, "large": 5.0}))) == ["b"]


def test_a_node_that_costs_nothing_is_never_emptied():
    made = cluster().node("a", labels={PRICE: "0"}).node("b", labels={PRICE: "1"})
    made.deployment("shop/web", replicas=3, on=["a", "b", "b"], cpu="3")
    assert planned(made, cost=Cost(price_label=PRICE)).moves == ()


def test_an_empty_node_is_not_filled_unless_it_is_cheaper():
    made = cluster().node("a", labels={PRICE: "2"}).node("b", labels={PRICE: "2"})
    made.deployment("shop/web", replicas=2, on=["a"])
    assert planned(made, cost=Cost(price_label=PRICE)).moves == ()
    made.node("b", labels={PRICE: "1"})
    assert {move.target for move in planned(made, cost=Cost(price_label=PRICE)).moves} == {"b"}


def test_targets_stay_below_what_would_make_them_shed_pods():
    made = cluster().nodes("a", "b", cpu="10").deployment("shop/web", replicas=9, on=["a", "b"], cpu="1")
    assert emptied(planned(made)) == ["b"]
    both = replace(ALONE, enabled_strategies=("ResourceOptimization", "CostOptimization"))
    assert emptied(planned(made, both)) == [], "one node would have 90% of its cpu in use"


def test_only_nodes_that_it_is_asked_to_look_at_take_part():
    made = cluster().node("a", labels={"pool": "x"}).nodes("b", "c", labels={"pool": "y"})
    made.deployment("shop/web", replicas=3, on=["a", "b", "c"])
    found = planned(made, strategy_node_selectors={"CostOptimization": parse_selector("pool=y")})
    assert [(move.source, move.target) for move in found.moves] == [("b", "c")]


def test_a_node_is_opened_again_when_a_pod_finds_no_room():
    made = cluster().node("a", cpu="2").node("b", cpu="2", cordoned=True, annotations=OURS)
    made.deployment("shop/web", on=["a"], cpu="1")
    waiting(made, "shop/new", "1500m")
    found = planned(made)
    assert changes(found) == [("b", NodeChange.UNCORDON)]
    assert found.changes[0].reason == "shop/new does not fit on any other node"


def test_the_taint_of_a_cordoned_node_does_not_count_against_it():
    taint = "node.kubernetes.io/unschedulable:NoSchedule"
    made = cluster().node("a", cpu="1").node("b", cordoned=True, annotations=OURS, taints=[taint])
    assert changes(planned(waiting(made, "shop/new", "2"))) == [("b", NodeChange.UNCORDON)]
    made.node("b", cordoned=True, annotations=OURS, taints=[taint, "dedicated=x:NoSchedule"])
    assert changes(planned(made)) == []


def test_as_few_nodes_as_it_takes_are_opened_the_cheapest_first():
    made = cluster().node("a", cpu="1")
    for name, price in (("b", "3"), ("c", "1"), ("d", "2")):
        made.node(name, cpu="2", cordoned=True, annotations=OURS, labels={PRICE: price})
    for number in range(3):
        waiting(made, f"shop/new-{number}", "1")
    waiting(made, "shop/huge", "64")
    found = planned(made, cost=Cost(price_label=PRICE))
    # One fits on a, which is open; two on c.
    assert changes(found) == [("c", NodeChange.UNCORDON)]


def test_what_others_cordoned_stays_cordoned():
    made = cluster().node("a", cpu="1").node("b", cordoned=True)
    made.node("c", cordoned=True, annotations={CORDONED_BY_ANNOTATION: "NodeMaintenance"})
    made.node("d", cordoned=True, annotations=OURS, labels={MAINTENANCE_LABEL: "true"})
    assert changes(planned(waiting(made, "shop/new", "2"))) == []


def test_a_pod_that_waits_for_something_else_opens_nothing():
    made = cluster().node("a", cpu="1").node("b", cordoned=True, annotations=OURS)
    message = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
    waiting(made, "shop/new", "2", message, spec={"nodeSelector": {"disk": "ssd"}})
    assert changes(planned(made)) == []


def test_nothing_is_emptied_while_a_pod_lacks_room():
    made = cluster().nodes("a", "b", cpu="4").deployment("shop/web", replicas=2, on=["a", "b"], cpu="1")
    waiting(made, "shop/new", "3500m")
    assert planned(made).moves == ()


def test_a_pod_that_is_too_large_for_any_node_holds_up_nothing():
    made = cluster().nodes("a", "b", cpu="4").deployment("shop/web", replicas=2, on=["a", "b"], cpu="1")
    waiting(made, "shop/huge", "64")
    assert len(planned(made).moves) == 1


def test_a_large_node_is_emptied_by_several_plans():
    """It has more pods than a plan may move, and nothing moves back meanwhile."""
    made = cluster().nodes("a", "b", cpu="16").deployment("shop/web", replicas=7, on=["b"], cpu="1")
    made.deployment("shop/other", replicas=8, on=["a"], cpu="1")
    loop = CheckLoop(made, replace(ALONE, max_reschedule_pods=3))
    plans = list(loop.plans(6))
    assert [len(each.moves) for each in plans] == [3, 3, 1, 0, 0, 0]
    assert {move.source for each in plans for move in each.moves} == {"b"}
    assert [changes(each) for each in plans] == [[("b", NodeChange.CORDON)], [], [], [], [], []]


def test_a_node_that_does_not_fit_into_what_is_left_of_a_plan_waits_for_the_next():
    made = cluster().nodes("a", "b", "c", cpu="16").deployment("shop/web", replicas=2, on=["b"], cpu="1")
    made.deployment("shop/cart", replicas=3, on=["c"], cpu="1").deployment("shop/rest", replicas=9, on=["a"])
    plans = list(CheckLoop(made, replace(ALONE, max_reschedule_pods=4)).plans(3))
    assert [changes(each) for each in plans] == [
        [("b", NodeChange.CORDON)],
        [("c", NodeChange.CORDON)],
        [],
    ]


def test_a_node_is_not_emptied_where_that_would_leave_pods_unevenly_spread():
    # The scheduler would allow the copy in b or c; but then none would be left in a.
    made = cluster()
    for name, zone in zip("abc", "abc", strict=True):
        made.node(name, labels={ZONE: zone})
    made.deployment("shop/web", replicas=3, on=["a", "b", "c"], pod_spec=spread("web"))
    assert planned(made).moves == ()
    made.deployment("shop/web", replicas=3, on=["a", "b", "c"])
    assert len(planned(made).moves) == 2


def test_a_group_is_not_torn_apart():
    label = {"scheduling.x-k8s.io/pod-group": "ring"}
    made = cluster().nodes("a", "b").deployment("shop/ring", replicas=2, on=["a", "b"], labels=label)
    assert planned(made).moves == ()
