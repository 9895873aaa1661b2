"""From proposals to a plan: what is accepted, what is refused, and in which order."""

import dataclasses

import numpy as np
import pytest

from kubevalues import parse_selector
from rescheduler.api.podmigration import Handover
from rescheduler.api.well_known_names import MAINTENANCE_LABEL
from rescheduler.cluster.node_record import NodeChange
from rescheduler.cluster.trusted_usage import HotNodeHistory
from rescheduler.config.move_limits import Window
from rescheduler.config.policy import Policy, UsageSource
from rescheduler.planner.plan import Move, Plan
from rescheduler.planner.plan_builder import build_plan, too_hot_nodes
from rescheduler.planner.reasons import Reason
from rescheduler.planner.strategy_view import PlanDraft, PlanView
from rescheduler.strategies.strategy import Proposal, ProposedMove
from tests.building import ClusterBuilder, cluster
from tests.replay import replay
from tests.scripted_strategies import ScriptedStrategy

POLICY = Policy()


def policy(**settings) -> Policy:
    return dataclasses.replace(POLICY, **settings)


def planned(built: ClusterBuilder, *strategies: ScriptedStrategy, policy: Policy = POLICY, **more) -> Plan:
    """Every plan of these tests must be executable, whatever else is asked of it."""
    found = build_plan(built.snapshot(), policy, strategies, **more)
    assert replay(built.objects, found, policy) == []
    return found


def moves(found: Plan) -> list[tuple[str, str, int]]:
    return [(move.pod, move.target or "", move.wave) for move in found.moves]


def refused(found: Plan) -> dict[str, str]:
    return {each.subject: str(each.reason) for each in found.refused}


def bare(**places: str) -> ClusterBuilder:
    """Pods without a controller that fill half a node each, by node."""
    built = cluster()
    for node in sorted(set(places.values())):
        built.node(node, cpu="2")
    for pod, node in places.items():
        built.pod(f"shop/{pod}", on=node, cpu="1")
    return built


# --- taking and refusing


def test_a_plan_shows_all_about_a_move():
    built = cluster().nodes("a", "b").deployment("shop/web", replicas=1, on=["a"], cpu="2")
    (move,) = planned(built, ScriptedStrategy({"shop/web-1-0": "b"})).moves
    assert move == Move(
        pod="shop/web-1-0",
        uid="uid-of-pod-shop-web-1-0",
        source="a",
        target="b",
        strategy="ScriptedStrategy",
        handover=Handover.ADOPT,
        reason="as scripted",
        gain=0.1,
    )


def test_a_plan_says_what_it_expects_of_every_node():
    built = cluster().nodes("a", "b", "c").deployment("shop/web", replicas=1, on=["a"], cpu="2", memory="8Gi")
    a, b, c = planned(built, ScriptedStrategy({"shop/web-1-0": "b"})).nodes
    assert (a.name, a.before["cpu"], a.after["cpu"]) == ("a", 25.0, 0.0)
    assert (b.name, b.before["memory"], b.after["memory"]) == ("b", 0.0, 25.0)
    assert b.after["pods"] == pytest.approx(100 / 110, abs=0.001)
    assert c.before == c.after


def test_what_does_not_fit_is_refused():
    found = planned(bare(x="a", y="b", z="b"), ScriptedStrategy({"shop/x": "b"}))
    assert moves(found) == []
    assert refused(found) == {"shop/x": Reason.TARGET_UNFIT}


def test_room_that_one_move_takes_is_not_there_for_the_next():
    scripted = ScriptedStrategy({"shop/x": "b"}, {"shop/y": "b"})
    found = planned(bare(x="a", y="a", z="b"), scripted)
    assert scripted.accepted == [True, False]
    assert refused(found) == {"shop/y": Reason.TARGET_UNFIT}


