"""PodLifeTime moves pods that are older than `maxPodLifeTime`, and no others."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubevalues import parse_selector
from rescheduler.config.policy import Policy
from rescheduler.config.policy_blocks import PodLifeTimePolicy
from rescheduler.planner.plan_builder import build_plan
from rescheduler.strategies.strategy_registry import strategies_of
from tests.battery.pod_constraints import ZONE, spread
from tests.building import NOW, cluster

ALONE = Policy(enabled_strategies=("PodLifeTime",))
DAY = timedelta(days=1)


def planned(made, policy=ALONE, **setting):
    policy = replace(policy, pod_life_time=PodLifeTimePolicy(**{"max_pod_life_time": 7 * DAY} | setting))
    return build_plan(made.snapshot(), policy, strategies_of(policy))


def aged(age):
    """The parts of a pod of that age."""
    return {"created": datetime.fromtimestamp(NOW - age.total_seconds(), UTC).isoformat()}


def moved(plan):
    return {move.pod.removeprefix("shop/") for move in plan.moves}


def reasons(plan):
    return {each.subject.removeprefix("shop/"): each.reason for each in plan.refused}


OLD, YOUNG = aged(9 * DAY), aged(5 * DAY)


def test_a_pod_that_is_too_old_moves_make_before_break():
    made = cluster().nodes("a", "b").deployment("shop/web", on=["a"], **OLD)
    (move,) = planned(made.deployment("shop/cart", on=["a"], **YOUNG)).moves
    assert (move.pod, move.source, move.target) == ("shop/web-1-0", "a", "b")
    assert (move.handover, move.reason) == ("Adopt", "it is 216h old; maxPodLifeTime is 168h")


def test_a_target_that_would_worsen_the_spread_is_named_as_such():
    """The scheduler ignores the spread of the pods that stay, so none of its own reasons forbids the node."""
    made = cluster().node("a", labels={ZONE: "a"}).node("b", labels={ZONE: "b"})
    made.deployment("shop/web", replicas=2, on=["a", "b"], pod_spec=spread("web"), **OLD)
    found = {each.subject: each.detail for each in planned(made).refused}
    assert found["shop/web-1-0"] == (
        "0/2 nodes are available: 1 node(s) were already running the pod, "
        "1 node(s) would worsen a topology spread constraint"
    )


def test_a_target_that_has_just_become_ready_again_is_named_as_such():
    since = datetime.fromtimestamp(NOW - 10, UTC).isoformat()
    ready = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]}
    made = cluster().node("a").node("b", status=ready).deployment("shop/web", on=["a"], **OLD)
    (refused,) = planned(made).refused
    assert "1 node(s) had just become Ready again" in refused.detail


@pytest.mark.parametrize(
    ("age", "moves"),
    [
        pytest.param(7 * DAY, 0, id="exactly as old as allowed"),
        pytest.param(7 * DAY + timedelta(seconds=1), 1, id="a second older"),
        pytest.param(-DAY, 0, id="created in the future: clocks differ"),
    ],
)
def test_the_age_counts_since_the_creation(age, moves):
    made = cluster().nodes("a", "b").deployment("shop/web", on=["a"], **aged(age))
    assert len(planned(made).moves) == moves


def test_the_target_is_the_least_loaded_node():
    made = cluster().nodes("a", "b", "c").deployment("shop/web", on=["a"], **OLD)
    made.deployment("shop/busy", on=["b"], cpu="2", **YOUNG)
    assert [move.target for move in planned(made).moves] == ["c"]


def test_without_another_node_a_pod_stays_and_the_plan_says_so():
    plan = planned(cluster().node("a").deployment("shop/web", on=["a"], **OLD))
    assert (plan.moves, reasons(plan)) == ((), {"web-1-0": "NoTarget"})


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        pytest.param({}, {"web-1-0", "db-0", "bare", "zoo/web-1-0"}, id="all"),
        pytest.param({"namespaces": ("zoo",)}, {"zoo/web-1-0"}, id="one namespace"),
        pytest.param({"pod_selector": parse_selector("app=db")}, {"db-0"}, id="some labels"),
        pytest.param(
            {"included_owner_kinds": ("Deployment",)}, {"web-1-0", "zoo/web-1-0"}, id="pods of Deployments"
        ),
        pytest.param(
            {"included_owner_kinds": ("ReplicaSet.apps", "Pod")},
            {"web-1-0", "zoo/web-1-0", "bare"},
            id="pods of ReplicaSets and pods without an owner",
        ),
        pytest.param(
            {"excluded_owner_kinds": ("ReplicaSet", "Pod")}, {"db-0"}, id="no pods of ReplicaSets, none bare"
        ),
        pytest.param(
            {"included_owner_kinds": ("Deployment", "StatefulSet"), "excluded_owner_kinds": ("ReplicaSet",)},
            {"db-0"},
            id="what is excluded is not included",
        ),
    ],
)
def test_namespaces_labels_and_owners_limit_it(setting, expected):
    made = cluster().nodes("a", "b").pod("shop/bare", on="a", **OLD)
    made.deployment("shop/web", on=["a"], **OLD).deployment("zoo/web", on=["a"], **OLD)
    made.stateful_set("shop/db", on=["a"], **OLD)
    policy = replace(ALONE, min_replicas_for_evict=1)
    assert moved(planned(made, policy, **setting)) == expected


def test_pods_that_belong_to_their_node_or_do_not_run_are_left_alone():
    made = cluster().nodes("a", "b").daemon_set("shop/agent", on=["a"], **OLD)
    made.pod("shop/starting", on="a", phase="Pending", **OLD).pod("shop/waiting", **OLD)
    plan = planned(made)
    assert (plan.moves, plan.refused) == ((), ())


def test_nodes_that_are_emptied_or_not_ready_are_left_to_others():
    maintenance = {"scheduler.alpha.kubernetes.io/maintenance": "true"}
    made = cluster().node("a", labels=maintenance).node("lost", ready=False).node("b")
    assert planned(made.deployment("shop/web", replicas=2, on=["a", "lost"], **OLD)).moves == ()


def test_protections_and_limits_apply():
    made = cluster().nodes("a", "b").deployment("shop/web", replicas=4, on=["a"], **OLD)
    made.deployment("shop/spent", on=["a"], **OLD).budget("shop/spent", selector={"app": "spent"}, allowed=0)
    plan = planned(made, replace(ALONE, max_reschedule_pods=2))
    assert len(plan.moves) == 2
    assert {move.wave for move in plan.moves} == {0, 1}, "maxConcurrentPerWorkload is 1"
    assert reasons(planned(made))["spent-1-0"] == "BudgetSpent"
    assert planned(made, replace(ALONE, min_pod_age=30 * DAY)).moves == ()


def test_the_oldest_go_first_and_then_the_lowest_priority():
    made = cluster().nodes("a", "b").deployment("shop/old", on=["a"], **aged(8 * DAY))
    made.deployment("shop/oldest", on=["a"], priority=100, **OLD).deployment("shop/low", on=["a"], **OLD)
    one, two = replace(ALONE, max_reschedule_pods=1), replace(ALONE, max_reschedule_pods=2)
    assert moved(planned(made, one)) == {"low-1-0"}
    assert moved(planned(made, two)) == {"low-1-0", "oldest-1-0"}


def test_namespaces_take_turns_where_the_plan_has_room_for_few():
    made = cluster().nodes("a", "b", cpu="64").deployment("shop/web", replicas=6, on=["a"], **aged(90 * DAY))
    made.deployment("zoo/web", replicas=6, on=["a"], **OLD)
    plan = planned(made, replace(ALONE, max_reschedule_pods=4))
    assert sorted(move.pod.split("/")[0] for move in plan.moves) == ["shop", "shop", "zoo", "zoo"]


def test_a_group_moves_as_a_whole_and_only_if_all_of_it_is_too_old():
    group = {"scheduling.x-k8s.io/pod-group": "ring"}
    made = cluster().nodes("a", "b", "c").deployment("shop/old", on=["a"], labels=group, **OLD)
    plan = planned(made.deployment("shop/young", on=["b"], labels=group, **YOUNG))
    assert (plan.moves, reasons(plan)) == ((), {"old-1-0": "GroupIncomplete"})
    made = cluster().nodes("a", "b", "c").deployment("shop/ring", replicas=2, on=["a"], labels=group, **OLD)
    assert moved(planned(made)) == {"ring-1-0", "ring-1-1"}


@settings(max_examples=60)
@given(
    ages=st.lists(st.integers(0, 400), min_size=1, max_size=12),
    limit_h=st.integers(1, 300),
    room=st.integers(1, 12),
)
def test_it_moves_exactly_the_oldest_of_those_that_are_too_old(ages, limit_h, room):
    """For any ages: only pods beyond the limit, as many as the plan has room for, and none that is younger
    than one that stays."""
    made = cluster().nodes("a", "b", cpu="64")
    for number, hours in enumerate(ages):
        made.deployment(f"shop/app-{number}", on=["ab"[number % 2]], cpu="1m", **aged(timedelta(hours=hours)))
    policy = replace(ALONE, min_pod_age=timedelta(), max_reschedule_pods=room)
    plan = planned(made, policy, max_pod_life_time=timedelta(hours=limit_h))
    went = {int(move.pod.removeprefix("shop/app-").removesuffix("-1-0")) for move in plan.moves}
    expired = {number for number, hours in enumerate(ages) if hours > limit_h}
    assert went <= expired
    assert len(went) == min(room, len(expired))
    stayed = expired - went
    assert not stayed or min(ages[each] for each in went) >= max(ages[each] for each in stayed)
