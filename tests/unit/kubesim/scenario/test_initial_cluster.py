"""A scenario starts with a complete cluster, built by the controllers that then run it."""

import random

import pytest

from kubesim.running_cluster import EPOCH
from kubesim.scenario import ScenarioNotSettled, initial_objects, load_scenario
from kubesim.scenario.initial_cluster import settling_seed
from kubesim.scenario.scenario_file import lopsided_shop

POOL = [{"name": "w", "count": 3, "zones": ["a", "b"]}]


def objects(kind, found):
    return [item for item in found if item["kind"] == kind]


def one(kind, name, found):
    (item,) = [item for item in objects(kind, found) if item["metadata"]["name"] == name]
    return item


def is_ready(pod):
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"]["conditions"])


def test_pods_are_where_the_scenario_wants_them_and_ready():
    found = initial_objects(lopsided_shop(), EPOCH)
    pods = objects("Pod", found)
    assert len(pods) == 27
    assert all(map(is_ready, pods))
    web = [pod["spec"]["nodeName"] for pod in pods if pod["metadata"]["labels"]["app"] == "web"]
    assert sorted(web) == ["worker-1"] * 3 + ["worker-2"] * 2 + ["worker-3"]
    ordinals = {name: one("Pod", name, found)["spec"]["nodeName"] for name in ("orders-db-0", "orders-db-2")}
    assert ordinals == {"orders-db-0": "worker-3", "orders-db-2": "worker-5"}
    assert one("Deployment", "web", found)["status"]["readyReplicas"] == 6
    assert one("PodDisruptionBudget", "search", found)["status"]["disruptionsAllowed"] == 0
    assert one("PersistentVolumeClaim", "data-orders-db-1", found)["status"]["phase"] == "Bound"
    logs = [pod["spec"]["nodeName"] for pod in pods if pod["metadata"]["labels"]["app"] == "node-logs"]
    assert sorted(logs) == [f"worker-{number}" for number in range(1, 7)]


def test_nothing_is_left_to_do_when_time_starts(run_scenario):
    """Nothing but heartbeats: the cluster is as its controllers want it."""
    assert set(run_scenario(lopsided_shop(), 60).written) == {"Lease"}


def test_the_cluster_has_an_age():
    found = initial_objects(
        load_scenario({"pools": POOL, "settle": "2h", "workloads": [{"name": "a"}]}), EPOCH
    )
    (pod,) = objects("Pod", found)
    assert one("Node", "w-1", found)["metadata"]["creationTimestamp"] == "2025-12-31T22:00:00Z"
    assert pod["metadata"]["creationTimestamp"] == "2025-12-31T22:00:00Z"
    assert pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] < "2025-12-31T22:00:10Z"


def test_places_do_not_ask_whether_a_pod_fits_and_the_scheduler_places_the_rest():
    workload = {"name": "a", "cpu": "3", "replicas": 4, "on": {"w-1": 3}}
    found = initial_objects(load_scenario({"pools": POOL, "workloads": [workload]}), EPOCH)
    nodes = sorted(pod["spec"]["nodeName"] for pod in objects("Pod", found))
    assert nodes[:3] == ["w-1"] * 3
    assert nodes[3] in {"w-2", "w-3"}


def test_failures_have_happened_already_when_time_starts():
    behaviour = {"pods": [{"match": {"node": "w-1"}, "run": {"lasts": "20s", "exitCode": 1}}]}
    workload = {"name": "a", "on": ["w-1", "w-2"]}
    found = initial_objects(
        load_scenario({"pools": POOL, "workloads": [workload], "behaviour": behaviour, "settle": "20m"}),
        EPOCH,
    )
    restarts = {
        pod["spec"]["nodeName"]: pod["status"]["containerStatuses"][0]["restartCount"]
        for pod in objects("Pod", found)
    }
    assert restarts["w-1"] >= 5
    assert restarts["w-2"] == 0


def test_outages_count_from_when_time_starts():
    behaviour = {"nodes": [{"match": {"name": "w-1"}, "dead": "always"}]}
    found = initial_objects(
        load_scenario({"pools": POOL, "workloads": [{"name": "a", "on": "w-1"}], "behaviour": behaviour}),
        EPOCH,
    )
    assert is_ready(objects("Pod", found)[0]), "it died later"


def test_without_time_to_settle_there_is_what_the_operator_made(run_scenario):
    scenario = load_scenario({"pools": POOL, "settle": "0s", "workloads": [{"name": "a", "replicas": 2}]})
    assert objects("Pod", initial_objects(scenario, EPOCH)) == []
    assert len(run_scenario(scenario, 30).places("a")) == 2