def test_a_copy_must_fit_beside_its_source_but_a_successor_need_not():
    """Pods that tolerate none of their kind in their zone, in a cluster of one zone."""
    zone = cluster().nodes("a", "b", labels={"zone": "1"})
    for name, owner in (("web", "ReplicaSet/web"), ("db", "StatefulSet/db")):
        term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": name}}}
        apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        zone.pod(f"shop/{name}", on="a", owner=owner, labels={"app": name}, spec={"affinity": apart})
    scripted = ScriptedStrategy({"shop/web": "b"}, {"shop/db": "b"}, urgent=True)
    planned(zone, scripted)
    assert scripted.accepted == [False, True]


def test_a_pod_moves_once():
    found = planned(bare(x="a", y="b", z="c"), ScriptedStrategy({"shop/x": "b"}, {"shop/x": "c"}))
    assert moves(found) == [("shop/x", "b", 0)]


def test_strategies_with_precedence_come_first():
    first, second = (
        ScriptedStrategy({"shop/x": "b"}, name="First"),
        ScriptedStrategy({"shop/x": "c"}, {"shop/y": "c"}, name="Second"),
    )
    found = planned(bare(x="a", y="a", z="b", w="c"), first, second)
    assert [(move.pod, move.strategy) for move in found.moves] == [("shop/x", "First"), ("shop/y", "Second")]


def test_no_more_moves_than_allowed():
    found = planned(
        bare(x="a", y="a", z="b", w="c"),
        ScriptedStrategy({"shop/x": "b"}, {"shop/y": "c"}),
        policy=policy(max_reschedule_pods=1),
    )
    assert moves(found) == [("shop/x", "b", 0)]
    assert refused(found) == {"shop/y": Reason.PLAN_FULL}


def test_what_was_refused_once_is_not_offered_again():
    scripted = ScriptedStrategy({"shop/x": "b"}, {"shop/x": "c"})
    planned(bare(x="a", y="b", z="b", w="c"), scripted)
    assert scripted.accepted == [False, False]


def test_but_another_strategy_may_find_a_better_place_and_then_nothing_is_refused():
    found = planned(
        bare(x="a", y="b", z="b", w="c"),
        ScriptedStrategy({"shop/x": "b"}),
        ScriptedStrategy({"shop/x": "c"}, name="Other"),
    )
    assert moves(found) == [("shop/x", "c", 0)]
    assert found.refused == ()


def test_protected_pods_are_refused_for_every_strategy():
    built = bare(x="a", y="b").pod("shop/own", on="a", annotations={"karpenter.sh/do-not-disrupt": "true"})
    found = planned(built, ScriptedStrategy({"shop/own": "b"}, urgent=True))
    assert refused(found) == {"shop/own": Reason.DO_NOT_DISRUPT}
    assert found.refused_counts == {Reason.DO_NOT_DISRUPT: 1}


@pytest.mark.parametrize(
    "closed",
    [
        pytest.param({"cordoned": True}, id="cordoned"),
        pytest.param({"ready": False}, id="not Ready"),
        pytest.param({"labels": {MAINTENANCE_LABEL: "true"}}, id="in maintenance"),
    ],
)
def test_nothing_is_sent_to_a_node_that_is_closed(closed):
    found = planned(bare(x="a").node("b", **closed), ScriptedStrategy({"shop/x": "b"}))
    assert refused(found) == {"shop/x": Reason.TARGET_UNFIT}


def test_nothing_is_sent_to_a_node_that_the_plan_cordons():
    found = planned(bare(x="a", y="b"), ScriptedStrategy("b", {"shop/x": "b"}))
    assert [(change.node, change.change) for change in found.changes] == [("b", NodeChange.CORDON)]
    assert moves(found) == []


def test_outside_the_windows_nodes_are_cordoned_but_nothing_moves():
    afternoon = Window(from_=14 * 60, to=15 * 60)
    scripted = ScriptedStrategy("a", {"shop/x": "b"})
    found = planned(bare(x="a", y="b"), scripted, policy=policy(windows=(afternoon,)))
    assert moves(found) == []
    assert len(found.changes) == 1
    assert refused(found) == {"": Reason.OUTSIDE_WINDOW, "shop/x": Reason.OUTSIDE_WINDOW}
    noon = Window(from_=12 * 60, to=13 * 60)
    assert planned(bare(x="a", y="b"), scripted, policy=policy(windows=(noon,))).moves


