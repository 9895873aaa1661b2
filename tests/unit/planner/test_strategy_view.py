"""The view of the cluster that strategies get."""

from dataclasses import replace

import pytest

from rescheduler.config.policy import Policy
from rescheduler.planner.strategy_view import PlanDraft, PlanView
from rescheduler.strategies.load_balancing import LoadBalancing
from rescheduler.strategies.node_maintenance import NodeMaintenance
from tests.battery.scenarios import random_cluster
from tests.building import cluster


@pytest.mark.parametrize("strategy", [LoadBalancing(), NodeMaintenance()], ids=lambda each: each.name)
@pytest.mark.parametrize("seed", range(8))
def test_a_node_that_a_pod_may_go_to_is_one_of_its_targets(strategy, seed):
    snapshot = random_cluster(seed).snapshot()
    view = PlanView(PlanDraft(snapshot, Policy()), strategy)
    for pod in filter(view.may_move, range(len(snapshot.pods.records))):
        one_by_one = [view.may_go(pod, node) for node in range(len(snapshot.nodes))]
        assert one_by_one == view.targets(pod).tolist()


@pytest.mark.parametrize(("failed_on", "wanted"), [(("b",), ["c"]), (("b", "c"), ["b", "c"])])
def test_where_a_copy_of_the_pod_could_not_run_is_the_last_place_to_try(failed_on, wanted):
    built = cluster().nodes("a", "b", "c").deployment("shop/web", replicas=1, on=["a"])
    snapshot = built.snapshot()
    snapshot = replace(snapshot, failed_on={snapshot.pods.records[0].uid: failed_on})
    view = PlanView(PlanDraft(snapshot, Policy()), NodeMaintenance())
    targets = view.targets(0).tolist()
    found = [node.name for node, is_one in zip(snapshot.nodes.records, targets, strict=True) if is_one]
    assert found == wanted
    assert [view.may_go(0, node) for node in range(3)] == targets
