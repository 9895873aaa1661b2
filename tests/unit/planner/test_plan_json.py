"""A plan as JSON: what programs rely on, and what is refused on reading."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.api.podmigration import Handover
from rescheduler.cluster.node_record import NodeChange
from rescheduler.planner.plan import Move, NodeLoadChange, Plan, PlannedNodeChange, Rejection
from rescheduler.planner.plan_json import UnreadablePlan, plan_from_json, plan_to_json
from tools.plan_schema import schema_text

SCHEMA = Path(__file__).parents[3] / "docs" / "plan.schema.json"
MOVE = Move(
    pod="shop/web-1",
    uid="u1",
    source="a",
    target="b",
    strategy="LoadBalancing",
    handover=Handover.ADOPT,
    reason="source 85.0%, target 45.0%",
    gain=0.05,
)
PLAN = Plan(
    taken_at_s=1_772_452_800.25,
    moves=(MOVE,),
    changes=(PlannedNodeChange("c", NodeChange.CORDON, "NodeMaintenance", "its label asks for it"),),
    nodes=(NodeLoadChange("a", {"cpu": 85.0, "memory": 20.0, "pods": 9.1, "x.io/gpu": 50.0},
                       {"cpu": 80.0, "memory": 19.0, "pods": 8.2, "x.io/gpu": 50.0}),),
    refused=(
        Rejection("shop/db-0", "BudgetSpent", "shop/db", "allows 0 disruptions"), Rejection("c", "NotReady")
    ),
    refused_counts={"BudgetSpent": 3, "NotReady": 1},
    assumptions=("no budgets",),
)  # fmt: skip


def read(content: object) -> Plan:
    return plan_from_json(json.dumps(content).encode(), source="plan.json")


def changed(**parts: object) -> dict:
    return plan_to_json(PLAN) | parts


def moved(**parts: object) -> dict:
    (move,) = plan_to_json(PLAN)["moves"]
    return changed(moves=[move | parts])


def test_the_form_is_the_documented_one():
    content = plan_to_json(PLAN)
    assert content["takenAt"] == "2026-03-02T12:00:00.250000Z"
    assert content["moves"] == [
        {
            "pod": "shop/web-1", "uid": "u1", "from": "a", "to": "b", "strategy": "LoadBalancing",
            "handover": "Adopt", "reason": "source 85.0%, target 45.0%", "gain": 0.05,
            "wave": 1, "group": "", "hop": False, "rooms": [],
        }
    ]  # fmt: skip
    assert content["nodes"] == [
        {
            "name": "a",
            "cpu": {"before": 85.0, "after": 80.0},
            "memory": {"before": 20.0, "after": 19.0},
            "pods": {"before": 9.1, "after": 8.2},
            "others": {"x.io/gpu": {"before": 50.0, "after": 50.0}},
        }
    ]
    assert content["refused"] == [
        {"pod": "shop/db-0", "reason": "BudgetSpent", "detail": "allows 0 disruptions", "by": "shop/db"},
        {"node": "c", "reason": "NotReady"},
    ]
    summary = content["summary"]
    assert (summary["moves"], summary["waves"], summary["byStrategy"]) == (1, 1, {"LoadBalancing": 1})
    assert (summary["refused"], summary["assumptions"]) == ({"BudgetSpent": 3, "NotReady": 1}, ["no budgets"])


def test_the_committed_schema_is_what_the_code_says():
    assert SCHEMA.read_text() == schema_text(), "python -m tools.plan_schema --write docs/plan.schema.json"


def test_a_plan_comes_back_as_it_was():
    assert read(plan_to_json(PLAN)) == PLAN


names = st.text("abcxyz-0123456789", min_size=1, max_size=8)
moves = st.builds(
    Move,
    pod=st.builds("{}/{}".format, names, names),
    uid=st.uuids().map(str),
    source=names.map("source-{}".format),
    target=st.none() | names,
    strategy=names,
    handover=st.sampled_from([Handover.ADOPT, Handover.COPY, Handover.EVICT]),
    reason=st.text(max_size=20),
    gain=st.floats(allow_nan=False, allow_infinity=False),
    wave=st.integers(0, 9),
    group=names | st.just(""),
)
loads = st.dictionaries(st.sampled_from(["cpu", "memory", "pods", "x.io/gpu"]), st.integers(0, 500_000))
outlooks = st.builds(
    lambda name, found: NodeLoadChange(
        name, {resource: load / 1000 for resource, load in found.items()}, dict.fromkeys(found, 0.0)
    ),
    names,
    loads,
)
changes = st.builds(PlannedNodeChange, names, st.sampled_from(NodeChange), names, st.text())
plans = st.builds(
    Plan,
    taken_at_s=st.integers(0, 2**32).map(float),
    moves=st.lists(moves, max_size=5, unique_by=lambda move: move.uid).map(
        lambda found: tuple(sorted(found, key=lambda move: move.wave))
    ),
    changes=st.lists(changes, max_size=3).map(tuple),
    nodes=st.lists(outlooks, max_size=3).map(tuple),
    assumptions=st.lists(st.text(), max_size=3).map(tuple),
)


@given(plans)
def test_every_plan_comes_back_as_it_was(plan):
    assert read(plan_to_json(plan)) == plan


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        pytest.param(
            moved(to="a"), "moves[0].to: a is the node that the pod is already on", id="to where it is"
        ),
        pytest.param(moved(uid=""), "moves[0].uid: ", id="no uid"),
        pytest.param(moved(pod="web"), "moves[0].pod: ", id="a pod without a namespace"),
        pytest.param(moved(handover="Auto"), "moves[0].handover: ", id="a handover that names none"),
        pytest.param(moved(handover="Delete"), "moves[0].handover: ", id="a handover that doesn't exist"),
        pytest.param(
            moved(force=True), "moves[0]: Object contains unknown field `force`", id="what we don't know"
        ),
        pytest.param(moved(gain="much"), "moves[0].gain: expected a number, got a string", id="another type"),
        pytest.param(
            moved(hop=True),
            "moves: shop/web-1 hops to b, and no later move continues from there",
            id="half a hop",
        ),
        pytest.param(changed(kind="Pod"), "kind: ", id="something else"),
        pytest.param(changed(apiVersion="v9"), "apiVersion: ", id="another version"),
        pytest.param(changed(takenAt="today"), 'takenAt: "today" is not an RFC 3339 time', id="no time"),
        pytest.param(changed(takenAt="2026-03-02T12:00:00"), "has no time zone", id="no time zone"),
        pytest.param(changed(moves={}), "moves: expected a list, got an object", id="moves that are no list"),
        pytest.param([], "expected an object, got a list", id="a list"),
    ],
)
def test_a_plan_that_can_t_be_executed_is_refused_with_the_path(content, fault):
    with pytest.raises(UnreadablePlan) as caught:
        read(content)
    assert any(fault in each for each in caught.value.faults), caught.value.faults


def test_all_faults_are_reported_at_once():
    move, second = moved(uid="")["moves"][0], moved(gain=None)["moves"][0]
    with pytest.raises(UnreadablePlan) as caught:
        read(changed(moves=[move, second], nodes=[{}]))
    assert [fault.partition(":")[0] for fault in caught.value.faults] == [
        "moves[0].uid",
        "moves[1].gain",
        "nodes[0]",
    ]


def test_one_pod_moves_once_or_hops_from_where_it_has_stopped():
    (first,) = moved(hop=True, wave=1)["moves"]
    (onwards,) = moved(**{"from": "b", "to": "c", "wave": 2})["moves"]
    assert len(read(changed(moves=[first, onwards])).moves) == 2
    (twice,) = moved(to="c")["moves"]
    with pytest.raises(UnreadablePlan, match="already moves the pod shop/web-1"):
        read(changed(moves=[moved()["moves"][0], twice]))


def test_waves_come_in_order():
    (late,) = moved(wave=2)["moves"]
    (early,) = moved(uid="u2")["moves"]
    with pytest.raises(UnreadablePlan, match=r"moves\[1\].wave: 1 after wave 2"):
        read(changed(moves=[late, early]))


@given(st.binary(max_size=100))
def test_no_bytes_at_all_give_a_traceback(raw):
    with pytest.raises(UnreadablePlan):
        plan_from_json(raw, source="plan.json")
