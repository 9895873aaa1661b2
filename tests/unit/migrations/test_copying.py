"""A copy is the same pod in another place: nothing of it is lost, and what admission changed is noticed."""

import copy as copies

import pytest

from rescheduler.migrations import marks
from rescheduler.migrations.copies import GATE
from rescheduler.migrations.copying import admission_differences, adoptable_copy, bare_copy
from tests.unit.migrations.scenes import NOW, migration

TOKEN = {"name": "kube-api-access-abc", "projected": {}}
MAIN = {
    "name": "main",
    "image": "web:1",
    "resources": {"requests": {"cpu": "100m"}},
    "volumeMounts": [
        {"name": "data", "mountPath": "/data"},
        {"name": "kube-api-access-abc", "mountPath": "/var/run/secrets"},
    ],
}
SOURCE = {
    "metadata": {
        "namespace": "shop",
        "name": "web-1-a",
        "uid": "source-uid",
        "labels": {"app": "web", "topology.kubernetes.io/zone": "a"},
        "annotations": {"note": "mine"},
    },
    "spec": {
        "nodeName": "old",
        "containers": [MAIN],
        "volumes": [{"name": "data", "emptyDir": {}}, TOKEN],
        "serviceAccountName": "web",
        "ephemeralContainers": [{"name": "debugger"}],
    },
}
REPLICA_SET = {
    "metadata": {"name": "web-1", "uid": "rs-uid"},
    "spec": {
        "template": {
            "metadata": {"labels": {"app": "web", "pod-template-hash": "1"}, "annotations": {"team": "a"}},
            "spec": {"containers": [MAIN | {"resources": {}}], "futureField": {"kept": True}},
        }
    },
}


def adopted():
    return adoptable_copy(REPLICA_SET, SOURCE, migration(), "web-1-c", NOW)


def test_a_copy_to_be_adopted_is_what_the_template_says_with_the_live_resources():
    made = adopted()
    assert made["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "100m"}}
    assert made["spec"]["futureField"] == {"kept": True}
    assert made["spec"]["schedulingGates"] == [{"name": GATE}]
    assert "nodeName" not in made["spec"]
    assert made["metadata"]["labels"]["pod-template-hash"] == "1"
    assert made["metadata"]["annotations"]["team"] == "a"
    assert made["metadata"]["annotations"][marks.ORIGINAL_POD] == "source-uid"
    assert made["metadata"]["labels"][marks.STATUS] == "in-progress"


def test_it_is_ours_until_it_is_offered_and_its_workload_is_named_already():
    owners = adopted()["metadata"]["ownerReferences"]
    assert [(owner["uid"], owner["controller"]) for owner in owners] == [("pm-uid", True), ("rs-uid", False)]


def test_it_has_the_finalizers_that_its_replica_set_gives_to_pods_and_a_bare_one_has_none():
    template = REPLICA_SET["spec"]["template"]
    held = {"finalizers": ["example.com/deregister"]}
    guarded = template | {"metadata": template["metadata"] | held}
    made = adoptable_copy(
        REPLICA_SET | {"spec": {"template": guarded}}, SOURCE, migration(), "web-1-copy", NOW
    )
    assert made["metadata"]["finalizers"] == ["example.com/deregister"]
    assert "finalizers" not in adopted()["metadata"]
    alone = SOURCE | {"metadata": SOURCE["metadata"] | held}
    assert "finalizers" not in bare_copy(alone, migration(), "c", NOW)["metadata"]


def test_making_a_copy_changes_neither_template_nor_source():
    before = copies.deepcopy((REPLICA_SET, SOURCE))
    adopted()
    bare_copy(SOURCE, migration(), "c", NOW)
    assert before == (REPLICA_SET, SOURCE)


def test_a_bare_copy_is_the_pod_without_what_belongs_to_its_place():
    made = bare_copy(SOURCE, migration(), "rescheduled-web-1-a-x", NOW)
    assert "nodeName" not in made["spec"]
    assert "ephemeralContainers" not in made["spec"]
    assert [volume["name"] for volume in made["spec"]["volumes"]] == ["data"]
    assert [each["name"] for each in made["spec"]["containers"][0]["volumeMounts"]] == ["data"]
    assert made["spec"]["serviceAccountName"] == "web"
    assert "topology.kubernetes.io/zone" not in made["metadata"]["labels"]
    assert made["metadata"]["annotations"]["note"] == "mine"
    assert "ownerReferences" not in made["metadata"]


def changed(**parts):
    other = copies.deepcopy(SOURCE)
    other["spec"] |= parts
    return other


def test_the_same_pod_with_another_token_is_no_difference():
    token = {"name": "kube-api-access-xyz", "projected": {}}
    mounts = [MAIN["volumeMounts"][0], {"name": "kube-api-access-xyz", "mountPath": "/var/run/secrets"}]
    other = changed(
        volumes=[SOURCE["spec"]["volumes"][0], token], containers=[MAIN | {"volumeMounts": mounts}]
    )
    assert admission_differences(SOURCE, other) == []


@pytest.mark.parametrize(
    ("parts", "difference"),
    [
        ({"containers": [MAIN, {"name": "proxy"}]}, "container proxy was added"),
        ({"containers": []}, "container main is missing"),
        ({"containers": [MAIN | {"image": "web:2"}]}, "container main has another image"),
        ({"containers": [MAIN | {"resources": {}}]}, "container main has another resources"),
        ({"initContainers": [{"name": "init"}]}, "init container init was added"),
        ({"volumes": [TOKEN]}, "volume data is missing"),
        ({"serviceAccountName": "default"}, "service account is default, not web"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_admission_changed_is_named(parts, difference):
    assert difference in admission_differences(SOURCE, changed(**parts))
