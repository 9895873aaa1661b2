"""PlacementDrift moves pods off nodes that they would not be scheduled to today, and only those."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubevalues import parse_selector
from rescheduler.config.policy import Policy
from rescheduler.config.policy_blocks import Cost, PlacementDriftPolicy, Preference
from rescheduler.planner.plan_builder import build_plan
from rescheduler.planner.strategy_view import PlanDraft, PlanView
from rescheduler.rules.placement import Placement
from rescheduler.rules.preference_scores import PLUGIN_WEIGHTS
from rescheduler.rules.rule_check import SchedulerRule
from rescheduler.strategies.placement_drift import PlacementDrift, _DriftSurvey
from rescheduler.strategies.strategy_registry import strategies_of
from tests.battery.executing import executed, present
from tests.battery.pod_constraints import HOSTNAME, REQUIRED, ZONE, apart, spread
from tests.building import NOW, cluster
from tests.replay import replay

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ALONE = Policy(enabled_strategies=("PlacementDrift",))
SSD = {"nodeSelector": {"disk": "ssd"}}
ANY = tuple(Preference)
SAVED, SAVED_AT = "examples/changed-nodes.yaml", "2026-03-02T12:00:00Z"


def planned(made, policy=ALONE, **setting):
    policy = replace(policy, placement_drift=PlacementDriftPolicy(**setting)) if setting else policy
    return build_plan(made.snapshot(), policy, strategies_of(policy))


def ways(plan):
    return [(move.pod.removeprefix("shop/"), move.source, move.target) for move in plan.moves]


def reasons(plan):
    return {each.subject.removeprefix("shop/"): each.reason for each in plan.refused}


def requires(key, *values):
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [*values]}]}
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}


def prefers(*terms):
    """Node labels with weights: `prefers(("pool", "spot", 100))`."""
    written = [
        {
            "weight": weight,
            "preference": {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]},
        }
        for key, value, weight in terms
    ]
    return {"affinity": {"nodeAffinity": {PREFERRED: written}}}


def near(app, *, weight=100, key=HOSTNAME, kind="podAffinity"):
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {kind: {PREFERRED: [{"weight": weight, "podAffinityTerm": term}]}}}


def pools(spot=2, regular=2, **parts):
    made = cluster()
    for number in range(spot):
        made.node(f"s{number}", labels={"pool": "spot", ZONE: "ab"[number % 2]}, **parts)
    for number in range(regular):
        made.node(f"r{number}", labels={"pool": "regular", ZONE: "ab"[number % 2]}, **parts)
    return made


# -- what pods require


def test_a_pod_leaves_a_node_that_lost_the_label_it_selects():
    made = cluster().node("a", labels={"disk": "hdd"}).node("b", labels={"disk": "ssd"})
    plan = planned(made.deployment("shop/web", on=["a"], pod_spec=SSD))
    assert ways(plan) == [("web-1-0", "a", "b")]
    assert plan.moves[0].reason == "a is no longer allowed: the pod selects disk=ssd, the node has disk=hdd"
    assert plan.moves[0].handover == "Adopt"


def test_a_pod_leaves_a_node_that_its_required_affinity_forbids():
    made = cluster().node("a", labels={"disk": "hdd"}).node("b", labels={"disk": "ssd"})
    plan = planned(made.deployment("shop/web", on=["a"], pod_spec=requires("disk", "ssd", "nvme")))
    assert ways(plan) == [("web-1-0", "a", "b")]
    assert plan.moves[0].reason == "a is no longer allowed: the affinity requires disk In (ssd, nvme)"


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_a_pod_leaves_a_node_with_a_taint_that_it_does_not_tolerate(effect):
    made = cluster().node("a", taints=[f"dedicated=gpu:{effect}"]).node("b")
    plan = planned(made.deployment("shop/web", on=["a"]))
    assert ways(plan) == [("web-1-0", "a", "b")]
    assert plan.moves[0].reason == f"a is no longer allowed: taint dedicated=gpu:{effect}"


def test_pods_that_the_rules_allow_where_they_are_stay():
    tolerant = {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}
    made = cluster().node("a", labels={"disk": "ssd"}, taints=["dedicated=gpu:NoSchedule"]).node("b")
    made.deployment("shop/web", on=["a"], pod_spec=tolerant).deployment(
        "shop/data", on=["a"], pod_spec=tolerant | SSD
    )
    made.daemon_set("shop/agent", on=["a"])
    assert planned(made).moves == ()


def test_without_a_node_that_allows_it_a_pod_stays_and_the_plan_says_so():
    made = cluster().node("a").node("b").deployment("shop/web", on=["a"], pod_spec=SSD)
    plan = planned(made)
    assert plan.moves == ()
    assert reasons(plan) == {"web-1-0": "NoTarget"}


@pytest.mark.parametrize(
    "taint",
    [
        pytest.param("node.kubernetes.io/memory-pressure:NoSchedule", id="a condition of the node"),
        pytest.param("node.kubernetes.io/unschedulable:NoSchedule", id="a cordon"),
        pytest.param("ToBeDeletedByClusterAutoscaler:NoSchedule", id="an autoscaler removes the node"),
        pytest.param("karpenter.sh/disrupted:NoSchedule", id="Karpenter removes the node"),
        pytest.param("dedicated=gpu:PreferNoSchedule", id="only a preference"),
    ],
)
def test_taints_that_say_nothing_about_placement_move_no_pod(taint):
    made = cluster().node("a", taints=[taint]).node("b").deployment("shop/web", on=["a"])
    assert planned(made).moves == ()


@pytest.mark.parametrize(
    ("setting", "moves"),
    [
        pytest.param({"excluded_taints": ("dedicated",)}, 0, id="excluded by its key"),
        pytest.param({"excluded_taints": ("dedicated=gpu",)}, 0, id="excluded by key and value"),
        pytest.param({"excluded_taints": ("dedicated=tpu",)}, 1, id="another value is excluded"),
        pytest.param({"included_taints": ("other",)}, 0, id="only another is included"),
        pytest.param({"included_taints": ("dedicated=gpu",)}, 1, id="included"),
    ],
)
def test_taints_can_be_included_and_excluded(setting, moves):
    made = cluster().node("a", taints=["dedicated=gpu:NoSchedule"]).node("b").deployment("shop/web", on=["a"])
    assert len(planned(made, **setting).moves) == moves


def test_nodes_that_are_emptied_or_not_ready_are_left_to_others():
    maintenance = {"scheduler.alpha.kubernetes.io/maintenance": "true"}
    made = cluster().node("a", labels=maintenance).node("lost", ready=False).node("b", labels={"disk": "ssd"})
    made.deployment("shop/web", replicas=2, on=["a", "lost"], pod_spec=SSD)
    assert planned(made).moves == ()


def test_only_nodes_of_the_node_selector_are_considered():
    made = cluster().nodes("a", "c", labels={"pool": "x"}).node("b", labels={"disk": "ssd"})
    made.node("d", labels={"pool": "y"}).deployment("shop/web", replicas=2, on=["a", "d"], pod_spec=SSD)
    policy = replace(ALONE, strategy_node_selectors={"PlacementDrift": parse_selector("pool=x")})
    assert ways(planned(made, policy)) == [("web-1-0", "a", "b")]


def test_pods_that_are_hard_to_place_choose_first():
    """Both fit on b and only one on c; with the easy one on b, the other would find no place."""
    made = cluster().node("a", cpu="8", taints=["x=y:NoSchedule"]).node("b", cpu="2").node("c", cpu="1")
    made.deployment("shop/easy", on=["a"], cpu="900m").deployment("shop/hard", on=["a"], cpu="1500m")
    assert sorted(ways(planned(made))) == [("easy-1-0", "a", "c"), ("hard-1-0", "a", "b")]


def test_a_group_moves_as_a_whole_and_only_if_all_of_it_has_to():
    group = {"scheduling.x-k8s.io/pod-group": "ring"}
    made = cluster().node("a", taints=["x=y:NoSchedule"]).nodes("b", "c")
    made.deployment("shop/ring", replicas=2, on=["a", "b"], labels=group)
    plan = planned(made)
    assert plan.moves == ()
    assert reasons(plan) == {"ring-1-0": "GroupIncomplete"}
    made = cluster().node("a", taints=["x=y:NoSchedule"]).nodes("b", "c")
    made.deployment("shop/ring", replicas=2, on=["a"], labels=group)
    assert len(planned(made).moves) == 2


def test_namespaces_take_turns_where_the_plan_has_room_for_few():
    made = cluster().node("a", cpu="64", taints=["x=y:NoSchedule"]).nodes("b", "c", cpu="64")
    made.deployment("shop/web", replicas=6, on=["a"], cpu="100m")
    made.deployment("zoo/web", replicas=6, on=["a"], cpu="100m")
    plan = planned(made, replace(ALONE, max_reschedule_pods=4))
    assert sorted(move.pod.split("/")[0] for move in plan.moves) == ["shop", "shop", "zoo", "zoo"]


# -- what pods prefer


def test_without_preferences_in_the_configuration_none_counts():
    made = pools().deployment("shop/web", on=["r0"], pod_spec=prefers(("pool", "spot", 100)))
    assert planned(made).moves == ()


def test_a_pod_goes_back_to_the_pool_that_it_prefers():
    made = pools().deployment("shop/web", on=["r0"], pod_spec=prefers(("pool", "spot", 100)))
    plan = planned(made, preferences=ANY)
    assert ways(plan) == [("web-1-0", "r0", "s0")]
    assert plan.moves[0].gain == pytest.approx(1.0)
    assert plan.moves[0].reason == "preferred by the scheduler's scores: NodeAffinity 0, target 100"


@pytest.mark.parametrize(
    ("min_gain", "moves"), [pytest.param(0.5, 1, id="enough"), pytest.param(0.6, 0, id="not enough")]
)
def test_a_pod_moves_only_for_the_gain_that_is_asked_for(min_gain, moves):
    """The pool counts 50 of 100: on r0 the disk matches, on s0 both."""
    made = cluster().node("r0", labels={"disk": "ssd"}).node("s0", labels={"disk": "ssd", "pool": "spot"})
    both = prefers(("disk", "ssd", 50), ("pool", "spot", 50))
    made.deployment("shop/web", on=["r0"], pod_spec=both)
    assert len(planned(made, preferences=ANY, min_gain=min_gain).moves) == moves


def test_a_pod_leaves_a_node_that_prefers_to_be_left_alone():
    made = cluster().node("a", taints=["old=:PreferNoSchedule"]).node("b").deployment("shop/web", on=["a"])
    plan = planned(made, preferences=(Preference.TAINT_TOLERATION,))
    assert ways(plan) == [("web-1-0", "a", "b")]
    assert plan.moves[0].reason.endswith("TaintToleration 0, target 100")
    assert planned(cluster().nodes("a", "b", taints=["old=:PreferNoSchedule"]), preferences=ANY).moves == ()


def test_a_pod_goes_near_the_pods_that_it_prefers():
    made = cluster().nodes("a", "b").deployment("shop/cache", on=["b"])
    made.deployment("shop/web", on=["a"], pod_spec=near("cache"))
    # The cache would gain as much: what other pods prefer counts, too. One of the two moves.
    plan = planned(made, preferences=ANY)
    assert len(plan.moves) == 1
    assert (
        planned(executed(made, plan), replace(ALONE, pod_cooldown=timedelta()), preferences=ANY).moves == ()
    )


def test_replicas_that_prefer_to_be_apart_leave_each_other():
    made = cluster().nodes("a", "b", "c")
    made.deployment("shop/web", replicas=3, on=["a"], pod_spec=near("web", kind="podAntiAffinity"))
    plan = planned(made, preferences=(Preference.INTER_POD_AFFINITY,))
    assert sorted(move.target for move in plan.moves) == ["b", "c"]


def test_a_preferred_spread_is_restored_once_it_is_worse_than_its_max_skew():
    soft = spread("web", whenUnsatisfiable="ScheduleAnyway")
    made = pools().deployment("shop/web", replicas=3, on=["s0", "r0", "r1"], pod_spec=soft)
    assert planned(made, preferences=ANY).moves == ()
    made = pools().deployment("shop/web", replicas=3, on=["s0", "r0", "s0"], pod_spec=soft)
    plan = planned(made, preferences=(Preference.POD_TOPOLOGY_SPREAD,))
    assert [move.target in {"s1", "r1"} for move in plan.moves] == [True]


def test_a_pod_goes_to_a_cheaper_node_unless_something_that_it_prefers_gets_worse():
    policy = replace(ALONE, cost=Cost(price_label="price"))
    made = cluster().node("dear", labels={"price": "4", "disk": "ssd"}).node("cheap", labels={"price": "1"})
    made.deployment("shop/web", on=["dear"]).deployment(
        "shop/data", on=["dear"], pod_spec=prefers(("disk", "ssd", 1))
    )
    plan = planned(made, policy, preferences=ANY)
    assert ways(plan) == [("web-1-0", "dear", "cheap")]
    assert plan.moves[0].reason.endswith("Price 0, target 75")


def test_no_preference_gets_worse_for_another_that_weighs_more():
    """The taint weighs 3 and the affinity 2: the sum would be a gain."""
    made = cluster().node("a", labels={"disk": "ssd"}, taints=["old=:PreferNoSchedule"]).node("b")
    made.deployment("shop/web", on=["a"], pod_spec=prefers(("disk", "ssd", 100)))
    assert planned(made, preferences=ANY).moves == ()
    assert len(planned(made, preferences=(Preference.TAINT_TOLERATION,)).moves) == 1


def test_pods_of_one_workload_that_share_a_node_part():
    """As descheduler's RemoveDuplicates, without a gap: 4 and 0 become 2 and 2."""
    made = cluster().nodes("a", "b").deployment("shop/web", replicas=4, on=["a"])
    plan = planned(made, preferences=(Preference.DUPLICATES,))
    assert [move.target for move in plan.moves] == ["b", "b"]
    assert plan.moves[0].reason.startswith("preferred by the scheduler's scores: Duplicates 0, target 100")
    assert planned(made, preferences=(Preference.NODE_AFFINITY,)).moves == ()


