"""Extreme amounts count as very large or are refused by name; no number overflows."""

import json

import pytest

from kubevalues.saved_cluster import UnreadableCluster
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.cluster.sources.cluster_kinds import snapshot_of
from rescheduler.cluster.sources.saved_source import read_saved
from rescheduler.config.policy import Policy
from rescheduler.planner.explanation import explain_node, explain_pod
from rescheduler.planner.plan_builder import build_plan
from rescheduler.rules.placement import Placement
from rescheduler.strategies.strategy_registry import strategies_of
from tests.building import cluster
from tests.unit.cluster.sources.rich_cluster import complete, saved

POLICY = Policy(
    enabled_strategies=("NodeMaintenance", "TopologySpread", "ResourceOptimization", "LoadBalancing"),
    imbalance_threshold=1.0,
)
HUGE = ["9E", "10E", "8Ei", "9223372036854775807", "9223372036854775808", "1e400", 10**30]
NEGATIVE = ["-1", "-9E", "-8Ei", "-9223372036854775809", "-1e400", -5]
RESOURCES = ["cpu", "memory", "ephemeral-storage", "example.com/dongle"]


def read(objects: list[dict]) -> Snapshot:
    raw = json.dumps(saved(complete(objects), saved_at="2026-03-02T12:00:00Z")).encode()
    return snapshot_of(read_saved(raw, source="c.json"), POLICY)


def use(snapshot: Snapshot) -> None:
    found = build_plan(snapshot, POLICY, strategies_of(POLICY))
    for node in found.nodes:
        assert all(load >= 0 for load in (*node.before.values(), *node.after.values())), node
    for pod in snapshot.pods.row:
        explain_pod(snapshot, POLICY, pod)
    for name in snapshot.nodes.row:
        explain_node(snapshot, POLICY, name)


@pytest.mark.parametrize("resource", RESOURCES)
@pytest.mark.parametrize("amount", HUGE)
def test_a_pod_that_asks_for_more_than_there_can_be_fits_nowhere(amount, resource):
    made = cluster().nodes("a", "b", more={"example.com/dongle": "4"})
    for number in range(3):  # whose sum would be beyond 64 bits, too
        made.pod(f"shop/greedy-{number}", on="a", more={resource: amount})
    snapshot = read(made.objects)
    assert (snapshot.nodes.requested >= 0).all()
    assert not Placement(snapshot).fits(0, source_stays=True).any()
    use(snapshot)


@pytest.mark.parametrize("resource", RESOURCES)
@pytest.mark.parametrize("amount", HUGE)
def test_a_node_that_has_more_than_there_can_be_takes_what_others_have(amount, resource):
    made = cluster().nodes("a", "b").pod("shop/web", on="a", more={"example.com/dongle": "1"})
    made.node("vast", more={"example.com/dongle": "4", resource: amount})
    snapshot = read(made.objects)
    assert Placement(snapshot).fits(0, source_stays=True).tolist() == [False, False, True]
    use(snapshot)


@pytest.mark.parametrize("amount", NEGATIVE)
@pytest.mark.parametrize("kind", ["Pod", "Node"])
def test_less_than_nothing_is_refused_by_name(kind, amount):
    made = cluster().node("a")
    if kind == "Pod":
        made.pod("shop/web", on="a", more={"example.com/dongle": amount})
        path = 'Pod shop/web: spec.containers[0].resources.requests["example.com/dongle"]'
    else:
        made.node("a", status={"allocatable": {"cpu": amount}}).pod("shop/web", on="a")
        made.objects.pop(0)
        path = 'Node a: status.allocatable["cpu"]'
    with pytest.raises(UnreadableCluster) as refused:
        read(made.objects)
    assert f"{path}: {amount!r} is negative" in refused.value.faults
