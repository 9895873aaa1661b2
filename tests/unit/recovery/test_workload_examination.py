"""The examination of all pods of one ledger together."""

import json

import pytest

from rescheduler.api.well_known_names import FAILED_ATTEMPTS_ANNOTATION, ORIGINAL_POD_ANNOTATION
from rescheduler.config.policy import FailedPodsPolicy
from rescheduler.recovery.attempt_ledger import MAX_LINEAGES, AttemptLedger, FailedAttempt, ReplicaLineage
from rescheduler.recovery.failing_pods import examine_pod
from rescheduler.recovery.recovery_decision import (
    MalformedRetries,
    NoAction,
    NotRequested,
    RecordOnly,
    Reschedule,
    RetriesExhausted,
)
from rescheduler.recovery.workload_examination import LedgerHolder, WorkloadExamination, examine_workload
from tests.building import NOW, cluster
from tests.failing_pods import ago, container, crashing, failed, lost, status_of

TERMS = FailedPodsPolicy()
THREE = {"scheduling-retries": "3"}
WEB = "uid-of-deployment-shop-web"
WELL = status_of(container(ready=True), ready=True)


def uid(name):
    return f"uid-of-pod-shop-{name}"


def shop(*pods, ledger=None, annotations=THREE):
    """A Deployment `shop/web` with these pods: what each is like."""
    written = {} if ledger is None else {FAILED_ATTEMPTS_ANNOTATION: ledger.written(WEB)}
    made = (
        cluster()
        .nodes("n1", "n2", "n3")
        .deployment("shop/web", replicas=0, annotations={**annotations, **written})
    )
    for number, parts in enumerate(pods):
        labels = {"app": "web", "pod-template-hash": "1"}
        made.pod(f"shop/web-{number}", **{"on": "n1", "owner": "ReplicaSet/web-1", "labels": labels, **parts})
    return made


def look(made, name="web-0", terms=TERMS) -> WorkloadExamination:
    snapshot = made.snapshot()
    found = examine_pod(snapshot, terms, snapshot.pods.row[f"shop/{name}"])
    assert found is not None
    return found


def failing_on(*nodes, ago_s=60, pods=(), revision="1"):
    tries = zip(nodes, pods or [f"gone-{node}" for node in nodes], strict=True)
    return ReplicaLineage(
        tuple(FailedAttempt(int(NOW - ago_s), node, pod) for node, pod in tries), revision=revision
    )


def test_healthy_pods_without_record_are_ignored():
    found = look(shop(WELL, WELL))
    assert (found.failing, found.recovered, found.check_again_at_s) == ((), (), None)
    assert found.ledger == AttemptLedger()


def test_each_failing_pod_is_a_case():
    found = look(shop(WELL, crashing(), crashing()))
    assert [(case.pod.name, case.decision) for case in found.failing] == [
        ("web-1", Reschedule(1, ("n1",))),
        ("web-2", Reschedule(1, ("n1",))),
    ]


def test_the_ledger_is_the_deployments():
    found = look(shop(crashing()))
    assert (found.holder.kind, found.holder.key, found.holder.uid) == ("Deployment", "shop/web", WEB)


def test_putting_a_failure_on_record_is_the_same_however_often_it_is_done():
    made = shop(crashing())
    found = look(made)
    once = found.failing[0].recorded_in(found.ledger, NOW)
    assert once.lineages == {"web-0": failing_on("n1", ago_s=0, pods=[uid("web-0")])}
    again = look(shop(crashing(), ledger=once))
    assert again.failing[0].recorded_in(again.ledger, NOW + 30) == once
    assert again.failing[0].is_on_record