def test_all_are_scored_in_turn_where_they_are_too_many_for_one_check(monkeypatch):
    monkeypatch.setattr("rescheduler.strategies.placement_drift._MOST_SCORED", 1)
    made = pools()
    for number in range(3):
        made.deployment(f"shop/web-{number}", on=["r0"], pod_spec=prefers(("pool", "spot", 100)))
    policy = replace(ALONE, placement_drift=PlacementDriftPolicy(preferences=ANY), max_reschedule_pods=1)
    plans = [build_plan(made.snapshot(NOW + 30 * check), policy, strategies_of(policy)) for check in range(3)]
    assert len({move.pod for plan in plans for move in plan.moves}) == 3


def test_pods_of_one_namespace_that_prefer_much_leave_moves_to_others():
    made = pools()
    for number in range(10):
        made.deployment(f"hostile/web-{number}", on=["r0"], pod_spec=prefers(("pool", "spot", 100)))
    made.deployment("shop/web", on=["r0"], pod_spec=prefers(("pool", "spot", 1), ("pool", "none", 1)))
    policy = replace(ALONE, max_reschedule_pods=2)
    plan = planned(made, policy, preferences=ANY)
    assert {move.pod.partition("/")[0] for move in plan.moves} == {"hostile", "shop"}


def test_the_node_to_which_a_replacement_was_steered_is_no_preference_of_its_owner():
    """The webhook adds a preferred term for the target of a move; it must not hold the pod there forever."""
    wanted = prefers(("pool", "spot", 50))
    ours = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["r0"]}]}
    wanted["affinity"]["nodeAffinity"][PREFERRED].append({"weight": 100, "preference": ours})
    for marks, moves in (({}, 0), ({"rescheduler.dev/migration": "m"}, 1)):
        made = pools().pod("shop/web", on="r0", pod_spec=wanted, annotations=marks)
        assert len(planned(made, preferences=ANY).moves) == moves


