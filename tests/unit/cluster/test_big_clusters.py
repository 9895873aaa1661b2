"""The clusters of the benchmarks are valid and the same every time."""

from collections import Counter

import pytest

from bench.clusters import NOW_S, ZONE, BigCluster, big_cluster, usage_of
from rescheduler.cluster.snapshot import NO_ROW


@pytest.fixture(scope="module")
def busy() -> BigCluster:
    return big_cluster(60, 1_800, namespaces=10)


def test_it_has_as_many_nodes_and_pods_as_were_asked_for(busy: BigCluster):
    assert (len(busy.nodes), len(busy.pods)) == (60, 1_800)
    assert len({pod.key for pod in busy.pods}) == 1_800


def test_no_node_is_asked_for_more_than_it_has(busy: BigCluster):
    nodes = busy.state().freeze(NOW_S).nodes
    assert (nodes.requested <= nodes.allocatable).all()


def test_every_pod_is_on_a_node_and_has_a_workload_that_is_known(busy: BigCluster):
    snapshot = busy.state().freeze(NOW_S)
    assert (snapshot.pods.node != NO_ROW).all()
    assert (snapshot.pods.workload != NO_ROW).all()
    assert all(workload.record is not None for workload in snapshot.workloads)
    assert {workload.kind for workload in snapshot.workloads} >= {"Deployment", "StatefulSet", "DaemonSet"}


def test_claims_of_pods_are_bound_to_volumes_of_their_zone(busy: BigCluster):
    snapshot = busy.state().freeze(NOW_S)
    zone = {node.name: node.labels[ZONE] for node in busy.nodes}
    claims = [(pod, volume.name) for pod in busy.pods for volume in pod.volumes if volume.name]
    assert claims
    for pod, name in claims:
        volume = snapshot.storage.volumes[snapshot.storage.claims[f"{pod.namespace}/{name}"].volume]
        assert volume.node_affinity is not None
        (term,) = volume.node_affinity.node_selector_terms
        assert term.match_expressions[0].values == (zone[pod.node],)


def test_pods_that_spread_over_zones_do(busy: BigCluster):
    zone = {node.name: node.labels[ZONE] for node in busy.nodes}
    spread: dict[str, Counter[str]] = {}
    for pod in busy.pods:
        for constraint in pod.constraints.spread:
            if constraint.when_unsatisfiable == "DoNotSchedule":
                spread.setdefault(pod.labels["app"], Counter()).update([zone[pod.node]])
    assert spread
    for counts in spread.values():
        assert max(counts.values()) - min(counts[each] for each in set(zone.values())) <= 1


def test_the_same_numbers_give_the_same_cluster(busy: BigCluster):
    again = big_cluster(60, 1_800, namespaces=10)
    assert (again.nodes, again.pods, again.storage) == (busy.nodes, busy.pods, busy.storage)
    assert usage_of(again) == usage_of(busy)
    assert big_cluster(60, 1_800, namespaces=10, seed=2).pods != busy.pods