# --- in an order that can be executed


def test_moves_of_a_wave_fit_beside_all_its_sources():
    """What goes where another has to leave first, goes in a later wave."""
    found = planned(bare(x="a", y="b", z="b", w="c"), ScriptedStrategy({"shop/y": "c"}, {"shop/x": "b"}))
    assert moves(found) == [("shop/y", "c", 0), ("shop/x", "b", 1)]


def test_what_need_not_wait_overtakes():
    built = bare(x="a", y="b", z="b", w="c", v="d", u="e")
    found = planned(built, ScriptedStrategy({"shop/y": "c"}, {"shop/x": "b"}, {"shop/v": "e"}))
    assert moves(found) == [("shop/y", "c", 0), ("shop/v", "e", 0), ("shop/x", "b", 1)]


def test_an_order_is_found_for_steps_that_are_proposed_the_other_way_round():
    found = planned(bare(x="a", y="b", z="b", w="c"), ScriptedStrategy({"shop/x": "b", "shop/y": "c"}))
    assert moves(found) == [("shop/y", "c", 0), ("shop/x", "b", 1)]


def following(follower: str) -> ClusterBuilder:
    """A leader in the left of two zones, and a pod that must be where a leader is, on that node."""
    built = cluster().nodes("a", "b", labels={"zone": "left"}).nodes("c", "d", labels={"zone": "right"})
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "leader"}}}
    close = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    built.pod("shop/leader", on="a", labels={"app": "leader"})
    return built.pod("shop/follower", on=follower, spec={"affinity": close})


def test_who_needs_another_comes_after_it():
    found = planned(following("b"), ScriptedStrategy({"shop/leader": "c"}, {"shop/follower": "d"}))
    assert moves(found) == [("shop/leader", "c", 0), ("shop/follower", "d", 1)]


def test_who_is_needed_does_not_leave_at_the_same_time():
    found = planned(following("c"), ScriptedStrategy({"shop/follower": "b"}, {"shop/leader": "d"}))
    assert moves(found) == [("shop/follower", "b", 0), ("shop/leader", "d", 1)]


def test_no_move_depends_on_a_pod_that_leaves_in_the_same_wave():
    """The second leader comes late, because its place must be freed first; the follower waits for it."""
    built = following("c").node("b", cpu="1", labels={"zone": "left"})
    built.pod("shop/second", on="d", cpu="1", labels={"app": "leader"}).pod("shop/tenant", on="b", cpu="1")
    scripted = ScriptedStrategy(
        {"shop/tenant": "c"}, {"shop/second": "b"}, {"shop/leader": "d"}, {"shop/follower": "a"}
    )
    found = planned(built, scripted, policy=policy(max_concurrent_per_node=9))
    assert moves(found) == [
        ("shop/tenant", "c", 0),
        ("shop/leader", "d", 0),
        ("shop/second", "b", 1),
        ("shop/follower", "a", 2),
    ]


def test_overtaking_that_blocks_itself_is_undone():
    """A pod of web must wait for its sibling; if another takes its place meanwhile, none can move."""
    built = bare(there="t", other="a", traveller="j", unused="q").node("e", cpu="2")
    built.deployment("shop/web", replicas=2, on=["e", "a"], cpu="1")
    scripted = ScriptedStrategy(
        {"shop/web-1-0": "q"}, {"shop/web-1-1": "t"}, {"shop/there": "a"}, {"shop/traveller": "t"}
    )
    found = planned(built, scripted)
    assert moves(found) == [
        ("shop/web-1-0", "q", 0),
        ("shop/web-1-1", "t", 1),
        ("shop/there", "a", 2),
        ("shop/traveller", "t", 3),
    ]


