"""How often pods may move: `maxMovesPerHour`, and windows and limits by annotation."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubevalues import parse_selector
from rescheduler.api.well_known_names import MAINTENANCE_LABEL, MAX_MOVES_ANNOTATION, WINDOWS_ANNOTATION
from rescheduler.config.move_limits import MovesPerHour
from rescheduler.config.policy import NodeAutoscaler, Policy
from rescheduler.planner.explanation import explain_pod
from rescheduler.planner.plan import Plan
from rescheduler.planner.plan_builder import build_plan
from rescheduler.planner.reasons import Reason
from rescheduler.strategies.cost_optimization import CostOptimization
from rescheduler.strategies.load_balancing import LoadBalancing
from rescheduler.strategies.node_maintenance import NodeMaintenance
from tests.building import NOW, ClusterBuilder, cluster
from tests.scripted_strategies import ScriptedStrategy

HOUR_S = 3600.0
"""NOW is Monday, 12:00:00 UTC."""


def stamp(ago_s: float) -> str:
    return datetime.fromtimestamp(NOW - ago_s, UTC).isoformat()


def moved(
    built: ClusterBuilder, pod: str, ago_s: float | None, workload: str = "", **more: Any
) -> ClusterBuilder:
    """A migration of that pod that started so long ago and is finished; None: one that waits."""
    namespace, _, name = pod.partition("/")
    status: dict[str, Any] = {"phase": "Pending"}
    if ago_s is not None:
        status = {"phase": "Completed", "startedAt": stamp(ago_s), "finishedAt": stamp(ago_s - 30)}
    if workload:
        about = {"apiVersion": "apps/v1", "kind": "Deployment", "name": workload}
        status["workload"] = {**about, "uid": f"uid-of-deployment-{namespace}-{workload}"}
    number = sum(each["kind"] == "PodMigration" for each in built.objects)
    return built.apply(
        {
            "kind": "PodMigration",
            "metadata": {
                "name": f"m{number}",
                "namespace": namespace,
                "creationTimestamp": stamp(2 * HOUR_S),
            },
            "spec": {"pod": {"name": name, "uid": f"gone-{number}"}, "sourceNode": "a", **more},
            "status": status,
        }
    )


def shops(annotations: dict[str, str] | None = None) -> ClusterBuilder:
    """Three Deployments of four pods, in two namespaces, all on one of two nodes."""
    built = cluster().node("a", cpu="100").node("b", cpu="100")
    for key in ("shop/web", "shop/api", "bank/web"):
        own = annotations if key.endswith("/web") else None
        built.deployment(key, replicas=4, on=["a"] * 4, cpu="1", annotations=own)
    return built


ALL = [{f"{key}-1-{number}": "b"} for key in ("shop/web", "shop/api", "bank/web") for number in range(4)]
"""Each pod by itself, to the other node."""


def planned(built: ClusterBuilder, limits: MovesPerHour, strategy: Any = None, **settings: Any) -> Plan:
    policy = replace(Policy(max_reschedule_pods=100), max_moves_per_hour=limits, **settings)
    return build_plan(built.snapshot(), policy, [strategy or ScriptedStrategy(*ALL)])


def moves_of(plan: Plan, prefix: str = "") -> int:
    return sum(move.pod.startswith(prefix) for move in plan.moves)


def details(plan: Plan, reason: Reason = Reason.HOURLY_LIMIT) -> dict[str, str]:
    return {each.subject: each.detail for each in plan.refused if each.reason == reason}


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param(MovesPerHour(), 12, id="no limit"),
        pytest.param(MovesPerHour(total=5), 5, id="a number in total"),
        pytest.param(MovesPerHour(total="50%"), 6, id="a percentage of all pods"),
        pytest.param(MovesPerHour(total=0), 0, id="none at all"),
        pytest.param(MovesPerHour(per_namespace=3), 6, id="a number per namespace"),
        pytest.param(MovesPerHour(per_namespace="25%"), 3, id="a percentage of the pods of each namespace"),
        pytest.param(MovesPerHour(per_workload=1), 3, id="a number per workload"),
        pytest.param(MovesPerHour(per_workload="30%"), 6, id="a percentage, rounded up"),
        pytest.param(MovesPerHour(total=4, per_namespace=3, per_workload=2), 4, id="all of them"),
    ],
)
def test_a_plan_stays_within_the_moves_per_hour(limits, expected):
    plan = planned(shops(), limits)
    assert moves_of(plan) == expected
    assert (Reason.HOURLY_LIMIT in plan.refused_counts) == (expected < 12)


def test_moves_that_started_within_the_last_hour_count():
    built = moved(moved(shops(), "shop/web-1-9", HOUR_S - 1), "shop/web-1-8", HOUR_S)
    assert moves_of(planned(built, MovesPerHour(total=5))) == 4


def test_those_that_wait_count_too():
    """Else every check would add moves that then start together."""
    built = moved(moved(shops(), "shop/web-1-9", None), "shop/web-1-8", None)
    assert moves_of(planned(built, MovesPerHour(total=5))) == 3


def test_one_that_ended_before_it_started_does_not_count():
    built = moved(shops(), "shop/web-1-9", 60)
    built.objects[-1]["status"].pop("startedAt")
    built.apply(built.objects[-1])
    assert moves_of(planned(built, MovesPerHour(total=5))) == 5


def test_moves_count_for_their_namespace_and_workload():
    built = moved(moved(shops(), "shop/web-1-9", 60, "web"), "shop/api-1-9", 60, "api")
    plan = planned(built, MovesPerHour(per_namespace=3, per_workload=2))
    assert (moves_of(plan, "shop/web"), moves_of(plan, "shop/api"), moves_of(plan, "bank/")) == (1, 0, 2)


def test_a_waiting_move_counts_for_the_workload_of_its_pod():
    built = moved(shops(), "shop/web-1-0", None)
    assert moves_of(planned(built, MovesPerHour(per_workload=1)), "shop/web") == 0


def test_the_next_time_is_said():
    built = shops()
    for ago_s in (3000, 600, 1200):
        moved(built, "shop/web-1-9", ago_s)
    assert details(planned(built, MovesPerHour(total=2)))[""] == (
        "maxMovesPerHour.total (2) allows 2 moves per hour: 3 started in the last hour; "
        "the next is possible at 12:40:00 UTC"
    )
    assert (
        "queued moves have started"
        in details(planned(moved(shops(), "shop/web-1-9", None), MovesPerHour(total=1)))[""]
    )


@pytest.mark.parametrize(
    "limit", [MovesPerHour(total=0), MovesPerHour(per_namespace=0), MovesPerHour(per_workload=0)]
)
def test_maintenance_is_not_held_back(limit):
    built = shops()
    built.node("a", cpu="100", labels={MAINTENANCE_LABEL: "true"})
    assert moves_of(planned(built, limit, NodeMaintenance())) == 12


def test_but_its_moves_count():
    built = shops().node("c", cpu="100", labels={MAINTENANCE_LABEL: "true"})
    built.deployment("shop/old", replicas=1, on=["c"], cpu="1")
    policy = Policy(max_reschedule_pods=100, max_moves_per_hour=MovesPerHour(total=3))
    plan = build_plan(built.snapshot(), policy, [NodeMaintenance(), ScriptedStrategy(*ALL)])
    assert sorted(move.strategy for move in plan.moves) == [
        "NodeMaintenance",
        "ScriptedStrategy",
        "ScriptedStrategy",
    ]


def test_balancing_uses_what_is_allowed():
    plan = planned(
        shops(),
        MovesPerHour(per_workload=1),
        LoadBalancing(),
        balance_resources=("cpu",),
        imbalance_threshold=1.0,
    )
    assert {move.pod.rpartition("-1-")[0] for move in plan.moves} == {"shop/web", "shop/api", "bank/web"}
    assert moves_of(plan) == 3


def test_a_node_with_more_pods_than_an_hour_allows_is_emptied_bit_by_bit():
    """Else CostOptimization would wait for a plan that can never come."""
    built = cluster().node("a", cpu="100").node("b", cpu="10")
    built.deployment("shop/web", replicas=6, on=["b"] * 6, cpu="1").deployment(
        "shop/api", replicas=8, on=["a"] * 8, cpu="1"
    )
    plan = planned(built, MovesPerHour(total=4), CostOptimization(), node_autoscaler=NodeAutoscaler.OTHER)
    assert (moves_of(plan), [change.node for change in plan.changes]) == (4, ["b"])


def test_pods_of_namespaces_that_are_not_selected_are_no_part_of_the_total():
    built = moved(shops().namespace("shop", team="a").namespace("bank"), "bank/web-1-9", 60)
    selecting = parse_selector("team=a")
    assert moves_of(planned(built, MovesPerHour(total=5), namespace_selector=selecting)) == 5
    assert moves_of(planned(built, MovesPerHour(total="50%"), namespace_selector=selecting)) == 4


@given(
    total=st.none() | st.integers(0, 12),
    per_namespace=st.none() | st.integers(0, 8),
    per_workload=st.none() | st.integers(0, 4),
    ages=st.lists(
        st.tuples(st.sampled_from(["shop/web", "shop/api", "bank/web"]), st.integers(0, 7000)), max_size=8
    ),
)
def test_no_hour_has_more_starts_than_allowed(total, per_namespace, per_workload, ages):
    built = shops()
    for key, ago_s in ages:
        moved(built, f"{key}-1-9", float(ago_s), key.partition("/")[2])
    plan = planned(built, MovesPerHour(total=total, per_namespace=per_namespace, per_workload=per_workload))
    started = [key for key, ago_s in ages if ago_s < HOUR_S]
    added = [move.pod.rpartition("-1-")[0] for move in plan.moves]
    for limit, scope in ((total, lambda _: ""), (per_namespace, lambda key: key[:4]), (per_workload, str)):
        for each in {scope(key) for key in added}:
            assert limit is None or sum(scope(key) == each for key in (*started, *added)) <= limit


# -- annotations


def annotated(
    workload: dict[str, str] | None = None, namespace: dict[str, str] | None = None
) -> ClusterBuilder:
    """Both Deployments `web` have the annotations, and the namespace `shop`."""
    built = shops(workload)
    if namespace:
        built.apply({"kind": "Namespace", "metadata": {"name": "shop", "annotations": namespace}})
    return built


@pytest.mark.parametrize(
    ("workload", "namespace", "expected"),
    [
        pytest.param("1", None, {"shop/web": 1, "shop/api": 4, "bank/web": 1}, id="of workloads"),
        pytest.param("25%", None, {"shop/web": 1, "shop/api": 4, "bank/web": 1}, id="as a percentage"),
        pytest.param("0", None, {"shop/web": 0, "shop/api": 4, "bank/web": 0}, id="never"),
        pytest.param(None, "5", {"shop/": 5, "bank/web": 4}, id="of a namespace"),
        pytest.param("2", "3", {"shop/web": 2, "shop/api": 1, "bank/web": 2}, id="of both"),
    ],
)
def test_annotations_limit_the_moves_per_hour(workload, namespace, expected):
    built = annotated(
        {MAX_MOVES_ANNOTATION: workload} if workload else None,
        {MAX_MOVES_ANNOTATION: namespace} if namespace else None,
    )
    plan = planned(built, MovesPerHour())
    assert {prefix: moves_of(plan, prefix) for prefix in expected} == expected


def test_an_annotation_does_not_extend_the_configured_limit():
    plan = planned(annotated({MAX_MOVES_ANNOTATION: "4"}), MovesPerHour(per_workload=1))
    assert moves_of(plan) == 3


@pytest.mark.parametrize(
    ("windows", "is_open"),
    [
        pytest.param("11:00-13:00", True, id="every day"),
        pytest.param("Mon-Fri 22:00-06:00 Europe/Berlin; Mon 12:00-12:01", True, id="the second of two"),
        pytest.param("Sat-Mon 00:00-24:00", True, id="days across the end of the week"),
        pytest.param("Tue,Wed 00:00-24:00", False, id="on other days"),
        pytest.param("12:00-13:00 Asia/Tokyo", False, id="in another time zone"),
    ],
)
def test_windows_of_a_workload(windows, is_open):
    plan = planned(annotated({WINDOWS_ANNOTATION: windows}), MovesPerHour())
    assert moves_of(plan, "shop/web") == (4 if is_open else 0)
    assert moves_of(plan, "shop/api") == 4


def test_the_next_window_is_said():
    plan = planned(annotated({WINDOWS_ANNOTATION: "Tue,Wed 22:00-02:00 Europe/Berlin"}), MovesPerHour())
    assert details(plan, Reason.OUTSIDE_WINDOW)["shop/web-1-0"] == (
        "no window of Deployment shop/web (Tue,Wed 22:00-02:00 Europe/Berlin) is open now; "
        "the next opens on Tue 21:00 UTC"
    )


def test_windows_of_a_namespace_hold_for_workloads_without_their_own():
    built = annotated({WINDOWS_ANNOTATION: "Mon 12:00-13:00"}, {WINDOWS_ANNOTATION: "Sun 00:00-24:00"})
    plan = planned(built, MovesPerHour())
    assert (moves_of(plan, "shop/web"), moves_of(plan, "shop/api"), moves_of(plan, "bank/web")) == (4, 0, 4)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (WINDOWS_ANNOTATION, ""),
        (WINDOWS_ANNOTATION, "at night"),
        (WINDOWS_ANNOTATION, "Mon-Tue-Wed 10:00-11:00"),
        (WINDOWS_ANNOTATION, "Mo 10:00-11:00"),
        (WINDOWS_ANNOTATION, "10:00-10:00"),
        (WINDOWS_ANNOTATION, "10:00-25:00"),
        (WINDOWS_ANNOTATION, "10:00-11:00 Mars/Base"),
        (WINDOWS_ANNOTATION, "00:00-24:00;"),
        (WINDOWS_ANNOTATION, "00:00-24:00; " * 1000),
        (MAX_MOVES_ANNOTATION, ""),
        (MAX_MOVES_ANNOTATION, "many"),
        (MAX_MOVES_ANNOTATION, "-1"),
        (MAX_MOVES_ANNOTATION, "1.5"),
        (MAX_MOVES_ANNOTATION, "101%"),
        (MAX_MOVES_ANNOTATION, "٣"),
        (MAX_MOVES_ANNOTATION, "9" * 5000),
    ],
)
@pytest.mark.parametrize("place", ["workload", "namespace"])
def test_malformed_annotations_keep_pods_where_they_are(name, value, place):
    plan = planned(annotated(**{place: {name: value}}), MovesPerHour())
    assert moves_of(plan, "shop/web") == 0
    detail = details(plan, Reason.LIMIT_MALFORMED)["shop/web-1-0"]
    assert name in detail
    assert len(detail) < 400


@pytest.mark.parametrize("annotation", [{WINDOWS_ANNOTATION: "Sun 00:00-24:00"}, {MAX_MOVES_ANNOTATION: "?"}])
def test_annotations_do_not_hold_back_maintenance(annotation):
    built = annotated(annotation)
    built.node("a", cpu="100", labels={MAINTENANCE_LABEL: "true"})
    assert moves_of(planned(built, MovesPerHour(), NodeMaintenance())) == 12


def test_a_pod_without_a_controller_has_windows_of_its_own():
    built = (
        cluster()
        .nodes("a", "b")
        .pod("shop/solo", on="a", annotations={WINDOWS_ANNOTATION: "Sun 00:00-24:00"})
    )
    plan = planned(built, MovesPerHour(), ScriptedStrategy({"shop/solo": "b"}))
    assert details(plan, Reason.OUTSIDE_WINDOW)["shop/solo"].startswith("no window of Pod shop/solo")


def test_explain_names_limits_windows_and_malformed_annotations():
    built = moved(
        annotated({WINDOWS_ANNOTATION: "Sun 00:00-24:00", MAX_MOVES_ANNOTATION: "?"}), "shop/web-1-9", 60
    )
    policy = Policy(max_moves_per_hour=MovesPerHour(total=1))
    explained = explain_pod(built.snapshot(), policy, "shop/web-1-0")
    assert [each.reason for each in explained.kept_by] == [
        Reason.LIMIT_MALFORMED,
        Reason.OUTSIDE_WINDOW,
        Reason.HOURLY_LIMIT,
    ]
    assert explained.kept_in_maintenance_by == ()