def test_a_preference_overloads_no_node_where_load_is_balanced():
    """LoadBalancing would move the pod back."""
    made = pools(1, 1).deployment("shop/base", replicas=3, on=["s0"], cpu="1")
    made.deployment("shop/web", replicas=3, on=["r0"], cpu="1", pod_spec=prefers(("pool", "spot", 100)))
    setting = {"preferences": (Preference.NODE_AFFINITY,)}
    assert len(planned(made, **setting).moves) == 3
    both = Policy(enabled_strategies=("PlacementDrift", "LoadBalancing"))
    assert planned(made, both, **setting).moves == ()


def test_a_pod_that_must_leave_goes_where_it_prefers_to_be_at_once():
    made = pools().node("old", taints=["x=y:NoSchedule"])
    made.deployment("shop/web", on=["old"], pod_spec=prefers(("pool", "spot", 100)))
    assert [move.target for move in planned(made, preferences=ANY).moves] == ["s0"]


def test_pods_that_prefer_what_the_others_avoid_come_to_rest():
    """One follows the other, and that one flees: the scheduler counts both preferences for both pods."""
    made = cluster().nodes("a", "b", "c").deployment("shop/fan", on=["a"], pod_spec=near("star"))
    made.deployment("shop/star", on=["b"], pod_spec=near("fan", kind="podAntiAffinity"))
    policy = replace(ALONE, pod_cooldown=timedelta())
    for _ in range(5):
        plan = planned(made, policy, preferences=ANY)
        made = executed(made, plan)
    assert plan.moves == ()


