"""The expected snapshot: the cluster after all unfinished migrations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.cluster.snapshot import CPU, NO_ROW, PODS
from rescheduler.daemon.checker import MoveUnderWay, expected_snapshot
from rescheduler.rules.placement import Placement
from tests.building import cluster


def three_nodes(pods=4):
    made = cluster()
    for number in range(3):
        made.node(f"node-{number}", cpu="4")
    for number in range(pods):
        made.pod(f"shop/web-{number}", on="node-0", cpu="1", owner="ReplicaSet/web")
    return made


def coming(snapshot, pod, target, **more):
    row = snapshot.pods.row[pod]
    return MoveUnderWay(pod, snapshot.pods.records[row].uid, target, **more)


def cpu(table):
    return table[:, CPU].tolist()


def test_a_pod_that_is_being_moved_loads_its_target_and_takes_room_in_both_places():
    snapshot = three_nodes().snapshot()
    after = expected_snapshot(snapshot, [coming(snapshot, "shop/web-1", "node-2")])
    assert cpu(after.nodes.load) == [3000, 0, 1000]
    assert cpu(after.nodes.requested) == [4000, 0, 1000]
    assert after.pods.node[after.pods.row["shop/web-1"]] == 2
    assert [after.pods.records[row].key for row in after.pods.on(2)] == ["shop/web-1"]


def test_the_room_that_it_still_takes_is_not_given_away():
    snapshot = three_nodes().snapshot()
    placement = Placement(expected_snapshot(snapshot, [coming(snapshot, "shop/web-1", "node-2")]))
    assert placement.fits(placement.snapshot.pods.row["shop/web-0"], source_stays=True).tolist() == [
        False,
        True,
        True,
    ]


def test_a_copy_that_is_there_already_counts_once():
    made = three_nodes()
    made.pod("shop/web-copy", on="node-2", cpu="1", owner="ReplicaSet/web")
    snapshot = made.snapshot()
    after = expected_snapshot(snapshot, [coming(snapshot, "shop/web-1", "node-2", copies=("shop/web-copy",))])
    assert cpu(after.nodes.load) == [3000, 0, 1000]
    assert after.nodes.load[:, PODS].sum() == 4
    assert after.pods.node[after.pods.row["shop/web-1"]] == NO_ROW


@pytest.mark.parametrize("source", ["shop/web-9", "shop/db-0"], ids=["another name", "the same name"])
def test_a_replacement_that_waits_for_the_scheduler_takes_the_room_of_its_target(source):
    """Its predecessor was evicted for that room: another move must not take it."""
    made = three_nodes()
    made.pod("shop/db-0", cpu="3", owner="StatefulSet/db")
    snapshot = made.snapshot()
    after = expected_snapshot(snapshot, [MoveUnderWay(source, "evicted", "node-2", copies=("shop/db-0",))])
    assert cpu(after.nodes.requested) == [4000, 0, 3000]
    assert cpu(after.nodes.load) == [4000, 0, 3000]
    large = made.pod("shop/large", on="node-1", cpu="2").snapshot()
    free = Placement(expected_snapshot(large, [MoveUnderWay(source, "evicted", "node-2", ("shop/db-0",))]))
    assert not free.fits_on(large.pods.row["shop/large"], 2, source_stays=True)


@pytest.mark.parametrize("target", ["", "node-9"])
def test_a_replacement_without_a_target_takes_no_room(target):
    snapshot = three_nodes().pod("shop/db-0", cpu="3", owner="StatefulSet/db").snapshot()
    move = MoveUnderWay("shop/db-0", "evicted", target, copies=("shop/db-0",))
    assert expected_snapshot(snapshot, [move]) is snapshot


@pytest.mark.parametrize(
    "move",
    [
        pytest.param(MoveUnderWay("shop/gone", "uid", "node-2"), id="a pod that is gone"),
        pytest.param(MoveUnderWay("shop/web-1", "another", "node-2"), id="another pod of that name"),
    ],
)
def test_what_is_not_there_changes_nothing(move):
    snapshot = three_nodes().snapshot()
    assert expected_snapshot(snapshot, [move]) is snapshot


@pytest.mark.parametrize("target", ["", "node-9"])
def test_a_target_that_is_open_or_gone_leaves_the_pod_where_it_is(target):
    snapshot = three_nodes().snapshot()
    assert expected_snapshot(snapshot, [coming(snapshot, "shop/web-1", target)]) is snapshot


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), max_size=6, unique_by=lambda each: each[0]))
def test_nothing_is_lost_or_made_up(requested):
    snapshot = three_nodes(6).snapshot()
    moves = [coming(snapshot, f"shop/web-{pod}", f"node-{node}") for pod, node in requested]
    after = expected_snapshot(snapshot, moves)
    assert after.nodes.load.sum(axis=0).tolist() == snapshot.nodes.load.sum(axis=0).tolist()
    assert np.all(after.nodes.requested >= after.nodes.load)
    assert sorted(after.pods.by_node.tolist()) == list(range(6))


def test_a_pod_that_is_terminating_weighs_nothing_any_more_but_still_takes_its_room():
    built = cluster().nodes("node-1", "node-2")
    built.pod("shop/old", on="node-1", cpu="1", metadata={"deletionTimestamp": "2026-03-02T12:00:30Z"})
    snapshot = built.snapshot()
    after = expected_snapshot(snapshot, [])
    assert snapshot.nodes.load[0].any()
    assert not after.nodes.load[0].any()
    assert (after.nodes.requested == snapshot.nodes.requested).all()
    assert after.pods is snapshot.pods
