"""Intents that follow from failed attempts of a workload."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.api.podmigration import ControllerReference
from rescheduler.recovery.attempt_ledger import AttemptLedger, FailedAttempt, ReplicaLineage, read_ledger
from rescheduler.steering.intents import IntentIndex, intents_of_ledger

REPLICA_SET = ControllerReference("apps/v1", "ReplicaSet", "web-1", "rs")
STATEFUL_SET = ControllerReference("apps/v1", "StatefulSet", "db", "sts")
OPEN = {"a", "b", "c", "d"}


def ledger_of(**nodes):
    """Return a ledger of the nodes where its pods failed, by lineage."""
    return AttemptLedger(
        {
            name.replace("_", "-"): ReplicaLineage(
                tuple(FailedAttempt(at, node, f"{name}-{at}") for at, node in enumerate(failed))
            )
            for name, failed in nodes.items()
        }
    )


def reported(ledger, controller, pod="", open_nodes=OPEN):
    book = IntentIndex(intents_of_ledger(ledger, "shop", controller, open_nodes))
    intent = book.intent_for("shop", controller.uid, pod)
    return () if intent is None else intent.excluded


def test_a_stateful_set_s_pod_stays_away_from_where_it_has_failed_itself():
    ledger = ledger_of(db_0=["a", "b"], db_1=["c"])
    assert reported(ledger, STATEFUL_SET, "db-0") == ("a", "b")
    assert reported(ledger, STATEFUL_SET, "db-1") == ("c",)
    assert reported(ledger, STATEFUL_SET, "db-2") == ()


def test_where_pods_have_no_names_each_stays_away_from_where_any_has_failed():
    assert reported(ledger_of(one=["a"], other=["b"]), REPLICA_SET, "web-1-x") == ("a", "b")


def test_nodes_that_are_forgiven_are_not_avoided():
    ledger = ledger_of(one=["a", "b"]).forgiving("one")
    assert reported(ledger, REPLICA_SET) == ("b",)
    assert reported(ledger.forgiving("one", last_too=True), REPLICA_SET) == ()


def test_where_every_node_was_tried_none_is_avoided():
    assert reported(ledger_of(one=["a", "b"]), REPLICA_SET, open_nodes={"a", "b"}) == ()
    assert reported(ledger_of(one=["a"], other=["b"]), REPLICA_SET, open_nodes={"a", "b"}) == ()
    assert reported(ledger_of(one=["a", "b"]), REPLICA_SET, open_nodes={"a", "b", "new"}) == ("a", "b")


def test_without_knowledge_of_nodes_the_tried_ones_are_avoided():
    assert reported(ledger_of(one=["a"]), REPLICA_SET, open_nodes=()) == ("a",)


@pytest.mark.parametrize("name", ["", "No Node", "a/b", "x" * 300, "-a"])
def test_what_can_not_be_a_node_is_left_out_because_the_server_would_refuse_the_pod(name):
    assert reported(ledger_of(one=[name, "b"]), REPLICA_SET) == ("b",)


@given(
    st.text() | st.binary().map(repr) | st.from_regex(r'\{"v":1,"of":"rs","lines":\{.*\}\}', fullmatch=True)
)
def test_whatever_the_annotation_says_the_answer_is_a_list_of_node_names(text):
    ledger = read_ledger(text, {"rs"})
    for intent in intents_of_ledger(ledger, "shop", REPLICA_SET, OPEN):
        assert intent.prefer == ""
        assert all(node == node.lower() and len(node) < 254 for node in intent.tried)