# -- the documentation


def test_the_documentation_lists_every_preference_with_its_weight():
    rows = re.findall(
        r"^\| `(\w+)` \|.*\| (\d) \|$", Path("docs/placement-drift.md").read_text(), re.MULTILINE
    )
    assert {name: int(weight) for name, weight in rows} == {str(k): w for k, w in PLUGIN_WEIGHTS.items()}


# -- whatever the cluster

LABELS = st.fixed_dictionaries(
    {"disk": st.sampled_from(["ssd", "hdd"]), "pool": st.sampled_from(["spot", "regular"])}
)
TAINTS = st.lists(
    st.sampled_from(["x=1:NoSchedule", "y=1:NoSchedule", "z=1:PreferNoSchedule"]), unique=True, max_size=2
)
PREFERENCES_OF_PODS = st.sampled_from(
    [
        {},
        SSD,
        requires("disk", "ssd"),
        requires("pool", "spot", "regular"),
        prefers(("pool", "spot", 100)),
        prefers(("pool", "spot", 10), ("disk", "ssd", 90)) | SSD,
        {"tolerations": [{"key": "x", "operator": "Exists"}]},
        spread("app", HOSTNAME),
        spread("app", ZONE, whenUnsatisfiable="ScheduleAnyway"),
        apart("app"),
        near("app", kind="podAntiAffinity"),
        near("app", weight=50, key=ZONE),
        near("app", weight=50, key=ZONE, kind="podAntiAffinity"),
    ]
)


