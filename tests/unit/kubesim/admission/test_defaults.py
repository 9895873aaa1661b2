"""Objects get the same defaults as on the real API server."""

import copy
from pathlib import Path

import pytest
import yaml

from kubesim.apiserver.status_errors import StatusError

SEEN = Path(__file__).parent / "seen" / "defaults.yaml"
CASES = [
    pytest.param(case, id=f"{case['given']['kind']} {case['given']['metadata']['name']}")
    for case in yaml.safe_load(SEEN.read_text("utf-8"))
]


def comparable(stored):
    """Drop what differs between servers: addresses, times, uids."""
    obj = copy.deepcopy(stored)
    obj["metadata"].pop("uid", None)
    if obj["kind"] == "Service":
        for port in obj["spec"].get("ports", ()):
            port["nodePort"] = bool(port.get("nodePort"))
        if obj["spec"]["clusterIP"] != "None":
            obj["spec"]["clusterIP"] = obj["spec"]["clusterIPs"] = "10.96.…"
    if obj["kind"] == "PersistentVolume":
        obj["status"].pop("lastPhaseTransitionTime")
    for condition in obj.get("status", {}).get("conditions") or ():
        condition.pop("lastTransitionTime")
    return obj


@pytest.mark.parametrize("case", CASES)
def test_the_same_is_stored_as_on_the_real_server(case, admit):
    given, stored = case["given"], case["stored"]
    if "namespace" in stored["metadata"]:
        given["metadata"]["namespace"] = stored["metadata"]["namespace"]
    uid = stored["metadata"].get("labels", {}).get("controller-uid", "u-1")
    given["metadata"]["uid"] = uid
    assert comparable(admit(given)) == comparable(stored)


@pytest.mark.parametrize("case", CASES)
def test_defaults_of_a_completed_object_change_nothing(case, admit):
    once = admit(case["given"])
    assert admit(once) == once
    assert admit(once, once, lookup=lambda *_: once) == once


def test_what_was_sent_is_not_changed(admit, base):
    sent = base("Pod")
    before = copy.deepcopy(sent)
    admit(sent)
    assert sent == before


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        pytest.param("nginx", "Always", id="no tag means the latest image, which is always pulled"),
        pytest.param("nginx:latest", "Always", id="so does the tag latest"),
        pytest.param("registry:5000/nginx", "Always", id="the port of a registry is no tag"),
        pytest.param("nginx:1.27", "IfNotPresent", id="another tag is pulled once"),
        pytest.param("nginx@sha256:abc", "IfNotPresent", id="a digest is pulled once"),
    ],
)
def test_pull_policy(image, policy, admit, base):
    pod = admit(base("Pod", {"spec.containers.0.image": image}))
    assert pod["spec"]["containers"][0]["imagePullPolicy"] == policy


FULL = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        pytest.param([{}], "BestEffort", id="nothing is asked for"),
        pytest.param([{"requests": {"cpu": "0"}}], "BestEffort", id="nothing but zero is asked for"),
        pytest.param([{"requests": {"cpu": "1"}}], "Burstable", id="something is asked for"),
        pytest.param([{"limits": FULL}], "Guaranteed", id="all is limited, so all is requested"),
        pytest.param(
            [{"limits": FULL, "requests": {"cpu": "500m"}}],
            "Burstable",
            id="less than the limit is asked for",
        ),
        pytest.param([{"limits": FULL}, {}], "Burstable", id="one of two containers has limits"),
        pytest.param(
            [{"limits": FULL, "requests": {"cpu": "1000m", "memory": "1024Mi"}}],
            "Guaranteed",
            id="the same amount may be written in two ways",
        ),
        pytest.param([{"limits": {"memory": "1Gi"}}], "Burstable", id="only memory is limited"),
    ],
)
def test_quality_of_service(resources, quality, admit, base):
    containers = [{"name": f"c{i}", "image": "nginx", "resources": r} for i, r in enumerate(resources)]
    assert admit(base("Pod", {"spec.containers": containers}))["status"]["qosClass"] == quality


