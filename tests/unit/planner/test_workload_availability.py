"""Evictions of one pod of several: in order, not while a sibling is not ready, and without a rollout as a
side effect.
"""

import dataclasses

import pytest

from rescheduler.config.policy import Policy
from rescheduler.planner.explanation import explain_pod
from rescheduler.planner.plan_builder import build_plan
from rescheduler.planner.protections.eligibility import Eligibility
from rescheduler.planner.reasons import Reason
from tests.building import NOW, ClusterBuilder, cluster
from tests.objects import pod_object
from tests.replay import replay
from tests.scripted_strategies import ScriptedStrategy

POLICY = Policy()
PARALLEL = {"podManagementPolicy": "Parallel"}
RECREATE = {"type": "Recreate"}


def reasons(built: ClusterBuilder, pod: str, *, urgent: bool = False) -> list[str]:
    snapshot = built.snapshot()
    found = Eligibility(snapshot, POLICY, urgent=urgent).refusals(snapshot.pods.row[pod])
    return [str(each.reason) for each in found]


def detail(built: ClusterBuilder, pod: str) -> str:
    snapshot = built.snapshot()
    found = Eligibility(snapshot, POLICY, urgent=False).refusal(snapshot.pods.row[pod])
    return found.detail if found else ""


def database(replicas: int = 3, **parts) -> ClusterBuilder:
    nodes = ["a", "b", "c"]
    return cluster().nodes(*nodes, "d").stateful_set("shop/db", replicas=replicas, on=nodes, **parts)


def again(built: ClusterBuilder, pod: str, **parts) -> ClusterBuilder:
    """That pod of the database once more, in another state."""
    labels = {"app": "db", "statefulset.kubernetes.io/pod-name": pod}
    return built.apply(
        pod_object(f"shop/{pod}", **{"on": "a", "owner": "StatefulSet/db"} | parts, labels=labels)
    )


# --- a sibling that is not ready


@pytest.mark.parametrize("urgent", [False, True])
@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
@pytest.mark.parametrize(
    "state",
    [
        pytest.param({"ready": False}, id="not ready"),
        pytest.param({"deleted": "2026-03-02T12:00:00Z"}, id="going"),
        pytest.param({"on": ""}, id="without a node"),
    ],
)
def test_a_ready_pod_is_not_evicted_while_a_sibling_is(state, policy, urgent):
    built = again(database(spec={"podManagementPolicy": policy}), "db-1", **state)
    assert reasons(built, "shop/db-0", urgent=urgent) == [Reason.SIBLING_NOT_READY]
    assert reasons(built, "shop/db-2", urgent=urgent) == [Reason.SIBLING_NOT_READY]


def test_a_sibling_that_is_missing_counts_as_one_that_is_not_ready():
    built = database(spec=PARALLEL).remove("shop/db-1")
    assert reasons(built, "shop/db-0") == [Reason.SIBLING_NOT_READY]
    assert detail(built, "shop/db-0") == "2 of 3 pods of its workload are ready: one is missing"


def test_the_one_that_is_not_ready_may_be_moved():
    assert reasons(again(database(), "db-1", ready=False), "shop/db-1") == []


def test_a_deployment_that_is_evicted_from_is_protected_like_that_too():
    built = cluster().nodes("a", "b")
    built.deployment("shop/web", replicas=2, on=["a", "b"], strategy=RECREATE)
    assert reasons(built, "shop/web-1-0") == []
    built.pod("shop/web-1-1", on="b", owner="ReplicaSet/web-1", labels={"app": "web"}, ready=False)
    assert reasons(built, "shop/web-1-0") == [Reason.SIBLING_NOT_READY]
    assert detail(built, "shop/web-1-0") == "1 of 2 pods of its workload are ready: web-1-1 is not ready"


def test_but_a_pod_that_is_copied_first_is_not_missed():
    built = cluster().nodes("a", "b").deployment("shop/web", replicas=2, on=["a", "b"])
    built.pod("shop/web-1-1", on="b", owner="ReplicaSet/web-1", labels={"app": "web"}, ready=False)
    assert reasons(built, "shop/web-1-0") == []


def test_a_pod_that_has_failed_and_was_replaced_is_no_sibling():
    built = cluster().nodes("a", "b")
    built.deployment("shop/web", replicas=2, on=["a", "b"], strategy=RECREATE)
    built.pod("shop/web-1-9", on="b", owner="ReplicaSet/web-1", labels={"app": "web"}, phase="Failed")
    assert reasons(built, "shop/web-1-0") == []


def test_where_a_budget_allows_more_to_be_missing_that_counts():
    built = again(database(spec=PARALLEL), "db-1", ready=False)
    built.budget("shop/db", selector={"app": "db"}, allowed=1, desired=1, healthy=2)
    assert reasons(built, "shop/db-0") == []


def test_siblings_of_an_unknown_workload_count_as_far_as_they_are_there():
    built = cluster().nodes("a", "b")
    for pod, ready in (("db-0", True), ("db-1", True), ("db-2", False)):
        again(built, pod, ready=ready)
    assert reasons(built, "shop/db-0") == [Reason.SIBLING_NOT_READY]
    assert reasons(built.remove("shop/db-2"), "shop/db-0") == []


# --- the order of a StatefulSet


def with_budget(built: ClusterBuilder) -> ClusterBuilder:
    return built.budget("shop/db", selector={"app": "db"}, allowed=2, desired=1, healthy=3)


