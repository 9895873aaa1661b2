"""Plans of several profiles: each moves its own pods, by its own strategies and limits, in one plan."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubevalues import parse_selector
from rescheduler.api.well_known_names import MAINTENANCE_LABEL
from rescheduler.config.move_limits import MovesPerHour
from rescheduler.config.policy import Policy
from rescheduler.config.profiles import profiled, replace_settings
from rescheduler.daemon.checker import MoveUnderWay, queued_by_profile
from rescheduler.migrations.runtime_state import RuntimeState
from rescheduler.planner.explanation import explain_node, explain_pod
from rescheduler.planner.plan import Plan
from rescheduler.planner.plan_builder import build_plan, too_hot_nodes, validate_move
from rescheduler.planner.reasons import Reason
from rescheduler.strategies.fair_shares import QueuedMigrations
from rescheduler.strategies.load_balancing import LoadBalancing
from rescheduler.strategies.node_maintenance import NodeMaintenance
from rescheduler.strategies.strategy_registry import strategies_of, strategies_of_others
from rescheduler.web.plan_api_types import WhatIfRequest
from rescheduler.web.web_viewer import EVERYTHING_VISIBLE
from rescheduler.web.what_if import plan_what_if
from tests.building import ClusterBuilder, cluster
from tests.replay import replay
from tests.scripted_strategies import RandomStrategy, ScriptedStrategy

BASE = Policy(max_reschedule_pods=50, enabled_strategies=("LoadBalancing",))


def profile(team: str = "", pool: str = "", **settings: Any) -> Policy:
    namespaces, nodes = (
        parse_selector(f"{key}={value}" if value else "") for key, value in (("team", team), ("pool", pool))
    )
    return replace(BASE, namespace_selector=namespaces, node_selector=nodes, **settings)


def pools() -> ClusterBuilder:
    """Two pools of two nodes; in each pool, all pods of two teams are on the first node."""
    built = cluster().namespace("red", team="red").namespace("blue", team="blue")
    for pool in ("x", "y"):
        for node in (f"{pool}1", f"{pool}2"):
            built.node(node, cpu="10", labels={"pool": pool})
        for team in ("red", "blue"):
            built.deployment(f"{team}/{pool}", replicas=4, on=[f"{pool}1"] * 4, cpu="1")
    return built


def allowed_together(policy: Policy) -> Policy:
    """For the check of a whole plan: each profile may have as many moves as it is allowed."""
    return replace(policy, max_reschedule_pods=sum(each.max_reschedule_pods for each in policy.every_profile))


def planned(built: ClusterBuilder, first: Policy, *others: Policy, **more: Any) -> Plan:
    policy = profiled(first, others)
    found = build_plan(
        built.snapshot(), policy, strategies_of(policy), others=strategies_of_others(policy), **more
    )
    assert replay(built.objects, found, allowed_together(policy)) == []
    return found


def moves(plan: Plan) -> set[tuple[str, str]]:
    """The namespaces of moved pods, and the pools of their targets."""
    return {(move.pod.partition("/")[0], str(move.target)[0]) for move in plan.moves}


def test_each_profile_moves_the_pods_of_its_namespaces():
    off = profile(team="blue", enabled_strategies=())
    assert moves(planned(pools(), profile(team="red"), off)) == {("red", "x"), ("red", "y")}
    few = profile(team="red", max_reschedule_pods=2)
    assert {team for team, _ in moves(planned(pools(), few, profile(team="blue")))} == {"red", "blue"}


def test_each_profile_moves_pods_within_its_nodes():
    plan = planned(pools(), profile(pool="x"), profile(pool="y"))
    assert {pool for _, pool in moves(plan)} == {"x", "y"}
    assert all(move.source[0] == str(move.target)[0] for move in plan.moves)


def test_each_profile_has_its_own_thresholds_and_limits():
    patient = profile(pool="y", imbalance_threshold=100.0)
    assert {pool for _, pool in moves(planned(pools(), profile(pool="x"), patient))} == {"x"}
    limited = profile(pool="y", max_moves_per_hour=MovesPerHour(total=1))
    few = profile(pool="x", max_reschedule_pods=2)
    targets = [str(move.target)[0] for move in planned(pools(), few, limited).moves]
    assert (targets.count("x"), targets.count("y")) == (2, 1)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param(MovesPerHour(per_namespace=1), "x", id="of a namespace"),
        pytest.param(MovesPerHour(per_workload=1), "x", id="of a workload"),
        pytest.param(MovesPerHour(total=1), "xy", id="in total: of each profile"),
    ],
)
def test_moves_of_an_earlier_profile_count_for_the_same_namespace_and_workload(limits, expected):
    built = cluster()
    for node in ("x1", "x2", "y1", "y2"):
        built.node(node, cpu="10", labels={"pool": node[0]})
    built.deployment("shop/web", replicas=8, on=["x1"] * 4 + ["y1"] * 4, cpu="1")
    plan = planned(built, *(profile(pool=pool, max_moves_per_hour=limits) for pool in ("x", "y")))
    assert sorted(str(move.target)[0] for move in plan.moves) == list(expected)


def test_a_percentage_in_total_is_of_the_pods_of_the_profile():
    limited = profile(
        team="red", pool="x", max_moves_per_hour=MovesPerHour(total="50%"), imbalance_threshold=0.0
    )
    assert 0 < len(planned(pools(), limited, profile(team="blue", enabled_strategies=())).moves) <= 2


def test_a_later_profile_sees_the_moves_of_an_earlier_one():
    """Both could balance the nodes alone; together they must not overshoot."""
    plan = planned(pools(), profile(team="red"), profile(team="blue"))
    cpu = {node.name: node.after["cpu"] for node in plan.nodes}
    assert max(cpu.values()) - min(cpu.values()) <= BASE.imbalance_threshold


def test_the_queue_of_one_profile_does_not_keep_another_from_planning():
    """Both have pods of the same namespaces."""
    policy = profiled(profile(pool="x"), [profile(pool="y", max_reschedule_pods=2)])
    snapshot = pools().snapshot()
    one = MoveUnderWay("red/x-1-0", "uid", "x2", has_started=False, strategy="NodeMaintenance")
    queues = queued_by_profile(snapshot, policy, [one] * 50)
    assert queues == [QueuedMigrations({"red": 50}, maintenance=50), QueuedMigrations({})]
    plan = build_plan(
        snapshot, policy, strategies_of(policy), others=strategies_of_others(policy), queues=queues
    )
    assert {pool for _, pool in moves(plan)} == {"y"}


def test_what_one_profile_leaves_to_another_is_no_refusal():
    plan = planned(pools(), profile(team="red", imbalance_threshold=100.0), profile(team="blue"))
    assert not {Reason.NAMESPACE_NOT_SELECTED, Reason.NODE_NOT_SELECTED} & set(plan.refused_counts)


def test_pods_that_no_profile_selects_are_refused():
    built = pools().namespace("grey").deployment("grey/z", replicas=4, on=["x1"] * 4, cpu="1")
    plan = planned(built, profile(team="red"), profile(team="blue"))
    assert {each.subject for each in plan.refused if each.reason == Reason.NAMESPACE_NOT_SELECTED} == {
        f"grey/z-1-{number}" for number in range(4)
    }


def test_pods_on_nodes_that_are_not_selected_stay():
    policy = profile(pool="x")
    plan = build_plan(
        pools().snapshot(), policy, [ScriptedStrategy({"red/y-1-0": "x2"}, {"red/x-1-0": "y2"})]
    )
    assert plan.moves == ()
    reasons = {each.subject: each.reason for each in plan.refused}
    assert reasons == {"red/y-1-0": Reason.NODE_NOT_SELECTED, "red/x-1-0": Reason.TARGET_UNFIT}


def test_maintenance_of_one_profile_may_use_the_nodes_of_others():
    built = pools()
    for node in ("x1", "x2"):
        built.node(node, cpu="10", labels={"pool": "x", MAINTENANCE_LABEL: "true"})
    drains = profile(pool="x", enabled_strategies=("NodeMaintenance",))
    plan = planned(built, drains, profile(pool="y", enabled_strategies=()))
    assert moves(plan) == {("red", "y"), ("blue", "y")}
    assert sorted(change.node for change in plan.changes) == ["x1", "x2"]


def test_a_later_profile_does_not_cordon_a_node_to_which_an_earlier_one_sends_pods():
    policy = profiled(profile(pool="x"), [profile(pool="y")])
    leaves = ScriptedStrategy({"red/x-1-0": "y2"}, urgent=True)
    plan = build_plan(pools().snapshot(), policy, [leaves], others=[[ScriptedStrategy("y1", "y2")]])
    assert [(move.pod, move.target) for move in plan.moves] == [("red/x-1-0", "y2")]
    assert [change.node for change in plan.changes] == ["y1"]


def test_a_drain_empties_a_node_for_all_profiles():
    built = pools().node("x1", cpu="10", labels={"pool": "x", MAINTENANCE_LABEL: "true"})
    policy = profiled(profile(team="red"), [profile(team="blue", enabled_strategies=())])
    plan = build_plan(built.snapshot(), policy, [NodeMaintenance(frozenset({"x1"}))])
    assert len(plan.moves) == 8
    assert [change.node for change in plan.changes] == ["x1"]


@pytest.mark.parametrize("first", [("NodeMaintenance",), ()])
def test_a_hypothetical_drain_leaves_each_profile_its_own_strategies(first):
    """Every profile empties the node, and only the second balances."""
    policy = profiled(profile(team="red", enabled_strategies=first), [profile(team="blue")])
    request = WhatIfRequest(drain=["x1"])
    state = RuntimeState(policy)
    plan = plan_what_if(pools().snapshot(), state, request, EVERYTHING_VISIBLE, steered=True).plan
    assert {(move.pod.partition("/")[0], move.source, move.strategy) for move in plan.moves} == {
        ("red", "x1", "NodeMaintenance"), ("blue", "x1", "NodeMaintenance"), ("blue", "y1", "LoadBalancing"),
    }  # fmt: skip


def test_hot_nodes_are_counted_per_profile():
    policy = profile(pool="y")
    assert too_hot_nodes(pools().snapshot(), policy, [LoadBalancing()], profile=1) == [
        ("LoadBalancing", 1, "y1")
    ]
    assert too_hot_nodes(pools().snapshot(), policy, [LoadBalancing()]) == [("LoadBalancing", "y1")]


def test_moves_are_validated_and_explained_by_the_profile_of_the_pod():
    policy = profiled(profile(team="red"), [profile(team="blue", max_priority=-1)])
    built = pools()
    (move,) = build_plan(built.snapshot(), BASE, [ScriptedStrategy({"blue/x-1-0": "x2"})]).moves
    rejection = validate_move(move, built.snapshot(), policy)
    assert rejection is not None
    assert rejection.reason == Reason.PRIORITY_TOO_HIGH
    assert [each.reason for each in explain_pod(built.snapshot(), policy, "blue/x-1-0").kept_by] == [
        Reason.PRIORITY_TOO_HIGH
    ]
    assert explain_pod(built.snapshot(), policy, "red/x-1-0").may_move


def test_the_pods_of_a_node_are_explained_by_their_profiles():
    policy = profiled(profile(team="red"), [profile(team="blue", max_priority=-1)])
    explained = explain_node(pools().snapshot(), policy, "x1")
    kept = {each.pod.partition("/")[0]: [str(by.reason) for by in each.kept_by] for each in explained.pods}
    assert kept == {"red": [], "blue": ["PriorityTooHigh"]}
    assert explained.could_come == 4, "the red ones of the other pool"


def test_settings_for_all_are_those_of_the_first_profile():
    policy = profiled(replace(profile(team="red"), max_retries=7), [profile(team="blue")])
    assert [each.max_retries for each in policy.every_profile] == [7, 7]
    assert [each.dry_run for each in replace(policy, dry_run=True).every_profile] == [True, True]
    changed = replace_settings(policy, max_reschedule_pods=3)
    assert [each.max_reschedule_pods for each in changed.every_profile] == [3, 3]
    assert [str(each.namespace_selector) for each in changed.every_profile] == ["team=red", "team=blue"]


@given(seed=st.integers(0, 1000))
@pytest.mark.parametrize("by", ["team", "pool"])
def test_any_plan_of_profiles_can_be_executed_and_moves_each_pod_by_its_profile(by, seed):
    values = {"team": ("red", "blue"), "pool": ("x", "y")}[by]
    first, second = (profile(**{by: value}, max_reschedule_pods=5) for value in values)
    built, policy = pools(), profiled(first, [second])
    plan = build_plan(built.snapshot(), policy, [RandomStrategy(seed)], others=[[RandomStrategy(seed + 1)]])
    assert replay(built.objects, plan, allowed_together(policy)) == []
    part = (lambda move: move.source[0]) if by == "pool" else (lambda move: move.pod.partition("/")[0])
    for value in values:
        assert sum(part(move) == value for move in plan.moves) <= 5
    assert by == "team" or all(move.source[0] == str(move.target)[0] for move in plan.moves)
