"""Custom metrics as load: shares of pods, nodes that are left out, and what LoadBalancing does with them."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.cluster.snapshot import MAX_AMOUNT
from rescheduler.cluster.usage_readings import MetricReadings, balanced_metrics
from rescheduler.config.metric_settings import CustomMetric, MetricSubject, Prometheus
from rescheduler.config.policy import Policy
from rescheduler.planner.plan_builder import build_plan
from rescheduler.strategies.strategy_registry import strategies_of
from rescheduler.strategies.target_search import average_node
from tests.building import NOW, cluster

PRESSURE = CustomMetric(name="cpu-pressure", query="q", capacity=1.0)
NETWORK = CustomMetric(name="network", query="q", per=MetricSubject.POD, capacity=1e9)
POLICY = Policy(
    enabled_strategies=("LoadBalancing",),
    balance_resources=("cpu", "memory", "cpu-pressure"),
    custom_metrics=(PRESSURE,),
    prometheus=Prometheus(url="http://prometheus:9090"),
)


def frozen(made, *readings):
    made.state.apply_custom_metrics(readings)
    return made.snapshot()


def pressure(metric=PRESSURE, pods=(), capacities=(), **nodes):
    return MetricReadings(metric, nodes, dict(pods), dict(capacities))


def percent(snapshot, column=-1):
    """The load of each node of which the metric is known."""
    nodes = snapshot.nodes
    rows = zip(nodes.records, nodes.load[:, column], nodes.allocatable[:, column], strict=True)
    return {node.name: round(100 * load / has, 3) for node, load, has in rows if has}


def planned(made, *readings, policy=POLICY):
    return build_plan(frozen(made, *readings), policy, strategies_of(policy))


def three_nodes():
    """a has two pods, b and c have one; all request little."""
    made = cluster().nodes("a", "b", "c")
    return made.deployment("shop/web", replicas=4, on=["a", "b", "c", "a"], cpu="100m", memory="1Mi")


def test_the_value_of_a_node_is_shared_out_by_the_cpu_load_of_its_pods():
    made = three_nodes().usage("shop/web-1-0", cpu_millis=300, memory_bytes=1)
    snapshot = frozen(made.usage("shop/web-1-3", cpu_millis=100, memory_bytes=1), pressure(a=0.4, b=0.1, c=0))
    assert snapshot.resources[-1] == "cpu-pressure"
    assert percent(snapshot) == {"a": 40, "b": 10, "c": 0}
    share = dict(zip(snapshot.pods.row, snapshot.pods.load[:, -1].tolist(), strict=True))
    assert share == {
        "shop/web-1-0": 300_000, "shop/web-1-1": 100_000, "shop/web-1-2": 0, "shop/web-1-3": 100_000,
    }  # fmt: skip


def test_with_a_pod_query_the_shares_are_in_proportion_to_its_values():
    metric = replace(PRESSURE, pod_query="p")
    own = {"shop/web-1-0": 0.1, "shop/web-1-3": 0.3, "shop/web-1-1": 1.0, "shop/web-1-2": 1.0}
    snapshot = frozen(three_nodes(), pressure(metric, own, a=0.8, b=0.1, c=0.1))
    assert snapshot.pods.load[[0, 3], -1].tolist() == [200_000, 600_000]


def test_the_value_of_a_node_is_the_sum_of_its_pods_if_pods_are_measured():
    used = {"shop/web-1-0": 2e8, "shop/web-1-3": 1e8, "shop/web-1-1": 5e7, "shop/web-1-2": 0.0}
    snapshot = frozen(three_nodes(), MetricReadings(NETWORK, {}, used))
    assert percent(snapshot) == {"a": 30, "b": 5, "c": 0}


def test_a_query_can_say_the_capacity_of_each_node():
    metric = replace(PRESSURE, capacity=None, capacity_query="c")
    snapshot = frozen(three_nodes(), pressure(metric, capacities={"a": 2.0, "b": 4.0}, a=1.0, b=1.0, c=1.0))
    assert percent(snapshot) == {"a": 50, "b": 25}
    assert snapshot.assumptions == (
        "cpu-pressure: LoadBalancing leaves out 1 node (c), because no capacity is known",
    )


@pytest.mark.parametrize(
    ("readings", "why"),
    [
        pytest.param(pressure(a=0.4, b=0.1), "1 node (c), because there is no value", id="no value"),
        pytest.param(
            pressure(replace(PRESSURE, pod_query="p"), {"shop/web-1-0": 1, "shop/web-1-1": 1}, a=1, b=1, c=1),
            "1 node (c), because no pod accounts for the value",
            id="no pod that the value could be of",
        ),
        pytest.param(
            MetricReadings(NETWORK, {}, {"shop/web-1-0": 1e8, "shop/web-1-1": 1e8}),
            "1 node (c), because no pod has a value",
            id="no pod is measured",
        ),
    ],
)
def test_a_node_without_a_value_is_left_out_with_the_reason_and_not_idle(readings, why):
    snapshot = frozen(three_nodes(), readings)
    assert "c" not in percent(snapshot)
    assert snapshot.assumptions == (f"{readings.metric.name}: LoadBalancing leaves out {why}",)


def test_a_node_without_pods_and_without_pressure_is_idle():
    made = three_nodes().node("empty")
    assert percent(frozen(made, pressure(a=0.4, b=0.1, c=0.1, empty=0.0)))["empty"] == 0
    used = {f"shop/web-1-{number}": 1e8 for number in range(4)}
    assert percent(frozen(made, MetricReadings(NETWORK, {}, used)))["empty"] == 0


def test_pods_move_off_a_node_under_pressure_although_its_cpu_load_is_low():
    plan = planned(three_nodes(), pressure(a=0.6, b=0.05, c=0.0))
    (move,) = plan.moves
    assert (move.source, move.target) == ("a", "c")
    assert move.reason == "cpu-pressure: source 60.0%, target 0.0%"
    loads = {node.name: (node.before["cpu-pressure"], node.after["cpu-pressure"]) for node in plan.nodes}
    assert loads == {"a": (60, 30), "b": (5, 5), "c": (0, 30)}
    assert planned(three_nodes()).moves == (), "by cpu and memory alone there is nothing to do"


def test_no_pod_goes_to_a_node_without_a_value():
    plan = planned(three_nodes(), pressure(a=0.6, b=0.05))
    assert {move.target for move in plan.moves} == {"b"}
    assert {move.source for move in plan.moves} == {"a"}
    assert planned(three_nodes(), pressure(a=0.6)).moves == ()


def test_a_node_without_a_value_gets_no_pods_for_other_resources_either():
    """By cpu, pods would go from a to c. But the pressure of c may be high."""
    nodes = ["a", "a", "a", "a", "b", "b", "c"]
    made = (
        cluster().nodes("a", "b", "c").deployment("shop/web", replicas=8, on=nodes, cpu="1500m", memory="1Mi")
    )
    assert {move.target for move in planned(made, pressure(a=0.3, b=0.3, c=0.0)).moves} == {"c"}
    assert "c" not in {move.target for move in planned(made, pressure(a=0.3, b=0.3)).moves}


def test_a_metric_that_is_not_balanced_moves_nothing():
    policy = replace(POLICY, balance_resources=("cpu", "memory"))
    assert planned(three_nodes(), pressure(a=0.6, b=0.05, c=0.0), policy=policy).moves == ()
    assert balanced_metrics(policy) == ()
    assert balanced_metrics(POLICY) == (PRESSURE,)


def test_a_node_is_left_out_for_some_minutes_after_a_pod_moved():
    """The value is an average over minutes: it still includes the pod, and too many would be moved."""

    def moved(seconds):
        at = datetime.fromtimestamp(NOW - seconds, UTC).isoformat()
        made = three_nodes().apply(
            {
                "apiVersion": "rescheduler.dev/v1alpha1",
                "kind": "PodMigration",
                "metadata": {"name": "m", "namespace": "shop", "uid": "m", "creationTimestamp": at},
                "spec": {"pod": {"name": "gone", "uid": "gone"}, "sourceNode": "a", "targetNode": "b"},
                "status": {
                    "phase": "Completed", "startedAt": at, "finishedAt": at,
                    "targetPod": {"name": "web-1-1", "uid": "uid-of-pod-shop-web-1-1"},
                },
            }
        )  # fmt: skip
        return frozen(made, pressure(a=0.6, b=0.05, c=0.0))

    settling = moved(seconds=60)
    assert percent(settling) == {"c": 0}
    why = "because a pod has recently left or arrived"
    assert settling.assumptions == (f"cpu-pressure: LoadBalancing leaves out 2 nodes (a, b), {why}",)
    assert percent(moved(seconds=3600)) == {"a": 60, "b": 5, "c": 0}


def test_metrics_change_nothing_for_the_scheduler_rules_and_what_fits():
    made = three_nodes()
    plain, measured = made.snapshot(), frozen(made, pressure(a=0.6, b=0.05))
    assert measured.resources == (*plain.resources, "cpu-pressure")
    assert (measured.nodes.requested[:, -1] == 0).all()
    assert (measured.pods.requests[:, -1] == 0).all()
    assert (measured.nodes.allocatable[:, :-1] == plain.nodes.allocatable).all()
    assert np.isinf(average_node(measured.nodes)[-1]), "a node is not larger for it"
    assert average_node(measured.nodes)[:-1].tolist() == average_node(plain.nodes).tolist()
    assert frozen(made).resources == plain.resources, "it can be forgotten again"


VALUES = st.one_of(st.none(), st.floats(0, 2.0**50), st.sampled_from([0.0, 1e-12, 0.3, 5e-324, 2.0**50]))


@settings(max_examples=150)
@given(
    nodes=st.lists(VALUES, min_size=3, max_size=3),
    pods=st.lists(VALUES, min_size=4, max_size=4),
    capacities=st.lists(VALUES, min_size=3, max_size=3),
    per=st.sampled_from(MetricSubject),
    has_pod_query=st.booleans(),
)
def test_loads_add_up_whatever_is_measured(nodes, pods, capacities, per, has_pod_query):
    """Nothing overflows or is negative, a node is known if all its parts are, and its load is its value."""
    named = {name: value for name, value in zip("abc", nodes, strict=True) if value is not None}
    own = {f"shop/web-1-{number}": value for number, value in enumerate(pods) if value is not None}
    most = {name: value for name, value in zip("abc", capacities, strict=True) if value is not None}
    pod_query = "p" if has_pod_query and per is MetricSubject.NODE else None
    metric = CustomMetric(name="m", query="q", per=per, pod_query=pod_query, capacity_query="c")
    snapshot = frozen(three_nodes(), MetricReadings(metric, named, own, most))
    load, has = snapshot.nodes.load[:, -1], snapshot.nodes.allocatable[:, -1]
    assert (snapshot.pods.load[:, -1] >= 0).all()
    assert (load >= 0).all()
    assert (has >= 0).all()
    assert (load[has == 0] == 0).all()
    of_node = {"a": ("shop/web-1-0", "shop/web-1-3"), "b": ("shop/web-1-1",), "c": ("shop/web-1-2",)}
    for row, name in enumerate("abc"):
        values = [own[pod] for pod in of_node[name] if pod in own]
        if per is MetricSubject.POD:
            value = sum(values) if values else None
        else:
            value = named.get(name)
            if value and has_pod_query and sum(values) <= 0:
                value = None
        assert (has[row] > 0) == (value is not None and most.get(name, 0) > 0)
        if 1000 < has[row] < MAX_AMOUNT and load[row] < MAX_AMOUNT:
            scale = has[row] / most[name]
            assert load[row] == pytest.approx(value * scale, rel=1e-3, abs=3)