def test_three_tries_are_three_reschedulings_from_the_first_failure_to_the_last():
    """Each pod that takes the place of the one before fails as well."""
    ledger, moves = AttemptLedger(), []
    for number in range(6):
        parts = crashing() | {"uid": f"pod-{number}", "on": f"n{number % 3 + 1}"}
        marks = {ORIGINAL_POD_ANNOTATION: f"pod-{number - 1}"} if number else {}
        found = look(shop(parts | {"annotations": marks, "created": ago(30 - number)}, ledger=ledger))
        (case,) = found.failing
        moves.append(case.decision)
        ledger = case.recorded_in(found.ledger, NOW - 30 + number)
        assert ledger.lineage(case.name).count <= 3
    assert moves[:3] == [
        Reschedule(1, ("n1",)),
        Reschedule(2, ("n1", "n2")),
        Reschedule(3, ("n1", "n2", "n3")),
    ]
    assert moves[3:] == [RetriesExhausted(3)] * 3


def test_what_its_controller_replaced_is_on_record_as_of_when_it_failed():
    """So that the replacement, which came before we knew, takes its place."""
    found = look(shop(failed(reason="Evicted", ago_s=100), WELL | {"created": ago(99)}))
    (case,) = found.failing
    assert case.decision == RecordOnly(1)
    ledger = case.recorded_in(found.ledger, NOW)
    assert look(shop(failed(ago_s=100), WELL | {"created": ago(99)}, ledger=ledger)).lineages == {
        uid("web-0"): "web-0",
        uid("web-1"): "web-0",
    }


# --- recovery


def test_a_pod_that_has_run_well_for_long_enough_has_recovered():
    ledger = AttemptLedger({"web-0": failing_on("n2", pods=[uid("web-0")])})
    assert look(
        shop(WELL | status_of(container(ready=True), ready=True, unready_ago_s=600), ledger=ledger)
    ).recovered == ("web-0",)


def test_one_that_has_not_is_looked_at_again_when_it_will_have():
    ledger = AttemptLedger({"web-0": failing_on("n2", pods=[uid("web-0")])})
    found = look(shop(status_of(container(ready=True), ready=True, unready_ago_s=200), ledger=ledger))
    assert (found.recovered, found.check_again_at_s) == ((), NOW + 400)


def test_one_that_still_fails_has_not_recovered():
    ledger = AttemptLedger({"web-0": failing_on("n2", pods=[uid("web-0")], ago_s=86_400)})
    assert look(shop(crashing(), ledger=ledger)).recovered == ()


def test_nor_has_one_on_a_node_that_does_not_answer():
    ledger = AttemptLedger({"web-0": failing_on("n2", pods=[uid("web-0")])})
    made = shop(status_of(container(ready=True), ready=True), ledger=ledger).node("n1", **lost(ago_s=10))
    assert look(made).recovered == ()


def test_the_record_of_a_replica_that_is_no_more_is_kept_as_long_as_a_recovery_takes():
    recent, old = failing_on("n2", ago_s=599), failing_on("n2", ago_s=600)
    old_pod = WELL | {"created": ago(86_400)}
    assert look(shop(old_pod, ledger=AttemptLedger({"x": recent}))).recovered == ()
    assert look(shop(old_pod, ledger=AttemptLedger({"x": recent}))).check_again_at_s == NOW + 1
    assert look(shop(old_pod, ledger=AttemptLedger({"x": old}))).recovered == ("x",)


def test_a_job_pod_that_has_done_its_work_has_recovered():
    made = cluster().node("n1").job("shop/sum", on=["n1"])
    line = failing_on("n2", pods=[uid("sum-0")], revision="sum")
    made.apply(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": "sum",
                "namespace": "shop",
                "uid": "uid-of-job-shop-sum",
                "annotations": {
                    **THREE,
                    FAILED_ATTEMPTS_ANNOTATION: AttemptLedger({"sum-0": line}).written("uid-of-job-shop-sum"),
                },
            },
        }
    )
    made.pod("shop/sum-0", on="n1", owner="Job/sum", phase="Succeeded", ready=False)
    assert look(made, "sum-0").recovered == ("sum-0",)


# --- whose record, and in what form


def test_a_record_that_came_from_another_object_is_none():
    made = shop(
        crashing(),
        annotations={
            **THREE,
            FAILED_ATTEMPTS_ANNOTATION: AttemptLedger({"web-0": failing_on("n2")}).written("other"),
        },
    )
    assert look(made).ledger == AttemptLedger()