def test_a_pod_that_has_to_stop_on_its_way_does_not_go_on_before_it_did():
    """Its stop is free late, and the place where it wants to go early."""
    built = bare(x="a", y="a", z="b", v="c", v2="c", u="d", u2="d").node("e", cpu="1")
    built.node("f", taints=["for=w:NoSchedule"])
    built.pod("shop/w", on="b", cpu="1", spec={"tolerations": [{"key": "for", "operator": "Exists"}]})
    scripted = ScriptedStrategy(
        {"shop/u": "e"}, {"shop/v": "d"}, {"shop/x": "b", "shop/z": "a"}, {"shop/w": "f"}
    )
    found = planned(built, scripted, policy=policy(max_concurrent_per_node=9))
    nodes_visited = [(move.source, move.target) for move in found.moves if move.pod == "shop/x"]
    assert nodes_visited == [("a", "c"), ("c", "b")]
    assert scripted.accepted == [True] * 4


def test_two_full_nodes_exchange_pods_by_way_of_a_third():
    built = bare(x="a", y="a", z="b", w="b", v="c")
    found = planned(built, ScriptedStrategy({"shop/x": "b", "shop/z": "a"}))
    assert [(move.pod, move.source, move.target, move.wave, move.hop) for move in found.moves] == [
        ("shop/x", "a", "c", 0, True),
        ("shop/z", "b", "a", 1, False),
        ("shop/x", "c", "b", 2, False),
    ]
    assert [move.gain for move in found.moves] == [0.0, 0.1, 0.1]


def test_without_a_third_node_they_do_not():
    scripted = ScriptedStrategy({"shop/x": "b", "shop/z": "a"})
    found = planned(bare(x="a", y="a", z="b", w="b"), scripted)
    assert scripted.accepted == [False]
    assert refused(found) == {"shop/x": Reason.NO_ORDER, "shop/z": Reason.NO_ORDER}


def test_no_pod_stops_on_a_node_that_its_strategy_must_not_look_at():
    built = bare(x="a", y="a", z="b", w="b").node("c", cpu="2", labels={"pool": "others"})
    ours = parse_selector("pool!=others")
    exchange = {"shop/x": "b", "shop/z": "a"}
    among_ours = policy(strategy_node_selectors={"ScriptedStrategy": ours})
    assert len(planned(built, ScriptedStrategy(exchange)).moves) == 3
    assert refused(planned(built, ScriptedStrategy(exchange), policy=among_ours)) == dict.fromkeys(
        exchange, Reason.NO_ORDER
    )
    # Maintenance looks at some nodes, too, but may send pods anywhere.
    assert len(planned(built, ScriptedStrategy(exchange, urgent=True), policy=among_ours).moves) == 3


def test_a_pod_that_cannot_move_has_no_target_for_any_strategy():
    """A strategy may ask where a pod could go before it asks whether it may move."""
    built = cluster().nodes("a", "b").claim("shop/data", volume="disk").volume("disk", claim="shop/data")
    snapshot = built.pod("shop/alone", on="a", claims=["data"]).snapshot()
    view = PlanView(PlanDraft(snapshot, POLICY), ScriptedStrategy())
    assert not view.may_move(0)
    assert not view.targets(0).any()
    assert not view.may_go(0, 1)


def test_a_hop_counts_as_a_move():
    built = bare(x="a", y="a", z="b", w="b", v="c")
    found = planned(
        built, ScriptedStrategy({"shop/x": "b", "shop/z": "a"}), policy=policy(max_reschedule_pods=2)
    )
    assert moves(found) == []
    assert refused(found) == {"shop/x": Reason.PLAN_FULL, "shop/z": Reason.PLAN_FULL}


def test_three_full_nodes_pass_pods_on_in_a_circle():
    built = bare(x="a", x2="a", y="b", y2="b", z="c", z2="c", v="d")
    found = planned(built, ScriptedStrategy({"shop/x": "b", "shop/y": "c", "shop/z": "a"}))
    assert sum(move.hop for move in found.moves) == 1
    assert len(found.moves) == 4


def test_a_proposal_is_taken_whole_or_not_at_all():
    scripted = ScriptedStrategy({"shop/x": "b", "shop/y": "nowhere-to-go"})
    built = bare(x="a", y="a", z="b").node("nowhere-to-go", cpu="500m")
    assert moves(planned(built, scripted)) == []


