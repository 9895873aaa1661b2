"""Records of kse-rescheduler are read once and converted, so that its users can switch."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.recovery.replica_lineage import CARRIED_OVER, KSE_ANNOTATIONS, ledger_from_kse


def record(**reported):
    return json.dumps(reported)


@pytest.mark.parametrize(
    ("kind", "prefix"),
    [("Deployment", "deploy"), ("ReplicaSet", "rs"), ("CronJob", "cj"), ("Job", "job")],
)
def test_the_record_of_a_whole_workload_is_one_line(kind, prefix):
    written = record(**{"currentReschedulingTimes": 2, f"{prefix}ScheduledHosts": ["n1", "n2"]})
    found = ledger_from_kse(kind, "web", {KSE_ANNOTATIONS[kind]: written}, 3)
    assert found is not None
    assert list(found.lineages) == [CARRIED_OVER]
    line = found.lineage(CARRIED_OVER)
    assert (line.count, line.nodes) == (2, ("n1", "n2"))


def test_that_of_a_bare_pod_is_its_own_line():
    written = record(currentReschedulingTimes=1, podScheduledHosts=["n1"])
    found = ledger_from_kse("Pod", "x", {"kse.com/pod": written}, 3)
    assert found is not None
    assert found.lineage("x").nodes == ("n1",)


def test_that_of_a_stateful_set_is_a_line_for_each_pod():
    written = record(
        **{
            "db-0": {"currentReschedulingTimes": 1, "podScheduledHosts": ["n1"]},
            "db-1": {"currentReschedulingTimes": 0, "podScheduledHosts": []},
            "db-2": "what?",
        }
    )
    found = ledger_from_kse("StatefulSet", "db", {"kse.com/sts-pods-map": written}, 3)
    assert found is not None
    assert {name: line.nodes for name, line in found.lineages.items()} == {"db-0": ("n1",)}


def test_it_deletes_once_more_than_allowed_which_is_not_carried_over():
    written = record(currentReschedulingTimes=4, deployScheduledHosts=["n1", "n2", "n3", "n4"])
    found = ledger_from_kse("Deployment", "web", {"kse.com/deploy": written}, 3)
    assert found is not None
    assert found.lineage(CARRIED_OVER).count == 3
    assert found.lineage(CARRIED_OVER).nodes == ("n2", "n3", "n4")


@pytest.mark.parametrize(
    ("reported", "count", "nodes"),
    [
        pytest.param({"currentReschedulingTimes": 2}, 2, (), id="a count without nodes"),
        pytest.param({"deployScheduledHosts": ["n1", 3, "n2"]}, 2, ("n1", "n2"), id="nodes without a count"),
        pytest.param(
            {"currentReschedulingTimes": "many", "deployScheduledHosts": ["n1"]}, 1, ("n1",), id="no number"
        ),
        pytest.param(
            {"currentReschedulingTimes": 1, "deployScheduledHosts": ["n1", "n2"]},
            1,
            ("n2",),
            id="too many nodes",
        ),
    ],
)
def test_what_is_half_written_is_read_as_far_as_it_makes_sense(reported, count, nodes):
    found = ledger_from_kse("Deployment", "web", {"kse.com/deploy": json.dumps(reported)}, 3)
    assert found is not None
    assert (found.lineage(CARRIED_OVER).count, found.lineage(CARRIED_OVER).nodes) == (count, nodes)


def test_what_a_replica_set_got_from_its_deployment_is_not_its_own():
    written = record(currentReschedulingTimes=1, deployScheduledHosts=["n1"])
    assert ledger_from_kse("ReplicaSet", "web-1", {"kse.com/deploy": written}, 3) is None


@given(
    st.sampled_from([*KSE_ANNOTATIONS, "DaemonSet"]),
    st.text()
    | st.recursive(
        st.none() | st.integers() | st.text(), lambda it: st.lists(it) | st.dictionaries(st.text(), it)
    ).map(json.dumps),
)
def test_no_text_whatever_raises(kind, text):
    marks = dict.fromkeys(KSE_ANNOTATIONS.values(), text)
    found = ledger_from_kse(kind, "x", marks, 3)
    assert found is None or all(line.count <= 3 for line in found.lineages.values())
