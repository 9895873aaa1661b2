"""Pods don't go to nodes that are about to be removed, and strategies leave such nodes alone."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from rescheduler.api.well_known_names import CORDONED_BY_ANNOTATION, MAINTENANCE_LABEL
from rescheduler.cluster.node_autoscalers import AutoscalerSigns, Consolidation
from rescheduler.cluster.node_record import NodeChange
from rescheduler.config.policy import NodeAutoscaler, Policy
from rescheduler.planner.explanation import explain_node, explain_pod
from rescheduler.planner.plan_builder import build_plan
from rescheduler.strategies.cost_optimization import CostOptimization
from rescheduler.strategies.load_balancing import LoadBalancing
from rescheduler.strategies.node_maintenance import NodeMaintenance
from rescheduler.strategies.resource_optimization import ResourceOptimization
from tests.building import NOW, cluster

OLD = {MAINTENANCE_LABEL: "true"}
EVERYTHING = {"pod_spec": {"tolerations": [{"operator": "Exists"}]}}
POOL = {"karpenter.sh/nodepool": "general"}
CANDIDATE = "DeletionCandidateOfClusterAutoscaler=:PreferNoSchedule"


def conditions(*types):
    return {"conditions": [{"type": each, "status": "True"} for each in ("Ready", *types)]}


def targets(found):
    return [move.target for move in found.moves]


def drained(made):
    return build_plan(made.snapshot(), Policy(), [NodeMaintenance()])


def old_with_one_pod(made, **parts):
    return made.node("old", labels=OLD).deployment("shop/web", on=["old"], **parts)


LEAVING = [
    pytest.param({"taints": ["ToBeDeletedByClusterAutoscaler=1:NoSchedule"]}, id="the cluster autoscaler"),
    pytest.param({"taints": ["karpenter.sh/disrupted=:NoSchedule"]}, id="Karpenter"),
    pytest.param({"status": conditions("MaintenancePlanned")}, id="planned maintenance"),
    pytest.param({"status": conditions("DrainInProgress")}, id="a drain"),
]


@pytest.mark.parametrize("parts", LEAVING)
def test_a_node_that_is_leaving_is_no_target_even_if_the_pod_tolerates_it(parts):
    made = old_with_one_pod(cluster().node("a", **parts), **EVERYTHING)
    found = drained(made)
    assert found.moves == ()
    assert [each.reason for each in found.refused] == ["NoTarget"]
    assert explain_node(made.snapshot(), Policy(), "a").takes_none != ""
    places = explain_pod(made.snapshot(), Policy(), "shop/web-1-0").places
    assert places is not None
    assert places.available == ()


@pytest.mark.parametrize(
    "taint", [CANDIDATE, "example.com/soft=:PreferNoSchedule"], ids=["a deletion candidate", "any soft taint"]
)
def test_a_node_that_prefers_no_pods_is_the_last_choice(taint):
    made = cluster().node("a", taints=[taint]).node("b", cpu="2")
    old_with_one_pod(made, cpu="1")
    assert targets(drained(made)) == ["b"], "although a is emptier"
    full = cluster().node("a", taints=[taint]).node("b", cpu="2").deployment("shop/fill", on=["b"], cpu="2")
    assert targets(drained(old_with_one_pod(full, cpu="1"))) == ["a"], "better than no target"


def ready_again(seconds_ago):
    since = datetime.fromtimestamp(NOW - seconds_ago, UTC).isoformat()
    return {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]}


@pytest.mark.parametrize(
    ("seconds_ago", "expected"),
    [
        pytest.param(299, "b", id="a moment ago"),
        pytest.param(300, "a", id="for five minutes"),
        pytest.param(-3600, "a", id="by a wrong clock"),
    ],
)
def test_a_node_that_is_ready_again(seconds_ago, expected):
    made = cluster().node("a", status=ready_again(seconds_ago)).node("b", cpu="2")
    assert targets(drained(old_with_one_pod(made, cpu="1"))) == [expected]


def test_a_node_that_is_ready_again_takes_what_must_move_and_nothing_else():
    made = cluster().node("a", status=ready_again(10))
    assert targets(drained(old_with_one_pod(made, cpu="1"))) == ["a"]
    hot = cluster().node("a", cpu="10", status=ready_again(10)).node("b", cpu="10")
    hot.deployment("shop/hot", replicas=9, on=["b"], cpu="1")
    assert targets(balanced(hot)) == []


def test_a_soft_taint_does_not_matter_to_a_pod_that_tolerates_it():
    made = cluster().node("a", taints=["example.com/soft=:PreferNoSchedule"]).node("b", cpu="2")
    assert targets(drained(old_with_one_pod(made, cpu="1", **EVERYTHING))) == ["a"]


# -- with a node autoscaler


def uneven(labels):
    """`hot` is full, `cold` almost empty, `warm` in between."""
    made = cluster().nodes("cold", "hot", "warm", cpu="10", labels=labels)
    made.deployment("shop/hot", replicas=9, on=["hot"], cpu="1")
    made.deployment("shop/warm", replicas=6, on=["warm"], cpu="1")
    return made.deployment("shop/cold", on=["cold"], cpu="1")


def balanced(made, signs=None, **policy):
    snapshot = made.snapshot()
    if signs is not None:
        snapshot = replace(snapshot, autoscaler_signs=signs)
    policy = Policy(max_concurrent_per_workload=10, max_concurrent_per_node=10, **policy)
    return build_plan(snapshot, policy, [LoadBalancing()])


def test_load_balancing_does_not_refill_a_node_that_karpenter_would_remove():
    assert set(targets(balanced(uneven({})))) == {"cold"}, "without Karpenter"
    assert set(targets(balanced(uneven(POOL)))) == {"warm"}


def test_load_balancing_fills_every_node_without_an_autoscaler():
    """The configuration says that no autoscaler removes nodes."""
    found = balanced(uneven(POOL), node_autoscaler=NodeAutoscaler.NONE)
    assert "cold" in targets(found)


def test_load_balancing_leaves_scale_down_candidates_empty():
    """The cluster autoscaler is about to remove the node."""
    running = AutoscalerSigns(status_updated_s=NOW)
    assert set(targets(balanced(uneven({}), running))) == {"warm"}


def test_a_pool_that_is_consolidated_when_empty_keeps_nodes_with_pods():
    signs = AutoscalerSigns({"general": Consolidation.WHEN_EMPTY})
    assert "cold" in targets(balanced(uneven(POOL), signs))


def test_a_node_that_karpenter_must_not_disrupt_is_filled():
    made = uneven({})
    made.node("cold", cpu="10", labels=POOL, annotations={"karpenter.sh/do-not-disrupt": "true"})
    assert "cold" in targets(balanced(made))


def test_an_overloaded_node_is_relieved_even_to_a_node_that_would_be_removed():
    made = cluster().nodes("cold", "hot", cpu="10", labels=POOL)
    made.deployment("shop/hot", replicas=9, on=["hot"], cpu="1").deployment("shop/cold", on=["cold"], cpu="1")
    found = build_plan(made.snapshot(), Policy(), [ResourceOptimization()])
    assert set(targets(found)) == {"cold"}


# -- CostOptimization


def cheap(**parts):
    made = cluster().nodes("a", cpu="4", labels=POOL).node("b", cpu="4", **{"labels": POOL, **parts})
    return made.deployment("shop/web", replicas=3, on=["a", "b", "a"], cpu="1")


def optimized(made, **policy):
    return build_plan(made.snapshot(), Policy(**policy), [CostOptimization()])


def test_a_node_is_emptied_that_an_autoscaler_removes():
    assert [each.node for each in optimized(cheap()).changes] == ["b"]


@pytest.mark.parametrize(
    ("annotation", "others"),
    [
        ("cluster-autoscaler.kubernetes.io/scale-down-disabled", "false"),
        ("karpenter.sh/do-not-disrupt", "4h"),
    ],
)
def test_a_node_that_must_not_be_removed_is_not_emptied(annotation, others):
    kept = optimized(cheap(annotations={annotation: "true"}))
    assert "b" not in [each.node for each in kept.changes]
    (rejection,) = [each for each in kept.refused if each.subject == "b"]
    assert rejection.reason == "NodeNotRemoved"
    assert annotation in rejection.detail
    assert [each.node for each in optimized(cheap(annotations={annotation: others})).changes] == ["b"]


def test_without_an_autoscaler_no_node_is_emptied_and_the_plan_says_so():
    made = cluster().nodes("a", "b", cpu="4").deployment("shop/web", replicas=3, on=["a", "b", "a"], cpu="1")
    found = optimized(made)
    assert (found.moves, found.changes) == ((), ())
    assert [(each.subject, each.reason) for each in found.refused] == [("", "NodeNotRemoved")]
    assert optimized(made, node_autoscaler=NodeAutoscaler.OTHER).changes != ()


def test_a_node_that_no_one_removes_any_more_is_opened_again():
    annotations = {CORDONED_BY_ANNOTATION: "CostOptimization", "karpenter.sh/do-not-disrupt": "true"}
    found = optimized(cheap(cordoned=True, annotations=annotations))
    assert [(each.node, each.change) for each in found.changes] == [("b", NodeChange.UNCORDON)]
    assert "karpenter.sh/do-not-disrupt" in found.changes[0].reason
