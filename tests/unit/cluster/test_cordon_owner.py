"""Which client cordoned a node, by the API server's record of field managers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.api.well_known_names import CORDONED_BY_ANNOTATION, REQUESTED_BY_ANNOTATION
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.cluster.node_record import cordoned_by_others
from rescheduler.install.leftovers import LEFTOVER_SEARCHES
from tests.objects import node_object

CORDON = {"f:spec": {"f:unschedulable": {}}}
LABELS = {"f:metadata": {"f:labels": {"f:rack": {}}}}


def entry(manager, fields, operation="Update"):
    return {"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields}


def node(*entries):
    made = node_object("n1")
    made["metadata"] |= {
        "managedFields": list(entries),
        "annotations": {CORDONED_BY_ANNOTATION: "NodeMaintenance"},
    }
    made["spec"] = {"unschedulable": True}
    return made


@pytest.mark.parametrize(
    ("entries", "others"),
    [
        pytest.param([entry("rescheduler", CORDON)], (), id="rescheduler alone"),
        pytest.param([entry("rescheduler", CORDON), entry("kubectl-label", LABELS)], (), id="others: labels"),
        pytest.param([entry("rescheduler", LABELS), entry("kubectl-cordon", CORDON)], ("kubectl-cordon",),
                     id="another client, since"),
        pytest.param([entry("rescheduler", CORDON), entry("gitops", CORDON, "Apply")], ("gitops",),
                     id="shared with a client that applies it, which wants it cordoned, too"),
        pytest.param([], (), id="the server keeps no record: the mark decides"),
        pytest.param([{"manager": "odd"}], (), id="an entry without fields"),
    ],
)  # fmt: skip
def test_a_cordon_is_of_those_who_own_the_field(entries, others):
    assert cordoned_by_others(node(*entries), "rescheduler") == others


@given(st.lists(st.sampled_from(["rescheduler cordons", "kubectl cordons", "uncordons"]), max_size=12))
def test_after_any_history_only_the_client_that_cordoned_last_owns_the_cordon(history):
    """As the API server keeps the record: a change of the value gives the field to who made it."""
    owner = None
    for event in history:
        if event == "uncordons":
            owner = None
        elif owner is None:
            owner = event.split()[0]
    entries = [entry(owner, CORDON)] if owner else []
    is_ours = owner == "rescheduler"
    assert (not cordoned_by_others(node(*entries), "rescheduler")) is (is_ours or owner is None)


@pytest.mark.parametrize(("manager", "uncordons"), [("rescheduler", True), ("kubectl-cordon", False)])
def test_uninstall_removes_the_mark_but_not_the_cordon_of_another_client(manager, uncordons):
    (look,) = [
        each.find
        for each in LEFTOVER_SEARCHES
        if each.resource.plural == "nodes" and "_node" in str(each.find)
    ]
    trace = look(NODES.as_json, node(entry(manager, CORDON)))
    assert (b'"unschedulable"' in trace.patch.body) is uncordons
    assert CORDONED_BY_ANNOTATION.encode() in trace.patch.body


def test_uninstall_removes_the_user_who_drains_a_node_and_no_cordon_of_others():
    made = node(entry("kubectl-cordon", CORDON))
    made["metadata"]["annotations"] = {REQUESTED_BY_ANNOTATION: "ann"}
    made["metadata"]["managedFields"] = []
    (trace,) = [
        found for each in LEFTOVER_SEARCHES if "_node" in str(each.find) and (found := each.find(NODES, made))
    ]
    assert REQUESTED_BY_ANNOTATION.encode() in trace.patch.body
    assert b'"unschedulable"' not in trace.patch.body
