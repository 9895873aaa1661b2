"""A copy is the same pod on another node: it loses nothing, and changes by admission are noticed."""

import copy as copies

import pytest

from rescheduler.api.well_known_names import SCHEDULING_GATE
from rescheduler.migrations import labels_and_names
from rescheduler.migrations.copy_manifest import admission_differences, adoptable_copy, bare_copy
from tests.unit.migrations.observations import NOW, migration

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
    assert made["spec"]["schedulingGates"] == [{"name": SCHEDULING_GATE}]
    assert "nodeName" not in made["spec"]
    assert made["metadata"]["labels"]["pod-template-hash"] == "1"
    assert made["metadata"]["annotations"]["team"] == "a"
    assert made["metadata"]["annotations"][labels_and_names.ORIGINAL_POD_ANNOTATION] == "source-uid"
    assert made["metadata"]["labels"][labels_and_names.STATUS_LABEL] == "in-progress"


def test_it_is_ours_until_it_is_offered_and_its_workload_is_named_already():
    owners = adopted()["metadata"]["ownerReferences"]
    assert [(owner["uid"], owner["controller"]) for owner in owners] == [("pm-uid", True), ("rs-uid", False)]


def test_the_finalizers_of_a_copy():
    """It has those of its ReplicaSet's template; a bare copy has none."""
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
        ({"containers": [MAIN, {"name": "proxy"}]}, "spec.containers[proxy] was added"),
        ({"containers": []}, "spec.containers is missing"),
        ({"containers": [MAIN | {"image": "web:2"}]}, "spec.containers[main].image differs"),
        ({"containers": [MAIN | {"resources": {}}]}, "spec.containers[main].resources is missing"),
        (
            {"containers": [MAIN | {"securityContext": {"privileged": True}}]},
            "spec.containers[main].securityContext was added",
        ),
        (
            {"containers": [MAIN | {"env": [{"name": "PASSWORD", "value": "secret"}]}]},
            "spec.containers[main].env was added",
        ),
        ({"containers": [MAIN | {"command": ["sh"]}]}, "spec.containers[main].command was added"),
        ({"containers": [MAIN | {"volumeMounts": []}]}, "spec.containers[main].volumeMounts is missing"),
        ({"initContainers": [{"name": "init"}]}, "spec.initContainers was added"),
        ({"volumes": [TOKEN]}, "spec.volumes[data] is missing"),
        (
            {"volumes": [TOKEN, {"name": "data", "hostPath": {"path": "/"}}]},
            "spec.volumes[data].hostPath was added",
        ),
        ({"volumes": [{"name": "data", "emptyDir": {}}]}, "spec.volumes[kube-api-access-] is missing"),
        ({"serviceAccountName": "default"}, "spec.serviceAccountName differs"),
        ({"hostNetwork": True}, "spec.hostNetwork was added"),
        ({"hostPID": True}, "spec.hostPID was added"),
        ({"securityContext": {"runAsUser": 0}}, "spec.securityContext was added"),
        ({"priority": 1000}, "spec.priority differs"),
        ({"fieldOfTheFuture": "on"}, "spec.fieldOfTheFuture was added"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_admission_changed_is_named(parts, difference):
    assert difference in admission_differences(SOURCE, changed(**parts))


def test_an_injected_sidecar_may_name_another_workload_but_not_be_another_container():
    """Istio puts the pod's controller into ISTIO_META_OWNER, and a copy's is its PodMigration."""
    template = {"containers": [MAIN]}

    def with_proxy(**parts):
        return changed(containers=[MAIN, {"name": "proxy", "image": "mesh:1", **parts}])

    source = with_proxy(env=[{"name": "OWNER", "value": "replicasets/web"}])
    copy = with_proxy(env=[{"name": "OWNER", "value": "podmigrations/m"}])
    assert admission_differences(source, copy, template) == []
    assert admission_differences(source, copy) == ["spec.containers[proxy].env[OWNER].value differs"]
    privileged = with_proxy(securityContext={"privileged": True}, env=[{"name": "OWNER"}, {"name": "MORE"}])
    assert admission_differences(source, privileged, template) == [
        "spec.containers[proxy].env[MORE] was added",
        "spec.containers[proxy].securityContext was added",
    ]


def test_values_of_fields_that_differ_are_not_reported():
    """They may be secrets."""
    other = changed(containers=[MAIN | {"env": [{"name": "PASSWORD", "value": "secret"}]}])
    again = changed(containers=[MAIN | {"env": [{"name": "PASSWORD", "value": "other"}]}])
    assert admission_differences(other, again) == ["spec.containers[main].env[PASSWORD].value differs"]


@pytest.mark.parametrize(
    "parts",
    [
        {"nodeName": "new"},
        {"schedulingGates": [{"name": SCHEDULING_GATE}]},
        {"tolerations": [{"key": "node.kubernetes.io/not-ready", "tolerationSeconds": 300}]},
        {"affinity": {"nodeAffinity": {}}},
        {"imagePullSecrets": [{"name": "registry"}]},
        {"securityContext": {}},
        {"containers": [MAIN | {"volumeMounts": list(reversed(MAIN["volumeMounts"]))}]},
    ],
    ids=lambda parts: next(iter(parts)),
)
def test_where_it_runs_and_the_order_of_entries_is_no_difference(parts):
    assert admission_differences(SOURCE, changed(**parts)) == []


def test_a_bare_copy_leaves_out_what_the_server_made_of_match_label_keys():
    """The server refuses a pod that has both."""

    def term(*expressions):
        selector = {"matchExpressions": [{"key": "tier", "operator": "Exists"}, *expressions]}
        return {
            "labelSelector": selector,
            "matchLabelKeys": ["version"],
            "mismatchLabelKeys": ["tenant"],
            "topologyKey": "zone",
        }

    merged = term(
        {"key": "version", "operator": "In", "values": ["1"]},
        {"key": "tenant", "operator": "NotIn", "values": ["a"]},
    )
    spread = {key: value for key, value in merged.items() if key != "mismatchLabelKeys"}
    preferred = [{"weight": 1, "podAffinityTerm": merged}]
    terms = {
        "requiredDuringSchedulingIgnoredDuringExecution": [merged],
        "preferredDuringSchedulingIgnoredDuringExecution": preferred,
    }
    source = changed(
        affinity={"podAffinity": terms, "podAntiAffinity": terms}, topologySpreadConstraints=[spread]
    )
    made = bare_copy(source, migration(), "c", NOW)["spec"]
    found = made["affinity"]["podAntiAffinity"]
    assert found["requiredDuringSchedulingIgnoredDuringExecution"] == [term()]
    assert found["preferredDuringSchedulingIgnoredDuringExecution"][0]["podAffinityTerm"] == term()
    assert made["affinity"]["podAffinity"] == found
    assert {"key": "version", "operator": "In", "values": ["1"]} not in made["topologySpreadConstraints"][0][
        "labelSelector"
    ]["matchExpressions"]


SLEEP = {"preStop": {"sleep": {"seconds": 5}}}


@pytest.mark.parametrize(
    ("template", "live", "expected"),
    [
        pytest.param({}, {"lifecycle": SLEEP}, SLEEP, id="it keeps the shutdown delay of its source"),
        pytest.param({}, {}, None, id="its source has none"),
        pytest.param(
            {"lifecycle": {"postStart": {"exec": {}}}},
            {"lifecycle": {"postStart": {"exec": {}}, **SLEEP}},
            {"postStart": {"exec": {}}, **SLEEP},
            id="other hooks of the template stay",
        ),
        pytest.param(
            {"lifecycle": {"preStop": {"exec": {}}}},
            {"lifecycle": SLEEP},
            {"preStop": {"exec": {}}},
            id="the template's own hook stays",
        ),
    ],
)
def test_shutdown_delay(template, live, expected):
    """The webhook adds it to pods of the workload and not to copies, so that both are the same pod."""
    replica_set = copies.deepcopy(REPLICA_SET)
    replica_set["spec"]["template"]["spec"]["containers"] = [MAIN | template]
    source = copies.deepcopy(SOURCE)
    source["spec"]["containers"] = [MAIN | live]
    made = adoptable_copy(replica_set, source, migration(), "web-1-c", NOW)
    assert made["spec"]["containers"][0].get("lifecycle") == expected
