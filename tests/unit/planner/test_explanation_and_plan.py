"""`explain` and the plan agree on which pods move, which stay, and why."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.config.move_limits import Window
from rescheduler.config.policy import Policy, ZeroBudget
from rescheduler.planner import explanation
from rescheduler.planner.explanation import explain_node, explain_pod
from rescheduler.planner.plan_builder import build_plan
from rescheduler.planner.reasons import Reason
from tests.battery.scenarios import random_cluster
from tests.building import NOW, ClusterBuilder, cluster
from tests.scripted_strategies import ScriptedStrategy
from tests.unit.rules.random_clusters import random_cluster as random_traits

POLICY = Policy()
GROUP = "scheduling.x-k8s.io/pod-group"


def with_failures(seed: int) -> ClusterBuilder:
    """Add siblings that are not ready, and budgets that are spent or out of date."""
    built = random_cluster(seed)
    pods = [each for each in built.objects if each["kind"] == "Pod"]
    for number, each in enumerate(pods):
        if (number + seed) % 7 == 0:
            each["status"] |= {"conditions": [{"type": "Ready", "status": "False"}]}
        if (number + seed) % 11 == 0:
            each["status"] |= {"phase": "Pending", "conditions": []}
        built.apply(each)
    return built


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    traits=st.booleans(),
    urgent=st.booleans(),
    steered=st.sampled_from([True, False, None]),
    zero=st.sampled_from(ZeroBudget),
)
def test_a_plan_that_wants_to_move_a_pod_does_what_explain_said(seed, traits, urgent, steered, zero):
    policy = dataclasses.replace(POLICY, move_under_zero_budget=zero)
    snapshot = (random_traits(seed) if traits else with_failures(seed)).snapshot()
    for key in list(snapshot.pods.row):
        reported = explain_pod(snapshot, policy, key, steered=steered)
        if reported.places is None or reported.group or not reported.places.available:
            continue
        kept_by = reported.kept_in_maintenance_by if urgent else reported.kept_by
        scripted = ScriptedStrategy({key: reported.places.available[0]}, urgent=urgent)
        found = build_plan(snapshot, policy, [scripted], steered=steered)
        assert [(move.pod, move.handover) for move in found.moves] == (
            [] if kept_by else [(key, reported.handover)]
        ), (key, kept_by, found.refused)
        assert [each.reason for each in found.refused] == [each.reason for each in kept_by[:1]]


# --- groups


def pair(**second) -> ClusterBuilder:
    built = cluster().nodes("a", "b").pod("shop/one", on="a", labels={GROUP: "pair"})
    return built.pod("shop/two", on="a", labels={GROUP: "pair"}, **second)


def reasons(built: ClusterBuilder, policy: Policy = POLICY) -> list[tuple[str, str]]:
    return [
        (str(each.reason), each.detail) for each in explain_pod(built.snapshot(), policy, "shop/one").kept_by
    ]


def test_who_moves_with_others_stays_with_them():
    assert reasons(pair()) == []
    protected = pair(annotations={"karpenter.sh/do-not-disrupt": "true"})
    detail = 'shop/two can\'t move (DoNotDisrupt: it has the annotation karpenter.sh/do-not-disrupt: "true")'
    assert reasons(protected) == [(Reason.GROUP_INCOMPLETE, detail)]


@pytest.mark.parametrize("limit", ["max_concurrent_migrations", "max_reschedule_pods"])
def test_a_group_that_is_larger_than_what_may_move_at_once_stays(limit):
    policy = dataclasses.replace(POLICY, **{limit: 1})
    assert reasons(pair(), policy) == [
        (Reason.GROUP_TOO_LARGE, "its group has 2 pods that move together; the limit is 1")
    ]
    found = build_plan(pair().snapshot(), policy, [ScriptedStrategy({"shop/one": "b", "shop/two": "b"})])
    assert found.moves == ()
    assert {str(each.reason) for each in found.refused} == {Reason.GROUP_TOO_LARGE}


def test_a_limit_that_cuts_through_a_group_leaves_it_whole():
    built = pair().pod("shop/alone", on="a")
    policy = dataclasses.replace(POLICY, max_reschedule_pods=2)
    scripted = ScriptedStrategy({"shop/alone": "b"}, {"shop/one": "b", "shop/two": "b"})
    found = build_plan(built.snapshot(), policy, [scripted])
    assert [move.pod for move in found.moves] == ["shop/alone"]
    assert {each.subject: each.reason for each in found.refused} == dict.fromkeys(
        ("shop/one", "shop/two"), Reason.PLAN_FULL
    )


# --- windows, and how far is asked


def test_outside_the_windows_it_says_so_as_a_plan_does():
    night = dataclasses.replace(POLICY, windows=(Window(from_=60, to=120),))
    built = cluster().nodes("a", "b").pod("shop/one", on="a")
    noon, at_night = built.snapshot(NOW), built.snapshot(NOW + 13.5 * 3600)
    for snapshot, is_open in ((noon, False), (at_night, True)):
        assert explain_pod(snapshot, night, "shop/one").in_window is is_open
        assert explain_node(snapshot, night, "a").in_window is is_open
        assert bool(build_plan(snapshot, night, [ScriptedStrategy({"shop/one": "b"})]).moves) is is_open


def test_a_node_says_whether_every_pod_was_asked(monkeypatch):
    built = cluster().nodes("a", "b").pod("shop/one", on="a").pod("shop/two", on="a")
    found = explain_node(built.snapshot(), POLICY, "b")
    assert (found.could_come, found.all_asked) == (2, True)
    monkeypatch.setattr(explanation, "_MOST_ASKED", 1)
    found = explain_node(built.snapshot(), POLICY, "b")
    assert (found.could_come, found.all_asked) == (1, False)
