"""Clusters from files: which assumptions fill gaps, and what is refused."""

import copy
import json
from datetime import datetime

import pytest

from kubevalues.saved_cluster import UnreadableCluster
from rescheduler.cluster.sources.cluster_kinds import ClusterReading, snapshot_of
from rescheduler.cluster.sources.saved_source import read_saved, saved_usage
from rescheduler.config.policy import Policy, UsageSource
from rescheduler.rules.placement import Placement
from tests.building import cluster
from tests.objects import REQUIRED
from tests.unit.cluster.sources.rich_cluster import METRICS, complete, rich_objects, saved

AT = "2026-03-02T12:00:00Z"


def read(objects: list[dict], **annotations: str) -> ClusterReading:
    return read_saved(json.dumps(saved(objects, **annotations)).encode(), source="c.json")


def faults_of(objects: list[dict], **annotations: str) -> tuple[str, ...]:
    with pytest.raises(UnreadableCluster) as caught:
        read(objects, **annotations)
    return caught.value.faults


def small() -> list[dict]:
    return copy.deepcopy(cluster().node("n").pod("shop/web", on="n").objects)


def pod_in(objects: list[dict]) -> dict:
    return next(each for each in objects if each["kind"] == "Pod")


# --- time


def test_now_is_when_it_was_saved():
    assert read(small(), saved_at=AT).now_s == datetime.fromisoformat(AT).timestamp()


def test_without_a_time_now_is_now():
    assert abs(read(small()).now_s - datetime.now().timestamp()) < 60  # noqa: DTZ005


def test_a_time_that_is_none_is_refused():
    fault = 'metadata.annotations["rescheduler.dev/saved-at"]: "noon" is not an RFC 3339 timestamp'
    assert faults_of(small(), saved_at="noon") == (fault,)


# --- what is assumed


def test_everything_there_leaves_nothing_to_assume():
    reading = read(rich_objects(), saved_kinds="Namespace,Job,CronJob")
    assert reading.assumptions == []


def test_no_budgets_means_that_none_protects_a_pod():
    assert read(small()).assumptions == [
        "no PodDisruptionBudget protects any pod: the file has no poddisruptionbudgets"
    ]


def test_a_file_that_has_all_of_a_kind_needs_no_assumption_about_it():
    assert read(small(), saved_kinds="PodDisruptionBudget").assumptions == []


def test_no_workloads_means_that_the_kind_of_the_owner_says_it_all():
    made = cluster().node("n").deployment("shop/web", replicas=1, on=["n"]).stateful_set("shop/db", on=["n"])
    pods = [each for each in made.objects if each["kind"] in {"Pod", "Node"}]
    assert [each.partition(":")[0] for each in read(pods).assumptions] == [
        "Deployments that own ReplicaSets exist, but nothing else is known about them",
        "the handover of pods of a ReplicaSet depends only on the kind",
        "the handover of pods of a StatefulSet depends only on the kind",
        "no PodDisruptionBudget protects any pod",
    ]


def test_no_claims_means_that_pods_with_claims_stay():
    objects = copy.deepcopy(cluster().node("n").pod("shop/db", on="n", claims=["data"]).objects)
    assumed = read(objects).assumptions
    assert any(each.startswith("pods with claims are not moved (VolumeUnknown)") for each in assumed)


def near(selector: dict) -> dict:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}, "namespaceSelector": selector}
    return {"affinity": {"podAffinity": {REQUIRED: [term]}}}


def test_a_missing_namespace_has_no_labels_and_is_reported_where_they_matter():
    made = cluster().node("n").namespace("shop", team="a").pod("shop/web", on="n")
    made.pod("zoo/ape", on="n").pod("bar/tap", on="n")
    assert not [each for each in read(complete(made.objects)).assumptions if "namespaces" in each]
    made.pod("shop/near", on="n", spec=near({"matchLabels": {"team": "a"}}))
    reported = "namespaces missing from the file have no labels except their names: bar, zoo"
    assert reported in read(complete(made.objects)).assumptions
    assert reported in read(complete(made.objects), saved_kinds="Namespace").assumptions
    made.namespace("zoo").namespace("bar")
    assert not [each for each in read(complete(made.objects)).assumptions if "namespaces" in each]


def test_but_its_name_is_known():
    made = cluster().nodes("a", "b").pod("shop/web", on="a")
    made.pod("zoo/ape", on="b", spec=near({"matchLabels": {"kubernetes.io/metadata.name": "shop"}}))
    placement = Placement(made.snapshot())
    row = placement.snapshot.pods.row["zoo/ape"]
    assert placement.fits(row, source_stays=False).tolist() == [True, False]
    made.namespace("shop")
    assert Placement(made.snapshot()).fits(row, source_stays=False).tolist() == [True, False]


def test_a_pod_on_a_node_that_is_not_there_is_left_out_and_named():
    objects = small() + cluster().pod("shop/lost", on="gone").objects
    assumed = snapshot_of(read(objects), Policy()).assumptions
    assert "1 pod is ignored because their nodes don't exist: shop/lost on gone" in assumed


