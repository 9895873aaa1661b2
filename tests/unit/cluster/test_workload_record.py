"""Which fields of the controllers above pods are kept."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubevalues.quantity import IntOrStringError, scaled_rounding_down, scaled_rounding_up
from rescheduler.cluster.object_meta import UnreadableObject
from rescheduler.cluster.workload_record import (
    WorkloadRecord,
    decode_workload,
    is_rolling_out,
    tolerates_surge,
)


def workload(
    kind: str, spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **meta: Any
):
    metadata = {"name": "web", "namespace": "shop", "uid": "u1", "generation": 3, **meta}
    return decode_workload({"kind": kind, "metadata": metadata, "spec": spec or {}, "status": status or {}})


def deployment(
    replicas: int, surge: Any = "25%", unavailable: Any = "25%", status: dict[str, Any] | None = None
) -> WorkloadRecord:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    return workload("Deployment", {"replicas": replicas, "strategy": rolling}, status)


ROLLED_OUT = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}


def settled(replicas: int, **but: Any) -> dict[str, Any]:
    names = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")
    return dict.fromkeys(names, replicas) | {"observedGeneration": 3} | but


def test_everything_that_is_kept_of_a_deployment():
    found = decode_workload(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": "web",
                "namespace": "shop",
                "uid": "u1",
                "generation": 7,
                "labels": {"team": "a"},
                "annotations": {"scheduling-retries": "3", "somebody.else/says": "so"},
                "deletionTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": [{"kind": "App", "name": "x", "uid": "u2", "controller": True}],
            },
            "spec": {
                "replicas": 4,
                "paused": True,
                "minReadySeconds": 5,
                "selector": {"matchLabels": {"b": "2", "a": "1"}},
                "strategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "30%"},
                },
            },
            "status": {
                "observedGeneration": 6,
                "replicas": 5,
                "readyReplicas": 4,
                "availableReplicas": 3,
                "updatedReplicas": 2,
            },
        }
    )
    assert (found.kind, found.api_version, found.key, found.name) == (
        "Deployment",
        "apps/v1",
        "shop/web",
        "web",
    )
    assert (found.uid, found.labels, found.annotations) == ("u1", {"team": "a"}, {"scheduling-retries": "3"})
    assert found.owner is not None
    assert found.owner.kind == "App"
    assert found.deleted_s == 1767225600
    assert (found.generation, found.observed_generation) == (7, 6)
    assert (found.replicas, found.current_replicas, found.ready_replicas) == (4, 5, 4)
    assert (found.available_replicas, found.updated_replicas) == (3, 2)
    assert (found.max_surge, found.max_unavailable, found.surge, found.unavailable) == (1, "30%", 1, 1)
    assert (found.paused, found.min_ready_s) == (True, 5)
    assert found.pods().matches({"a": "1", "b": "2"})
    assert not found.pods().matches({"a": "1"})


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        pytest.param(4, "25%", "25%", (1, 1), id="parts without a rest"),
        pytest.param(5, "25%", "25%", (2, 1), id="surge is rounded up, unavailable down"),
        pytest.param(1, "25%", "25%", (1, 0), id="a single replica is updated by a surge"),
        pytest.param(3, 0, "10%", (0, 1), id="both nought would be no way to update: one unavailable"),
        pytest.param(10, 3, 0, (3, 0), id="numbers count as they are"),
        pytest.param(0, "25%", "25%", (0, 1), id="no replicas"),
    ],
)
def test_surge_and_unavailable_are_rounded_as_kubernetes_does(
    replicas: int, surge: Any, unavailable: Any, expected: tuple[int, int]
):
    found = deployment(replicas, surge, unavailable)
    assert (found.surge, found.unavailable) == expected


def test_a_deployment_that_says_nothing_has_the_defaults_of_the_api_server():
    found = workload("Deployment")
    assert (found.replicas, found.update_type, found.max_surge, found.surge) == (1, "RollingUpdate", "25%", 1)


def test_recreate_has_no_surge_whatever_it_says():
    found = workload("Deployment", {"replicas": 3, "strategy": {"type": "Recreate"}})
    assert (found.update_type, found.surge, found.unavailable) == ("Recreate", 0, 0)
    assert not tolerates_surge(found)


def test_what_is_kept_of_a_stateful_set():
    found = workload(
        "StatefulSet",
        {
            "replicas": 3,
            "podManagementPolicy": "Parallel",
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"partition": 2, "maxUnavailable": "10%"},
            },
        },
        {"currentRevision": "a", "updateRevision": "b", "updatedReplicas": 1, "replicas": 3},
    )
    assert (found.replicas, found.partition, found.pod_management) == (3, 2, "Parallel")
    assert (found.current_revision, found.update_revision, found.updated_replicas) == ("a", "b", 1)
    assert found.unavailable == 1, "never less than one"
    assert not tolerates_surge(found)


def test_what_is_kept_of_a_daemon_set():
    status = {
        "desiredNumberScheduled": 10,
        "currentNumberScheduled": 9,
        "numberReady": 8,
        "numberAvailable": 7,
        "updatedNumberScheduled": 6,
        "observedGeneration": 3,
    }
    update = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "15%"}}
    found = workload("DaemonSet", {"updateStrategy": update}, status)
    assert (found.replicas, found.current_replicas, found.ready_replicas) == (10, 9, 8)
    assert (found.available_replicas, found.updated_replicas) == (7, 6)
    assert (found.surge, found.unavailable) == (0, 2), "of a DaemonSet, both are rounded up"
    assert is_rolling_out(found)


def test_what_is_kept_of_a_job_and_a_cron_job():
    job = workload("Job", {"parallelism": 4, "completions": 9, "suspend": True}, {"active": 2, "ready": 1})
    assert (job.api_version, job.replicas, job.parallelism, job.completions) == ("batch/v1", 4, 4, 9)
    assert (job.current_replicas, job.ready_replicas, job.paused) == (2, 1, True)
    assert not is_rolling_out(job)
    cron_job = workload("CronJob", {"suspend": True}, {"active": [{"name": "web-1"}]})
    assert (cron_job.replicas, cron_job.paused) == (0, True)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(deployment(3, status=settled(3)), False, id="all of the newest template"),
        pytest.param(deployment(3, status=settled(3, readyReplicas=1)), False, id="some are not ready"),
        pytest.param(
            deployment(3, status=settled(3, observedGeneration=2)), True, id="its controller lags behind"
        ),
        pytest.param(
            deployment(3, status=settled(3, updatedReplicas=2)), True, id="one is of an older template"
        ),
        pytest.param(
            deployment(3, status=settled(4, updatedReplicas=3)), True, id="an older one is still there"
        ),
        pytest.param(deployment(3, status=settled(4)), False, id="one more of the newest: a copy of ours"),
        pytest.param(deployment(3, status=settled(2)), True, id="one is missing, of a template just begun"),
        pytest.param(
            deployment(3, status=settled(2, conditions=[ROLLED_OUT])),
            False,
            id="one is missing, long after the rollout: it was evicted, or is scaled up",
        ),
        pytest.param(
            deployment(3, status=settled(4, updatedReplicas=3, conditions=[ROLLED_OUT])),
            True,
            id="an older one is there, whatever was said before",
        ),
        pytest.param(
            workload(
                "StatefulSet", {}, {"currentRevision": "a", "updateRevision": "b", "observedGeneration": 3}
            ),
            True,
            id="a StatefulSet between revisions",
        ),
        pytest.param(
            workload(
                "StatefulSet", {}, {"currentRevision": "a", "updateRevision": "a", "observedGeneration": 3}
            ),
            False,
            id="a StatefulSet of one revision",
        ),
        pytest.param(
            workload(
                "StatefulSet",
                {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 2}}},
                {"currentRevision": "a", "updateRevision": "b", "updatedReplicas": 1},
            ),
            False,
            id="a StatefulSet up to its partition",
        ),
        pytest.param(
            workload(
                "StatefulSet",
                {"updateStrategy": {"type": "OnDelete"}},
                {"currentRevision": "a", "updateRevision": "b"},
            ),
            False,
            id="a StatefulSet whose pods its owner deletes",
        ),
    ],
)
def test_a_workload_is_rolling_out(found: WorkloadRecord, expected: bool):
    assert is_rolling_out(found) is expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(deployment(1), True, id="a Deployment with a surge"),
        pytest.param(deployment(10, 0, 1), False, id="a Deployment without surge"),
        pytest.param(workload("ReplicaSet"), True, id="a ReplicaSet of its own"),
        pytest.param(workload("DaemonSet"), False, id="a DaemonSet"),
        pytest.param(workload("Job"), False, id="a Job"),
    ],
)
def test_a_workload_tolerates_one_more_pod(found: WorkloadRecord, expected: bool):
    assert tolerates_surge(found) is expected


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        pytest.param(
            "Deployment",
            {"replicas": "three"},
            "Deployment shop/web: spec.replicas: expected an integer, got a string",
            id="a number that is none",
        ),
        pytest.param(
            "Deployment",
            {"strategy": {"rollingUpdate": {"maxSurge": "some"}}},
            "Deployment shop/web: 'some' is neither an integer nor a percentage such as 25%",
            id="a share that is none",
        ),
        pytest.param(
            "Deployment",
            {"selector": {"matchLabels": ["app"]}},
            "Deployment shop/web: spec.selector.matchLabels",
            id="a selector that is none",
        ),
        pytest.param("Pod", {}, "is not one of Deployment, ReplicaSet", id="another kind"),
    ],
)
def test_what_is_invalid_is_refused_with_the_object_s_name(kind: str, spec: dict[str, Any], message: str):
    with pytest.raises(UnreadableObject) as refused:
        workload(kind, spec)
    assert message in str(refused.value)


def test_an_object_without_a_name_is_refused():
    with pytest.raises(UnreadableObject, match=r"Deployment without a name: metadata\.name is missing"):
        decode_workload({"kind": "Deployment", "metadata": {}})


def test_nulls_mean_absent():
    found = workload("Deployment", {"replicas": None, "strategy": None}, {"replicas": None})
    assert (found.replicas, found.current_replicas) == (1, 0)


def test_a_selector_that_kubernetes_would_not_accept_selects_nothing():
    broken = {"matchExpressions": [{"key": "a", "operator": "Resembles", "values": ["b"]}]}
    assert not workload("ReplicaSet", {"selector": broken}).pods().matches({"a": "b"})


@given(st.integers(0, 100), st.integers(0, 10_000))
def test_a_percentage_lies_between_its_roundings(percent: int, whole: int):
    down, up = scaled_rounding_down(f"{percent}%", whole), scaled_rounding_up(f"{percent}%", whole)
    assert down * 100 <= percent * whole <= up * 100
    assert up - down in (0, 1)


@pytest.mark.parametrize("text", ["", "%", "5", "1.5%", " 5%", "\uff15%"])
def test_other_texts_are_no_shares(text: str):
    with pytest.raises(IntOrStringError):
        scaled_rounding_up(text, 10)
