"""Annotations by which users of other projects say what may happen to a pod: see docs/autoscalers.md."""

from datetime import UTC, datetime

import pytest

from rescheduler.config.policy import Policy
from rescheduler.planner.protections.eligibility import Eligibility
from rescheduler.planner.reasons import Reason
from tests.building import NOW, cluster

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DESCHEDULER = "descheduler.alpha.kubernetes.io"
EMPTY_DIR = {"name": "data", "emptyDir": {}}
VIRT_LAUNCHER = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "VirtualMachineInstance",
    "name": "vm",
    "uid": "uid-of-vm",
    "controller": True,
}


def started(seconds_ago):
    moment = datetime.fromtimestamp(NOW - seconds_ago, UTC)
    return {"startTime": moment.strftime("%Y-%m-%dT%H:%M:%SZ")}


def kept_by(made, *, urgent=False, pod="shop/db"):
    snapshot = made.snapshot()
    eligibility = Eligibility(snapshot, Policy(), urgent=urgent)
    row = snapshot.pods.row[pod]
    refusal = eligibility.refusal(row)
    assert (refusal is None) == (eligibility.refusals(row) == [])
    return None if refusal is None else refusal.reason


def with_annotation(name, value="", **parts):
    return (
        cluster().nodes("a", "b").pod("shop/db", on="a", annotations={name: value} if name else {}, **parts)
    )


@pytest.mark.parametrize(
    ("name", "value", "balancing", "maintenance"),
    [
        (SAFE_TO_EVICT, "false", Reason.NOT_SAFE_TO_EVICT, Reason.NOT_SAFE_TO_EVICT),
        (SAFE_TO_EVICT, "true", None, None),
        ("karpenter.sh/do-not-disrupt", "true", Reason.DO_NOT_DISRUPT, Reason.DO_NOT_DISRUPT),
        ("karpenter.sh/do-not-disrupt", "false", None, None),
        (f"{DESCHEDULER}/prefer-no-eviction", "", Reason.PREFERS_NO_EVICTION, None),
        (f"{DESCHEDULER}/request-evict-only", "", Reason.EVICTION_HANDLED, Reason.EVICTION_HANDLED),
        (f"{DESCHEDULER}/evict", "true", None, None),
    ],
)  # fmt: skip
def test_an_annotation(name, value, balancing, maintenance):
    made = with_annotation(name, value)
    assert kept_by(made) == balancing
    assert kept_by(made, urgent=True) == maintenance


@pytest.mark.parametrize(
    ("value", "seconds", "reason"),
    [
        pytest.param("4h", 3600, Reason.DO_NOT_DISRUPT, id="4h, started an hour ago"),
        pytest.param("4h", 5 * 3600, None, id="4h, started five hours ago"),
        pytest.param("1h30m", 3600, Reason.DO_NOT_DISRUPT, id="1h30m, started an hour ago"),
        pytest.param("soon", 1, None, id="no duration: Karpenter ignores it, too"),
        pytest.param("", 1, None, id="empty"),
        pytest.param("-1h", 1, None, id="negative"),
    ],
)
def test_do_not_disrupt_may_be_a_time_since_the_start(value, seconds, reason):
    made = with_annotation("karpenter.sh/do-not-disrupt", value, status=started(seconds))
    assert kept_by(made) == reason


def test_do_not_disrupt_for_a_time_protects_a_pod_that_has_not_started():
    assert kept_by(with_annotation("karpenter.sh/do-not-disrupt", "1h")) == Reason.DO_NOT_DISRUPT


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        pytest.param("", "", Reason.LOCAL_STORAGE, id="an emptyDir keeps a pod"),
        pytest.param(
            "cluster-autoscaler.kubernetes.io/safe-to-evict", "true", None, id="safe-to-evict: true"
        ),
        pytest.param(f"{DESCHEDULER}/evict", "", None, id="descheduler's evict"),
        pytest.param(
            "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes",
            "scratch",
            Reason.LOCAL_STORAGE,
            id="safe-to-evict-local-volumes is not read",
        ),
    ],
)
def test_local_data_does_not_keep_a_pod_whose_owner_says_so(name, value, reason):
    assert kept_by(with_annotation(name, value, volumes=[EMPTY_DIR])) == reason


def test_each_pod_of_a_workload_has_annotations_of_its_own():
    made = cluster().nodes("a", "b").stateful_set("shop/db", replicas=2, on=["a", "b"], volumes=[EMPTY_DIR])
    item = next(each for each in made.objects if each["metadata"]["name"] == "db-1")
    item["metadata"]["annotations"] = {SAFE_TO_EVICT: "true"}
    made.apply(item)
    assert kept_by(made, pod="shop/db-0") == Reason.LOCAL_STORAGE
    assert kept_by(made, pod="shop/db-1") is None


def test_virtual_machines_are_left_to_kubevirt():
    made = cluster().nodes("a", "b")
    made.pod("shop/db", on="a", metadata={"ownerReferences": [VIRT_LAUNCHER]})
    assert kept_by(made) == kept_by(made, urgent=True) == Reason.EVICTION_HANDLED