def test_a_damaged_record_is_said_to_be_so():
    found = look(shop(crashing(), annotations={**THREE, FAILED_ATTEMPTS_ANNOTATION: "{"}))
    assert found.ledger.is_damaged
    assert found.failing[0].decision == Reschedule(1, ("n1",))


def test_the_record_of_a_bare_pod_comes_along_with_its_copy():
    written = AttemptLedger({"x": failing_on("n1", pods=["the-first"], revision="")}).written("the-first")
    made = cluster().nodes("n1", "n2")
    marks = {
        **THREE,
        FAILED_ATTEMPTS_ANNOTATION: written,
        ORIGINAL_POD_ANNOTATION: "the-first",
        "scheduler.alpha.kubernetes.io/original-pod-name": "x",
    }
    made.pod("shop/rescheduled-x-1", on="n2", annotations=marks, **crashing())
    (case,) = look(made, "rescheduled-x-1").failing
    assert case.decision == Reschedule(2, ("n1", "n2"))


OLDER = {"kse.com/deploy": json.dumps({"currentReschedulingTimes": 2, "deployScheduledHosts": ["n2", "n3"]})}


def test_a_record_of_the_older_tool_is_carried_over_to_the_pod_that_fails():
    found = look(shop(WELL, crashing(), annotations={**THREE, **OLDER}))
    assert found.is_carried_over
    assert found.failing[0].decision == Reschedule(3, ("n1", "n2", "n3"))


def test_once_there_is_one_of_ours_the_older_one_is_not_read():
    ours = {
        FAILED_ATTEMPTS_ANNOTATION: AttemptLedger({"web-1": failing_on("n2", pods=[uid("web-1")])}).written(
            WEB
        )
    }
    found = look(shop(WELL, crashing(), annotations={**THREE, **OLDER, **ours}))
    assert not found.is_carried_over
    assert found.failing[0].decision == Reschedule(1, ("n1", "n2"))


def test_without_the_annotation_nothing_is_carried_over():
    assert not look(shop(crashing(), annotations=OLDER)).is_carried_over


def test_the_older_tool_never_resets_its_count_we_do():
    well = status_of(container(ready=True), ready=True, unready_ago_s=600)
    assert look(shop(well, well, annotations={**THREE, **OLDER})).recovered == ("carried-over",)


# --- who asked


def test_a_malformed_annotation_is_reported_once_whether_pods_fail_or_not():
    for pods in ((WELL, WELL), (crashing(), crashing())):
        found = look(shop(*pods, annotations={"scheduling-retries": "many"}))
        assert [each.value for each in found.malformed] == ["many"]
        assert all(isinstance(case.decision, NotRequested) for case in found.failing)


def test_a_workload_without_pods_is_reported_too():
    holder = LedgerHolder("Deployment", "shop/web", WEB, {"scheduling-retries": "many"})
    found = examine_workload(holder, [], lambda _: (), lambda _: None, TERMS, NOW)
    assert found.malformed == (MalformedRetries("Deployment", "shop/web", "many"),)


def test_a_pod_of_an_unknown_controller_has_no_record():
    made = cluster().node("n1").pod("shop/x", on="n1", owner="Rollout/web", **crashing())
    assert examine_pod(made.snapshot(), TERMS, 0) is None


def test_when_the_ledger_is_full_no_pod_is_moved():
    full = AttemptLedger({f"x{number}": failing_on("n2") for number in range(MAX_LINEAGES)})
    (case,) = look(shop(crashing() | {"created": ago(86_400)}, ledger=full)).failing
    assert isinstance(case.decision, NoAction)


@pytest.mark.parametrize("ago_s", [100, 299])
def test_a_pod_that_may_be_stuck_is_looked_at_again_when_that_is_clear(ago_s):
    parts = status_of(container(waiting="ContainerCreating"), phase="Pending", began_ago_s=ago_s)
    assert look(shop(parts)).check_again_at_s == NOW + 300 - ago_s