@pytest.mark.parametrize("urgent", [False, True])
def test_no_pod_goes_whose_successor_would_wait_for_one_before_it(urgent):
    """Whatever its budget allows: the StatefulSet makes db-2 only when db-1 is ready."""
    built = again(with_budget(database()), "db-1", ready=False)
    assert reasons(built, "shop/db-2", urgent=urgent) == [Reason.SIBLING_NOT_READY]
    assert reasons(built, "shop/db-1", urgent=urgent) == []
    assert reasons(built, "shop/db-0", urgent=urgent) == []
    assert detail(built, "shop/db-2") == "its StatefulSet does not create db-2 before db-1 is ready"


def test_a_parallel_stateful_set_waits_for_no_sibling():
    built = again(with_budget(database(spec=PARALLEL)), "db-1", ready=False)
    assert reasons(built, "shop/db-2") == []


def test_one_before_it_that_is_missing_is_waited_for():
    assert detail(with_budget(database()).remove("shop/db-0"), "shop/db-2").endswith("before db-0 is ready")


def test_one_before_it_must_be_available_not_only_ready():
    since = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-02T11:59:50Z"}
    built = with_budget(database(spec={"minReadySeconds": 30}))
    again(built, "db-1", status={"conditions": [since]})
    assert reasons(built, "shop/db-2") == [Reason.SIBLING_NOT_READY]
    snapshot = built.snapshot(NOW + 20)
    assert Eligibility(snapshot, POLICY, urgent=False).refusal(snapshot.pods.row["shop/db-2"]) is None


def test_a_set_that_begins_with_another_number_misses_none_before_it():
    built = cluster().nodes("a", "b", "c")
    built.stateful_set("shop/db", replicas=3, on=["a"], spec={"ordinals": {"start": 5}})
    for number in range(3):
        built.remove(f"shop/db-{number}")
        again(built, f"db-{number + 5}")
    assert reasons(built, "shop/db-7") == []
    assert reasons(built.remove("shop/db-5"), "shop/db-7") == [Reason.SIBLING_NOT_READY]


def test_a_number_beyond_all_measure_takes_no_time():
    assert reasons(again(with_budget(database()), "db-4000000000"), "shop/db-4000000000") == [
        Reason.SIBLING_NOT_READY
    ]
    assert reasons(again(with_budget(database()), f"db-{'9' * 5000}"), f"shop/db-{'9' * 5000}") == []


@pytest.mark.parametrize("budget", [True, False])
def test_one_pod_of_a_set_at_a_time_however_many_may_move_at_once(budget):
    built = with_budget(database()) if budget else database()
    policy = dataclasses.replace(POLICY, max_concurrent_per_workload=5, max_concurrent_per_node=9)
    scripted = ScriptedStrategy({"shop/db-0": "d"}, {"shop/db-1": "d"}, {"shop/db-2": "d"})
    found = build_plan(built.snapshot(), policy, [scripted])
    assert [move.wave for move in found.moves] == [0, 1, 2]
    assert replay(built.objects, found, policy) == []


def test_as_many_of_a_parallel_set_as_its_budget_allows():
    built = with_budget(database(spec=PARALLEL))
    policy = dataclasses.replace(POLICY, max_concurrent_per_workload=5, max_concurrent_per_node=9)
    scripted = ScriptedStrategy({"shop/db-0": "d"}, {"shop/db-1": "d"}, {"shop/db-2": "d"})
    found = build_plan(built.snapshot(), policy, [scripted])
    assert [move.wave for move in found.moves] == [0, 0, 1]


# --- revisions


def revised(update: dict, *, own: str, current: str = "old", newest: str = "new") -> ClusterBuilder:
    """All its pods are of revision `own`."""
    return database(
        spec={"updateStrategy": update},
        status={"currentRevision": current, "updateRevision": newest},
        labels={"controller-revision-hash": own},
    )


ON_DELETE = {"type": "OnDelete"}


def rolling(partition: int) -> dict:
    return {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}


@pytest.mark.parametrize(
    ("built", "pod"),
    [
        pytest.param(revised(ON_DELETE, own="old"), "shop/db-1", id="updated when deleted"),
        pytest.param(revised(rolling(2), own="new"), "shop/db-1", id="held back, but newer than that"),
    ],
)
def test_no_move_updates_a_pod_on_the_side(built, pod):
    assert reasons(built, pod) == [Reason.REVISION_PENDING]
    assert build_plan(built.snapshot(), POLICY, [ScriptedStrategy({pod: "d"})]).moves == ()


@pytest.mark.parametrize(
    ("built", "pod"),
    [
        pytest.param(revised(ON_DELETE, own="new"), "shop/db-1", id="updated already"),
        pytest.param(revised(ON_DELETE, own="old", newest="old"), "shop/db-1", id="nothing to update to"),
        pytest.param(revised(rolling(3), own="old"), "shop/db-1", id="held back, and comes back like that"),
    ],
)
def test_a_pod_that_comes_back_as_it_was_may_be_moved(built, pod):
    assert reasons(built, pod) == []


def test_maintenance_moves_it_all_the_same_and_says_so():
    built = revised(ON_DELETE, own="old")
    assert reasons(built, "shop/db-1", urgent=True) == []
    found = build_plan(built.snapshot(), POLICY, [ScriptedStrategy({"shop/db-1": "d"}, urgent=True)])
    assert [move.pod for move in found.moves] == ["shop/db-1"]
    reported = "pods of StatefulSet shop/db may come back with revision new, as after any deletion"
    assert reported in found.assumptions
    explained = explain_pod(built.snapshot(), POLICY, "shop/db-1")
    assert not explained.may_move
    assert explained.kept_in_maintenance_by == ()
    assert explained.assumed == reported
    assert explained.why.endswith(", with revision new")


def test_a_pod_that_shows_no_revision_is_not_held_for_it():
    built = database(
        spec={"updateStrategy": ON_DELETE}, status={"currentRevision": "1", "updateRevision": "2"}
    )
    assert reasons(built, "shop/db-1") == []