def test_a_pod_without_a_namespace_is_in_the_default_one():
    objects = small()
    del pod_in(objects)["metadata"]["namespace"]
    assert [pod.key for pod in read(objects).pods] == ["default/web"]


def test_what_no_decision_depends_on_is_left_out_and_named():
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"}}
    other = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "db", "namespace": "shop"}}
    assert read([*small(), service, other]).notes == [
        "Service shop/web and 1 more of that kind are ignored, because no decision depends on this kind"
    ]


# --- usage


@pytest.mark.parametrize(
    ("wanted", "counts"),
    [
        pytest.param(UsageSource.AUTO, UsageSource.METRICS, id="auto takes what the file has"),
        pytest.param(UsageSource.METRICS, UsageSource.METRICS, id="metrics are those of the file"),
        pytest.param(UsageSource.REQUESTS, UsageSource.REQUESTS, id="requests stay requests"),
    ],
)
def test_saved_metrics_count_as_the_policy_says(wanted, counts):
    reading = read([*small(), METRICS])
    assert saved_usage(reading, Policy(usage_source=wanted)).source is counts


def test_saved_metrics_are_the_load_of_their_pods():
    objects = copy.deepcopy(cluster().node("n").pod("shop/cart-0", on="n", cpu="4").objects)
    reading = read([*objects, METRICS], saved_at=AT)
    reading.usage = saved_usage(reading, Policy())
    assert snapshot_of(reading, Policy()).nodes.load[0, 0] == 124


def test_a_file_without_metrics_says_that_requests_count():
    reading = read(small())
    reading.usage = saved_usage(reading, Policy())
    assert (
        "requests are used as load: the file has no PodMetrics." in snapshot_of(reading, Policy()).assumptions
    )


# --- what is refused


def test_a_cluster_without_nodes_is_refused():
    (fault,) = faults_of([])
    assert fault.startswith("the file contains no nodes")


def test_a_cluster_without_pods_is_refused_unless_it_is_known_to_have_none():
    nodes = copy.deepcopy(cluster().node("n").objects)
    (fault,) = faults_of(nodes)
    assert fault.startswith("the file contains no pods")
    assert read(nodes, saved_kinds="Pod,Node").pods == []


def test_two_objects_of_one_name_are_refused_and_both_places_named():
    objects = small()
    assert faults_of([*objects, pod_in(objects)]) == (
        "Pod shop/web: duplicate object, at items[1] and items[2]",
    )


CONTAINER = "spec.containers[0]"


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (("spec", "containers", 0, "resources", "requests", "cpu"), "lots",
         f"{CONTAINER}.resources.requests[\"cpu\"]: 'lots' is not a quantity"),
        (("spec", "containers"), {}, "spec.containers: expected a list, got an object"),
        (("spec", "nodeName"), 7, "spec.nodeName: expected a string, got 7"),
        (("metadata", "labels"), {"app": 1}, 'metadata.labels["app"]: expected a string, got 1'),
        (("metadata", "labels"), ["app"], "metadata.labels: expected an object, got ['app']"),
        (("metadata", "creationTimestamp"), "noon", "metadata.creationTimestamp: "),
        (("spec", "priority"), "high", "spec.priority: expected an integer, got a string"),
        (("spec", "affinity"), {"nodeAffinity": 1}, "spec.affinity.nodeAffinity: expected an object, got 1"),
        (("spec", "tolerations"), [{"key": 1}], "spec.tolerations[0].key: expected a string, got 1"),
        (("status", "conditions"), [1], "status.conditions[0]: expected an object, got 1"),
    ],
)  # fmt: skip
def test_a_pod_that_is_invalid_is_refused_with_its_name_and_the_path(path, value, fault):
    objects = small()
    place = pod_in(objects)
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    (found,) = faults_of(objects)
    assert found.startswith(f"Pod shop/web: {fault}"), found


def test_all_that_is_wrong_is_reported_at_once():
    objects = small()
    pod_in(objects)["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "x", "memory": "y"}
    objects[0]["status"]["allocatable"] = {"cpu": "z"}
    again = {**objects[0], "status": {}}
    assert [each.partition(": ")[0] for each in faults_of([*objects, again])] == [
        "Node n",
        "Node n",
        "Pod shop/web",
        "Pod shop/web",
    ]


@pytest.mark.parametrize(
    "kind",
    ["Deployment", "PodDisruptionBudget", "PersistentVolume", "PodMigration", "Namespace", "PodMetrics"],
)
def test_objects_of_other_kinds_are_refused_with_their_names_too(kind):
    objects = complete(rich_objects())
    broken = next(each for each in objects if each["kind"] == kind)
    for part in ("spec", "metadata", "containers"):
        if part in broken:
            broken[part] = {"name": broken["metadata"]["name"]} if part == "metadata" else [1]
    broken["metadata"]["labels"] = 3
    faults = faults_of(objects)
    assert faults
    assert all(each.startswith(kind) for each in faults), faults