def test_a_pod_that_tolerates_everything_gets_no_more_tolerations(admit, base):
    pod = admit(base("Pod", {"spec.tolerations": [{"operator": "Exists"}]}))
    assert pod["spec"]["tolerations"] == [{"operator": "Exists"}]


def test_a_pod_with_a_view_on_unready_nodes_keeps_it(admit, base):
    own = {
        "key": "node.kubernetes.io/not-ready",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 9,
    }
    keys = [t["key"] for t in admit(base("Pod", {"spec.tolerations": [own]}))["spec"]["tolerations"]]
    assert keys == ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]


def test_a_negative_grace_period_becomes_one_second(admit, base):
    pod = admit(base("Pod", {"spec.terminationGracePeriodSeconds": -5}))
    assert pod["spec"]["terminationGracePeriodSeconds"] == 1


class TestPriority:
    def classes(self, api_version, kind, namespace, name):
        return (
            {"value": 1000, "preemptionPolicy": "Never"}
            if (kind, name) == ("PriorityClass", "high")
            else None
        )

    def test_it_comes_from_the_class(self, admit, base):
        spec = admit(base("Pod", {"spec.priorityClassName": "high"}), lookup=self.classes)["spec"]
        assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")

    def test_the_classes_of_the_system_are_always_there(self, admit, base):
        spec = admit(base("Pod", {"spec.priorityClassName": "system-node-critical"}))["spec"]
        assert spec["priority"] == 2_000_001_000

    def test_a_number_of_ones_own_is_refused(self, admit, base):
        with pytest.raises(StatusError, match=r"computed 1000 from the given PriorityClass name") as refused:
            admit(base("Pod", {"spec.priorityClassName": "high", "spec.priority": 5}), lookup=self.classes)
        assert refused.value.code == 403

    def test_a_preemption_policy_of_ones_own_is_refused(self, admit, base):
        given = {"spec.priorityClassName": "high", "spec.preemptionPolicy": "PreemptLowerPriority"}
        with pytest.raises(
            StatusError, match=r"the string value of PreemptionPolicy \(PreemptLowerPriority\)"
        ):
            admit(base("Pod", given), lookup=self.classes)


def test_ports_of_a_pod_in_its_hosts_network_are_ports_of_the_host(admit, base):
    given = {"spec.hostNetwork": True, "spec.containers.0.ports": [{"containerPort": 80}]}
    assert admit(base("Pod", given))["spec"]["containers"][0]["ports"][0]["hostPort"] == 80


def test_those_of_a_template_are_not_yet(admit, base):
    container = {"name": "c", "image": "nginx", "ports": [{"containerPort": 80}]}
    given = {"spec.template.spec.hostNetwork": True, "spec.template.spec.containers": [container]}
    stored = admit(base("Deployment", given))
    assert "hostPort" not in stored["spec"]["template"]["spec"]["containers"][0]["ports"][0]


def test_match_label_keys_of_affinity_select_by_the_pods_own_labels(admit, base):
    term = {
        "topologyKey": "zone",
        "labelSelector": {},
        "matchLabelKeys": ["hash"],
        "mismatchLabelKeys": ["team"],
    }
    pod = admit(
        base(
            "Pod",
            {
                "metadata.labels": {"hash": "h1", "team": "t1"},
                "spec.affinity.podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            },
        )
    )
    (stored,) = pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert stored["labelSelector"]["matchExpressions"] == [
        {"key": "hash", "operator": "In", "values": ["h1"]},
        {"key": "team", "operator": "NotIn", "values": ["t1"]},
    ]


def test_a_service_keeps_its_address_when_an_update_leaves_it_out(admit, base):
    stored = admit(base("Service"))
    stored["spec"]["clusterIP"], stored["spec"]["clusterIPs"] = "10.96.0.7", ["10.96.0.7"]
    updated = admit(base("Service"), stored, lookup=lambda *_: stored)
    assert updated["spec"]["clusterIP"] == "10.96.0.7"


def test_an_external_name_has_no_address(admit, base):
    service = admit(base("Service", {"spec.type": "ExternalName", "spec.externalName": "a.example.com"}))
    assert "clusterIP" not in service["spec"]
