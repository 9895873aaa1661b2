"""ResourceOptimization through the planner."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from kubevalues import parse_selector
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.cluster.trusted_usage import HotNodeHistory
from rescheduler.config.policy import Policy, UsageSource
from rescheduler.planner.plan import Plan
from rescheduler.planner.plan_builder import build_plan, too_hot_nodes
from rescheduler.strategies.resource_optimization import ResourceOptimization, fewest_pods_covering
from tests.building import ClusterBuilder, cluster


def planned(snapshot: Snapshot, *, heat: HotNodeHistory | None = None, **settings_: Any) -> Plan:
    policy = Policy(**{"max_reschedule_pods": 100, **settings_})
    return build_plan(snapshot, policy, [ResourceOptimization()], heat=heat)


def loaded(builder: ClusterBuilder, node: str, cpus: Sequence[float], **parts: Any) -> ClusterBuilder:
    for number, cpu in enumerate(cpus):
        parts_ = {"memory": "0", **parts}
        builder.pod(f"shop/{node}-{number:02}", on=node, cpu=f"{int(cpu * 1000)}m", **parts_)
    return builder


def overloaded() -> ClusterBuilder:
    """One node of ten cpus at 95 %, two that are not."""
    builder = cluster().node("a", cpu="10").node("b", cpu="10").node("c", cpu="10")
    loaded(builder, "a", [4, 3, 1.5, 1])
    loaded(builder, "b", [5])
    return loaded(builder, "c", [3])


def test_a_node_above_its_threshold_sheds_pods_until_it_is_below() -> None:
    found = planned(overloaded().snapshot())

    assert [(move.pod, move.source, move.target) for move in found.moves] == [("shop/a-02", "a", "c")]
    assert {node.name: node.after["cpu"] for node in found.nodes} == {"a": 80, "b": 50, "c": 45}


def test_a_full_plan_asks_about_no_more_nodes() -> None:
    """In a large cluster, asking which pods of all overloaded nodes may move takes longer than planning."""
    builder = overloaded().node("d", cpu="10")
    loaded(builder, "d", [9], annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"})

    full, more = (planned(builder.snapshot(), max_reschedule_pods=most) for most in (1, 2))

    assert [move.pod for move in full.moves] == [move.pod for move in more.moves] == ["shop/a-02"]
    assert [each.subject for each in full.refused] == []
    assert [each.subject for each in more.refused] == ["shop/d-00"]


def test_says_why_in_words_and_numbers() -> None:
    [move] = planned(overloaded().snapshot()).moves

    assert move.reason == "cpu: source 95.0%, target 30.0%, threshold 80.0%"
    assert move.gain == 1.0


@pytest.mark.parametrize("threshold", [95.0, 100.0])
def test_a_node_that_is_not_above_is_left_alone(threshold: float) -> None:
    assert planned(overloaded().snapshot(), cpu_threshold=threshold).moves == ()


def test_memory_counts_like_cpu() -> None:
    builder = cluster().node("a", memory="10Gi").node("b", memory="10Gi")
    loaded(builder, "a", [0.1] * 9, memory="1Gi")

    found = planned(builder.snapshot(), memory_threshold=70.0)

    assert len(found.moves) == 2
    reasons = {move.reason for move in found.moves}
    assert reasons == {"memory: source 90.0%, target 0.0%, threshold 70.0%"}, "the loads before the plan"


def test_a_target_stays_below_in_both_resources() -> None:
    builder = cluster().node("a", cpu="10", memory="10Gi").node("cold", cpu="10", memory="10Gi")
    builder.node("fuller", cpu="10", memory="10Gi")
    loaded(builder, "a", [3, 3, 3], memory="2Gi")
    builder.pod("shop/cache", on="cold", cpu="100m", memory="7Gi")
    loaded(builder, "fuller", [4])

    [move] = planned(builder.snapshot()).moves

    assert move.target == "fuller"


def test_nothing_moves_where_every_target_would_be_above() -> None:
    builder = cluster().node("a", cpu="10").node("b", cpu="10")
    loaded(builder, "a", [3, 3, 3])
    loaded(builder, "b", [3, 3])

    found = planned(builder.snapshot())

    assert found.moves == ()
    assert {refused.detail for refused in found.refused} == {
        "it would put every possible target above a threshold"
    }


def test_a_target_must_fit_by_requests_whatever_is_used() -> None:
    builder = cluster().node("a", cpu="10").node("reserved", cpu="10").node("b", cpu="10")
    loaded(builder, "a", [2, 2, 2])
    loaded(builder, "reserved", [9])
    loaded(builder, "b", [4])
    for number in range(3):
        builder.usage(f"shop/a-{number:02}", cpu_millis=3000)
    builder.usage("shop/reserved-00", cpu_millis=100)

    [move] = planned(builder.snapshot()).moves

    assert move.target == "b"


def test_the_node_furthest_above_goes_first() -> None:
    builder = cluster().node("a", cpu="10").node("b", cpu="10").node("c", cpu="10")
    loaded(builder, "a", [1] * 9)
    loaded(builder, "b", [1] * 10)

    [move] = planned(builder.snapshot(), max_reschedule_pods=1).moves

    assert move.source == "b"


def test_looks_only_at_its_own_nodes() -> None:
    builder = overloaded().node("other", cpu="10", labels={"pool": "y"})
    mine = {"ResourceOptimization": parse_selector("pool!=y")}
    theirs = {"ResourceOptimization": parse_selector("pool=y")}

    assert planned(builder.snapshot(), strategy_node_selectors=theirs).moves == ()
    assert {move.target for move in planned(builder.snapshot(), strategy_node_selectors=mine).moves} == {"c"}


def test_only_what_was_hot_for_several_checks_sheds() -> None:
    snapshot = overloaded().snapshot()
    hot_now = too_hot_nodes(snapshot, Policy(), [ResourceOptimization()])
    heat = HotNodeHistory().after(hot_now, UsageSource.METRICS)

    assert hot_now == [("ResourceOptimization", "a")]
    assert planned(snapshot, heat=heat).moves == ()
    heat = heat.after(hot_now, UsageSource.METRICS).after(hot_now, UsageSource.METRICS)
    assert len(planned(snapshot, heat=heat).moves) == 1


@pytest.mark.parametrize(
    ("shares", "excess", "priorities", "chosen"),
    [
        pytest.param([[9.0], [5.0], [4.0]], [4.0], [0, 0, 0], 2, id="the smallest that is enough"),
        pytest.param([[9.0], [5.0], [4.0]], [4.0], [0, 0, 1], 1, id="the lowest priority that is enough"),
        pytest.param([[3.0], [5.0], [1.0]], [7.0], [0, 0, 0], 1, id="the larger of a pair"),
        pytest.param([[3.0], [5.0], [1.0]], [7.0], [-1, 0, -9], 0, id="the lower priority of a pair"),
        pytest.param([[1.0], [3.0], [2.0]], [50.0], [0, 0, 0], 1, id="the largest if nothing is enough"),
        pytest.param([[9.0, 0.0], [5.0, 5.0]], [4.0, 4.0], [0, 0], 1, id="enough in both resources"),
        pytest.param([[9.0, 0.0], [0.0, 9.0]], [4.0, 0.0], [0, 0], 0, id="only what is exceeded counts"),
        pytest.param([[0.0], [0.0]], [4.0], [0, 0], None, id="none if none has a share"),
    ],
)
def test_the_fewest_pods_go(
    shares: list[list[float]], excess: list[float], priorities: list[int], chosen: int | None
) -> None:
    assert fewest_pods_covering(np.array(shares), np.array(excess), np.array(priorities, np.int32)) == chosen


@some.composite
def clusters(draw: some.DrawFn) -> ClusterBuilder:
    builder = cluster()
    for name in "abcde"[: draw(some.integers(2, 5))]:
        builder.node(name, cpu="20", memory="20Gi")
        for number, tenths in enumerate(draw(some.lists(some.integers(1, 40), max_size=9))):
            memory = f"{draw(some.integers(1, 2))}Gi"
            builder.pod(f"shop/{name}-{number}", on=name, cpu=f"{tenths}00m", memory=memory)
    return builder


@settings(max_examples=60, deadline=None)
@given(builder=clusters(), threshold=some.sampled_from([30.0, 50.0, 80.0]))
def test_no_node_gets_above_a_threshold_and_what_was_above_gets_lower(
    builder: ClusterBuilder, threshold: float
) -> None:
    found = planned(builder.snapshot(), cpu_threshold=threshold, memory_threshold=threshold)

    sources = {move.source for move in found.moves}
    for node in found.nodes:
        was_above = max(node.before["cpu"], node.before["memory"]) > threshold
        is_above = max(node.after["cpu"], node.after["memory"]) > threshold
        assert was_above or not is_above, f"{node.name} was pushed above"
        assert was_above or node.name not in sources, f"{node.name} had nothing to shed"
    assert all(0 < move.gain <= 1 for move in found.moves)