def test_if_one_must_stay_all_do():
    built = bare(x="a", z="b").pod("shop/y", on="a", annotations={"karpenter.sh/do-not-disrupt": "true"})
    found = planned(built, ScriptedStrategy({"shop/x": "b", "shop/y": "b"}))
    assert refused(found) == {"shop/x": Reason.NO_ORDER, "shop/y": Reason.DO_NOT_DISRUPT}


# --- no more at once than allowed


def crowd(pods: int, **parts) -> ClusterBuilder:
    """That many pods without a controller on node a, and room enough on nodes b, c and d."""
    built = cluster().nodes("a", "b", "c", "d")
    for number in range(pods):
        built.pod(f"shop/p{number}", on="a", **parts)
    return built


def waves(found: Plan) -> list[int]:
    return [move.wave for move in found.moves]


def test_no_more_at_once_from_one_node():
    scripted = ScriptedStrategy(*({f"shop/p{each}": "bcd"[each % 3]} for each in range(5)))
    assert waves(planned(crowd(5), scripted)) == [0, 0, 1, 1, 2]


def test_no_more_at_once_to_one_node():
    built = cluster().nodes("a", "b", "c", "d")
    for node in "abc":
        built.pod(f"shop/{node}", on=node)
    scripted = ScriptedStrategy(*({f"shop/{node}": "d"} for node in "abc"))
    assert waves(planned(built, scripted)) == [0, 0, 1]


def test_no_more_at_once_in_all():
    built = cluster().nodes("a", "b", "c", "d").pod("shop/a", on="a").pod("shop/c", on="c")
    scripted = ScriptedStrategy({"shop/a": "b"}, {"shop/c": "d"})
    assert waves(planned(built, scripted)) == [0, 0]
    assert waves(planned(built, scripted, policy=policy(max_concurrent_migrations=1))) == [0, 1]


def test_no_more_at_once_of_one_workload():
    built = cluster().nodes("a", "b", "c", "d").deployment("shop/web", replicas=2, on=["a", "b"])
    scripted = ScriptedStrategy({"shop/web-1-0": "c"}, {"shop/web-1-1": "d"})
    assert waves(planned(built, scripted)) == [0, 1]
    assert waves(planned(built, scripted, policy=policy(max_concurrent_per_workload=2))) == [0, 0]


def test_no_more_evictions_at_once_than_the_budget_allows():
    built = cluster().nodes("a", "b", "c", "d")
    for name in ("x", "y"):
        built.stateful_set(f"shop/{name}", replicas=2, on=["a", "b"], labels={"tier": "data"})
    scripted = ScriptedStrategy({"shop/x-0": "c"}, {"shop/y-1": "d"})
    assert waves(planned(built, scripted)) == [0, 0]
    assert waves(planned(built.budget("shop/all", selector={"tier": "data"}, allowed=1), scripted)) == [0, 1]
    assert waves(planned(built.budget("shop/all", selector={"tier": "data"}, allowed=2), scripted)) == [0, 0]


def test_who_is_copied_first_spends_nothing_of_the_budget():
    built = cluster().nodes("a", "b", "c", "d")
    for name in ("x", "y"):
        built.deployment(f"shop/{name}", replicas=1, on=["a"], labels={"tier": "web"})
    built.budget("shop/all", selector={"tier": "web"}, allowed=1)
    assert waves(planned(built, ScriptedStrategy({"shop/x-1-0": "c"}, {"shop/y-1-0": "d"}))) == [0, 0]


# --- groups


GROUP = "scheduling.x-k8s.io/pod-group"


def gang(*nodes: str, **parts) -> ClusterBuilder:
    """Members g0, g1, … of one group on these nodes, and nodes a to f with room for two."""
    built = cluster().nodes(*"abcdef", cpu="2")
    for number, node in enumerate(nodes):
        built.pod(f"shop/g{number}", on=node, cpu="1", labels={GROUP: "gang"}, **parts)
    return built