def test_every_kind_of_workload_becomes_what_it_says():
    workloads = [
        {"kind": kind, "name": kind.lower(), "cpu": None, "memory": "1Gi", "labels": {"tier": "x"}}
        | ({"schedule": "0 3 * * *"} if kind == "CronJob" else {})
        for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "Pod")
    ]
    found = initial_objects(load_scenario({"pools": POOL, "workloads": workloads, "settle": "0s"}), EPOCH)
    for workload in workloads:
        made = one(workload["kind"], workload["name"], found)
        assert made["metadata"]["labels"] == {"tier": "x", "app": workload["name"]}
    template = one("CronJob", "cronjob", found)["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert template["restartPolicy"] == "OnFailure"
    assert template["containers"][0]["resources"] == {"requests": {"memory": "1Gi"}}
    assert one("Job", "job", found)["spec"]["completions"] == 1


def test_what_goes_with_a_workload_is_made_too():
    workload = {
        "namespace": "shop", "name": "web", "replicas": 2, "service": 80, "budget": {"maxUnavailable": "50%"},
        "claims": [{"name": "cache", "accessMode": "ReadWriteMany"}], "annotations": {"a": 1},
        "image": "web:3", "spec": {"strategy": {"type": "Recreate"}},
        "pod": {"priorityClassName": "system-cluster-critical",
                "containers": [{"name": "web", "env": [{"name": "A", "value": "b"}]}]},
    }  # fmt: skip
    found = initial_objects(load_scenario({"pools": POOL, "workloads": [workload]}), EPOCH)
    deployment = one("Deployment", "web", found)["spec"]
    container = deployment["template"]["spec"]["containers"][0]
    assert deployment["strategy"] == {"type": "Recreate"}
    assert deployment["template"]["metadata"]["annotations"] == {"a": "1"}
    assert (container["image"], container["env"]) == ("web:3", [{"name": "A", "value": "b"}])
    assert container["volumeMounts"] == [{"name": "cache", "mountPath": "/cache"}]
    assert one("Service", "web", found)["spec"]["selector"] == {"app": "web"}
    assert one("PodDisruptionBudget", "web", found)["spec"]["maxUnavailable"] == "50%"
    assert one("PersistentVolumeClaim", "web-cache", found)["status"]["phase"] == "Bound"
    assert {pod["spec"]["priority"] for pod in objects("Pod", found)} == {2_000_000_000}


def test_nodes_are_as_described():
    scenario = {
        "nodes": [{"name": "big", "cpu": 64, "resources": {"nvidia.com/gpu": 2}, "unschedulable": True}],
        "pools": [
            *POOL,
            {"name": "spot", "count": 1, "taints": [{"key": "spot", "effect": "NoExecute"}], "price": 0.2},
        ],
        "settle": "0s",
    }  # fmt: skip
    found = initial_objects(load_scenario(scenario), EPOCH)
    big, spot = one("Node", "big", found), one("Node", "spot-1", found)
    assert big["spec"]["unschedulable"] is True
    assert big["status"]["allocatable"] == {
        "cpu": "64",
        "memory": "16Gi",
        "pods": "110",
        "nvidia.com/gpu": "2",
    }
    assert spot["spec"]["taints"][0]["key"] == "spot"
    assert spot["metadata"]["labels"]["price"] == "0.2"
    zones = [
        one("Node", f"w-{n}", found)["metadata"]["labels"]["topology.kubernetes.io/zone"] for n in (1, 2, 3)
    ]
    assert zones == ["a", "b", "a"]
    addresses = [node["status"]["addresses"][0]["address"] for node in objects("Node", found)]
    assert len(set(addresses)) == 5


def test_raw_objects_are_created_before_the_workloads_also_of_kinds_that_they_define():
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "versions": [{"name": "v1", "served": True, "storage": True,
                          "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    }  # fmt: skip
    gadget = {
        "apiVersion": "example.com/v1",
        "kind": "Gadget",
        "metadata": {"name": "g", "namespace": "toys"},
    }
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 9,
    }
    scenario = {
        "pools": POOL,
        "objects": [definition, gadget, priority],
        "workloads": [{"name": "a", "pod": {"priorityClassName": "high"}}],
    }
    found = initial_objects(load_scenario(scenario), EPOCH)
    assert one("Gadget", "g", found)["metadata"]["namespace"] == "toys"
    assert objects("Pod", found)[0]["spec"]["priority"] == 9


@pytest.mark.parametrize(
    ("scenario", "why"),
    [
        pytest.param(
            {"workloads": [{"kind": "Pod", "name": "a", "pod": {"priorityClassName": "none"}}]},
            r"Pod default/a: .*no PriorityClass with name none was found",
            id="a pod of a class that is not there",
        ),
        pytest.param(
            {"objects": [{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": 5}]},
            "Service s: ",
            id="an object of a wrong shape",
        ),
        pytest.param(
            {"objects": [{"apiVersion": "x/v1", "kind": "Gadget", "metadata": {"name": "g"}}]},
            'Gadget g: no matches for kind "Gadget" in version "x/v1"',
            id="an object of an unknown kind",
        ),
    ],
)  # fmt: skip
def test_what_the_api_server_refuses_is_named(scenario, why):
    with pytest.raises(ScenarioNotSettled, match=why):
        initial_objects(load_scenario(scenario), EPOCH)


def test_an_unused_place_is_reported(caplog):
    quota = {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"pods": "1"}},
    }  # fmt: skip
    scenario = {"pools": POOL, "objects": [quota], "workloads": [{"name": "a", "on": {"w-1": 1, "w-2": 1}}]}
    initial_objects(load_scenario(scenario), EPOCH)
    assert "no pod was created for this place: Deployment/default/a: 1 on w-2" in caplog.text


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 7, 2**32 + 2])
def test_uids_do_not_repeat_after_the_start(seed):
    """Found by the campaign: with seed 2, objects that were created later got the uids of existing ones."""
    assert random.Random(settling_seed(seed)).getrandbits(128) != random.Random(seed).getrandbits(128)
