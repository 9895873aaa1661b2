"""LoadBalancing through the planner: a cluster goes in, a plan comes out."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from kubevalues import parse_selector
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.cluster.trusted_usage import HotNodeHistory
from rescheduler.config.policy import Policy, UsageSource
from rescheduler.planner.plan import Move, Plan
from rescheduler.planner.plan_builder import build_plan, too_hot_nodes
from rescheduler.strategies.load_balancing import LoadBalancing
from tests.building import NOW, ClusterBuilder, cluster

Floats = npt.NDArray[np.float64]

EXACTLY: dict[str, Any] = {"imbalance_threshold": 0.0, "min_gain": 0.0}
AFTER_COOLDOWN = {"pod_cooldown": dataclasses.replace(Policy()).pod_cooldown * 0}


def planned(snapshot: Snapshot, *, heat: HotNodeHistory | None = None, **settings_: Any) -> Plan:
    policy = Policy(**{"max_reschedule_pods": 100, **settings_})
    return build_plan(snapshot, policy, [LoadBalancing()], heat=heat)


def loaded(
    builder: ClusterBuilder, node: str, cpus: Sequence[float], memory: str = "0", **parts: Any
) -> ClusterBuilder:
    """Pods on that node, each with so many cpus."""
    for number, cpu in enumerate(cpus):
        builder.pod(f"shop/{node}-{number:02}", on=node, cpu=f"{int(cpu * 1000)}m", memory=memory, **parts)
    return builder


def hot_and_cold() -> ClusterBuilder:
    """Nodes of ten cpus, at 80 %, 40 % and 20 %."""
    builder = cluster().node("a", cpu="10").node("b", cpu="10").node("c", cpu="10")
    loaded(builder, "a", [2, 2, 1, 1, 1, 1])
    loaded(builder, "b", [2, 2])
    return loaded(builder, "c", [1, 1])


def after(builder: ClusterBuilder, moves: Sequence[Move]) -> ClusterBuilder:
    """The cluster when all moves are done."""
    pods = {f"{each['metadata']['namespace']}/{each['metadata']['name']}": each for each in _pods(builder)}
    for move in moves:
        item = pods[move.pod]
        builder.apply(item | {"spec": item["spec"] | {"nodeName": move.target}})
        pods[move.pod] = builder.objects[-1]
    return builder


def _pods(builder: ClusterBuilder) -> list[dict[str, Any]]:
    return [each for each in builder.objects if each["kind"] == "Pod"]


def percent(found: Plan, resource: str = "cpu", *, before: bool = False) -> dict[str, float]:
    return {node.name: (node.before if before else node.after)[resource] for node in found.nodes}


def spread(found: Plan, resource: str = "cpu", *, before: bool = False) -> float:
    loads = percent(found, resource, before=before).values()
    return max(loads) - min(loads)


def unevenness(loads: Floats) -> float:
    return float(np.square(loads - loads.mean(axis=0)).sum())


def test_moves_pods_until_the_spread_is_inside_the_threshold() -> None:
    found = planned(hot_and_cold().snapshot(), imbalance_threshold=15.0)

    assert spread(found, before=True) == 60
    assert spread(found) == 10
    assert len(found.moves) == 2


def test_does_nothing_while_the_spread_is_inside_the_threshold() -> None:
    assert planned(hot_and_cold().snapshot(), imbalance_threshold=60.0).moves == ()


def test_stops_as_soon_as_it_is_inside() -> None:
    found = planned(hot_and_cold().snapshot(), imbalance_threshold=40.0)

    assert len(found.moves) == 1
    assert spread(found) == 20


def test_says_why_in_words_and_numbers() -> None:
    [first, *_] = planned(hot_and_cold().snapshot(), imbalance_threshold=20.0).moves

    assert first.reason == "cpu: source 80.0%, target 20.0%"
    assert (first.source, first.target, first.strategy) == ("a", "c", "LoadBalancing")


def test_the_loads_in_a_reason_are_those_before_the_plan_also_after_earlier_moves() -> None:
    found = planned(hot_and_cold().snapshot(), imbalance_threshold=1.0)

    before = {node.name: node.before["cpu"] for node in found.nodes}
    assert len({move.source for move in found.moves}) < len(found.moves)
    for move in found.moves:
        words = f"cpu: source {before[move.source]:.1f}%, target {before[move.target]:.1f}%"
        assert move.reason.partition(";")[0] == words


def test_names_the_resource_that_is_uneven() -> None:
    builder = cluster().node("a", memory="10Gi").node("b", memory="10Gi")
    loaded(builder, "a", [0.01] * 6, memory="1Gi")

    [first, *_] = planned(builder.snapshot(), imbalance_threshold=20.0).moves

    assert first.reason == "memory: source 60.0%, target 0.0%"


def test_gain_is_what_the_two_nodes_come_nearer_to_the_mean() -> None:
    builder = cluster().node("a", cpu="10").node("b", cpu="10")
    loaded(builder, "a", [2, 2, 2])

    [move] = planned(builder.snapshot(), imbalance_threshold=30.0, balance_resources=("cpu",)).moves

    # 30 points off on either side before, 10 after.
    assert move.gain == pytest.approx(1 - 100 / 900)


def test_a_move_that_gains_less_than_asked_for_is_not_made() -> None:
    builder = cluster().node("a", cpu="10").node("b", cpu="10")
    loaded(builder, "a", [2, 2, 2])
    snapshot = builder.snapshot()

    assert planned(snapshot, imbalance_threshold=30.0, min_gain=0.88, balance_resources=("cpu",)).moves
    assert not planned(snapshot, imbalance_threshold=30.0, min_gain=0.9, balance_resources=("cpu",)).moves


def test_balances_only_the_resources_it_is_asked_to() -> None:
    builder = cluster().node("a", cpu="10", memory="10Gi").node("b", cpu="10", memory="10Gi")
    loaded(builder, "a", [1] * 4, memory="1Gi")
    loaded(builder, "b", [1] * 4, memory="2Gi")
    snapshot = builder.snapshot()

    assert planned(snapshot, balance_resources=("cpu",)).moves == ()
    assert planned(snapshot, balance_resources=("memory",)).moves != ()


def test_a_resource_that_some_nodes_lack_is_balanced_among_those_that_have_it() -> None:
    gpu = "example.com/gpu"
    builder = cluster().node("a", more={gpu: "8"}).node("b", more={gpu: "8"}).node("plain")
    for number in range(4):
        builder.pod(f"shop/train-{number}", on="a", more={gpu: "1"})
    snapshot = builder.snapshot()

    found = planned(snapshot, balance_resources=(gpu,), imbalance_threshold=20.0)

    assert {move.target for move in found.moves} == {"b"}
    assert planned(snapshot, balance_resources=("example.com/nothing",)).moves == ()


def test_looks_only_at_its_own_nodes() -> None:
    builder = cluster()
    for name, pool in (("a", "x"), ("b", "x"), ("c", "y"), ("d", "y")):
        builder.node(name, cpu="10", labels={"pool": pool})
    loaded(builder, "a", [1] * 8)
    loaded(builder, "c", [1] * 9)

    found = planned(builder.snapshot(), strategy_node_selectors={"LoadBalancing": parse_selector("pool=x")})

    assert {(move.source, move.target) for move in found.moves} == {("a", "b")}


@pytest.mark.parametrize(
    "node",
    [
        pytest.param({"ready": False}, id="not Ready"),
        pytest.param({"cordoned": True}, id="cordoned"),
        pytest.param({"taints": ["dedicated=gpu:NoSchedule"]}, id="tainted"),
    ],
)
def test_a_node_that_takes_no_pods_causes_no_moves(node: dict[str, Any]) -> None:
    builder = cluster().node("a", cpu="10").node("b", cpu="10").node("empty", cpu="10", **node)
    loaded(builder, "a", [1] * 7)
    loaded(builder, "b", [1, 1, 1, 1, 1, 0.4])

    # From 70 % and 54 % a move would gain, but these two are inside the threshold.
    assert planned(builder.snapshot(), imbalance_threshold=20.0).moves == ()


def test_a_full_cordoned_node_is_relieved() -> None:
    builder = cluster().node("a", cpu="10", cordoned=True).node("b", cpu="10")
    loaded(builder, "a", [1] * 8)

    found = planned(builder.snapshot(), imbalance_threshold=20.0)

    assert {move.source for move in found.moves} == {"a"}


def test_makes_no_more_moves_than_there_is_room_for() -> None:
    builder = cluster().node("a", cpu="20").node("b", cpu="20")
    loaded(builder, "a", [1] * 16)

    assert len(planned(builder.snapshot(), **EXACTLY, max_reschedule_pods=3).moves) == 3


def test_among_near_equals_the_lower_priority_moves() -> None:
    builder = cluster().node("a", cpu="10").node("b", cpu="10")
    builder.pod("shop/dear", on="a", cpu="2", priority=1000)
    builder.pod("shop/middling", on="a", cpu="2", priority=500)
    builder.pod("shop/unimportant", on="a", cpu="2", priority=1)

    found = planned(builder.snapshot(), imbalance_threshold=30.0)

    assert [move.pod for move in found.moves] == ["shop/unimportant"]


def test_two_pods_change_places_where_no_single_move_helps() -> None:
    builder = cluster().node("a", cpu="10").node("b", cpu="10")
    loaded(builder, "a", [4, 3])
    loaded(builder, "b", [3, 2])

    found = planned(builder.snapshot(), **EXACTLY, balance_resources=("cpu",))

    assert {(move.source, move.target) for move in found.moves} == {("a", "b"), ("b", "a")}
    assert spread(found) == 0
    assert all("; together with shop/" in move.reason for move in found.moves)


def test_pods_of_a_group_are_left_where_they_are() -> None:
    builder = cluster().node("a", cpu="10").node("b", cpu="10")
    loaded(builder, "a", [1] * 8, labels={"scheduling.x-k8s.io/pod-group": "ring"})

    assert planned(builder.snapshot()).moves == ()


def test_the_same_cluster_gives_the_same_plan_in_whichever_order_it_arrived() -> None:
    first, second = hot_and_cold(), cluster()
    for item in reversed(first.objects):
        second.apply(item)

    assert planned(first.snapshot(), **EXACTLY).moves == planned(second.snapshot(), **EXACTLY).moves


sizes = some.lists(some.integers(1, 40), min_size=0, max_size=8)


@some.composite
def clusters(draw: some.DrawFn) -> ClusterBuilder:
    """Up to six nodes of several sizes, with pods of several sizes in cpu and memory, none overcommitted."""
    builder = cluster()
    for name in "abcdef"[: draw(some.integers(2, 6))]:
        builder.node(name, cpu=str(draw(some.sampled_from([16, 32]))), memory="32Gi")
        for number, tenths in enumerate(draw(sizes)):
            gib = draw(some.integers(1, 4))
            builder.pod(f"shop/{name}-{number}", on=name, cpu=f"{tenths}00m", memory=f"{gib}Gi")
    return builder


thresholds = some.sampled_from([0.0, 5.0, 20.0])


@settings(max_examples=60, deadline=None)
@given(builder=clusters(), threshold=thresholds, room=some.integers(1, 30))
def test_every_proposal_makes_the_cluster_more_even(
    builder: ClusterBuilder, threshold: float, room: int
) -> None:
    snapshot = builder.snapshot()
    found = planned(snapshot, imbalance_threshold=threshold, min_gain=0.0, max_reschedule_pods=room)
    before = np.array([[node.before["cpu"], node.before["memory"]] for node in found.nodes])
    end = np.array([[node.after["cpu"], node.after["memory"]] for node in found.nodes])

    assert len(found.moves) <= room
    assert all(move.gain > 0 for move in found.moves if not move.hop)
    assert len({move.uid for move in found.moves if not move.hop}) == len({m.uid for m in found.moves})
    if found.moves:
        assert unevenness(end) < unevenness(before)
        assert max(spread(found, "cpu", before=True), spread(found, "memory", before=True)) > threshold
    else:
        assert unevenness(end) == pytest.approx(unevenness(before))


@settings(max_examples=60, deadline=None)
@given(builder=clusters(), threshold=thresholds, min_gain=some.sampled_from([0.0, 0.01]))
def test_a_second_check_after_all_moves_finds_nothing_more_to_do(
    builder: ClusterBuilder, threshold: float, min_gain: float
) -> None:
    options: dict[str, Any] = {
        "imbalance_threshold": threshold,
        "min_gain": min_gain,
        "max_reschedule_pods": 200,
    }
    first = planned(builder.snapshot(), **options)

    second = planned(after(builder, first.moves).snapshot(), **options)

    assert second.moves == ()


def test_a_balanced_cluster_yields_an_empty_plan_even_without_a_threshold() -> None:
    builder = cluster()
    for name in "abcd":
        loaded(builder.node(name, cpu="10"), name, [2, 1, 1])

    assert planned(builder.snapshot(), **EXACTLY).moves == ()


def noisy(builder: ClusterBuilder, check: int) -> Snapshot:
    """Usage of all pods, off by up to a fifth, differently in every check."""
    rng = np.random.default_rng(check)
    for item in _pods(builder):
        key = f"{item['metadata']['namespace']}/{item['metadata']['name']}"
        builder.usage(key, cpu_millis=int(1000 * rng.uniform(0.8, 1.2)))
    return builder.snapshot(now=NOW + 30 * check)


def test_no_pod_bounces_over_fifty_checks_with_noise_in_the_usage() -> None:
    builder = cluster()
    for name in "abcde":
        builder.node(name, cpu="16")
    loaded(builder, "a", [1] * 14)
    loaded(builder, "b", [1] * 9)
    loaded(builder, "c", [1] * 3)
    policy = Policy(balance_resources=("cpu",), **AFTER_COOLDOWN)
    heat, been, moves = HotNodeHistory(), {}, []
    for check in range(50):
        snapshot = noisy(builder, check)
        heat = heat.after(too_hot_nodes(snapshot, policy, [LoadBalancing()]), UsageSource.METRICS)
        found = build_plan(snapshot, policy, [LoadBalancing()], heat=heat)
        for move in found.moves:
            assert move.target not in been.setdefault(move.pod, {move.source}), f"{move} in check {check}"
            been[move.pod].add(move.target)
        moves.append(len(found.moves))
        after(builder, found.moves)

    assert moves[:2] == [0, 0], "nothing is hot before it was so for three checks"
    assert sum(moves[:5]) > 0
    assert sum(moves[5:]) <= 2, "all that was to be done was done in the beginning"
    assert sum(moves[25:]) == 0


def test_only_what_was_hot_for_several_checks_is_relieved() -> None:
    builder = hot_and_cold()
    snapshot = builder.snapshot()
    policy = Policy()
    hot_now = too_hot_nodes(snapshot, policy, [LoadBalancing()])
    heat = HotNodeHistory().after(hot_now, UsageSource.METRICS)

    assert hot_now == [("LoadBalancing", "a")]
    assert planned(snapshot, heat=heat).moves == ()
    heat = heat.after(hot_now, UsageSource.METRICS).after(hot_now, UsageSource.METRICS)
    assert planned(snapshot, heat=heat).moves != ()