def test_a_group_moves_together_in_one_wave():
    found = planned(gang("a", "a", "b"), ScriptedStrategy({"shop/g0": "c", "shop/g1": "d", "shop/g2": "e"}))
    assert waves(found) == [0, 0, 0]
    assert {move.group for move in found.moves} == {"shop/gang"}


def test_a_group_does_not_move_in_part():
    found = planned(gang("a", "a", "b"), ScriptedStrategy({"shop/g0": "c", "shop/g1": "d"}))
    assert refused(found) == dict.fromkeys(("shop/g0", "shop/g1"), Reason.GROUP_INCOMPLETE)
    assert found.refused[0].detail == "shop/g2 must move with it"


def test_in_maintenance_only_those_on_the_node_have_to_go():
    built = gang("a", "a", "b").node(
        "a", cpu="2", labels={"scheduler.alpha.kubernetes.io/maintenance": "true"}
    )
    scripted = ScriptedStrategy({"shop/g0": "c"}, urgent=True)
    assert refused(planned(built, scripted)) == {"shop/g0": Reason.GROUP_INCOMPLETE}
    both = ScriptedStrategy({"shop/g0": "c", "shop/g1": "d"}, urgent=True)
    assert len(planned(built, both).moves) == 2


def test_a_member_that_must_stay_keeps_the_whole_group():
    built = gang("a").pod(
        "shop/g1", on="b", labels={GROUP: "gang"}, annotations={"karpenter.sh/do-not-disrupt": "true"}
    )
    found = planned(built, ScriptedStrategy({"shop/g0": "c", "shop/g1": "d"}))
    assert refused(found) == {"shop/g0": Reason.GROUP_INCOMPLETE, "shop/g1": Reason.DO_NOT_DISRUPT}


def test_a_group_needs_room_for_all_its_copies_at_once():
    built = gang("a", "b").pod("shop/other", on="c", cpu="1")
    found = planned(built, ScriptedStrategy({"shop/g0": "c", "shop/g1": "c"}))
    assert moves(found) == []


def test_a_group_that_is_larger_than_what_may_be_under_way_is_refused():
    built = gang("a", "a", "b")
    scripted = ScriptedStrategy({"shop/g0": "c", "shop/g1": "d", "shop/g2": "e"})
    found = planned(built, scripted, policy=policy(max_concurrent_migrations=2))
    assert set(refused(found).values()) == {Reason.GROUP_TOO_LARGE}


def test_members_that_go_separately_do_not_go_at_once():
    """All of a group that are under way together are handed over together."""
    scripted = ScriptedStrategy({"shop/g0": "c"}, {"shop/g1": "d"}, urgent=True)
    assert waves(planned(gang("a", "b"), scripted)) == [0, 1]


def test_a_member_that_is_going_anyway_need_not_move():
    built = gang("a").pod("shop/g1", on="b", labels={GROUP: "gang"}, deleted="2026-03-02T12:00:30Z")
    assert len(planned(built, ScriptedStrategy({"shop/g0": "c"})).moves) == 1


def test_a_group_that_is_evicted_needs_as_many_disruptions_at_once():
    built = cluster().nodes("a", "b", "c")
    built.stateful_set("shop/db", replicas=2, on=["a", "a"], labels={GROUP: "gang"})
    scripted = ScriptedStrategy({"shop/db-0": "b", "shop/db-1": "c"})
    found = planned(built.budget("shop/db", selector={"app": "db"}, allowed=1), scripted)
    assert set(refused(found).values()) == {Reason.BUDGET_SPENT}
    assert len(planned(built.budget("shop/db", selector={"app": "db"}, allowed=2), scripted).moves) == 2


def test_the_label_of_groups_can_be_chosen():
    built = cluster().nodes("a", "b")
    built.pod("shop/x", on="a", labels={"team": "1"}).pod("shop/y", on="a", labels={"team": "1"})
    scripted = ScriptedStrategy({"shop/x": "b"})
    assert len(planned(built, scripted).moves) == 1
    assert planned(built, scripted, policy=policy(pod_group_label="team")).moves == ()


