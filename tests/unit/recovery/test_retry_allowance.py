"""The retry allowance of a failing replica; pods without one are never touched."""

import pytest

from kubevalues import parse_selector
from rescheduler.cluster.pod_classes import owner_chain
from rescheduler.config.policy import DefaultRetries, FailedPodsPolicy
from rescheduler.recovery.recovery_decision import MalformedRetries, RetryAllowance, allowance_of
from tests.building import cluster

TERMS = FailedPodsPolicy()
THREE = {"scheduling-retries": "3"}


def asked(made, key, terms=TERMS):
    snapshot = made.snapshot()
    pod = snapshot.pods.records[snapshot.pods.row[key]]
    return allowance_of(pod, owner_chain(pod.namespace, pod.owner, snapshot.controllers), terms)


KINDS = [
    pytest.param(
        lambda it: it.deployment("shop/web", annotations=THREE, on=["a"]), "shop/web-1-0", id="Deployment"
    ),
    pytest.param(
        lambda it: it.replica_set("shop/web", annotations=THREE, on=["a"]), "shop/web-0", id="ReplicaSet"
    ),
    pytest.param(
        lambda it: it.stateful_set("shop/db", annotations=THREE, on=["a"]), "shop/db-0", id="StatefulSet"
    ),
    pytest.param(lambda it: it.pod("shop/x", annotations=THREE, on="a"), "shop/x", id="Pod"),
]


@pytest.mark.parametrize(("build", "key"), KINDS)
def test_it_can_be_asked_for_on_a(build, key):
    found = asked(build(cluster().node("a")), key)
    assert isinstance(found, RetryAllowance)
    assert found.retries == 3


@pytest.mark.parametrize("kind", ["DaemonSet", "Job"])
def test_it_can_be_asked_for_on_controllers_of_every_kind(kind):
    made = cluster().node("a").pod("shop/x", on="a", owner=f"{kind}/it")
    made.apply(workload(kind, "it", THREE))
    assert asked(made, "shop/x") == RetryAllowance(3, f"{kind}/it")


def workload(kind, name, annotations, owner=None):
    references = [{**owner, "controller": True}] if owner else []
    return {
        "apiVersion": "batch/v1" if kind in {"Job", "CronJob"} else "apps/v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-of-{kind.lower()}-shop-{name}",
            "annotations": annotations,
            "ownerReferences": references,
        },
    }


NIGHTLY = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "name": "nightly",
    "uid": "uid-of-cronjob-shop-nightly",
}


@pytest.mark.parametrize(
    ("of_cron_job", "of_job", "by"),
    [
        pytest.param(THREE, {}, "CronJob/nightly", id="the CronJob says so"),
        pytest.param({}, THREE, "Job/it", id="its Jobs are made with it"),
        pytest.param(THREE, {"scheduling-retries": "9"}, "CronJob/nightly", id="the topmost counts"),
    ],
)
def test_a_cron_job_asks_by_its_own_annotation_or_by_its_jobs(of_cron_job, of_job, by):
    made = cluster().node("a").pod("shop/x", on="a", owner="Job/it")
    made.apply(workload("Job", "it", of_job, NIGHTLY)).apply(workload("CronJob", "nightly", of_cron_job))
    assert asked(made, "shop/x") == RetryAllowance(3, by)


def test_recovery_was_not_requested():
    assert asked(cluster().node("a").deployment("shop/web", on=["a"]), "shop/web-1-0") is None
    assert asked(cluster().node("a").pod("shop/x", on="a"), "shop/x") is None


def test_an_annotation_on_a_pod_of_a_workload_asks_for_nothing():
    made = cluster().node("a").replica_set("shop/web", on=["a"])
    made.pod("shop/web-0", on="a", owner="ReplicaSet/web", annotations=THREE)
    assert asked(made, "shop/web-0") is None


def test_what_a_replica_set_has_kept_from_its_deployment_no_longer_counts():
    """The Deployment's annotation was removed; what was copied from it stays."""
    made = cluster().node("a").deployment("shop/web", on=["a"])
    made.replica_set("shop/web-1", owner="Deployment/web", annotations=THREE, replicas=0)
    assert asked(made, "shop/web-1-0") is None


def test_pods_of_unknown_controllers_are_ignored():
    made = cluster().node("a").pod("shop/x", on="a", owner="Rollout/it", annotations=THREE)
    assert asked(made, "shop/x") is None


@pytest.mark.parametrize("value", ["0", "1", "3", "007", "10"])
def test_a_whole_number_is_what_it_is(value):
    made = cluster().node("a").pod("shop/x", on="a", annotations={"scheduling-retries": value})
    assert asked(made, "shop/x") == RetryAllowance(int(value), "Pod/x")


@pytest.mark.parametrize(
    "value", ["", "-1", "+3", "3.0", "three", " 3", "3 ", "0x3", "1e2", "³", "٣", "1_000", "true"]
)
def test_anything_else_allows_nothing_not_even_the_default(value):
    made = cluster().node("a").pod("shop/x", on="a", annotations={"scheduling-retries": value})
    terms = FailedPodsPolicy(default_retries=(DefaultRetries(namespaces=("shop",), retries=5),))
    found = asked(made, "shop/x", terms)
    assert found == MalformedRetries("Pod", "shop/x", value)
    assert f'"{value}" on Pod shop/x' in found.why


DEFAULTS = FailedPodsPolicy(
    default_retries=(
        DefaultRetries(namespaces=("shop",), pod_selector=parse_selector("tier=batch"), retries=0),
        DefaultRetries(namespaces=("shop", "bank"), retries=2),
        DefaultRetries(pod_selector=parse_selector("careful=yes"), retries=7),
    )
)


@pytest.mark.parametrize(
    ("key", "labels", "retries"),
    [
        pytest.param("shop/x", {}, 2, id="for a namespace"),
        pytest.param("shop/x", {"tier": "batch"}, 0, id="the first entry that fits counts"),
        pytest.param("park/x", {"careful": "yes"}, 7, id="for labels, anywhere"),
        pytest.param("park/x", {}, None, id="for no other"),
    ],
)
def test_the_configuration_may_ask_for_those_who_say_nothing(key, labels, retries):
    found = asked(cluster().node("a").pod(key, on="a", labels=labels), key, DEFAULTS)
    assert (found and found.retries) == retries


def test_who_says_something_is_not_asked_by_default():
    made = cluster().node("a").pod("shop/x", on="a", annotations={"scheduling-retries": "0"})
    assert asked(made, "shop/x", DEFAULTS) == RetryAllowance(0, "Pod/x")