@st.composite
def clusters(draw):
    made = cluster()
    names = [f"n{number}" for number in range(draw(st.integers(2, 6)))]
    for name in names:
        zone = draw(st.sampled_from("abc"))
        made.node(name, cpu="4", labels={**draw(LABELS), ZONE: zone}, taints=draw(TAINTS))
    for number in range(draw(st.integers(1, 5))):
        on = draw(st.lists(st.sampled_from(names), min_size=1, max_size=4))
        made.deployment(
            f"shop/d{number}",
            replicas=len(on),
            on=on,
            cpu=draw(st.sampled_from(["100m", "900m"])),
            labels={"app": draw(st.sampled_from(["app", f"d{number}"]))},
            pod_spec=draw(PREFERENCES_OF_PODS),
        )
    return made


FORBIDS = {SchedulerRule.TAINT_TOLERATION, SchedulerRule.NODE_AFFINITY}


def is_forbidden(placement, key):
    """By the answers of all rules about the node where the pod is; an oracle without the strategy's masks."""
    snapshot = placement.snapshot
    pod = snapshot.pods.row[key]
    refusals = placement.refusals(pod, int(snapshot.pods.node[pod]), source_stays=True)
    return any(refusal.rule in FORBIDS for refusal in refusals)


@settings(max_examples=20, deadline=None)
@given(clusters())
def test_no_pod_moves_that_the_rules_allow_where_it_is(made):
    plan = planned(made)
    placement = Placement(made.snapshot())
    assert [move.pod for move in plan.moves if not move.hop and not is_forbidden(placement, move.pod)] == []


@pytest.mark.parametrize("preferences", [(), ANY], ids=["what pods require", "what they prefer, too"])
@settings(max_examples=20, deadline=None)
@given(made=clusters())
def test_every_target_satisfies_all_rules_and_a_second_check_finds_nothing(preferences, made):
    policy = replace(
        ALONE, max_reschedule_pods=1000, placement_drift=PlacementDriftPolicy(preferences=preferences)
    )
    plan = planned(made, policy)
    assert replay(present(made.objects), plan, policy) == []
    after = executed(made, plan)
    for cooldown in (policy.pod_cooldown, timedelta()):
        assert planned(after, replace(policy, pod_cooldown=cooldown)).moves == ()


@settings(max_examples=20, deadline=None)
@given(made=clusters())
def test_the_short_cut_overlooks_no_pod_that_would_gain(made):
    """Pods that are not scored are not better off anywhere: the scores of all say the same."""
    policy = replace(ALONE, placement_drift=PlacementDriftPolicy(preferences=ANY))
    view = PlanView(PlanDraft(made.snapshot(), policy), PlacementDrift())
    survey = _DriftSurvey(view)
    scored = {pod for alike in survey._improvable() for pod in alike}
    for pod in set(range(len(view.snapshot.pods))) - scored:
        gains = (
            np.where(survey._open_to(pod), survey.preference_gains(pod).gains, -1)
            if survey._scores(pod)
            else [0]
        )
        assert max(gains) < survey.min_gain


@pytest.mark.parametrize("others", [("LoadBalancing",), ("TopologySpread",), ("ResourceOptimization",)])
@settings(max_examples=6, deadline=None)
@given(made=clusters())
def test_no_pod_goes_to_and_fro_between_two_strategies(others, made):
    policy = Policy(
        enabled_strategies=("PlacementDrift", *others),
        placement_drift=PlacementDriftPolicy(preferences=ANY),
        pod_cooldown=timedelta(),
        max_reschedule_pods=3,
    )
    moved = []
    for _ in range(8):
        plan = planned(made, policy)
        moved.append(len(plan.moves))
        made = executed(made, plan)
    assert moved[-1] == 0, moved