def test_pods_of_the_same_label_in_another_namespace_are_another_group():
    built = gang("a").pod("other/g1", on="a", labels={GROUP: "gang"})
    assert len(planned(built, ScriptedStrategy({"shop/g0": "b"})).moves) == 1


# --- what else a plan says


def test_steering_is_assumed_only_where_it_matters_and_is_unknown():
    built = cluster().nodes("a", "b").stateful_set("shop/db", replicas=2, on=["a", "a"]).pod("shop/x", on="a")
    evict, copy = ScriptedStrategy({"shop/db-0": "b"}), ScriptedStrategy({"shop/x": "b"})
    assert "webhook" in planned(built, evict).assumptions[-1]
    assert planned(built, copy).assumptions == ()
    assert planned(built, evict, steered=True).assumptions == ()
    assert refused(planned(built, evict, steered=False)) == {"shop/db-0": Reason.UNSTEERED}


def test_where_the_plan_itself_cordons_the_node_evictions_need_no_steering():
    built = cluster().nodes("a", "b").stateful_set("shop/db", replicas=2, on=["a", "a"])
    assert planned(built, ScriptedStrategy("a", {"shop/db-0": "b"}), steered=False).moves


def test_handovers_that_follow_the_owner_are_said_to():
    built = cluster().nodes("a", "b").pod("shop/web-1-0", on="a", owner="ReplicaSet/web-1")
    assert planned(built, ScriptedStrategy({"shop/web-1-0": "b"})).assumptions == (
        "the input has no workloads: handovers follow the kind of each pod's owner",
    )


def test_a_pod_without_a_target_is_reported_with_what_forbids_each_node():
    class Hopeless(ScriptedStrategy):
        def propose(self, view):
            view.report_no_target(view.snapshot.pods.row["shop/x"])
            yield from ()

    built = bare(x="a", y="b", z="b").node("c", cpu="2", cordoned=True)
    (found,) = planned(built, Hopeless()).refused
    assert found.reason == Reason.NO_TARGET
    assert found.detail.startswith("0/3 nodes are available: ")
    assert "1 Insufficient cpu (b " in found.detail


def test_what_a_strategy_leaves_alone_is_noted_in_its_words():
    class ReportsStaying(ScriptedStrategy):
        def propose(self, view):
            view.report_staying(view.snapshot.pods.row["shop/x"], "GainTooSmall", "0.1%; minGain is 1%")
            yield from ()

    assert refused(planned(bare(x="a"), ReportsStaying())) == {"shop/x": "GainTooSmall"}


def test_a_strategy_that_moves_a_pod_twice_at_once_is_refused():
    class Confused(ScriptedStrategy):
        def propose(self, view):
            step = ProposedMove(0, 1, "", 0.0)
            yield Proposal((step, step))

    found = planned(bare(x="a", y="b"), Confused())
    assert found.moves == ()
    (failure,) = [each for each in found.refused if each.reason == "StrategyFailed"]
    assert "proposes to move a pod twice" in failure.detail


# --- heat


class FindsNodeHot(ScriptedStrategy):
    """Finds node b too hot, and records which nodes count as hot."""

    name = "FindsNodeHot"

    def too_hot(self, view):
        return np.array([node.name == "b" for node in view.snapshot.nodes.records])

    def propose(self, view):
        self.counted = [n.name for n, hot in zip(view.snapshot.nodes.records, view.hot, strict=True) if hot]
        yield from ()


def test_a_node_counts_as_hot_after_several_checks():
    snapshot, heat = bare(x="a", y="b").snapshot(), HotNodeHistory()
    counted = []
    for _ in range(3):
        strategy = FindsNodeHot(name="FindsNodeHot")
        heat = heat.after(too_hot_nodes(snapshot, POLICY, [strategy]), UsageSource.METRICS)
        build_plan(snapshot, POLICY, [strategy], heat=heat)
        counted.append(strategy.counted)
    assert counted == [[], [], ["b"]]


def test_without_checks_before_every_node_counts():
    strategy = FindsNodeHot(name="FindsNodeHot")
    build_plan(bare(x="a", y="b").snapshot(), POLICY, [strategy])
    assert strategy.counted == ["a", "b"]
