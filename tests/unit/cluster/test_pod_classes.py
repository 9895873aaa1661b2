"""Pods of one class are interchangeable to the scheduler; what it looks at makes the difference."""

from typing import Any

import pytest

from rescheduler.api.well_known_names import AVOIDED_NODES_ANNOTATION
from rescheduler.cluster.pod_constraints import encode_avoided_nodes
from rescheduler.cluster.snapshot import CPU
from tests.building import ClusterBuilder, cluster

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def apart(**more: Any) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {_REQUIRED: [{"topologyKey": "kubernetes.io/hostname", **more}]}}}


def avoiding(*nodes: str) -> dict[str, Any]:
    """Return an affinity as our webhook writes it."""
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {
        "spec": {"affinity": {"nodeAffinity": {_REQUIRED: terms}}},
        "annotations": {AVOIDED_NODES_ANNOTATION: encode_avoided_nodes(nodes)},
    }


def classes_of(made: ClusterBuilder) -> list[int]:
    return made.snapshot().pods.pod_class.tolist()


@pytest.mark.parametrize(
    "difference",
    [
        pytest.param({"labels": {"app": "db"}}, id="labels"),
        pytest.param({"cpu": "200m"}, id="requests"),
        pytest.param({"more": {"example.com/x": "1"}}, id="an extended resource"),
        pytest.param({"claims": ["data"]}, id="volumes"),
        pytest.param({"spec": {"nodeSelector": {"disk": "fast"}}}, id="a node selector"),
        pytest.param({"spec": {"tolerations": [{"key": "x", "operator": "Exists"}]}}, id="tolerations"),
        pytest.param({"spec": apart()}, id="affinity"),
        pytest.param(
            {"spec": {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone"}]}}, id="spread"
        ),
    ],
)
def test_whatever_the_scheduler_looks_at_makes_another_class(difference: dict[str, Any]):
    assert classes_of(cluster().pod("x/a").pod("x/b", **difference)) == [0, 1]


@pytest.mark.parametrize(
    "difference",
    [
        pytest.param({"on": "n"}, id="its node"),
        pytest.param({"priority": 5}, id="its priority"),
        pytest.param({"owner": "ReplicaSet/web"}, id="its owner"),
        pytest.param({"phase": "Failed"}, id="its phase"),
        pytest.param({"annotations": {"scheduling-retries": "3"}}, id="marks"),
        pytest.param({"labels": {}}, id="labels that are equal"),
        pytest.param(avoiding("a", "b"), id="what we ourselves excluded"),
    ],
)
def test_what_it_does_not_look_at_makes_no_difference(difference: dict[str, Any]):
    assert classes_of(cluster().pod("x/a").pod("x/b", **difference)) == [0, 0]


def test_pods_of_two_namespaces_are_never_of_one_class():
    assert classes_of(cluster().pod("x/a").pod("y/a")) == [0, 1]


def test_a_class_is_evaluated_without_our_own_exclusions_and_with_those_of_its_owner():
    ours, theirs = avoiding("a"), {"spec": avoiding("a")["spec"]}
    snapshot = cluster().pod("x/ours", **ours).pod("x/theirs", **theirs).snapshot()
    assert snapshot.classes[0].affinity.node_affinity.required is None
    assert snapshot.classes[1].affinity.node_affinity.required is not None


def test_a_class_says_what_its_pods_have_in_common():
    made = cluster().pod("x/a", cpu="300m", labels={"app": "web"}, claims=["data"], spec=apart())
    (only,) = (
        made.pod("x/b", cpu="300m", labels={"app": "web"}, claims=["data"], spec=apart()).snapshot().classes
    )
    assert (only.namespace, only.labels, only.asks[CPU]) == ("x", {"app": "web"}, 300)
    assert [volume.name for volume in only.volumes] == ["data"]
    assert only.affinity.pod_anti_affinity.required[0].topology_key == "kubernetes.io/hostname"


def test_classes_are_numbered_in_the_order_of_rows_whatever_came_first():
    made = cluster().pod("x/c", labels={"n": "3"}).pod("x/b", labels={"n": "2"}).pod("x/a", labels={"n": "1"})
    snapshot = made.snapshot()
    assert snapshot.pods.pod_class.tolist() == [0, 1, 2]
    assert [each.labels["n"] for each in snapshot.classes] == ["1", "2", "3"]


def test_only_what_has_changed_is_created_again():
    made = cluster().node("a").deployment("x/web", replicas=3, on=["a"]).pod("x/other", on="a")
    before = made.snapshot()
    after = made.pod("x/another", on="a", cpu="2").remove("x/web-1-0").snapshot()
    kept = [each for each in after.classes if any(each is old for old in before.classes)]
    assert len(kept) == len(before.classes) == 2
    assert after.nodes.allocatable is before.nodes.allocatable


def test_classes_that_no_pod_is_of_any_more_are_forgotten():
    made = cluster()
    for version in range(200):
        made.deployment("x/web", replicas=3, labels={"version": str(version)})
    assert len(made.snapshot().classes) == 1
    templates = made.state._pods.templates
    assert len(templates.classes._built) <= 4
    assert len(templates.rows()) <= 16
