"""What strategies see of a cluster while a plan is made."""

import pytest

from rescheduler.config.policy import Policy
from rescheduler.planner.view import Draft, PlanView
from rescheduler.strategies.load_balancing import LoadBalancing
from rescheduler.strategies.node_maintenance import NodeMaintenance
from tests.battery.scenarios import random_cluster


@pytest.mark.parametrize("strategy", [LoadBalancing(), NodeMaintenance()], ids=lambda each: each.name)
@pytest.mark.parametrize("seed", range(8))
def test_a_node_that_a_pod_may_go_to_is_one_of_its_targets(strategy, seed):
    snapshot = random_cluster(seed).snapshot()
    view = PlanView(Draft(snapshot, Policy()), strategy)
    for pod in filter(view.may_move, range(len(snapshot.pods.records))):
        one_by_one = [view.may_go(pod, node) for node in range(len(snapshot.nodes))]
        assert one_by_one == view.targets(pod).tolist()
