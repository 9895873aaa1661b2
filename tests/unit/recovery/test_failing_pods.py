"""Which pods of a cluster are failing, found without examining all pods."""

import pytest

from rescheduler.api.well_known_names import FAILED_ATTEMPTS_ANNOTATION
from rescheduler.config.policy import DefaultRetries, FailedPodsPolicy
from rescheduler.recovery import failing_pods as surveying
from rescheduler.recovery.attempt_ledger import AttemptLedger, FailedAttempt, ReplicaLineage
from rescheduler.recovery.failing_pods import find_failing_pods
from rescheduler.recovery.recovery_decision import NotRequested, Reschedule
from tests.building import NOW, cluster
from tests.failing_pods import container, crashing, lost, status_of

TERMS = FailedPodsPolicy()
THREE = {"scheduling-retries": "3"}
NONE = {"scheduling-retries": "0"}


def failing(made, terms=TERMS):
    snapshot = made.snapshot()
    return {
        snapshot.pods.records[row].key: case.decision
        for row, case in find_failing_pods(snapshot, terms).failing.items()
    }


@pytest.fixture
def looked_at(monkeypatch):
    """The pods that were looked at more closely."""
    seen = []

    def counted_failure_of(pod, *rest):
        seen.append(pod.key)
        return asked(pod, *rest)

    asked = surveying.failure_of
    monkeypatch.setattr(surveying, "failure_of", counted_failure_of)
    return seen


def test_of_healthy_pods_none_is_looked_at(looked_at):
    made = cluster().nodes("a", "b").deployment("shop/web", replicas=50, on=["a", "b"], annotations=THREE)
    assert failing(made) == {}
    assert looked_at == []


def test_nor_of_those_whose_owners_did_not_ask(looked_at):
    made = cluster().node("a").deployment("shop/web", replicas=3, on=["a"], **crashing())
    made.pod("shop/bare", on="a", **crashing())
    assert failing(made) == {}
    assert looked_at == []


def test_failing_pods_of_all_owners_are_found():
    made = cluster().nodes("a", "b").deployment("shop/web", on=["a"], annotations=THREE, **crashing())
    made.stateful_set("shop/db", on=["a"], annotations=THREE, **crashing())
    made.pod("shop/bare", on="b", annotations=THREE, **crashing())
    move = Reschedule(1, ("a",))
    assert failing(made) == {"shop/bare": Reschedule(1, ("b",)), "shop/db-0": move, "shop/web-1-0": move}


def test_also_where_only_the_jobs_of_a_cron_job_ask():
    made = cluster().node("a").job("shop/sum", on=["a"], owner="CronJob/nightly", **crashing())
    for item in list(made.objects):
        if item["kind"] == "Job":
            made.apply({**item, "metadata": {**item["metadata"], "annotations": THREE}})
    metadata = {"name": "nightly", "namespace": "shop", "uid": "uid-of-cronjob-shop-nightly"}
    made.apply({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata})
    made.pod("shop/sum-0", on="a", owner="Job/sum", **crashing())
    assert failing(made) == {"shop/sum-0": Reschedule(1, ("a",))}


def test_those_on_a_lost_node_are_found_although_they_say_that_they_are_ready():
    made = cluster().node("a", **lost()).deployment("shop/web", on=["a"], annotations=THREE)
    assert failing(made) == {"shop/web-1-0": Reschedule(1, ("a",))}


def test_those_on_a_node_that_is_gone_too():
    well = status_of(container(ready=True), ready=True)
    made = cluster().node("a").deployment("shop/web", on=["gone"], annotations=THREE, **well)
    assert failing(made) == {"shop/web-1-0": Reschedule(1, ("gone",))}


def test_an_annotation_that_is_invalid_is_found_where_it_matters():
    made = (
        cluster()
        .node("a")
        .deployment("shop/web", on=["a"], annotations={"scheduling-retries": "?"}, **crashing())
    )
    assert isinstance(failing(made)["shop/web-1-0"], NotRequested)


def test_who_allows_none_is_found_and_left_alone_even_where_it_is_on_by_default():
    by_default = FailedPodsPolicy(default_retries=(DefaultRetries(namespaces=("shop",), retries=3),))
    made = cluster().nodes("a", "b").deployment("shop/web", on=["a"], annotations=NONE, **crashing())
    for terms in (TERMS, by_default):
        assert failing(made, terms) == {
            "shop/web-1-0": NotRequested("Deployment/web allows no reschedulings")
        }
        assert not find_failing_pods(made.snapshot(), terms).failed_on


def test_switched_off_nothing_is_found():
    made = cluster().node("a").deployment("shop/web", on=["a"], annotations=THREE, **crashing())
    assert failing(made, FailedPodsPolicy(enabled=False)) == {}


def test_an_empty_cluster_has_no_failing_pods():
    assert failing(cluster()) == {}


def test_where_to_send_no_pods_is_known_by_workload():
    tried = AttemptLedger({"web-x": ReplicaLineage((FailedAttempt(int(NOW) - 60, "b", "p"),))}).written(
        "uid-of-deployment-shop-web"
    )
    made = cluster().nodes("a", "b", "c", "d")
    made.deployment("shop/web", on=["c"], annotations={**THREE, FAILED_ATTEMPTS_ANNOTATION: tried})
    made.deployment("shop/api", on=["a"], annotations=THREE, **crashing())
    snapshot = made.snapshot()
    found = find_failing_pods(snapshot, TERMS)
    names = {workload.key: number for number, workload in enumerate(snapshot.workloads)}
    assert found.last_resort_nodes(names["shop/web"]).tolist() == [False, True, False, False]
    assert found.last_resort_nodes(names["shop/api"]).tolist() == [True, False, False, False]
    assert found.last_resort_nodes(-1) is None
    one_is_enough = find_failing_pods(snapshot, FailedPodsPolicy(suspect_after=1))
    assert one_is_enough.last_resort_nodes(-1).tolist() == [True, False, False, False], (
        "what is seen to fail now"
    )


def test_the_failing_pods_of_a_snapshot_are_examined_once(looked_at):
    made = cluster().nodes("a", "b").deployment("shop/web", on=["a"], annotations=THREE, **crashing())
    snapshot = made.snapshot()
    first = find_failing_pods(snapshot, TERMS)
    assert find_failing_pods(snapshot, TERMS) is first
    assert looked_at == ["shop/web-1-0"]
    other_terms = FailedPodsPolicy(enabled=False)
    assert find_failing_pods(snapshot, other_terms).failing == {}
